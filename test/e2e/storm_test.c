/* Everything at once, and at random: threads that call, cancel and let go, on methods of which the
 * channel has too few breakers, while others override these and look at them, and the server comes
 * and goes. What each call, each change and each count must say is checked.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/support/test_server.h"
#include "test/support/silent_log.h"

#define N_THREADS 12
#define N_METHODS 10
#define N_RESTARTS 5
#define CALLS_BETWEEN_RESTARTS 100

/* The first ones are in the policy; none of them is pushed out. */
#define N_KNOWN 3

static const char policy[] =
    "{\"name\":\"storm\",\"breaker\":{\"scope\":\"METHOD\",\"maxBreakers\":6,\"window\":\"0.1s\","
    "\"minRequests\":3,\"openFor\":\"0.004s\",\"probes\":2,\"probeLease\":\"0.01s\","
    "\"rampFor\":\"0.004s\",\"consecutiveFailures\":4},"
    "\"retryThrottling\":{\"maxTokens\":50,\"tokenRatio\":0.5},"
    "\"fallback\":{\"onFailure\":true,\"maxConcurrent\":3,\"timeout\":\"0.05s\"},"
    "\"methodConfig\":[{\"name\":[{\"service\":\"test.Storm\",\"method\":\"M0\"},"
    "{\"service\":\"test.Storm\",\"method\":\"M1\"},{\"service\":\"test.Storm\",\"method\":\"M2\"}]"
    "," RETRY("3", "0.001s", UNAVAILABLE) "}]}";

/* --- chance --- */

/* xorshift64 */
static uint64_t roll(uint64_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed;
}

static bool one_in(uint64_t *seed, uint64_t n) {
  return (roll(seed) >> 20) % n == 0;
}

/* --- the server --- */

static void answer_at_random(void *context, const struct weir__test_served *served,
                             struct weir__test_reply *reply) {
  (void)context;
  uint64_t seed = served->number * UINT64_C(0x9e3779b97f4a7c15) + 1;
  struct answer answer = {.code = GRPC_STATUS_OK};
  (void)roll(&seed);
  if (one_in(&seed, 2)) {
    answer.code = GRPC_STATUS_UNAVAILABLE;
  } else if (one_in(&seed, 10)) {
    answer.code = GRPC_STATUS_INVALID_ARGUMENT;
  } else if (one_in(&seed, 10)) {
    answer.delay_ns = MS(20);
  }
  answer_with(&answer, served, reply);
}

/* --- the changes of the breakers that are told --- */

#define CHANGES_MAX 65536

struct changes {
  struct weir_breaker_listener listener;
  pthread_mutex_t mutex; /* of what follows */
  size_t n_changes;
  size_t n_odd;
  uint64_t of_known[N_KNOWN][CHANGES_MAX / 64]; /* a bit for each generation that was told */
  uint64_t n_of_known[N_KNOWN];
};

static void note_known(struct changes *changes, size_t method, uint64_t generation) {
  if (generation >= CHANGES_MAX) {
    changes->n_odd++;
    return;
  }
  uint64_t bit = UINT64_C(1) << (generation % 64);
  changes->n_odd += (changes->of_known[method][generation / 64] & bit) != 0; /* told twice */
  changes->of_known[method][generation / 64] |= bit;
  changes->n_of_known[method]++;
}

static void note_change(void *context, const struct weir_breaker_change *change) {
  struct changes *changes = context;
  (void)pthread_mutex_lock(&changes->mutex);
  changes->n_changes++;
  changes->n_odd += change->name_size == 0 || strlen(change->name) != change->name_size ||
                    change->generation == 0 || change->next_probe_in_ns < 0;
  for (size_t i = 0; i < N_KNOWN; i++) {
    char name[] = "/test.Storm/M0";
    name[sizeof name - 2] = (char)('0' + i);
    if (strcmp(name, change->name) == 0) {
      note_known(changes, i, change->generation);
    }
  }
  (void)pthread_mutex_unlock(&changes->mutex);
}

/* --- a fallback that has something now and then --- */

static enum weir_fallback_found find_at_random(void *context,
                                               const struct weir_fallback_request *request,
                                               struct weir_fallback_answer *answer) {
  _Atomic uint64_t *n_asked = context;
  uint64_t number = atomic_fetch_add(n_asked, 1);
  (void)request;
  if (number % 3 != 0) {
    return WEIR_FALLBACK_FOUND_NOTHING;
  }
  answer->message = message_of("kept");
  answer->source = "storm";
  return WEIR_FALLBACK_FOUND;
}

/* --- threads --- */

struct storm {
  weir_channel *channel;
  atomic_bool over;
};

struct caller {
  struct storm *storm;
  pthread_t thread;
  uint64_t seed;
  unsigned n_odd;
  unsigned n_ended;
  unsigned n_refused;
  unsigned n_hits;
};

static const char *method_at_random(struct caller *caller, char path[32]) {
  (void)snprintf(path, 32, "/test.Storm/M%u", (unsigned)(roll(&caller->seed) >> 20) % N_METHODS);
  return path;
}

