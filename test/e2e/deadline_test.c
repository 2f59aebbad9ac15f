/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/support/bare_call.h"
#include "test/e2e/support/metadata.h"
#include "test/e2e/support/odd_peer.h"
#include "test/e2e/support/test_server.h"

#define FAILS \
  { .code = GRPC_STATUS_UNAVAILABLE, .text = "the real reason" }
#define SILENT \
  { .delay_ns = SECONDS(60) }

/* A deadline is kept to this, on a machine that is busy. */
#define GENEROUS SECONDS(5)

#define POLICY_TIMEOUT(timeout) \
  "{" NO_BOUNDARY "," NO_BREAKER "," METHODS("\"timeout\":\"" timeout "\"") "}"

static weir__test_server *serve(const struct script *script) {
  return weir__test_server_new(answer_by_script, (void *)(uintptr_t)script, 0);
}

/* --- the policy's time --- */

/* Handed to the core as a service config, 1.2 s are over after anything from 2 ms on. It has to be
 * the program's first call that is right, too. */
static void a_policys_timeout_lets_a_slower_answer_through(void **state) {
  (void)state;
  const struct script script = SCRIPT({.delay_ns = MS(200)});
  struct unary unaries[20];
  weir__test_server *server = serve(&script);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_TIMEOUT("1.2s"));
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  unary_start(&unaries[0], channel, queue, NULL);
  unary_wait(&unaries[0], queue);
  assert_int_equal(unaries[0].code, GRPC_STATUS_OK);
  unary_fini(&unaries[0]);
  for (size_t i = 0; i < COUNT_OF(unaries); i++) {
    unary_start(&unaries[i], channel, queue, NULL);
  }
  for (size_t i = 0; i < COUNT_OF(unaries); i++) {
    struct unary *unary = next_tag(queue);
    assert_int_equal(unary->code, GRPC_STATUS_OK);
    unary_fini(unary);
  }
  queue_end(queue);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

static void a_silent_server_is_given_the_whole_time_and_not_much_more(void **state) {
  (void)state;
  static const struct {
    const char *policy;
    int64_t timeout_ns; /* of the call */
    int64_t wanted_ns;
    enum weir_deadline_bound bound;
  } rows[] = {
      {POLICY_TIMEOUT("0.15s"), 0, MS(150), WEIR_DEADLINE_BOUND_POLICY},
      {POLICY_TIMEOUT("30s"), MS(120), MS(120), WEIR_DEADLINE_BOUND_CALL},
      {POLICY_TIMEOUT("0.1s"), SECONDS(30), MS(100), WEIR_DEADLINE_BOUND_POLICY},
      {"{" NO_BOUNDARY ",\"deadline\":{\"defaultTimeout\":\"0.08s\"}}", 0, MS(80),
       WEIR_DEADLINE_BOUND_POLICY},
      {"{" NO_BOUNDARY ",\"deadline\":{\"maxTimeout\":\"0.09s\"}}", SECONDS(30), MS(90),
       WEIR_DEADLINE_BOUND_POLICY},
  };
  struct odd_peer *peer = odd_peer_answering(NULL); /* it has no clock that could be early */
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    weir_channel *channel = channel_to(odd_peer_port(peer), rows[i].policy);
    struct unary unary;
    int64_t before_ns = now_ns();
    unary_run(&unary, channel, &(struct unary_setup){.timeout_ns = rows[i].timeout_ns});
    int64_t taken_ns = now_ns() - before_ns;
    assert_int_equal(unary.code, GRPC_STATUS_DEADLINE_EXCEEDED);
    assert_int_equal(unary.report.origin, WEIR_ORIGIN_LOCAL_DEADLINE);
    assert_int_equal(unary.report.deadline_bound, rows[i].bound);
    if (taken_ns < rows[i].wanted_ns) {
      fail_msg("%lld ns early", (long long)(rows[i].wanted_ns - taken_ns));
    }
    assert_true(taken_ns < rows[i].wanted_ns + GENEROUS);
    unary_fini(&unary);
    weir_channel_destroy(channel);
  }
  odd_peer_release(peer);
}

