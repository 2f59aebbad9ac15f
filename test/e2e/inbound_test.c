/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/support/bare_call.h"
#include "test/e2e/support/metadata.h"
#include "test/e2e/support/test_server.h"
#include "test/support/batched_call.h"

#define FAILS \
  { .code = GRPC_STATUS_UNAVAILABLE, .text = "not now" }
#define WORKS \
  { .code = GRPC_STATUS_OK }

/* --- a service in the middle --- */

#define MAX_NOTES 8
#define MAX_TEXT 128

struct chain;

/* What the middle does with a request. */
typedef void serve_fn(struct chain *chain, const struct weir__test_served *served,
                      struct weir__test_reply *reply);

struct chain_setup {
  serve_fn *serve;
  const char *root_policy;   /* NULL = plain */
  const char *middle_policy; /* NULL = plain */
  const char *other_policy;  /* of to_last_too; NULL = plain */
  const struct script *last; /* what the last one answers; NULL = `listen` does */
  weir__test_handler_fn *listen;
  void *listener;
};

/* A client, a service in the middle, and the last one. */
struct chain {
  weir__test_server *last;
  weir_channel *to_last;
  weir_channel *to_last_too; /* another stack of the same process */
  weir__test_server *middle;
  grpc_channel *bare;      /* to the middle, without weir */
  weir_channel *to_middle; /* with it */
  const struct chain_setup *setup;

  pthread_mutex_t mutex;
  pthread_cond_t changed;
  struct {
    size_t n_notes;
    struct weir_call_report notes[MAX_NOTES]; /* of the middle's calls */
    bool may_go_on;
    uint64_t n_kept_bytes; /* of the middle's calls, once they have ended */
  } guarded;

  pthread_t thread; /* that a request was handed over to */
  weir_inbound *handed_over;
};

static void serve_middle(void *context, const struct weir__test_served *served,
                         struct weir__test_reply *reply) {
  struct chain *chain = context;
  chain->setup->serve(chain, served, reply);
}

static void chain_open(struct chain *chain, const struct chain_setup *setup) {
  const char *root = setup->root_policy != NULL ? setup->root_policy : POLICY_PLAIN;
  const char *middle = setup->middle_policy != NULL ? setup->middle_policy : POLICY_PLAIN;
  const char *other = setup->other_policy != NULL ? setup->other_policy : POLICY_PLAIN;
  memset(chain, 0, sizeof *chain);
  (void)pthread_mutex_init(&chain->mutex, NULL);
  (void)pthread_cond_init(&chain->changed, NULL);
  chain->setup = setup;
  chain->last = setup->last != NULL
                    ? weir__test_server_new(answer_by_script, (void *)(uintptr_t)setup->last, 0)
                    : weir__test_server_new(setup->listen, setup->listener, 0);
  chain->to_last = channel_to(weir__test_server_port(chain->last), middle);
  chain->to_last_too = channel_to(weir__test_server_port(chain->last), other);
  (void)pthread_mutex_lock(&chain->mutex); /* for its handlers, which are other threads */
  chain->middle = weir__test_server_new(serve_middle, chain, 0);
  (void)pthread_mutex_unlock(&chain->mutex);
  chain->to_middle = channel_to(weir__test_server_port(chain->middle), root);
  chain->bare = weir__bare_channel_create(weir__test_server_port(chain->middle),
                                          WEIR__CORE_RETRIES_OFF, NULL);
}

static void chain_close(struct chain *chain) {
  grpc_channel_destroy(chain->bare);
  weir_channel_destroy(chain->to_middle);
  weir__test_server_release(chain->middle); /* its handlers have ended */
  weir_channel_destroy(chain->to_last);
  weir_channel_destroy(chain->to_last_too);
  weir__test_server_release(chain->last);
  (void)pthread_cond_destroy(&chain->changed);
  (void)pthread_mutex_destroy(&chain->mutex);
}

static weir_inbound *inbound_of(const struct weir__test_served *served) {
  weir_inbound *inbound = NULL;
  assert_int_equal(
      weir_inbound_new(served->details, served->metadata, served->call, NULL, &inbound), WEIR_OK);
  return inbound;
}

static void note(struct chain *chain, const struct weir_call_report *report) {
  (void)pthread_mutex_lock(&chain->mutex);
  if (chain->guarded.n_notes < MAX_NOTES) {
    chain->guarded.notes[chain->guarded.n_notes++] = *report;
  }
  (void)pthread_mutex_unlock(&chain->mutex);
}

