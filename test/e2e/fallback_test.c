/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>

#include <weir/weir.h>

#include "examples/fallback.h"
#include "test/e2e/fixture.h"
#include "test/e2e/gated_fallback.h"
#include "test/e2e/support/odd_peer.h"
#include "test/e2e/support/test_server.h"

#define FAILS \
  { .code = GRPC_STATUS_UNAVAILABLE, .text = "not now" }

/* One failed call opens the breaker, for a minute. */
#define TRIPS_AT_ONCE "\"breaker\":{\"minRequests\":1,\"openFor\":\"60s\"}"

/* So long that it is never the end of a wait, and so short that the wait is one. */
#define PATIENT "\"timeout\":\"60s\""
#define HASTY "\"timeout\":\"0.02s\""

#define ON_REFUSAL(more) "{" NO_BOUNDARY "," TRIPS_AT_ONCE ",\"fallback\":{" more "}}"
#define ON_FAILURE(more) \
  "{" NO_BOUNDARY "," NO_BREAKER ",\"fallback\":{\"onFailure\":true," more "}}"

/* A channel to a port that nobody listens on: every call fails, without a server's doing. */
static weir_channel *channel_to_nobody(const char *policy, struct gated_fallback *fallback) {
  return channel_new(&(struct channel_setup){
      .port = odd_closed_port(), .policy = policy, .fallback = &fallback->base});
}

static struct weir_channel_counters counters_of(weir_channel *channel) {
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  assert_int_equal(weir_channel_get_counters(channel, &counters), WEIR_OK);
  return counters;
}

static void check_hit(const struct unary *unary, const char *text, const char *source) {
  assert_int_equal(unary->code, GRPC_STATUS_OK);
  assert_true(message_is(unary->message, text));
  assert_int_equal(unary->report.code, GRPC_STATUS_OK);
  assert_int_equal(unary->report.raw_code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary->report.fallback_result, WEIR_FALLBACK_HIT);
  assert_string_equal(unary->report.fallback_source, source);
}

static void check_failure(const struct unary *unary, enum weir_fallback_result result) {
  assert_int_equal(unary->code, GRPC_STATUS_UNAVAILABLE);
  assert_null(unary->message);
  assert_int_equal(unary->report.fallback_result, result);
}

/* --- what stands in for a server --- */