static void a_deadline_by_any_clock_is_kept(void **state) {
  (void)state;
  static const gpr_clock_type clocks[] = {GPR_CLOCK_MONOTONIC, GPR_CLOCK_REALTIME,
                                          GPR_CLOCK_PRECISE, GPR_TIMESPAN};
  const struct script script = SCRIPT(SILENT);
  weir__test_server *server = serve(&script);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_PLAIN);
  for (size_t i = 0; i < COUNT_OF(clocks); i++) {
    struct unary unary;
    int64_t before_ns = now_ns(); /* before the deadline is made: the call may begin well after */
    unary_run(&unary, channel, &(struct unary_setup){.timeout_ns = MS(60), .clock = &clocks[i]});
    int64_t taken_ns = now_ns() - before_ns;
    assert_int_equal(unary.code, GRPC_STATUS_DEADLINE_EXCEEDED);
    assert_true(taken_ns > MS(50));
    assert_true(taken_ns < GENEROUS);
    unary_fini(&unary);
  }
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

static void a_deadline_that_is_past_sends_nothing(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_OK});
  weir__test_server *server = serve(&script);
  weir_channel *channel = channel_to(weir__test_server_port(server), "{" NO_BOUNDARY "}");
  struct unary unary;
  unary_run(&unary, channel, &(struct unary_setup){.timeout_ns = -SECONDS(5)});
  assert_int_equal(unary.code, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(unary.report.n_attempts, 0);
  assert_int_equal(weir__test_server_n_calls(server), 0);
  unary_fini(&unary);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

/* --- what the server is told --- */

static void the_budget_shrinks_with_each_attempt_and_is_never_more_than_the_timeout(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_UNAVAILABLE, .delay_ns = MS(20)});
  weir__test_server *server = serve(&script);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_RETRY);
  struct unary unary;
  unary_run(&unary, channel, &(struct unary_setup){.timeout_ns = SECONDS(8)});
  assert_int_equal(unary.report.n_attempts, 3);
  int64_t last_us = SECONDS(8) / 1000 + 1;
  for (size_t i = 0; i < 3; i++) {
    struct weir__test_record record;
    assert_true(weir__test_server_record(server, i, &record));
    assert_true(record.budget_us > 0);
    assert_true(record.budget_us < last_us);
    /* What is left on arrival has to be more than the time on the way. */
    assert_true(record.deadline_in_ns > record.budget_us * 1000 - GENEROUS);
    last_us = record.budget_us - 20000;
  }
  unary_fini(&unary);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

/* In units of grpc-timeout. */
static int64_t unit_ns(char unit) {
  switch (unit) {
  case 'u':
    return 1000;
  case 'm':
    return WEIR_MS_NS;
  case 'S':
    return WEIR_SECOND_NS;
  case 'M':
    return 60 * WEIR_SECOND_NS;
  default:
    return 1;
  }
}

