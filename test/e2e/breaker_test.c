/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
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
  };
  return cmocka_run_group_tests_name("breaker", tests, start_core, stop_core);
}