static void a_stopped_server_is_stood_in_for_before_and_after_the_breaker_opens(void **state) {
  (void)state;
  struct gated_fallback fallback;
  gated_fallback_init(&fallback);
  const struct answer works = {.code = GRPC_STATUS_OK};
  const struct script script = {.answers = &works, .n_answers = 1};
  weir__test_server *server =
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
  weir_channel *channel = channel_new(&(struct channel_setup){
      .port = weir__test_server_port(server),
      .policy = "{" NO_BOUNDARY "," TRIPS_AT_ONCE ",\"fallback\":{\"onFailure\":true," PATIENT "}}",
      .fallback = &fallback.base});
  struct unary unary;
  unary_run(&unary, channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  assert_int_equal(unary.report.fallback_result, WEIR_FALLBACK_NOT_ASKED);
  unary_fini(&unary);

  weir__test_server_stop(server);
  for (size_t i = 0; i < 3; i++) { /* one failure in two calls is none that opens it yet */
    unary_run(&unary, channel, NULL);
    check_hit(&unary, "stale", "gate");
    bool is_refused = unary.report.origin == WEIR_ORIGIN_LOCAL_BREAKER;
    assert_int_equal(is_refused, i == 2);
    unary_fini(&unary);
  }
  weir_channel_destroy(channel);
  weir__test_server_release(server);
  gated_fallback_fini(&fallback, 1);
}

static void a_refused_call_is_answered_without_the_server(void **state) {
  (void)state;
  struct gated_fallback fallback;
  gated_fallback_init(&fallback);
  const struct script script = SCRIPT(FAILS);
  weir__test_server *server =
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
  weir_channel *channel =
      channel_new(&(struct channel_setup){.port = weir__test_server_port(server),
                                          .policy = ON_REFUSAL(PATIENT),
                                          .fallback = &fallback.base});
  struct unary unary;
  unary_run(&unary, channel, NULL);
  check_failure(&unary, WEIR_FALLBACK_NOT_ASKED);
  unary_fini(&unary);
  for (size_t i = 0; i < 20; i++) {
    unary_run(&unary, channel, NULL);
    check_hit(&unary, "stale", "gate");
    assert_int_equal(unary.report.origin, WEIR_ORIGIN_LOCAL_BREAKER);
    unary_fini(&unary);
  }
  assert_int_equal(weir__test_server_n_calls(server), 1);
  assert_int_equal(counters_of(channel).n_fallback_hits, 20);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
  gated_fallback_fini(&fallback, 1);
}

/* A boundary's caller sees the answer, and the log what is behind it. */
static void the_log_has_the_truth_beside_the_answer(void **state) {
  (void)state;
  struct gated_fallback fallback;
  struct kept_log log;
  gated_fallback_init(&fallback);
  kept_log_init(&log);
  const struct script script = SCRIPT(FAILS);
  weir__test_server *server =
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
  weir_channel *channel = channel_new(
      &(struct channel_setup){.port = weir__test_server_port(server),
                              .policy = "{\"fallback\":{\"onFailure\":true," PATIENT "}}",
                              .log = &log.base,
                              .fallback = &fallback.base});
  struct unary unary;
  unary_run(&unary, channel, NULL);
  check_hit(&unary, "stale", "gate");
  assert_text(unary.details, "");
  assert_int_equal(log.n_records, 1);
  assert_string_equal(log.records[0].message, "not now");
  assert_int_equal(log.records[0].raw_code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(log.records[0].code, GRPC_STATUS_OK);
  assert_string_equal(log.records[0].reference, unary.report.reference);
  unary_fini(&unary);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
  kept_log_fini(&log);
  gated_fallback_fini(&fallback, 1);
}

/* The example of the documentation: it runs, and its time is the call's. */
static void a_fallback_may_call_another_service(void **state) {
  (void)state;
  const struct answer works = {.code = GRPC_STATUS_OK};
  const struct script script = {.answers = &works, .n_answers = 1};
  weir__test_server *server =
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
  static const char document[] = "{\"fallback\":{\"onFailure\":true," PATIENT "}}";
  weir_policy *policy = NULL;
  assert_int_equal(weir_policy_from_json(document, sizeof document - 1, NULL, NULL, &policy, NULL),
                   WEIR_OK);
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  char target[32];
  (void)snprintf(target, sizeof target, "127.0.0.1:%d", odd_closed_port());
  weir_channel *channel =
      channel_with_other(target, creds, policy, channel_to(weir__test_server_port(server), NULL));
  assert_non_null(channel);
  struct unary unary;
  unary_run(&unary, channel, &(struct unary_setup){.timeout_ns = SECONDS(30)});
  check_hit(&unary, "hello", "other-provider");

  struct weir__test_record record;
  assert_true(weir__test_server_record(server, 0, &record));
  assert_string_equal(record.path, METHOD);
  assert_true(record.budget_us > 0 && record.budget_us < 30 * 1000 * 1000);
  unary_fini(&unary);
  weir_channel_destroy(channel);
  weir_policy_unref(policy);
  grpc_channel_credentials_release(creds);
  weir__test_server_release(server);
}

/* --- the blocking call --- */

static enum weir_fallback_result blocking_call(weir_channel *channel, int64_t timeout_ns,
                                               grpc_status_code *code_out, bool *is_stale_out) {
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  request.method = METHOD;
  request.message = message_of("hello");
  request.timeout_ns = timeout_ns;
  assert_int_equal(weir_unary(channel, &request, &reply), WEIR_OK);
  enum weir_fallback_result result = reply.report.fallback_result;
  *code_out = reply.code;
  *is_stale_out = reply.message != NULL && message_is(reply.message, "stale");
  weir_unary_reply_fini(&reply);
  grpc_byte_buffer_destroy(request.message);
  return result;
}

static void a_blocking_call_gets_the_answer(void **state) {
  (void)state;
  struct gated_fallback fallback;
  gated_fallback_init(&fallback);
  weir_channel *channel = channel_to_nobody(ON_FAILURE(PATIENT), &fallback);
  grpc_status_code code = GRPC_STATUS_UNKNOWN;
  bool is_stale = false;
  assert_int_equal(blocking_call(channel, WEIR_NO_LIMIT_NS, &code, &is_stale), WEIR_FALLBACK_HIT);
  assert_int_equal(code, GRPC_STATUS_OK);
  assert_true(is_stale);
  weir_channel_destroy(channel);
  gated_fallback_fini(&fallback, 1);
}

/* The policy would have it wait for a minute. */
static void a_blocking_call_is_not_held_beyond_its_deadline(void **state) {
  (void)state;
  struct gated_fallback fallback;
  gated_fallback_init(&fallback);
  gated_fallback_close(&fallback);
  weir_channel *channel = channel_to_nobody(ON_FAILURE(PATIENT), &fallback);
  grpc_status_code code = GRPC_STATUS_UNKNOWN;
  bool is_stale = false;
  int64_t began_at_ns = now_ns();
  enum weir_fallback_result result = blocking_call(channel, MS(300), &code, &is_stale);
  assert_true(now_ns() - began_at_ns < SECONDS(20));
  /* on a machine that is so slow that the call's time was up before */
  if (code != GRPC_STATUS_DEADLINE_EXCEEDED) {
    assert_int_equal(result, WEIR_FALLBACK_TIMED_OUT);
    assert_int_equal(code, GRPC_STATUS_UNAVAILABLE);
  }
  weir_channel_destroy(channel); /* while it is asked */
  gated_fallback_open(&fallback);
  gated_fallback_fini(&fallback, 1);
}

/* --- the kinds of queue --- */

static void on_a_queue_for_pluck_the_answer_comes_with_its_tag(void **state) {
  (void)state;
  struct gated_fallback fallback;
  gated_fallback_init(&fallback);
  gated_fallback_close(&fallback);
  weir_channel *channel = channel_to_nobody(ON_REFUSAL("\"onFailure\":true," PATIENT), &fallback);
  weir_completion_queue *queue = weir_completion_queue_create_for_pluck(NULL);
  struct unary unaries[8];
  for (size_t i = 0; i < COUNT_OF(unaries); i++) {
    unary_start(&unaries[i], channel, queue, NULL);
  }
  gated_fallback_open(&fallback);
  for (size_t i = COUNT_OF(unaries); i > 0; i--) {
    struct unary *unary = &unaries[i - 1];
    grpc_event event =
        weir_completion_queue_pluck(queue, unary, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    assert_int_equal(event.type, GRPC_OP_COMPLETE);
    assert_ptr_equal(event.tag, unary);
    unary_read_report(unary);
    check_hit(unary, "stale", "gate");
    unary_fini(unary);
  }
  weir_completion_queue_shutdown(queue);
  assert_int_equal(
      weir_completion_queue_pluck(queue, NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type,
      GRPC_QUEUE_SHUTDOWN);
  weir_completion_queue_destroy(queue);
  weir_channel_destroy(channel);
  gated_fallback_fini(&fallback, 1);
}

/* A call whose tag is a functor, that counts how often it runs. */
struct noted_unary {
  grpc_completion_queue_functor functor; /* its address is the tag */
  struct unary unary;
  atomic_uint n_runs;
  sem_t *ran;
};

static void note_run(grpc_completion_queue_functor *functor, int success) {
  struct noted_unary *noted = (struct noted_unary *)(void *)functor;
  assert_int_equal(success, 1);
  atomic_fetch_add(&noted->n_runs, 1);
  sem_post(noted->ran);
}

static void noted_unary_start(struct noted_unary *noted, weir_channel *channel,
                              weir_completion_queue *queue, sem_t *ran) {
  grpc_op ops[UNARY_OPS];
  memset(noted, 0, sizeof *noted);
  noted->functor.functor_run = note_run;
  noted->ran = ran;
  const struct unary_setup setup = {.method = NULL};
  unary_create(&noted->unary, channel, queue, &setup);
  unary_ops(&noted->unary, &setup, ops);
  assert_int_equal(weir_call_start_batch(noted->unary.call, ops, UNARY_OPS, noted, NULL),
                   GRPC_CALL_OK);
}

static void await(sem_t *semaphore) {
  while (sem_wait(semaphore) != 0) {
    /* a signal */
  }
}

static void on_a_queue_for_callbacks_the_answer_is_a_functors_run(void **state) {
  (void)state;
  struct gated_fallback fallback;
  sem_t ran;
  sem_t down;
  gated_fallback_init(&fallback);
  sem_init(&ran, 0, 0);
  sem_init(&down, 0, 0);
  weir_channel *channel = channel_to_nobody(ON_REFUSAL("\"onFailure\":true," PATIENT), &fallback);
  struct noted_unary last = {.functor = {.functor_run = note_run}, .ran = &down};
  weir_completion_queue *queue = weir_completion_queue_create_for_callback(&last.functor, NULL);
  struct noted_unary noted[8];
  for (size_t i = 0; i < COUNT_OF(noted); i++) {
    noted_unary_start(&noted[i], channel, queue, &ran);
  }
  for (size_t i = 0; i < COUNT_OF(noted); i++) {
    await(&ran);
  }
  for (size_t i = 0; i < COUNT_OF(noted); i++) {
    unary_read_report(&noted[i].unary);
    check_hit(&noted[i].unary, "stale", "gate");
    assert_int_equal(atomic_load(&noted[i].n_runs), 1);
    unary_fini(&noted[i].unary);
  }
  weir_completion_queue_shutdown(queue);
  await(&down);
  weir_completion_queue_destroy(queue);
  weir_channel_destroy(channel);
  gated_fallback_fini(&fallback, 1);
  sem_destroy(&ran);
  sem_destroy(&down);
}

/* A fallback that blocks holds no thread that drains: the calls beside it go on. */
static void others_go_on_while_it_blocks(void **state) {
  (void)state;
  struct gated_fallback fallback;
  gated_fallback_init(&fallback);
  gated_fallback_close(&fallback);
  weir_channel *channel = channel_to_nobody(ON_FAILURE(PATIENT), &fallback);
  const struct answer works = {.code = GRPC_STATUS_OK};
  const struct script script = {.answers = &works, .n_answers = 1};
  weir__test_server *server =
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
  weir_channel *well = channel_to(weir__test_server_port(server), POLICY_PLAIN);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct unary blocked;
  unary_start(&blocked, channel, queue, NULL);
  for (size_t i = 0; i < 10; i++) {
    struct unary unary;
    unary_start(&unary, well, queue, NULL);
    assert_ptr_equal(next_tag(queue), &unary);
    unary_read_report(&unary);
    assert_int_equal(unary.code, GRPC_STATUS_OK);
    unary_fini(&unary);
  }
  gated_fallback_open(&fallback);
  assert_ptr_equal(next_tag(queue), &blocked);
  unary_read_report(&blocked);
  check_hit(&blocked, "stale", "gate");
  unary_fini(&blocked);
  queue_end(queue);
  weir_channel_destroy(channel);
  weir_channel_destroy(well);
  weir__test_server_release(server);
  gated_fallback_fini(&fallback, 1);
}

/* --- what ends the wait --- */

/* A call that waits for a fallback that blocks. */
static void start_blocked(struct unary *unary, weir_channel *channel, weir_completion_queue *queue,
                          struct gated_fallback *fallback) {
  unary_start(unary, channel, queue, NULL);
  gated_fallback_await_inside(fallback, 1);
}

/* With the breaker open, so that the call asks within its start. */
static weir_channel *channel_that_refuses(const char *policy, struct gated_fallback *fallback) {
  weir_channel *channel = channel_to_nobody(policy, fallback);
  struct unary unary;
  unary_run(&unary, channel, NULL);
  check_failure(&unary, WEIR_FALLBACK_NOT_ASKED);
  unary_fini(&unary);
  return channel;
}

static void a_cancellation_ends_the_wait(void **state) {
  (void)state;
  struct gated_fallback fallback;
  gated_fallback_init(&fallback);
  gated_fallback_close(&fallback);
  weir_channel *channel = channel_that_refuses(ON_REFUSAL(PATIENT), &fallback);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct unary unary;
  start_blocked(&unary, channel, queue, &fallback);
  assert_int_equal(weir_call_cancel(unary.call, NULL), GRPC_CALL_OK);
  unary_wait(&unary, queue);
  assert_int_equal(unary.code, GRPC_STATUS_CANCELLED);
  assert_int_equal(unary.report.fallback_result, WEIR_FALLBACK_CANCELLED);
  unary_fini(&unary);
  queue_end(queue);
  gated_fallback_open(&fallback);
  weir_channel_destroy(channel);
  gated_fallback_fini(&fallback, 1);
}

static void the_end_of_the_queue_ends_the_wait(void **state) {
  (void)state;
  struct gated_fallback fallback;
  gated_fallback_init(&fallback);
  gated_fallback_close(&fallback);
  weir_channel *channel = channel_that_refuses(ON_REFUSAL(PATIENT), &fallback);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct unary unary;
  start_blocked(&unary, channel, queue, &fallback);
  weir_completion_queue_shutdown(queue);
  assert_ptr_equal(next_tag(queue), &unary);
  assert_null(next_tag(queue));
  weir_completion_queue_destroy(queue);
  unary_read_report(&unary);
  check_failure(&unary, WEIR_FALLBACK_SHUTDOWN);
  assert_int_equal(unary.report.origin, WEIR_ORIGIN_LOCAL_BREAKER);
  unary_fini(&unary);
  gated_fallback_open(&fallback); /* it answers to nobody */
  weir_channel_destroy(channel);
  gated_fallback_fini(&fallback, 1);
}

static void the_call_outlives_its_channel(void **state) {
  (void)state;
  struct gated_fallback fallback;
  gated_fallback_init(&fallback);
  gated_fallback_close(&fallback);
  weir_channel *channel = channel_that_refuses(ON_REFUSAL(PATIENT), &fallback);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct unary unary;
  start_blocked(&unary, channel, queue, &fallback);
  weir_channel_destroy(channel);
  gated_fallback_open(&fallback);
  unary_wait(&unary, queue);
  check_hit(&unary, "stale", "gate");
  unary_fini(&unary);
  queue_end(queue);
  gated_fallback_fini(&fallback, 1);
}

/* --- how many --- */

#define CALLERS 24
#define CALLS_EACH 20
#define LIMIT "4"
#define LIMIT_NUMBER 4

struct caller {
  pthread_t thread;
  weir_channel *channel;
  unsigned n_hits;
  unsigned n_busy;
};

static void *call_often(void *context) {
  struct caller *caller = context;
  for (size_t i = 0; i < CALLS_EACH; i++) {
    grpc_status_code code = GRPC_STATUS_UNKNOWN;
    bool is_stale = false;
    enum weir_fallback_result result =
        blocking_call(caller->channel, WEIR_NO_LIMIT_NS, &code, &is_stale);
    caller->n_hits += result == WEIR_FALLBACK_HIT && code == GRPC_STATUS_OK && is_stale ? 1 : 0;
    caller->n_busy +=
        result == WEIR_FALLBACK_BUSY && code == GRPC_STATUS_UNAVAILABLE && !is_stale ? 1 : 0;
  }
  return NULL;
}

static void never_more_than_the_limit_run_at_once(void **state) {
  (void)state;
  struct gated_fallback fallback;
  gated_fallback_init(&fallback);
  weir_channel *channel =
      channel_that_refuses(ON_REFUSAL(PATIENT ",\"maxConcurrent\":" LIMIT), &fallback);
  struct caller callers[CALLERS];
  memset(callers, 0, sizeof callers);
  gated_fallback_close(&fallback);
  for (size_t i = 0; i < CALLERS; i++) {
    callers[i].channel = channel;
    assert_int_equal(pthread_create(&callers[i].thread, NULL, call_often, &callers[i]), 0);
  }
  gated_fallback_await_inside(&fallback, LIMIT_NUMBER);
  gated_fallback_open(&fallback);
  unsigned n_hits = 0;
  unsigned n_busy = 0;
  for (size_t i = 0; i < CALLERS; i++) {
    assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
    n_hits += callers[i].n_hits;
    n_busy += callers[i].n_busy;
  }
  assert_int_equal(n_hits + n_busy, CALLERS * CALLS_EACH);
  assert_true(n_hits >= LIMIT_NUMBER);
  assert_int_equal(fallback.n_inside_most, LIMIT_NUMBER);
  assert_int_equal(fallback.n_asked, n_hits);
  assert_int_equal(counters_of(channel).n_fallback_busy, n_busy);
  weir_channel_destroy(channel);
  gated_fallback_fini(&fallback, 1);
}

/* --- each batch ends once, whoever is first --- */

#define RACERS 400

/* The answer, the end of the time and a cancellation come at once. */
static void every_batch_ends_once_whatever_comes_first(void **state) {
  (void)state;
  struct gated_fallback fallback;
  sem_t ran;
  sem_t down;
  gated_fallback_init(&fallback);
  sem_init(&ran, 0, 0);
  sem_init(&down, 0, 0);
  weir_channel *channel =
      channel_that_refuses(ON_REFUSAL("\"timeout\":\"0.0003s\",\"maxConcurrent\":16"), &fallback);
  struct noted_unary last = {.functor = {.functor_run = note_run}, .ran = &down};
  weir_completion_queue *queue = weir_completion_queue_create_for_callback(&last.functor, NULL);
  static struct noted_unary noted[RACERS];
  for (size_t i = 0; i < RACERS; i++) {
    noted_unary_start(&noted[i], channel, queue, &ran);
    if (i % 3 == 0) {
      assert_int_equal(weir_call_cancel(noted[i].unary.call, NULL), GRPC_CALL_OK);
    }
  }
  weir_completion_queue_shutdown(queue); /* some are waiting yet */
  for (size_t i = 0; i < RACERS; i++) {
    await(&ran);
  }
  await(&down);
  uint64_t n_results[WEIR_FALLBACK_SHUTDOWN + 1] = {0};
  for (size_t i = 0; i < RACERS; i++) {
    struct unary *unary = &noted[i].unary;
    unary_read_report(unary);
    enum weir_fallback_result result = unary->report.fallback_result;
    n_results[result]++;
    assert_int_equal(atomic_load(&noted[i].n_runs), 1);
    assert_int_equal(unary->code == GRPC_STATUS_OK, result == WEIR_FALLBACK_HIT);
    assert_int_equal(unary->message != NULL, result == WEIR_FALLBACK_HIT);
    unary_fini(unary);
  }
  struct weir_channel_counters counters = counters_of(channel);
  assert_int_equal(counters.n_fallback_hits, n_results[WEIR_FALLBACK_HIT]);
  assert_int_equal(counters.n_fallback_timeouts, n_results[WEIR_FALLBACK_TIMED_OUT]);
  assert_int_equal(counters.n_fallback_busy, n_results[WEIR_FALLBACK_BUSY]);
  assert_int_equal(counters.n_fallback_abandoned,
                   n_results[WEIR_FALLBACK_CANCELLED] + n_results[WEIR_FALLBACK_SHUTDOWN]);
  weir_completion_queue_destroy(queue);
  weir_channel_destroy(channel);
  gated_fallback_fini(&fallback, 1);
  sem_destroy(&ran);
  sem_destroy(&down);
}

/* --- no channel --- */

static void a_fallback_without_ask_makes_no_channel(void **state) {
  (void)state;
  struct weir_fallback fallback = WEIR_FALLBACK_INIT;
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  weir_channel *channel = NULL;
  options.fallback = &fallback;
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  assert_null(weir_channel_create("127.0.0.1:1", creds, NULL, &options));
  grpc_channel *core = grpc_channel_create("127.0.0.1:1", creds, NULL);
  assert_int_equal(weir_channel_wrap(core, &options, &channel), WEIR_ERROR_INVALID_ARGUMENT);
  assert_null(channel);
  grpc_channel_destroy(core);
  grpc_channel_credentials_release(creds);
}

/* What is a channel's already can't be wrapped, and what it would have had stays the program's. */
static void a_channel_that_is_not_made_does_not_release_it(void **state) {
  (void)state;
  struct gated_fallback fallback;
  gated_fallback_init(&fallback);
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  options.fallback = &fallback.base;
  weir_channel *channel = channel_to_nobody(POLICY_PLAIN, &fallback);
  weir_channel *again = NULL;
  assert_int_equal(weir_channel_wrap(weir_channel_core(channel), &options, &again),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(fallback.n_released, 0);
  weir_channel_destroy(channel);
  assert_int_equal(fallback.n_released, 1);
  gated_fallback_fini(&fallback, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_stopped_server_is_stood_in_for_before_and_after_the_breaker_opens),
      cmocka_unit_test(a_refused_call_is_answered_without_the_server),
      cmocka_unit_test(the_log_has_the_truth_beside_the_answer),
      cmocka_unit_test(a_fallback_may_call_another_service),
      cmocka_unit_test(a_blocking_call_gets_the_answer),
      cmocka_unit_test(a_blocking_call_is_not_held_beyond_its_deadline),
      cmocka_unit_test(on_a_queue_for_pluck_the_answer_comes_with_its_tag),
      cmocka_unit_test(on_a_queue_for_callbacks_the_answer_is_a_functors_run),
      cmocka_unit_test(others_go_on_while_it_blocks),
      cmocka_unit_test(a_cancellation_ends_the_wait),
      cmocka_unit_test(the_end_of_the_queue_ends_the_wait),
      cmocka_unit_test(the_call_outlives_its_channel),
      cmocka_unit_test(never_more_than_the_limit_run_at_once),
      cmocka_unit_test(every_batch_ends_once_whatever_comes_first),
      cmocka_unit_test(a_fallback_without_ask_makes_no_channel),
      cmocka_unit_test(a_channel_that_is_not_made_does_not_release_it),
  };
  return cmocka_run_group_tests_name("fallback", tests, start_core, stop_core);
}