static void budget_and_grpc_timeout_tell_the_same_time(void **state) {
  (void)state;
  static const int64_t timeouts_ns[] = {MS(1500), MS(70), MS(29200), MS(59999), SECONDS(20)};
  const struct odd_script script = ODD_SCRIPT(ODD_ONLY(5), ODD_CLOSE);
  for (size_t i = 0; i < COUNT_OF(timeouts_ns); i++) {
    struct odd_peer *peer = odd_peer_answering(&script);
    weir_channel *channel = channel_to(odd_peer_port(peer), POLICY_PLAIN);
    struct odd_request request;
    char timeout[16];
    char budget[24];
    char *unit = NULL;
    struct unary unary;
    do {
      unary_run(&unary, channel, &(struct unary_setup){.timeout_ns = timeouts_ns[i]});
      unary_fini(&unary);
    } while (
        !odd_peer_request(peer, 0, &request)); /* 70 ms may pass before there is a connection */
    assert_true(odd_request_value(&request, "grpc-timeout", timeout, sizeof timeout));
    assert_true(odd_request_value(&request, "weir-budget-us", budget, sizeof budget));
    int64_t timeout_ns = strtoll(timeout, &unit, 10) * unit_ns(*unit);
    int64_t budget_ns = strtoll(budget, NULL, 10) * 1000;
    assert_true(budget_ns > 0 && budget_ns <= timeouts_ns[i]);
    /* The core tells it later, so less; and rounds it up, so more. */
    assert_true(timeout_ns > budget_ns - GENEROUS);
    assert_true(timeout_ns <= timeouts_ns[i] * 103 / 100 + SECONDS(1));
    weir_channel_destroy(channel);
    odd_peer_release(peer);
  }
}

/* The core rounds 29.2 s up and sends what was sent before if it is within 3 %; the budget is
 * exact. */
static void the_budget_is_exact_where_grpc_timeout_is_not(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_OK});
  weir__test_server *server = serve(&script);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_PLAIN);
  static const int64_t timeouts_ns[] = {MS(30000), MS(29200)};
  for (size_t i = 0; i < COUNT_OF(timeouts_ns); i++) {
    struct weir__test_record record;
    struct unary unary;
    unary_run(&unary, channel, &(struct unary_setup){.timeout_ns = timeouts_ns[i]});
    assert_true(weir__test_server_record(server, i, &record));
    assert_true(record.budget_us <= timeouts_ns[i] / 1000);
    assert_true(record.budget_us > (timeouts_ns[i] - GENEROUS) / 1000);
    unary_fini(&unary);
  }
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

/* --- a call made while serving another --- */

/* What the service in the middle does for each request. */
struct middle {
  weir_channel *channel; /* to the next service */
  pthread_mutex_t mutex;
  struct weir_call_report report; /* of its last call */
};

static void relay(void *context, const struct weir__test_served *served,
                  struct weir__test_reply *reply) {
  struct middle *middle = context;
  weir_inbound *inbound = NULL;
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply answer = WEIR_UNARY_REPLY_INIT;
  if (weir_inbound_new(served->details, served->metadata, served->call, NULL, &inbound) !=
      WEIR_OK) {
    return;
  }
  request.method = OTHER_METHOD;
  request.message = message_of("from the middle");
  request.inbound = inbound;
  if (weir_unary(middle->channel, &request, &answer) == WEIR_OK) {
    weir__test_reply_status(reply, answer.code, "relayed");
    (void)pthread_mutex_lock(&middle->mutex);
    middle->report = answer.report;
    (void)pthread_mutex_unlock(&middle->mutex);
  }
  weir_unary_reply_fini(&answer);
  weir_inbound_release(inbound);
  grpc_byte_buffer_destroy(request.message);
}

/* A chain: a client, the service in the middle, and the last one. */
struct chain {
  weir__test_server *last;
  struct counted_random random;
  struct middle middle;
  weir__test_server *first;
  grpc_channel *bare; /* to the first */
};

static void chain_open(struct chain *chain, const struct script *script, const char *policy) {
  memset(chain, 0, sizeof *chain);
  (void)pthread_mutex_init(&chain->middle.mutex, NULL);
  chain->last = serve(script);
  counted_random_init(&chain->random);
  chain->middle.channel =
      channel_new(&(struct channel_setup){.port = weir__test_server_port(chain->last),
                                          .policy = policy,
                                          .random = &chain->random.base});
  chain->first = weir__test_server_new(relay, &chain->middle, 0);
  chain->bare =
      weir__bare_channel_create(weir__test_server_port(chain->first), WEIR__CORE_RETRIES_OFF, NULL);
}