static struct weir_call_report noted(struct chain *chain, size_t nth) {
  (void)pthread_mutex_lock(&chain->mutex);
  assert_true(nth < chain->guarded.n_notes);
  struct weir_call_report report = chain->guarded.notes[nth];
  (void)pthread_mutex_unlock(&chain->mutex);
  return report;
}

/* Code somewhere in a service, which knows nothing of the request that it works for. */
static grpc_status_code ask(struct chain *chain, weir_channel *channel,
                            enum weir_inbound_bond bond) {
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply answer = WEIR_UNARY_REPLY_INIT;
  request.method = OTHER_METHOD;
  request.message = message_of("from the middle");
  request.inbound_bond = bond;
  assert_int_equal(weir_unary(channel, &request, &answer), WEIR_OK);
  grpc_status_code code = answer.code;
  note(chain, &answer.report);
  weir_unary_reply_fini(&answer);
  grpc_byte_buffer_destroy(request.message);
  return code;
}

/* A call of the client's without weir. */
static grpc_status_code ask_bare(const struct chain *chain, const grpc_metadata *metadata,
                                 size_t n_metadata) {
  struct weir__bare_request request = {
      .method = METHOD,
      .message = message_of("from the root"),
      .metadata = metadata,
      .n_metadata = n_metadata,
      .deadline =
          gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(30, GPR_TIMESPAN)),
  };
  struct weir__bare_reply reply;
  memset(&reply, 0, sizeof reply);
  weir__bare_unary(chain->bare, &request, &reply);
  grpc_status_code code = reply.code;
  weir__bare_reply_fini(&reply);
  grpc_byte_buffer_destroy(request.message);
  return code;
}

static grpc_status_code ask_bare_with(const struct chain *chain, const char *key,
                                      const char *value) {
  grpc_metadata entry = weir__metadata_from_text(key, value);
  grpc_status_code code = ask_bare(chain, &entry, 1);
  grpc_slice_unref(entry.key);
  grpc_slice_unref(entry.value);
  return code;
}

static void assert_owner(const struct chain *chain, size_t nth, const char *owner) {
  struct weir__test_record record;
  assert_true(weir__test_server_record(chain->last, nth, &record));
  assert_string_equal(record.retry_owner, owner);
}

/* --- ambient --- */

static void serve_in_scope(struct chain *chain, const struct weir__test_served *served,
                           struct weir__test_reply *reply) {
  struct weir_inbound_scope scope;
  struct weir_inbound_scope root;
  weir_inbound *inbound = inbound_of(served);
  weir_inbound_enter(inbound, &scope);
  weir_inbound_release(inbound);
  weir__test_reply_status(reply, ask(chain, chain->to_last, WEIR_INBOUND_ATTACHED), "relayed");
  weir_inbound_enter(NULL, &root);
  (void)ask(chain, chain->to_last, WEIR_INBOUND_ATTACHED);
  weir_inbound_leave(&root);
  weir_inbound_leave(&scope);
  (void)ask(chain, chain->to_last, WEIR_INBOUND_ATTACHED);
}

static void code_that_knows_of_no_request_calls_for_the_ambient_one(void **state) {
  (void)state;
  const struct script script = SCRIPT(WORKS);
  struct chain chain;
  const struct chain_setup setup = {
      .serve = serve_in_scope, .root_policy = POLICY_RETRY, .last = &script};
  chain_open(&chain, &setup);
  struct unary unary;
  unary_run(&unary, chain.to_middle, &(struct unary_setup){.timeout_ns = SECONDS(5)});
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  unary_fini(&unary);

  struct weir__test_record record;
  assert_true(weir__test_server_record(chain.last, 0, &record));
  assert_string_equal(record.retry_owner, "weir"); /* the root's */
  assert_true(record.budget_us > 0 && record.budget_us <= SECONDS(5) / 1000);
  for (size_t i = 1; i <= 2; i++) { /* one of nothing, and outside */
    assert_true(weir__test_server_record(chain.last, i, &record));
    assert_string_equal(record.retry_owner, "");
    assert_true(record.budget_us > SECONDS(5) / 1000); /* the policy's ten seconds */
  }
  chain_close(&chain);
}

