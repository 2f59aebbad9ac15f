/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <grpc/grpc.h>
#include <grpc/slice.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/support/metadata.h"
#include "test/e2e/support/odd_peer.h"
#include "test/e2e/support/test_server.h"

#define FAILS \
  { .code = GRPC_STATUS_UNAVAILABLE }
#define WORKS \
  { .code = GRPC_STATUS_OK }

/* The defaults: five calls, of which six in ten fail. */
#define POLICY_DEFAULT "{" NO_BOUNDARY "}"
#define TRIP 5

/* So short that it is over when it is looked for. */
#define POLICY_SHORT "{" NO_BOUNDARY ",\"breaker\":{\"openFor\":\"0.05s\",\"openJitter\":0}}"

struct way {
  weir__test_server *server;
  weir_channel *channel;
};

static struct way open_way(const struct script *script, const char *policy) {
  weir__test_server *server = weir__test_server_new(answer_by_script, (void *)(uintptr_t)script, 0);
  return (struct way){.server = server,
                      .channel = channel_to(weir__test_server_port(server), policy)};
}

static void close_way(struct way *way) {
  weir_channel_destroy(way->channel);
  weir__test_server_release(way->server);
}

static struct weir_breaker_snapshot look(weir_channel *channel) {
  struct weir_breaker_snapshot snapshot = {.size = sizeof snapshot};
  assert_int_equal(weir_channel_breaker_snapshot(channel, METHOD, &snapshot), WEIR_OK);
  return snapshot;
}

static grpc_status_code call_once(weir_channel *channel, const struct unary_setup *setup) {
  struct unary unary;
  unary_run(&unary, channel, setup);
  grpc_status_code code = unary.code;
  unary_fini(&unary);
  return code;
}

static void call_times(weir_channel *channel, unsigned times) {
  for (unsigned i = 0; i < times; i++) {
    (void)call_once(channel, NULL);
  }
}

static void a_failing_server_trips_it_and_is_left_alone(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct way way = open_way(&script, POLICY_DEFAULT);
  call_times(way.channel, TRIP - 1);
  assert_int_equal(look(way.channel).state, WEIR_BREAKER_CLOSED);
  call_times(way.channel, 1);
  assert_int_equal(look(way.channel).state, WEIR_BREAKER_OPEN);

  struct unary unary;
  unary_run(&unary, way.channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary.report.reason, WEIR_REASON_BREAKER_OPEN);
  assert_int_equal(unary.report.origin, WEIR_ORIGIN_LOCAL_BREAKER);
  assert_int_equal(unary.report.n_attempts, 0);
  assert_true(unary.report.do_not_retry);
  assert_true(unary.report.next_probe_in_ns > 0);
  assert_null(unary.message);
  assert_int_equal(unary.trailing_metadata.count, 0);
  unary_fini(&unary);
  call_times(way.channel, 99);
  struct weir_breaker_snapshot snapshot = look(way.channel);
  assert_int_equal(snapshot.n_trips, 1); /* refusals are none */
  assert_int_equal(snapshot.n_refused, 100);
  assert_int_equal(weir__test_server_n_calls(way.server), TRIP);
  close_way(&way);
}

static void no_connection_trips_it(void **state) {
  (void)state;
  weir_channel *channel = channel_to(odd_closed_port(), POLICY_DEFAULT);
  call_times(channel, TRIP);
  assert_int_equal(look(channel).state, WEIR_BREAKER_OPEN);
  weir_channel_destroy(channel);
}

static void answers_of_the_application_never_trip_it(void **state) {
  (void)state;
  static const grpc_status_code codes[] = {
      GRPC_STATUS_UNKNOWN,          GRPC_STATUS_UNAUTHENTICATED, GRPC_STATUS_RESOURCE_EXHAUSTED,
      GRPC_STATUS_INTERNAL,         GRPC_STATUS_CANCELLED,       GRPC_STATUS_INVALID_ARGUMENT,
      GRPC_STATUS_PERMISSION_DENIED};
  for (size_t i = 0; i < COUNT_OF(codes); i++) {
    const struct answer answer = {.code = codes[i]};
    const struct script script = {.answers = &answer, .n_answers = 1};
    struct way way = open_way(&script, POLICY_DEFAULT);
    call_times(way.channel, 100);
    assert_int_equal(weir__test_server_n_calls(way.server), 100);
    assert_int_equal(look(way.channel).state, WEIR_BREAKER_CLOSED);
    assert_int_equal(look(way.channel).n_trips, 0);
    close_way(&way);
  }
}