static void chain_close(struct chain *chain) {
  grpc_channel_destroy(chain->bare);
  weir__test_server_release(chain->first); /* its handlers have ended */
  weir_channel_destroy(chain->middle.channel);
  weir__test_server_release(chain->last);
  counted_random_fini(&chain->random);
  (void)pthread_mutex_destroy(&chain->middle.mutex);
}

/* The client's call, on the bare core, so that it can be given up. */
struct root {
  grpc_completion_queue *queue;
  grpc_call *call;
  grpc_byte_buffer *message;
  grpc_byte_buffer *response;
  grpc_metadata_array initial;
  grpc_metadata_array trailing;
  grpc_slice details;
  grpc_status_code code;
};

static void root_start(struct root *root, grpc_channel *channel, int64_t timeout_ns,
                       grpc_metadata *metadata) {
  grpc_op ops[6];
  memset(root, 0, sizeof *root);
  memset(ops, 0, sizeof ops);
  root->details = grpc_empty_slice();
  root->message = message_of("from the root");
  root->queue = grpc_completion_queue_create_for_pluck(NULL);
  root->call = grpc_channel_create_call(
      channel, NULL, 0, root->queue, grpc_slice_from_static_string(METHOD), NULL,
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(timeout_ns, GPR_TIMESPAN)),
      NULL);
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[0].data.send_initial_metadata.metadata = metadata;
  ops[0].data.send_initial_metadata.count = metadata != NULL ? 1 : 0;
  ops[1].op = GRPC_OP_SEND_MESSAGE;
  ops[1].data.send_message.send_message = root->message;
  ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
  ops[3].data.recv_initial_metadata.recv_initial_metadata = &root->initial;
  ops[4].op = GRPC_OP_RECV_MESSAGE;
  ops[4].data.recv_message.recv_message = &root->response;
  ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  ops[5].data.recv_status_on_client.trailing_metadata = &root->trailing;
  ops[5].data.recv_status_on_client.status = &root->code;
  ops[5].data.recv_status_on_client.status_details = &root->details;
  assert_int_equal(grpc_call_start_batch(root->call, ops, COUNT_OF(ops), root, NULL), GRPC_CALL_OK);
}

static grpc_status_code root_finish(struct root *root) {
  (void)grpc_completion_queue_pluck(root->queue, root, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  grpc_metadata_array_destroy(&root->initial);
  grpc_metadata_array_destroy(&root->trailing);
  grpc_byte_buffer_destroy(root->message);
  grpc_byte_buffer_destroy(root->response);
  grpc_slice_unref(root->details);
  grpc_call_unref(root->call);
  grpc_completion_queue_shutdown(root->queue);
  grpc_completion_queue_destroy(root->queue);
  return root->code;
}

static void the_parents_deadline_bounds_the_child(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_OK});
  struct chain chain;
  struct weir__test_record record;
  struct root root;
  chain_open(&chain, &script, POLICY_PLAIN);
  root_start(&root, chain.bare, SECONDS(4), NULL);
  assert_int_equal(root_finish(&root), GRPC_STATUS_OK);
  assert_true(weir__test_server_record(chain.last, 0, &record));
  assert_true(record.budget_us > 0);
  assert_true(record.budget_us <= SECONDS(4) * 103 / 100 / 1000); /* grpc-timeout is 3 % coarse */
  assert_true(record.deadline_in_ns <= SECONDS(4) * 107 / 100);
  chain_close(&chain);
}

static void a_budget_that_is_nearer_than_grpc_timeout_bounds_the_child(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_OK});
  struct chain chain;
  struct weir__test_record record;
  struct root root;
  grpc_metadata budget = weir__metadata_from_text("weir-budget-us", "2000000");
  chain_open(&chain, &script, POLICY_PLAIN);
  root_start(&root, chain.bare, SECONDS(30), &budget);
  assert_int_equal(root_finish(&root), GRPC_STATUS_OK);
  assert_true(weir__test_server_record(chain.last, 0, &record));
  assert_true(record.budget_us > 0);
  assert_true(record.budget_us <= 2000000);
  chain_close(&chain);
  grpc_slice_unref(budget.key);
  grpc_slice_unref(budget.value);
}