/* Requests at once, each in the thread that serves it, see each their own. */
#define N_AT_ONCE 16

static void serve_own_in_scope(struct chain *chain, const struct weir__test_served *served,
                               struct weir__test_reply *reply) {
  struct weir_inbound_scope scope;
  weir_inbound *inbound = inbound_of(served);
  weir_inbound_enter(inbound, &scope);
  weir_inbound_release(inbound);
  char before[MAX_TEXT];
  (void)weir__metadata_copy_text(served->metadata, "weir-retry-owner", before, sizeof before);
  for (int i = 0; i < 3; i++) {
    assert_ptr_equal(weir_inbound_current(), inbound);
    weir__test_reply_status(reply, ask(chain, chain->to_last, WEIR_INBOUND_ATTACHED), before);
  }
  weir_inbound_leave(&scope);
}

static void threads_have_an_ambient_request_each(void **state) {
  (void)state;
  const struct script script = SCRIPT(WORKS);
  struct chain chain;
  const struct chain_setup setup = {.serve = serve_own_in_scope, .last = &script};
  chain_open(&chain, &setup);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct unary unaries[N_AT_ONCE];
  static const char *const owners[N_AT_ONCE] = {"a", "b", "c", "d", "e", "f", "g", "h",
                                                "i", "j", "k", "l", "m", "n", "o", "p"};
  grpc_metadata markers[N_AT_ONCE];
  for (size_t i = 0; i < N_AT_ONCE; i++) {
    markers[i] = weir__metadata_from_text("weir-retry-owner", owners[i]);
    unary_start(&unaries[i], chain.to_middle, queue,
                &(struct unary_setup){.metadata = &markers[i], .n_metadata = 1});
  }
  for (size_t i = 0; i < N_AT_ONCE; i++) {
    (void)next_tag(queue);
  }
  size_t n_of[N_AT_ONCE] = {0};
  for (size_t nth = 0; nth < 3 * N_AT_ONCE; nth++) {
    struct weir__test_record record;
    assert_true(weir__test_server_record(chain.last, nth, &record));
    assert_int_equal(strlen(record.retry_owner), 1);
    n_of[record.retry_owner[0] - 'a']++;
  }
  for (size_t i = 0; i < N_AT_ONCE; i++) {
    assert_int_equal(n_of[i], 3);
    assert_int_equal(unaries[i].code, GRPC_STATUS_OK);
    unary_fini(&unaries[i]);
    grpc_slice_unref(markers[i].key);
    grpc_slice_unref(markers[i].value);
  }
  queue_end(queue);
  chain_close(&chain);
}

/* --- handed over --- */

static void may_go_on(struct chain *chain) {
  (void)pthread_mutex_lock(&chain->mutex);
  chain->guarded.may_go_on = true;
  (void)pthread_cond_broadcast(&chain->changed);
  (void)pthread_mutex_unlock(&chain->mutex);
}

/* Works on for the request that was handed over, once it may. */
static void *work_on(void *argument) {
  struct chain *chain = argument;
  struct weir_inbound_scope scope;
  weir_inbound_enter(chain->handed_over, &scope);
  weir_inbound_release(chain->handed_over);
  (void)pthread_mutex_lock(&chain->mutex);
  while (!chain->guarded.may_go_on) {
    (void)pthread_cond_wait(&chain->changed, &chain->mutex);
  }
  (void)pthread_mutex_unlock(&chain->mutex);
  (void)ask(chain, chain->to_last, WEIR_INBOUND_ATTACHED);
  (void)ask(chain, chain->to_last_too, WEIR_INBOUND_DETACHED);
  weir_inbound_leave(&scope);
  return NULL;
}

static void hand_over(struct chain *chain, weir_inbound *inbound) {
  chain->handed_over = weir_inbound_ref(inbound);
  weir_inbound_release(inbound);
  assert_int_equal(pthread_create(&chain->thread, NULL, work_on, chain), 0);
}

static void serve_by_another_thread(struct chain *chain, const struct weir__test_served *served,
                                    struct weir__test_reply *reply) {
  hand_over(chain, inbound_of(served));
  may_go_on(chain);
  (void)pthread_join(chain->thread, NULL);
  weir__test_reply_status(reply, noted(chain, 0).code, "relayed");
}