static void attempts_of_one_call_are_one_sample(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct way way =
      open_way(&script, "{" NO_BOUNDARY "," METHODS(RETRY("4", "0.001s", UNAVAILABLE)) "}");
  call_times(way.channel, TRIP - 1);
  assert_int_equal(look(way.channel).n_failures, TRIP - 1);
  assert_int_equal(look(way.channel).state, WEIR_BREAKER_CLOSED);
  assert_int_equal(weir__test_server_n_calls(way.server), 4 * (TRIP - 1));
  close_way(&way);
}

/* Calls until the breaker lets one through; time passes by the calls themselves. */
static grpc_status_code call_until_let_through(weir_channel *channel) {
  for (;;) {
    struct unary unary;
    unary_run(&unary, channel, NULL);
    grpc_status_code code = unary.code;
    bool refused = unary.report.reason == WEIR_REASON_BREAKER_OPEN && unary.report.n_attempts == 0;
    unary_fini(&unary);
    if (!refused) {
      return code;
    }
  }
}

static void it_closes_after_as_many_probes_as_it_wants(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS, FAILS, FAILS, FAILS, FAILS, WORKS);
  struct way way = open_way(&script, POLICY_SHORT);
  call_times(way.channel, TRIP);
  assert_int_equal(look(way.channel).state, WEIR_BREAKER_OPEN);
  assert_int_equal(call_until_let_through(way.channel), GRPC_STATUS_OK);
  assert_int_equal(look(way.channel).state, WEIR_BREAKER_HALF_OPEN);
  assert_int_equal(call_once(way.channel, NULL), GRPC_STATUS_OK);
  assert_int_equal(call_once(way.channel, NULL), GRPC_STATUS_OK);
  assert_int_equal(look(way.channel).state, WEIR_BREAKER_CLOSED);
  assert_int_equal(look(way.channel).n_failures, 0);
  assert_int_equal(look(way.channel).n_probes, 3);
  close_way(&way);
}