static void the_margin_is_kept_back_from_the_parents_deadline(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_OK});
  struct chain chain;
  struct weir__test_record record;
  struct root root;
  chain_open(&chain, &script,
             "{" NO_BOUNDARY "," NO_BREAKER ",\"deadline\":{\"deadlineMargin\":\"3s\"}}");
  root_start(&root, chain.bare, SECONDS(5), NULL);
  assert_int_equal(root_finish(&root), GRPC_STATUS_OK);
  assert_true(weir__test_server_record(chain.last, 0, &record));
  assert_true(record.budget_us <= SECONDS(5) * 103 / 100 / 1000 - SECONDS(3) / 1000);
  chain_close(&chain);
}

static void a_parent_that_retries_is_the_only_one_who_does(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct chain chain;
  struct weir__test_record record;
  struct root root;
  grpc_metadata owner = weir__metadata_from_text("weir-retry-owner", "the-root");
  chain_open(&chain, &script, POLICY_RETRY);
  root_start(&root, chain.bare, SECONDS(30), &owner);
  assert_int_equal(root_finish(&root), GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(weir__test_server_n_calls(chain.last), 1);
  assert_true(weir__test_server_record(chain.last, 0, &record));
  assert_string_equal(record.retry_owner, "the-root");
  chain_close(&chain);
  grpc_slice_unref(owner.key);
  grpc_slice_unref(owner.value);
}

static void the_parents_cancellation_reaches_the_child_in_an_attempt(void **state) {
  (void)state;
  const struct script script = SCRIPT(SILENT);
  struct chain chain;
  struct root root;
  chain_open(&chain, &script, POLICY_PLAIN);
  root_start(&root, chain.bare, SECONDS(60), NULL);
  assert_true(weir__test_server_wait_calls(chain.last, 1));
  assert_int_equal(grpc_call_cancel(root.call, NULL), GRPC_CALL_OK);
  assert_int_equal(root_finish(&root), GRPC_STATUS_CANCELLED);
  assert_true(weir__test_server_wait_cancelled(chain.last, 1));
  chain_close(&chain);
  assert_int_equal(chain.middle.report.origin, WEIR_ORIGIN_LOCAL_CANCEL);
  assert_int_equal(chain.middle.report.code, GRPC_STATUS_CANCELLED);
}

static void the_parents_cancellation_reaches_the_child_in_its_backoff(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct chain chain;
  struct root root;
  chain_open(&chain, &script, POLICY_LONG_BACKOFF);
  root_start(&root, chain.bare, SECONDS(60), NULL);
  assert_true(counted_random_wait(&chain.random, 1));
  int64_t before_ns = now_ns();
  assert_int_equal(grpc_call_cancel(root.call, NULL), GRPC_CALL_OK);
  assert_int_equal(root_finish(&root), GRPC_STATUS_CANCELLED);
  chain_close(&chain); /* waits for the handler, and so for its call */
  assert_true(now_ns() - before_ns < GENEROUS);
  assert_int_equal(chain.middle.report.origin, WEIR_ORIGIN_LOCAL_CANCEL);
  assert_int_equal(chain.middle.report.n_attempts, 1);
}

static void the_parents_deadline_that_is_over_is_the_parents(void **state) {
  (void)state;
  const struct script script = SCRIPT(SILENT);
  struct chain chain;
  struct root root;
  chain_open(&chain, &script, "{" NO_BREAKER "}"); /* a boundary */
  root_start(&root, chain.bare, MS(150), NULL);
  assert_int_equal(root_finish(&root), GRPC_STATUS_DEADLINE_EXCEEDED);
  chain_close(&chain);
  /* Its own deadline, or the cancellation that the parent's brings: whichever was first. */
  assert_true(chain.middle.report.origin == WEIR_ORIGIN_LOCAL_CANCEL ||
              (chain.middle.report.origin == WEIR_ORIGIN_LOCAL_DEADLINE &&
               chain.middle.report.deadline_bound == WEIR_DEADLINE_BOUND_PARENT &&
               chain.middle.report.code == GRPC_STATUS_DEADLINE_EXCEEDED));
}

static void a_slow_service_is_unavailable_to_a_caller_who_has_time(void **state) {
  (void)state;
  const struct script script = SCRIPT(SILENT);
  struct chain chain;
  struct root root;
  chain_open(&chain, &script, "{" NO_BREAKER "," METHODS("\"timeout\":\"0.1s\"") "}");
  root_start(&root, chain.bare, SECONDS(30), NULL);
  assert_int_equal(root_finish(&root), GRPC_STATUS_UNAVAILABLE);
  chain_close(&chain);
  assert_int_equal(chain.middle.report.raw_code, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_true(chain.middle.report.do_not_retry);
}

/* --- retries within the time --- */

static void a_backoff_that_does_not_fit_ends_the_call_at_once_with_the_real_status(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  weir__test_server *server = serve(&script);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_LONG_BACKOFF);
  struct unary unary;
  int64_t before_ns = now_ns();
  unary_run(&unary, channel, &(struct unary_setup){.timeout_ns = SECONDS(20)});
  assert_true(now_ns() - before_ns < GENEROUS);
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_text(unary.details, "the real reason");
  assert_int_equal(unary.report.reason, WEIR_REASON_BUDGET);
  assert_int_equal(weir__test_server_n_calls(server), 1);
  unary_fini(&unary);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

static void the_timeout_is_for_all_attempts_together(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_UNAVAILABLE, .delay_ns = MS(150)});
  weir__test_server *server = serve(&script);
  weir_channel *channel =
      channel_to(weir__test_server_port(server),
                 "{" NO_BOUNDARY "," NO_BREAKER
                 "," METHODS("\"timeout\":\"0.4s\"," RETRY("5", "0.001s", UNAVAILABLE)) "}");
  struct unary unary;
  int64_t before_ns = now_ns();
  unary_run(&unary, channel, NULL);
  int64_t taken_ns = now_ns() - before_ns;
  assert_true(taken_ns < MS(400) + GENEROUS);
  assert_true(unary.report.n_attempts <= 3); /* 150 ms each */
  assert_true(unary.code == GRPC_STATUS_DEADLINE_EXCEEDED || unary.code == GRPC_STATUS_UNAVAILABLE);
  unary_fini(&unary);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

/* Both ways of telling it; 2 s for attempts of 0.7 s each. */
static void each_attempt_is_told_what_the_ones_before_have_left(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_UNAVAILABLE, .delay_ns = MS(700)});
  weir__test_server *server = serve(&script);
  weir_channel *channel =
      channel_to(weir__test_server_port(server),
                 "{" NO_BOUNDARY "," NO_BREAKER
                 "," METHODS("\"timeout\":\"2s\"," RETRY("5", "0.001s", UNAVAILABLE)) "}");
  struct unary unary;
  unary_run(&unary, channel, NULL);
  size_t n_calls = weir__test_server_n_calls(server);
  assert_in_range(n_calls, 1, 3);
  assert_int_equal(unary.report.n_attempts, n_calls);
  struct weir__test_record last = {.budget_us = 2700001, .deadline_in_ns = MS(2900)};
  for (size_t i = 0; i < n_calls; i++) {
    struct weir__test_record record;
    assert_true(weir__test_server_record(server, i, &record));
    /* grpc-timeout is coarse, by a few hundredths */
    assert_true(record.budget_us < last.budget_us - 700000);
    assert_true(record.deadline_in_ns < last.deadline_in_ns - MS(600));
    last = record;
  }
  assert_true(unary.code == GRPC_STATUS_DEADLINE_EXCEEDED || unary.code == GRPC_STATUS_UNAVAILABLE);
  assert_true(unary.report.total_ns < SECONDS(2) + GENEROUS);
  assert_int_equal(unary.report.attempts_ns + unary.report.backoff_ns + unary.report.queued_ns,
                   unary.report.total_ns);
  unary_fini(&unary);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