static void a_request_can_be_handed_over_to_another_thread(void **state) {
  (void)state;
  const struct script script = SCRIPT(WORKS);
  struct chain chain;
  const struct chain_setup setup = {
      .serve = serve_by_another_thread, .root_policy = POLICY_RETRY, .last = &script};
  chain_open(&chain, &setup);
  struct unary unary;
  unary_run(&unary, chain.to_middle, &(struct unary_setup){.timeout_ns = SECONDS(5)});
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  unary_fini(&unary);

  struct weir__test_record record;
  assert_true(weir__test_server_record(chain.last, 0, &record));
  assert_string_equal(record.retry_owner, "weir");
  assert_true(record.budget_us > 0 && record.budget_us <= SECONDS(5) / 1000);
  assert_true(weir__test_server_record(chain.last, 1, &record)); /* detached */
  assert_string_equal(record.retry_owner, "weir");
  assert_true(record.budget_us > SECONDS(5) / 1000);
  chain_close(&chain);
}

static void serve_and_leave_the_rest(struct chain *chain, const struct weir__test_served *served,
                                     struct weir__test_reply *reply) {
  (void)reply;
  hand_over(chain, inbound_of(served));
}

/* Only the inbound holds the server's call by then, and the server is gone. */
static void work_that_outlives_its_request_is_cancelled_unless_it_is_detached(void **state) {
  (void)state;
  const struct script script = SCRIPT(WORKS);
  struct chain chain;
  const struct chain_setup setup = {.serve = serve_and_leave_the_rest, .last = &script};
  chain_open(&chain, &setup);
  struct unary unary;
  unary_run(&unary, chain.to_middle, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  unary_fini(&unary);
  weir__test_server_stop(chain.middle); /* all is quiet there: the request is over */
  may_go_on(&chain);
  (void)pthread_join(chain.thread, NULL);

  assert_int_equal(noted(&chain, 0).code, GRPC_STATUS_CANCELLED);
  assert_int_equal(noted(&chain, 0).reason, WEIR_REASON_CANCELLED);
  assert_int_equal(noted(&chain, 1).code, GRPC_STATUS_OK);
  assert_int_equal(weir__test_server_n_calls(chain.last), 1);
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  assert_int_equal(weir_channel_get_counters(chain.to_last_too, &counters), WEIR_OK);
  assert_int_equal(counters.n_detached_calls, 1);
  chain_close(&chain);
}

/* --- parents that are over --- */

static void ask_by_stream(struct chain *chain, weir_channel *channel) {
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct batched_call *call = batched_call_new(
      weir_channel_create_call(channel, NULL, 0, queue, grpc_slice_from_static_string(OTHER_METHOD),
                               NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL));
  (void)batched_call_start(call, OPS(SEND_ALL));
  struct call_batch *receives = batched_call_start(call, OPS(RECV_ALL));
  (void)awaited_tag_wait(&receives->tag, queue);
  while (!batched_call_is_idle(call)) {
    (void)awaited_tag_wait(&call->batches[0].tag, queue);
  }
  struct weir_call_report report = batched_call_report(call);
  note(chain, &report);
  batched_call_release(call);
  queue_end(queue);
}

static weir__test_server *chain_middle(struct chain *chain) {
  (void)pthread_mutex_lock(&chain->mutex);
  weir__test_server *middle = chain->middle;
  (void)pthread_mutex_unlock(&chain->mutex);
  return middle;
}

/* Waits until its client has gone away, and only then begins to work. */
static void serve_too_late(struct chain *chain, const struct weir__test_served *served,
                           struct weir__test_reply *reply) {
  struct weir_inbound_scope scope;
  weir_inbound *inbound = inbound_of(served);
  assert_true(weir__test_server_wait_cancelled(chain_middle(chain), 1));
  weir_inbound_enter(inbound, &scope);
  weir_inbound_release(inbound);
  (void)ask(chain, chain->to_last, WEIR_INBOUND_ATTACHED);
  ask_by_stream(chain, chain->to_last);
  weir_inbound_leave(&scope);
  weir__test_reply_status(reply, GRPC_STATUS_CANCELLED, "too late");
}

static void calls_for_a_request_that_is_over_reach_nobody(void **state) {
  (void)state;
  const struct script script = SCRIPT(WORKS);
  struct chain chain;
  const struct chain_setup setup = {
      .serve = serve_too_late,
      .middle_policy = "{" NO_BOUNDARY ",\"breaker\":{\"minRequests\":1}," METHODS(
          RETRY("3", "0.005s", "\"CANCELLED\",\"UNAVAILABLE\"")) "}",
      .last = &script};
  chain_open(&chain, &setup);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct unary unary;
  unary_start(&unary, chain.to_middle, queue, NULL);
  assert_true(weir__test_server_wait_calls(chain.middle, 1));
  assert_int_equal(weir_call_cancel(unary.call, NULL), GRPC_CALL_OK);
  unary_wait(&unary, queue);
  unary_fini(&unary);
  queue_end(queue);
  weir__test_server_stop(chain.middle); /* its handler has ended */

  for (size_t i = 0; i < 2; i++) { /* weir_unary, a stream */
    struct weir_call_report report = noted(&chain, i);
    assert_int_equal(report.code, GRPC_STATUS_CANCELLED);
    assert_int_equal(report.origin, WEIR_ORIGIN_LOCAL_CANCEL);
    assert_int_equal(report.reason, WEIR_REASON_CANCELLED);
    assert_int_equal(report.n_attempts, 1);
  }
  assert_int_equal(weir__test_server_n_calls(chain.last), 0);
  struct weir_breaker_snapshot breaker = {.size = sizeof breaker};
  if (weir_channel_breaker_snapshot(chain.to_last, OTHER_METHOD, &breaker) == WEIR_OK) {
    assert_int_equal(breaker.n_requests, 0);
    assert_int_equal(breaker.state, WEIR_BREAKER_CLOSED);
  }
  chain_close(&chain);
}

/* --- one layer retries --- */

static void serve_with_inbound(struct chain *chain, const struct weir__test_served *served,
                               struct weir__test_reply *reply) {
  struct weir_inbound_scope scope;
  weir_inbound *inbound = inbound_of(served);
  weir_inbound_enter(inbound, &scope);
  weir_inbound_release(inbound);
  weir__test_reply_status(reply, ask(chain, chain->to_last, WEIR_INBOUND_ATTACHED), "relayed");
  weir_inbound_leave(&scope);
}

/* Its first attempt looks like that of one that does not retry: who retries then is the middle. */
static void a_caller_without_weir_marks_its_retries_only(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct chain chain;
  const struct chain_setup setup = {
      .serve = serve_with_inbound, .middle_policy = POLICY_RETRY, .last = &script};
  chain_open(&chain, &setup);
  assert_int_equal(ask_bare(&chain, NULL, 0), GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(weir__test_server_n_calls(chain.last), 3);
  assert_owner(&chain, 0, "weir"); /* the middle's policy has the default name */
  static const char *const counts[] = {"1", "2"};
  for (size_t i = 0; i < COUNT_OF(counts); i++) {
    assert_int_equal(ask_bare_with(&chain, "grpc-previous-rpc-attempts", counts[i]),
                     GRPC_STATUS_UNAVAILABLE);
    assert_int_equal(weir__test_server_n_calls(chain.last), 4 + i);
    assert_owner(&chain, 3 + i, "upstream");
    assert_int_equal(noted(&chain, 1 + i).reason, WEIR_REASON_NOT_OWNER);
  }
  chain_close(&chain);
}

static void a_forged_marker_switches_retries_off_and_no_more(void **state) {
  (void)state;
  static char huge[5000 + 1];
  memset(huge, 'a', sizeof huge - 1);
  static const struct {
    const char *marker;
    const char *passed_on;
  } rows[] = {{"", "upstream"},          {"not a name", "upstream"}, {"../../etc", "upstream"},
              {"{\"a\":1}", "upstream"}, {huge, "upstream"},         {"somebody", "somebody"}};
  const struct script script = SCRIPT(FAILS);
  struct chain chain;
  const struct chain_setup setup = {
      .serve = serve_with_inbound, .middle_policy = POLICY_RETRY, .last = &script};
  chain_open(&chain, &setup);
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    assert_int_equal(ask_bare_with(&chain, "weir-retry-owner", rows[i].marker),
                     GRPC_STATUS_UNAVAILABLE);
    assert_int_equal(weir__test_server_n_calls(chain.last), i + 1);
    assert_owner(&chain, i, rows[i].passed_on);
  }
  chain_close(&chain);
}

static void serve_by_two_stacks(struct chain *chain, const struct weir__test_served *served,
                                struct weir__test_reply *reply) {
  struct weir_inbound_scope scope;
  weir_inbound *inbound = inbound_of(served);
  weir_inbound_enter(inbound, &scope);
  weir_inbound_release(inbound);
  (void)ask(chain, chain->to_last, WEIR_INBOUND_ATTACHED);
  weir__test_reply_status(reply, ask(chain, chain->to_last_too, WEIR_INBOUND_ATTACHED), "relayed");
  weir_inbound_leave(&scope);
}

#define POLICY_OTHER                                \
  "{\"name\":\"other\"," NO_BOUNDARY "," NO_BREAKER \
  "," METHODS(RETRY("2", "0.005s", UNAVAILABLE)) "}"

/* Client, middle and last are one process here, with three stacks. */
static void stacks_of_one_process_do_not_multiply(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct chain chain;
  const struct chain_setup setup = {.serve = serve_by_two_stacks,
                                    .root_policy = POLICY_RETRY,
                                    .middle_policy = POLICY_RETRY,
                                    .other_policy = POLICY_OTHER,
                                    .last = &script};
  chain_open(&chain, &setup);
  struct unary unary;
  unary_run(&unary, chain.to_middle, NULL);
  assert_int_equal(unary.report.n_attempts, 3);
  unary_fini(&unary);
  assert_int_equal(weir__test_server_n_calls(chain.middle), 3);
  assert_int_equal(weir__test_server_n_calls(chain.last), 3 * 2); /* one of each stack */
  for (size_t i = 0; i < 6; i++) {
    assert_owner(&chain, i, "weir");
  }
  weir__test_server_forget(chain.last);

  /* Where nobody further out retries, each of the two does for its own calls. */
  assert_int_equal(ask_bare(&chain, NULL, 0), GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(weir__test_server_n_calls(chain.last), 3 + 2);
  assert_owner(&chain, 2, "weir");
  assert_owner(&chain, 3, "other");
  chain_close(&chain);
}

/* A service that knows of no inbound, but sends its request's metadata on. */
static void serve_by_hand(struct chain *chain, const struct weir__test_served *served,
                          struct weir__test_reply *reply) {
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply answer = WEIR_UNARY_REPLY_INIT;
  const grpc_slice *marker = weir__metadata_find(served->metadata, "weir-retry-owner");
  grpc_metadata entry;
  memset(&entry, 0, sizeof entry);
  if (marker != NULL) {
    entry.key = grpc_slice_from_static_string("weir-retry-owner");
    entry.value = *marker;
    request.metadata = &entry;
    request.n_metadata = 1;
  }
  request.method = OTHER_METHOD;
  request.message = message_of("by hand");
  assert_int_equal(weir_unary(chain->to_last, &request, &answer), WEIR_OK);
  weir__test_reply_status(reply, answer.code, "relayed");
  weir_unary_reply_fini(&answer);
  grpc_byte_buffer_destroy(request.message);
}

static void a_marker_that_is_passed_on_by_hand_is_heeded(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct chain chain;
  const struct chain_setup setup = {.serve = serve_by_hand,
                                    .root_policy = POLICY_RETRY,
                                    .middle_policy = POLICY_OTHER,
                                    .last = &script};
  chain_open(&chain, &setup);
  struct unary unary;
  unary_run(&unary, chain.to_middle, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  unary_fini(&unary);
  assert_int_equal(weir__test_server_n_calls(chain.middle), 3);
  assert_int_equal(weir__test_server_n_calls(chain.last), 3);
  assert_owner(&chain, 2, "weir");
  chain_close(&chain);
}

/* --- identifiers of a trace --- */

#define TRACEPARENT "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

struct heard {
  pthread_mutex_t mutex;
  char traceparent[MAX_TEXT];
  char tracestate[MAX_TEXT];
  char request_id[MAX_TEXT];
};

static void hear(void *context, const struct weir__test_served *served,
                 struct weir__test_reply *reply) {
  struct heard *heard = context;
  (void)pthread_mutex_lock(&heard->mutex);
  (void)weir__metadata_copy_text(served->metadata, "traceparent", heard->traceparent, MAX_TEXT);
  (void)weir__metadata_copy_text(served->metadata, "tracestate", heard->tracestate, MAX_TEXT);
  (void)weir__metadata_copy_text(served->metadata, "x-request-id", heard->request_id, MAX_TEXT);
  (void)pthread_mutex_unlock(&heard->mutex);
  weir__test_reply_status(reply, GRPC_STATUS_OK, "");
}

static void a_trace_is_passed_on_to_the_next_service(void **state) {
  (void)state;
  struct heard heard;
  memset(&heard, 0, sizeof heard);
  (void)pthread_mutex_init(&heard.mutex, NULL);
  struct chain chain;
  const struct chain_setup setup = {
      .serve = serve_with_inbound, .listen = hear, .listener = &heard};
  chain_open(&chain, &setup);
  grpc_metadata metadata[] = {weir__metadata_from_text("traceparent", TRACEPARENT),
                              weir__metadata_from_text("tracestate", "vendor=1"),
                              weir__metadata_from_text("x-request-id", "17")};
  assert_int_equal(ask_bare(&chain, metadata, COUNT_OF(metadata)), GRPC_STATUS_OK);
  (void)pthread_mutex_lock(&heard.mutex);
  assert_string_equal(heard.traceparent, TRACEPARENT);
  assert_string_equal(heard.tracestate, "vendor=1");
  assert_string_equal(heard.request_id, ""); /* was not asked for */
  (void)pthread_mutex_unlock(&heard.mutex);
  for (size_t i = 0; i < COUNT_OF(metadata); i++) {
    grpc_slice_unref(metadata[i].key);
    grpc_slice_unref(metadata[i].value);
  }
  chain_close(&chain);
  (void)pthread_mutex_destroy(&heard.mutex);
}

/* --- letting go --- */

static void serve_and_look(struct chain *chain, const struct weir__test_served *served,
                           struct weir__test_reply *reply) {
  struct weir_inbound_scope scope;
  struct weir_replay_snapshot snapshot = WEIR_REPLAY_SNAPSHOT_INIT;
  weir_inbound *inbound = inbound_of(served);
  weir_inbound_enter(inbound, &scope);
  weir_inbound_release(inbound);
  weir__test_reply_status(reply, ask(chain, chain->to_last, WEIR_INBOUND_ATTACHED), "relayed");
  weir_inbound_leave(&scope);
  assert_int_equal(weir_channel_replay_snapshot(chain->to_last, &snapshot), WEIR_OK);
  (void)pthread_mutex_lock(&chain->mutex);
  chain->guarded.n_kept_bytes = snapshot.n_bytes;
  (void)pthread_mutex_unlock(&chain->mutex);
}

/* A wait for a retry watches the request. The watch has a share of the call, with what it keeps to
 * be sent again, and of the request: nobody drains the queue of weir_unary afterwards. */
static void a_blocking_call_that_was_retried_is_gone_when_its_reply_is(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS, WORKS);
  struct chain chain;
  const struct chain_setup setup = {
      .serve = serve_and_look, .middle_policy = POLICY_RETRY, .last = &script};
  chain_open(&chain, &setup);
  assert_int_equal(ask_bare(&chain, NULL, 0), GRPC_STATUS_OK);
  struct weir_call_report report = noted(&chain, 0);
  assert_int_equal(report.n_attempts, 2);
  (void)pthread_mutex_lock(&chain.mutex);
  assert_int_equal(chain.guarded.n_kept_bytes, 0);
  (void)pthread_mutex_unlock(&chain.mutex);
  chain_close(&chain);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(code_that_knows_of_no_request_calls_for_the_ambient_one),
      cmocka_unit_test(threads_have_an_ambient_request_each),
      cmocka_unit_test(a_request_can_be_handed_over_to_another_thread),
      cmocka_unit_test(work_that_outlives_its_request_is_cancelled_unless_it_is_detached),
      cmocka_unit_test(calls_for_a_request_that_is_over_reach_nobody),
      cmocka_unit_test(a_caller_without_weir_marks_its_retries_only),
      cmocka_unit_test(a_forged_marker_switches_retries_off_and_no_more),
      cmocka_unit_test(stacks_of_one_process_do_not_multiply),
      cmocka_unit_test(a_marker_that_is_passed_on_by_hand_is_heeded),
      cmocka_unit_test(a_trace_is_passed_on_to_the_next_service),
      cmocka_unit_test(a_blocking_call_that_was_retried_is_gone_when_its_reply_is),
  };
  return cmocka_run_group_tests_name("inbound", tests, start_core, stop_core);
}