static void a_probe_that_fails_opens_it_again(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct way way = open_way(&script, POLICY_SHORT);
  call_times(way.channel, TRIP);
  assert_int_equal(call_until_let_through(way.channel), GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(look(way.channel).state, WEIR_BREAKER_OPEN);
  assert_int_equal(look(way.channel).n_trips, 2);
  assert_int_equal(weir__test_server_n_calls(way.server), TRIP + 1);
  close_way(&way);
}

static void a_black_hole_trips_it(void **state) {
  (void)state;
  struct odd_peer *peer = odd_peer_answering(NULL); /* reads, and never answers */
  weir_channel *channel = channel_to(odd_peer_port(peer), POLICY_DEFAULT);
  const struct unary_setup short_time = {.timeout_ns = MS(30)};
  for (int i = 0; i < TRIP; i++) {
    assert_int_equal(call_once(channel, &short_time), GRPC_STATUS_DEADLINE_EXCEEDED);
  }
  assert_int_equal(look(channel).state, WEIR_BREAKER_OPEN);
  weir_channel_destroy(channel);
  odd_peer_release(peer);
}

static void a_deadline_that_was_past_is_no_sample(void **state) {
  (void)state;
  const struct script script = SCRIPT(WORKS);
  struct way way = open_way(&script, POLICY_DEFAULT);
  const struct unary_setup past = {.timeout_ns = -MS(1)};
  call_times(way.channel, 1);
  for (int i = 0; i < 20; i++) {
    assert_int_equal(call_once(way.channel, &past), GRPC_STATUS_DEADLINE_EXCEEDED);
  }
  assert_int_equal(look(way.channel).n_requests, 1);
  close_way(&way);
}

static void cancelled_calls_are_no_samples(void **state) {
  (void)state;
  const struct script script = SCRIPT(WORKS, {.delay_ns = SECONDS(60)});
  struct way way = open_way(&script, POLICY_DEFAULT);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct unary unaries[50];
  call_times(way.channel, 1);
  for (size_t i = 0; i < COUNT_OF(unaries); i++) {
    unary_start(&unaries[i], way.channel, queue, NULL);
  }
  assert_true(weir__test_server_wait_calls(way.server, COUNT_OF(unaries) + 1));
  for (size_t i = 0; i < COUNT_OF(unaries); i++) {
    assert_int_equal(weir_call_cancel(unaries[i].call, NULL), GRPC_CALL_OK);
  }
  for (size_t i = 0; i < COUNT_OF(unaries); i++) {
    struct unary *unary = next_tag(queue);
    assert_int_equal(unary->code, GRPC_STATUS_CANCELLED);
  }
  assert_int_equal(look(way.channel).n_requests, 1);
  assert_int_equal(look(way.channel).state, WEIR_BREAKER_CLOSED);
  for (size_t i = 0; i < COUNT_OF(unaries); i++) {
    unary_fini(&unaries[i]);
  }
  queue_end(queue);
  close_way(&way);
}

/* An open breaker that still lets the retries of earlier calls through would let a multiple of the
 * calls through. */
static void calls_in_their_backoff_are_not_tried_again_once_it_is_open(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct counted_random random;
  counted_random_init(&random);
  weir__test_server *server =
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
  weir_channel *channel = channel_new(&(struct channel_setup){
      .port = weir__test_server_port(server),
      .policy = "{" NO_BOUNDARY ",\"methodConfig\":[{\"name\":[{\"service\":\"test.Service\","
                "\"method\":\"Other\"}]," RETRY("3", "1s", UNAVAILABLE) "}]}",
      .random = &random.base});
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct unary unaries[50];
  for (size_t i = 0; i < COUNT_OF(unaries); i++) {
    unary_start(&unaries[i], channel, queue, &(struct unary_setup){.method = OTHER_METHOD});
  }
  drain_into_backoff(queue, &random, COUNT_OF(unaries));
  call_times(channel, TRIP); /* they have no retries; the same breaker */
  assert_int_equal(look(channel).state, WEIR_BREAKER_OPEN);
  for (size_t i = 0; i < COUNT_OF(unaries); i++) {
    struct unary *unary = next_tag(queue);
    unary_read_report(unary);
    assert_int_equal(unary->code, GRPC_STATUS_UNAVAILABLE);
    assert_int_equal(unary->report.reason, WEIR_REASON_BREAKER_OPEN);
    assert_int_equal(unary->report.n_attempts, 1);
    unary_fini(unary);
  }
  assert_int_equal(weir__test_server_n_calls(server), COUNT_OF(unaries) + TRIP);
  queue_end(queue);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
  counted_random_fini(&random);
}

/* Of what the policy calls too short, a deadline says nothing; of the rest it is the only sign of a
 * black hole. */
static void short_deadlines_are_no_samples_where_the_policy_says_so(void **state) {
  (void)state;
  const struct script script = SCRIPT({.delay_ns = SECONDS(60)});
  struct way way = open_way(&script, "{" NO_BOUNDARY ",\"breaker\":{\"deadlineFloor\":\"0.1s\"}}");
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct unary unaries[50 + TRIP];
  for (size_t i = 0; i < COUNT_OF(unaries); i++) {
    unary_start(&unaries[i], way.channel, queue,
                &(struct unary_setup){.timeout_ns = i < 50 ? MS(1) : MS(150)});
  }
  for (size_t i = 0; i < COUNT_OF(unaries); i++) {
    struct unary *unary = next_tag(queue);
    assert_int_equal(unary->code, GRPC_STATUS_DEADLINE_EXCEEDED);
    assert_int_equal(look(way.channel).n_trips, i + 1 == COUNT_OF(unaries));
    unary_fini(unary);
  }
  assert_int_equal(look(way.channel).state, WEIR_BREAKER_OPEN);
  queue_end(queue);
  close_way(&way);
}

/* A host is what a server is asked for, not who is asked. */
static void hosts_of_one_channel_share_a_methods_breaker(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct way way = open_way(&script, "{" NO_BOUNDARY ",\"breaker\":{\"scope\":\"METHOD\"}}");
  static const char *const hosts[] = {"one.example", "two.example", "TWO.example"};
  for (size_t i = 0; i < TRIP; i++) {
    (void)call_once(way.channel, &(struct unary_setup){.host = hosts[i % COUNT_OF(hosts)]});
  }
  assert_int_equal(look(way.channel).state, WEIR_BREAKER_OPEN);
  for (size_t i = 0; i < COUNT_OF(hosts); i++) {
    (void)call_once(way.channel, &(struct unary_setup){.host = hosts[i]});
  }
  assert_int_equal(weir__test_server_n_calls(way.server), TRIP);
  close_way(&way);
}

static void a_method_of_its_own_does_not_suffer_for_another(void **state) {
  (void)state;
  struct answer fails = FAILS;
  struct script script = {.answers = &fails, .n_answers = 1};
  struct way way = open_way(&script, "{" NO_BOUNDARY ",\"breaker\":{\"scope\":\"METHOD\"}}");
  call_times(way.channel, TRIP);
  assert_int_equal(look(way.channel).state, WEIR_BREAKER_OPEN);
  (void)call_once(way.channel, &(struct unary_setup){.method = OTHER_METHOD});
  assert_int_equal(weir__test_server_n_calls(way.server), TRIP + 1);
  close_way(&way);
}

/* --- what is told of it --- */

/* Fails or works by what the path ends with, and holds with `broken` off. */
static void answer_by_path(void *context, const struct weir__test_served *served,
                           struct weir__test_reply *reply) {
  const atomic_bool *broken = context;
  size_t size = strlen(served->path);
  bool fails = size > 3 && strcmp(served->path + size - 3, "Bad") == 0 && atomic_load(broken);
  reply->code = fails ? GRPC_STATUS_UNAVAILABLE : GRPC_STATUS_OK;
  reply->message = fails ? NULL : message_of("works");
}

#define BAD_METHOD "/test.Service/Bad"
#define GOOD_METHOD "/test.Service/Good"

#define POLICY_BY_METHOD                                                                \
  "{" NO_BOUNDARY ",\"breaker\":{\"scope\":\"METHOD\",\"maxBreakers\":2,\"openFor\":"   \
  "\"0.05s\",\"openJitter\":0,\"probes\":1},\"methodConfig\":[{\"name\":[{\"service\":" \
  "\"test.Service\",\"method\":\"Bad\"},{\"service\":\"test.Service\",\"method\":\"Good\"}]}]}"

struct listening {
  struct weir_breaker_listener base;
  weir_channel *channel;
  unsigned n_changes;
  unsigned n_opened;
  unsigned n_closed;
  uint64_t last_generation;
  char name[WEIR_REPORT_NAME_BYTES];
  grpc_status_code tripped_by;
};

/* Makes a call on the channel that tells it, from within. */
static void listen_and_call(void *context, const struct weir_breaker_change *change) {
  struct listening *listening = context;
  listening->n_changes++;
  assert_true(change->generation > listening->last_generation);
  listening->last_generation = change->generation;
  memcpy(listening->name, change->name, change->name_size + 1);
  if (change->to == WEIR_BREAKER_OPEN) {
    listening->n_opened++;
    listening->tripped_by = change->code;
    assert_int_equal(change->origin, WEIR_ORIGIN_PEER);
    assert_true(change->next_probe_in_ns > 0);
  }
  listening->n_closed += change->to == WEIR_BREAKER_CLOSED ? 1 : 0;
  assert_int_equal(call_once(listening->channel, &(struct unary_setup){.method = GOOD_METHOD}),
                   GRPC_STATUS_OK);
}

struct paths_way {
  atomic_bool broken;
  weir__test_server *server;
  struct listening listening;
};

static void open_paths(struct paths_way *way, const char *policy) {
  *way = (struct paths_way){.listening = {.base = {.size = sizeof way->listening.base,
                                                   .changed = listen_and_call,
                                                   .context = &way->listening}}};
  atomic_init(&way->broken, true);
  way->server = weir__test_server_new(answer_by_path, &way->broken, 0);
  way->listening.channel =
      channel_new(&(struct channel_setup){.port = weir__test_server_port(way->server),
                                          .policy = policy,
                                          .breaker_listener = &way->listening.base});
}

static void close_paths(struct paths_way *way) {
  weir_channel_destroy(way->listening.channel);
  weir__test_server_release(way->server);
}

static struct weir_call_report report_of(weir_channel *channel, const char *method) {
  struct unary unary;
  unary_run(&unary, channel, &(struct unary_setup){.method = method});
  struct weir_call_report report = unary.report;
  unary_fini(&unary);
  return report;
}

static void a_listener_hears_of_a_methods_trip_and_of_its_recovery(void **state) {
  (void)state;
  struct paths_way way;
  open_paths(&way, POLICY_BY_METHOD);
  struct listening *listening = &way.listening;
  for (unsigned i = 0; i < TRIP; i++) {
    assert_int_equal(listening->n_changes, 0);
    (void)report_of(listening->channel, BAD_METHOD);
  }
  assert_int_equal(listening->n_changes, 1);
  assert_int_equal(listening->n_opened, 1);
  assert_int_equal(listening->tripped_by, GRPC_STATUS_UNAVAILABLE);
  assert_string_equal(listening->name, BAD_METHOD);
  assert_int_equal(report_of(listening->channel, GOOD_METHOD).code, GRPC_STATUS_OK);

  atomic_store(&way.broken, false);
  struct weir_call_report report;
  do { /* until it is let through */
    report = report_of(listening->channel, BAD_METHOD);
    if (report.code != GRPC_STATUS_OK) {
      assert_int_equal(report.reason, WEIR_REASON_BREAKER_OPEN);
      assert_int_equal(report.breaker_refusal, WEIR_BREAKER_REFUSAL_OPEN);
      assert_string_equal(report.breaker_name, BAD_METHOD);
      assert_int_equal(report.breaker_generation, listening->last_generation);
      assert_true(report.do_not_retry);
    }
  } while (report.code != GRPC_STATUS_OK);
  assert_int_equal(listening->n_changes, 3);
  assert_int_equal(listening->n_closed, 1);
  assert_int_equal(report.breaker_generation, listening->last_generation);
  close_paths(&way);
}

static void real_methods_keep_their_breakers_in_a_flood_of_paths(void **state) {
  (void)state;
  struct paths_way way;
  open_paths(&way, POLICY_BY_METHOD);
  weir_channel *channel = way.listening.channel;
  for (unsigned i = 0; i < 100; i++) {
    char path[64];
    (void)snprintf(path, sizeof path, "/x.S/%08x", i * 2654435761u);
    struct weir_call_report report = report_of(channel, path);
    assert_int_equal(report.code, GRPC_STATUS_OK); /* never refused for want of a breaker */
    assert_string_equal(report.breaker_name, "other");
  }
  for (unsigned i = 0; i < TRIP; i++) {
    assert_string_equal(report_of(channel, BAD_METHOD).breaker_name, BAD_METHOD);
  }
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  assert_int_equal(weir_channel_get_counters(channel, &counters), WEIR_OK);
  assert_int_equal(counters.n_breakers, 2); /* the listener's calls have used the other one */
  assert_int_equal(counters.n_overflowed_calls, 100);
  struct weir_breaker_snapshot snapshot = {.size = sizeof snapshot};
  assert_int_equal(weir_channel_breaker_snapshot(channel, "/x.S/new", &snapshot), WEIR_OK);
  assert_int_equal(snapshot.state, WEIR_BREAKER_CLOSED);
  close_paths(&way);
}

static void an_override_is_obeyed_at_once(void **state) {
  (void)state;
  struct paths_way way;
  atomic_init(&way.broken, true);
  way.server = weir__test_server_new(answer_by_path, &way.broken, 0);
  weir_channel *channel =
      channel_to(weir__test_server_port(way.server), "{" NO_BOUNDARY ",\"name\":\"shop\"}");
  way.listening.channel = channel;
  assert_int_equal(report_of(channel, GOOD_METHOD).code, GRPC_STATUS_OK);
  assert_int_equal(weir_channel_set_breaker_override(channel, NULL, WEIR_BREAKER_OVERRIDE_OPEN),
                   WEIR_OK);
  uint64_t n_calls = weir__test_server_n_calls(way.server);
  struct weir_call_report report = report_of(channel, GOOD_METHOD);
  assert_int_equal(report.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(report.breaker_refusal, WEIR_BREAKER_REFUSAL_FORCED_OPEN);
  assert_string_equal(report.breaker_name, "shop");
  assert_int_equal(weir__test_server_n_calls(way.server), n_calls);
  assert_int_equal(weir_channel_set_breaker_override(channel, NULL, WEIR_BREAKER_OVERRIDE_DISABLED),
                   WEIR_OK);
  for (unsigned i = 0; i < 4 * TRIP; i++) {
    assert_int_equal(report_of(channel, BAD_METHOD).n_attempts, 1);
  }
  assert_int_equal(weir_channel_set_breaker_override(channel, NULL, WEIR_BREAKER_OVERRIDE_NONE),
                   WEIR_OK);
  assert_int_equal(report_of(channel, GOOD_METHOD).code, GRPC_STATUS_OK);
  assert_int_equal(look(channel).n_requests, 1);
  close_paths(&way);
}

static void shadow_mode_only_says_what_it_would_have_done(void **state) {
  (void)state;
  struct paths_way way;
  open_paths(&way, "{" NO_BOUNDARY ",\"breaker\":{\"mode\":\"SHADOW\"}}");
  weir_channel *channel = way.listening.channel;
  for (unsigned i = 0; i < 2 * TRIP; i++) {
    assert_int_equal(report_of(channel, BAD_METHOD).n_attempts, 1);
  }
  struct weir_call_report report = report_of(channel, GOOD_METHOD);
  assert_int_equal(report.code, GRPC_STATUS_OK);
  assert_int_equal(report.reason, WEIR_REASON_NONE);
  assert_int_equal(report.breaker_refusal, WEIR_BREAKER_REFUSAL_OPEN);
  assert_int_equal(way.listening.n_opened, 1);
  assert_int_equal(look(channel).n_refused, 0);
  assert_true(look(channel).n_shadowed > TRIP);
  close_paths(&way);
}

static void a_listener_that_can_not_be_told_makes_no_channel(void **state) {
  (void)state;
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  const struct weir_breaker_listener listeners[] = {{.size = sizeof listeners[0], .changed = NULL},
                                                    {.size = 0, .changed = listen_and_call}};
  for (size_t i = 0; i < COUNT_OF(listeners); i++) {
    options.breaker_listener = &listeners[i];
    assert_null(weir_lame_client_channel_create("x", GRPC_STATUS_UNAVAILABLE, "", &options));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_failing_server_trips_it_and_is_left_alone),
      cmocka_unit_test(no_connection_trips_it),
      cmocka_unit_test(answers_of_the_application_never_trip_it),
      cmocka_unit_test(attempts_of_one_call_are_one_sample),
      cmocka_unit_test(it_closes_after_as_many_probes_as_it_wants),
      cmocka_unit_test(a_probe_that_fails_opens_it_again),
      cmocka_unit_test(a_black_hole_trips_it),
      cmocka_unit_test(a_deadline_that_was_past_is_no_sample),
      cmocka_unit_test(cancelled_calls_are_no_samples),
      cmocka_unit_test(calls_in_their_backoff_are_not_tried_again_once_it_is_open),
      cmocka_unit_test(short_deadlines_are_no_samples_where_the_policy_says_so),
      cmocka_unit_test(hosts_of_one_channel_share_a_methods_breaker),
      cmocka_unit_test(a_method_of_its_own_does_not_suffer_for_another),
      cmocka_unit_test(a_listener_hears_of_a_methods_trip_and_of_its_recovery),
      cmocka_unit_test(real_methods_keep_their_breakers_in_a_flood_of_paths),
      cmocka_unit_test(an_override_is_obeyed_at_once),
      cmocka_unit_test(shadow_mode_only_says_what_it_would_have_done),
      cmocka_unit_test(a_listener_that_can_not_be_told_makes_no_channel),
  };
  return cmocka_run_group_tests_name("breaker", tests, start_core, stop_core);
}