static void a_pushback_that_does_not_fit_ends_the_call_at_once_with_the_real_status(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_UNAVAILABLE,
                                       .text = "the real reason",
                                       .trailing = {{"grpc-retry-pushback-ms", "30000"}}});
  weir__test_server *server = serve(&script);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_RETRY);
  struct unary unary;
  unary_run(&unary, channel, &(struct unary_setup){.timeout_ns = SECONDS(20)});
  assert_true(unary.report.total_ns < SECONDS(20));
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_text(unary.details, "the real reason");
  assert_int_equal(unary.report.reason, WEIR_REASON_BUDGET);
  assert_int_equal(unary.report.backoff_ns, 0);
  assert_int_equal(weir__test_server_n_calls(server), 1);
  unary_fini(&unary);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

/* What a parent has left is less than the margin that is kept of it. */
static void a_margin_larger_than_what_is_left_sends_nothing(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_OK});
  struct chain chain;
  struct root root;
  chain_open(&chain, &script,
             "{" NO_BOUNDARY "," NO_BREAKER ",\"deadline\":{\"deadlineMargin\":\"60s\"}}");
  root_start(&root, chain.bare, SECONDS(20), NULL);
  (void)root_finish(&root);
  assert_int_equal(weir__test_server_n_calls(chain.last), 0);
  chain_close(&chain);
  assert_int_equal(chain.middle.report.raw_code, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(chain.middle.report.deadline_bound, WEIR_DEADLINE_BOUND_PARENT);
  assert_int_equal(chain.middle.report.reason, WEIR_REASON_DEADLINE);
  assert_int_equal(chain.middle.report.n_attempts, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_policys_timeout_lets_a_slower_answer_through), /* first of all */
      cmocka_unit_test(a_silent_server_is_given_the_whole_time_and_not_much_more),
      cmocka_unit_test(a_deadline_by_any_clock_is_kept),
      cmocka_unit_test(a_deadline_that_is_past_sends_nothing),
      cmocka_unit_test(the_budget_shrinks_with_each_attempt_and_is_never_more_than_the_timeout),
      cmocka_unit_test(budget_and_grpc_timeout_tell_the_same_time),
      cmocka_unit_test(the_budget_is_exact_where_grpc_timeout_is_not),
      cmocka_unit_test(the_parents_deadline_bounds_the_child),
      cmocka_unit_test(a_budget_that_is_nearer_than_grpc_timeout_bounds_the_child),
      cmocka_unit_test(the_margin_is_kept_back_from_the_parents_deadline),
      cmocka_unit_test(a_parent_that_retries_is_the_only_one_who_does),
      cmocka_unit_test(the_parents_cancellation_reaches_the_child_in_an_attempt),
      cmocka_unit_test(the_parents_cancellation_reaches_the_child_in_its_backoff),
      cmocka_unit_test(the_parents_deadline_that_is_over_is_the_parents),
      cmocka_unit_test(a_slow_service_is_unavailable_to_a_caller_who_has_time),
      cmocka_unit_test(a_backoff_that_does_not_fit_ends_the_call_at_once_with_the_real_status),
      cmocka_unit_test(the_timeout_is_for_all_attempts_together),
      cmocka_unit_test(each_attempt_is_told_what_the_ones_before_have_left),
      cmocka_unit_test(a_pushback_that_does_not_fit_ends_the_call_at_once_with_the_real_status),
      cmocka_unit_test(a_margin_larger_than_what_is_left_sends_nothing),
  };
  return cmocka_run_group_tests_name("deadline", tests, start_core, stop_core);
}