static bool is_sound(const struct weir_call_report *report) {
  bool is_hit = report->fallback_result == WEIR_FALLBACK_HIT;
  bool is_refused = report->origin == WEIR_ORIGIN_LOCAL_BREAKER;
  bool fine = report->total_ns ==
              report->attempts_ns + report->backoff_ns + report->queued_ns + report->fallback_ns;
  fine = fine && report->next_probe_in_ns >= 0;
  /* one whose time is over before it begins asks no breaker */
  fine = fine && (report->breaker_name[0] != '\0' ||
                  (report->origin == WEIR_ORIGIN_LOCAL_DEADLINE && report->n_attempts == 0));
  fine = fine && is_hit == (report->fallback_source != NULL);
  if (is_refused) {
    fine = fine && report->n_attempts == 0 && report->reason == WEIR_REASON_BREAKER_OPEN &&
           report->breaker_refusal != WEIR_BREAKER_REFUSAL_NONE &&
           report->raw_code == GRPC_STATUS_UNAVAILABLE;
  } else if (report->reason != WEIR_REASON_BREAKER_OPEN &&
             report->reason != WEIR_REASON_CANCELLED) {
    fine = fine && report->breaker_refusal == WEIR_BREAKER_REFUSAL_NONE;
  }
  return fine && (report->code != GRPC_STATUS_OK || is_hit || report->n_attempts > 0);
}

static void note_end(struct caller *caller, const struct weir_call_report *report) {
  caller->n_ended++;
  caller->n_refused += report->origin == WEIR_ORIGIN_LOCAL_BREAKER;
  caller->n_hits += report->fallback_result == WEIR_FALLBACK_HIT;
  caller->n_odd += !is_sound(report);
}

static void call_blocking(struct caller *caller) {
  char path[32];
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  request.method = method_at_random(caller, path);
  request.message = message_of("hello");
  request.timeout_ns = one_in(&caller->seed, 4) ? MS(5) : SECONDS(10);
  if (weir_unary(caller->storm->channel, &request, &reply) == WEIR_OK) {
    note_end(caller, &reply.report);
    caller->n_odd += (reply.code == GRPC_STATUS_OK) != (reply.message != NULL);
  } else {
    caller->n_odd++;
  }
  weir_unary_reply_fini(&reply);
  grpc_byte_buffer_destroy(request.message);
}

#define N_AT_ONCE 4

/* A few on one queue, of which some are cancelled or let go. */
static void call_on_queue(struct caller *caller) {
  struct unary calls[N_AT_ONCE];
  bool is_let_go[N_AT_ONCE] = {false};
  char path[32];
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  for (size_t i = 0; i < N_AT_ONCE; i++) {
    unary_start(&calls[i], caller->storm->channel, queue,
                &(struct unary_setup){.method = method_at_random(caller, path)});
    if (one_in(&caller->seed, 8)) {
      (void)weir_call_cancel(calls[i].call, NULL);
    } else if (one_in(&caller->seed, 8)) {
      is_let_go[i] = true;
      weir_call_unref(calls[i].call);
      calls[i].call = NULL;
    }
  }
  for (size_t i = 0; i < N_AT_ONCE; i++) {
    struct unary *ended = next_tag(queue);
    if (!is_let_go[ended - calls]) {
      unary_read_report(ended);
      note_end(caller, &ended->report);
    }
    unary_fini(ended);
  }
  queue_end(queue);
}

static void override_at_random(struct caller *caller) {
  static const enum weir_breaker_override overrides[] = {
      WEIR_BREAKER_OVERRIDE_OPEN, WEIR_BREAKER_OVERRIDE_DISABLED, WEIR_BREAKER_OVERRIDE_NONE,
      WEIR_BREAKER_OVERRIDE_NONE, WEIR_BREAKER_OVERRIDE_NONE};
  char path[32];
  enum weir_breaker_override override =
      overrides[(roll(&caller->seed) >> 20) % COUNT_OF(overrides)];
  const char *method = one_in(&caller->seed, 4) ? NULL : method_at_random(caller, path);
  caller->n_odd +=
      weir_channel_set_breaker_override(caller->storm->channel, method, override) != WEIR_OK;
}

static void look_at_random(struct caller *caller) {
  char path[32];
  struct weir_breaker_snapshot snapshot = {.size = sizeof snapshot};
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  enum weir_error error = weir_channel_breaker_snapshot(caller->storm->channel,
                                                        method_at_random(caller, path), &snapshot);
  caller->n_odd += error != WEIR_OK && error != WEIR_ERROR_UNAVAILABLE;
  caller->n_odd += error == WEIR_OK &&
                   (snapshot.n_failures > snapshot.n_requests || snapshot.next_probe_in_ns < 0);
  caller->n_odd += weir_channel_get_counters(caller->storm->channel, &counters) != WEIR_OK;
}

static void *run(void *argument) {
  struct caller *caller = argument;
  while (!atomic_load(&caller->storm->over)) {
    if (one_in(&caller->seed, 20)) {
      override_at_random(caller);
    } else if (one_in(&caller->seed, 10)) {
      look_at_random(caller);
    } else if (one_in(&caller->seed, 3)) {
      call_on_queue(caller);
    } else {
      call_blocking(caller);
    }
  }
  return NULL;
}

static void assert_known_are_whole(struct storm *storm, const struct changes *changes) {
  for (size_t i = 0; i < N_KNOWN; i++) {
    char path[] = "/test.Storm/M0";
    path[sizeof path - 2] = (char)('0' + i);
    struct weir_breaker_snapshot snapshot = {.size = sizeof snapshot};
    assert_int_equal(weir_channel_breaker_snapshot(storm->channel, path, &snapshot), WEIR_OK);
    assert_int_equal(snapshot.override, WEIR_BREAKER_OVERRIDE_NONE);
    assert_int_equal(snapshot.generation, changes->n_of_known[i]);
  }
}

/* Calmed down, each method is served again. */
static void assert_recovers(struct storm *storm) {
  for (unsigned i = 0; i < N_METHODS; i++) {
    char path[32];
    enum weir_breaker_state state = WEIR_BREAKER_OPEN;
    (void)snprintf(path, sizeof path, "/test.Storm/M%u", i);
    int64_t until_ns = now_ns() + SECONDS(20);
    while (state != WEIR_BREAKER_CLOSED && now_ns() < until_ns) {
      struct unary unary;
      unary_run(&unary, storm->channel, &(struct unary_setup){.method = path});
      state = unary.report.breaker_state;
      unary_fini(&unary);
    }
    assert_int_equal(state, WEIR_BREAKER_CLOSED);
  }
}

static struct weir_channel_options options_with(struct changes *changes,
                                                const struct weir_fallback *fallback) {
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  memset(changes, 0, sizeof *changes);
  (void)pthread_mutex_init(&changes->mutex, NULL);
  changes->listener = (struct weir_breaker_listener){
      .size = sizeof changes->listener, .changed = note_change, .context = changes};
  options.breaker_listener = &changes->listener;
  options.fallback = fallback;
  return options;
}

static weir_channel *storm_channel(int port, struct weir_channel_options *options) {
  struct weir_diagnostic diagnostic;
  char target[32];
  (void)snprintf(target, sizeof target, "127.0.0.1:%d", port);
  options->log = &silent_log;
  if (weir_policy_from_json(policy, sizeof policy - 1, NULL, NULL, &options->policy, &diagnostic) !=
      WEIR_OK) {
    fail_msg("%s: %s", diagnostic.path, diagnostic.message);
  }
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  weir_channel *channel = weir_channel_create(target, creds, NULL, options);
  grpc_channel_credentials_release(creds);
  weir_policy_unref(options->policy);
  assert_non_null(channel);
  return channel;
}

static void everything_at_once_keeps_its_word(void **state) {
  (void)state;
  static struct changes changes;
  _Atomic uint64_t n_asked = 0;
  struct weir_fallback fallback = WEIR_FALLBACK_INIT;
  fallback.ask = find_at_random;
  fallback.context = &n_asked;
  struct weir_channel_options options = options_with(&changes, &fallback);
  weir__test_server *server = weir__test_server_new(answer_at_random, NULL, 0);
  struct storm storm = {.channel = storm_channel(weir__test_server_port(server), &options)};
  struct caller callers[N_THREADS];
  for (unsigned i = 0; i < N_THREADS; i++) {
    callers[i] = (struct caller){.storm = &storm, .seed = 88172645463325252U + i * 7919U};
    assert_int_equal(pthread_create(&callers[i].thread, NULL, run, &callers[i]), 0);
  }
  for (unsigned i = 1; i <= N_RESTARTS; i++) {
    assert_true(weir__test_server_wait_calls(server, CALLS_BETWEEN_RESTARTS * i));
    weir__test_server_stop(server);
    weir__test_server_start(server);
  }
  atomic_store(&storm.over, true);
  unsigned n_refused = 0;
  unsigned n_hits = 0;
  unsigned n_odd = 0;
  for (unsigned i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
    n_odd += callers[i].n_odd;
    n_refused += callers[i].n_refused;
    n_hits += callers[i].n_hits;
  }
  assert_int_equal(n_odd, 0);
  assert_true(n_refused > 0 && n_hits > 0);
  assert_int_equal(
      weir_channel_set_breaker_override(storm.channel, NULL, WEIR_BREAKER_OVERRIDE_NONE), WEIR_OK);
  assert_recovers(&storm);
  assert_int_equal(changes.n_odd, 0);
  assert_known_are_whole(&storm, &changes);
  weir_channel_destroy(storm.channel);
  weir__test_server_release(server);
  (void)pthread_mutex_destroy(&changes.mutex);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(everything_at_once_keeps_its_word),
  };
  return cmocka_run_group_tests_name("storm", tests, start_core, stop_core);
}
