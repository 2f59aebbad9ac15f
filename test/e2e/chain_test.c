/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include <weir/weir.h>

#include "test/e2e/chain/chain.h"
#include "test/e2e/fixture.h"
#include "test/e2e/shaped_call.h"
#include "test/e2e/support/bare_call.h"
#include "test/e2e/support/metadata.h"

#define NUMBER_SIZE 24
#define N_TRIES 3

/* Calls of the client's at once, where it matters that there are several. */
#define N_CALLS 4

/* Of a call that has a connection to use: enough to get to C on a busy machine. */
#define SHORT_TIME MS(1500)

/* A call that is not about its deadline. */
#define LONG_TIME SECONDS(30)

/* Each hop has a document of its own. Breakers are for the test that is about one. The slack is for
 * machines that are busy: a hop whose core reads grpc-timeout while it is held up has its deadline
 * too early by as long, and the one before it has to see that it was its own time. */
#define POLICY(name, fields) "{\"name\":\"" name "\"" fields "}"
#define SLACK "\"deadlineSlack\":\"1s\""
#define CALM "," NO_BREAKER ",\"deadline\":{" SLACK "}"
#define TRIES "," METHODS(RETRY("3", "0.005s", UNAVAILABLE))
#define ASK(fields) \
  "\"methodConfig\":[{\"name\":[{\"service\":\"chain.Service\",\"method\":\"Ask\"}]," fields "}]"
#define ALWAYS ",\"retry\":{\"owner\":\"ALWAYS\"}"

#define CLIENT_ONCE POLICY("client", CALM)
#define CLIENT_TRIES POLICY("client", CALM TRIES)
#define A_ONCE POLICY("a", CALM)
#define A_TRIES POLICY("a", CALM TRIES)
#define B_ONCE POLICY("b", CALM)
#define B_TRIES POLICY("b", CALM TRIES)
#define NO_WEIR NULL

static const struct chain_order refuses = {.n_failures = CHAIN_ALWAYS,
                                           .failure = GRPC_STATUS_UNAVAILABLE};
static const struct chain_order hangs = {.delay_ns = CHAIN_FOREVER};
static const struct chain_order works = {.n_failures = 0};

/* The client, and the chain that it calls. */
struct scene {
  struct chain chain;
  weir_channel *client;
  weir_completion_queue *queue;
  size_t n_before[N_HOPS]; /* requests that a test does not count */
};

static int scene_new(void **state) {
  *state = calloc(1, sizeof(struct scene));
  return *state == NULL ? -1 : 0;
}

/* After a test that has failed too: no process is left. */
static int scene_release(void **state) {
  struct scene *scene = *state;
  chain_kill(&scene->chain);
  free(scene);
  return 0;
}

static void scene_open(struct scene *scene, const char *client, const char *a, const char *b) {
  chain_open(&scene->chain, &(struct chain_policies){.a = a, .b = b});
  scene->client = channel_to(scene->chain.hops[HOP_A].port, client);
  scene->queue = weir_completion_queue_create_for_next(NULL);
}

static void client_end(struct scene *scene) {
  queue_end(scene->queue);
  weir_channel_destroy(scene->client);
}

/* What no test wants, whatever it is about. */
static void scene_close(struct scene *scene) {
  client_end(scene);
  chain_close(&scene->chain);
  chain_assert_nothing_late(&scene->chain);
}

/* --- the client's calls --- */

struct root {
  grpc_metadata number;
  struct unary unary;
};

static grpc_metadata root_entry(int64_t number) {
  char text[NUMBER_SIZE];
  (void)snprintf(text, sizeof text, "%" PRId64, number);
  return weir__metadata_from_text(CHAIN_ROOT_KEY, text);
}

static void entry_fini(grpc_metadata *entry) {
  grpc_slice_unref(entry->key);
  grpc_slice_unref(entry->value);
}

static void root_start(struct root *root, struct scene *scene, const char *method,
                       int64_t timeout_ns) {
  root->number = root_entry(chain_new_root(&scene->chain, timeout_ns));
  unary_start(
      &root->unary, scene->client, scene->queue,
      &(struct unary_setup){
          .method = method, .metadata = &root->number, .n_metadata = 1, .timeout_ns = timeout_ns});
}

static void roots_start(struct root roots[N_CALLS], struct scene *scene, int64_t timeout_ns) {
  for (size_t i = 0; i < N_CALLS; i++) {
    root_start(&roots[i], scene, CHAIN_ASK, timeout_ns);
  }
}

static void root_fini(struct root *root) {
  unary_fini(&root->unary);
  entry_fini(&root->number);
}

/* Waits for as many calls as have been started, all of which are to end so. */
static void await_roots(struct scene *scene, size_t n_roots, grpc_status_code code) {
  for (size_t i = 0; i < n_roots; i++) {
    struct unary *unary = next_tag(scene->queue);
    assert_non_null(unary);
    unary_read_report(unary);
    if (unary->code != code) {
      fail_msg("a call got %d, in origin %d, from %d, after %" PRId64 " ms", (int)unary->code,
               (int)unary->report.raw_code, (int)unary->report.origin,
               unary->report.total_ns / MS(1));
    }
  }
}

static void roots_end(struct root roots[N_CALLS], struct scene *scene, grpc_status_code code) {
  await_roots(scene, N_CALLS, code);
  for (size_t i = 0; i < N_CALLS; i++) {
    root_fini(&roots[i]);
  }
}

/* A call, from its start to its end. */
static void root_run(struct root *root, struct scene *scene, const char *method) {
  root_start(root, scene, method, LONG_TIME);
  assert_ptr_equal(next_tag(scene->queue), &root->unary);
  unary_read_report(&root->unary);
}

static void run_and_forget(struct scene *scene, const char *method, grpc_status_code code) {
  struct root root;
  root_run(&root, scene, method);
  assert_int_equal(root.unary.code, code);
  root_fini(&root);
}

static size_t n_arrived(const struct scene *scene, enum hop_name hop) {
  return chain_count(&scene->chain, hop, CHAIN_ARRIVED) - scene->n_before[hop];
}

static void assert_arrived(const struct scene *scene, size_t n_at_a, size_t n_at_b, size_t n_at_c) {
  assert_int_equal(n_arrived(scene, HOP_A), n_at_a);
  assert_int_equal(n_arrived(scene, HOP_B), n_at_b);
  assert_int_equal(n_arrived(scene, HOP_C), n_at_c);
}

/* What has come so far does not count. */
static void count_from_here(struct scene *scene) {
  chain_await_idle(&scene->chain);
  for (size_t i = 0; i < N_HOPS; i++) {
    scene->n_before[i] = chain_count(&scene->chain, (enum hop_name)i, CHAIN_ARRIVED);
  }
}

/* Has every hop connect to the next: from then on, what is sent leaves at once, though nobody drains
 * the client's queue, and a short time is enough to get to C. */
static void connect_all(struct scene *scene) {
  run_and_forget(scene, CHAIN_HELLO, GRPC_STATUS_OK);
  count_from_here(scene);
}

static bool is_in(grpc_slice slice, const char *text) {
  char *terminated = grpc_slice_to_c_string(slice);
  bool found = strstr(terminated, text) != NULL;
  gpr_free(terminated);
  return found;
}

/* --- calls at C for one of the client's --- */

/* One call of the client's to a C that is never available. */
static void refuse_one(struct scene *scene, const char *client, const char *a, const char *b) {
  scene_open(scene, client, a, b);
  chain_order(&scene->chain, &refuses);
  run_and_forget(scene, CHAIN_ASK, GRPC_STATUS_UNAVAILABLE);
  scene_close(scene);
}

static void three_tries_at_every_hop_are_three_calls_at_the_last(void **state) {
  struct scene *scene = *state;
  refuse_one(scene, CLIENT_TRIES, A_TRIES, B_TRIES);
  assert_arrived(scene, 3, 3, 3);
  for (size_t i = 0; i < N_TRIES; i++) {
    assert_string_equal(chain_event(&scene->chain, HOP_C, CHAIN_ARRIVED, i)->retry_owner, "client");
    assert_int_equal(chain_event(&scene->chain, HOP_B, CHAIN_ASKED, i)->reason,
                     WEIR_REASON_NOT_OWNER);
  }
}

/* What weir is for: the same programs, told to retry whoever else does. */
static void three_tries_that_every_hop_owns_are_twenty_seven(void **state) {
  struct scene *scene = *state;
  refuse_one(scene, POLICY("client", CALM TRIES ALWAYS), POLICY("a", CALM TRIES ALWAYS),
             POLICY("b", CALM TRIES ALWAYS));
  assert_arrived(scene, 3, 9, 27);
}

static void the_outermost_hop_that_may_retry_does(void **state) {
  struct scene *scene = *state;
  refuse_one(scene, CLIENT_ONCE, A_TRIES, B_TRIES);
  assert_arrived(scene, 1, 3, 3);
  assert_string_equal(chain_event(&scene->chain, HOP_C, CHAIN_ARRIVED, 0)->retry_owner, "a");
}

static void the_last_hop_that_may_retry_does_if_no_other_may(void **state) {
  struct scene *scene = *state;
  refuse_one(scene, CLIENT_ONCE, A_ONCE, B_TRIES);
  assert_arrived(scene, 1, 1, 3);
}

static void a_failure_that_passes_is_not_seen_by_the_client(void **state) {
  struct scene *scene = *state;
  scene_open(scene, CLIENT_TRIES, A_TRIES, B_TRIES);
  chain_order(&scene->chain,
              &(struct chain_order){.n_failures = 2, .failure = GRPC_STATUS_UNAVAILABLE});
  run_and_forget(scene, CHAIN_HELLO, GRPC_STATUS_OK);
  scene_close(scene);
  assert_arrived(scene, 3, 3, 3);
}

/* B can't know that the client retries, and makes three of each of its calls. */
static void a_silent_hop_in_the_middle_makes_nine(void **state) {
  struct scene *scene = *state;
  refuse_one(scene, CLIENT_TRIES, NO_WEIR, B_TRIES);
  assert_arrived(scene, 3, 3, 9);
  assert_string_equal(chain_event(&scene->chain, HOP_A, CHAIN_ARRIVED, 0)->retry_owner, "client");
  assert_string_equal(chain_event(&scene->chain, HOP_B, CHAIN_ARRIVED, 0)->retry_owner, "");
  assert_string_equal(chain_event(&scene->chain, HOP_C, CHAIN_ARRIVED, 0)->retry_owner, "b");
}

/* Nobody behind it retries. */
static void a_silent_hop_before_the_last_makes_three(void **state) {
  struct scene *scene = *state;
  refuse_one(scene, CLIENT_TRIES, A_TRIES, NO_WEIR);
  assert_arrived(scene, 3, 3, 3);
}

/* A client of the bare core that asks up to three times; `marks`: it says which time it is. */
static void ask_thrice(struct scene *scene, bool marks) {
  grpc_channel *channel =
      weir__bare_channel_create(scene->chain.hops[HOP_A].port, WEIR__CORE_RETRIES_OFF, NULL);
  grpc_metadata metadata[2] = {root_entry(chain_new_root(&scene->chain, LONG_TIME))};
  for (int i = 0; i < N_TRIES; i++) {
    char attempts[NUMBER_SIZE];
    struct weir__bare_reply reply;
    struct weir__bare_request request = {.method = CHAIN_ASK,
                                         .message = message_of("please"),
                                         .metadata = metadata,
                                         .n_metadata = marks && i > 0 ? 2 : 1,
                                         .deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC)};
    (void)snprintf(attempts, sizeof attempts, "%d", i);
    metadata[1] = weir__metadata_from_text("grpc-previous-rpc-attempts", attempts);
    weir__bare_unary(channel, &request, &reply);
    assert_int_equal(reply.code, GRPC_STATUS_UNAVAILABLE);
    weir__bare_reply_fini(&reply);
    grpc_byte_buffer_destroy(request.message);
    entry_fini(&metadata[1]);
  }
  entry_fini(&metadata[0]);
  grpc_channel_destroy(channel);
}

static void refuse_thrice(struct scene *scene, bool marks) {
  scene_open(scene, CLIENT_ONCE, A_TRIES, B_TRIES);
  chain_order(&scene->chain, &refuses);
  ask_thrice(scene, marks);
  scene_close(scene);
}

/* A first attempt looks like a call of a client that does not retry: A owns it. The client's second
 * and third say what they are. */
static void a_client_without_weir_that_marks_its_retries_makes_five(void **state) {
  struct scene *scene = *state;
  refuse_thrice(scene, true);
  assert_arrived(scene, 3, 5, 5);
  assert_string_equal(chain_event(&scene->chain, HOP_C, CHAIN_ARRIVED, 2)->retry_owner, "a");
  assert_string_equal(chain_event(&scene->chain, HOP_C, CHAIN_ARRIVED, 4)->retry_owner, "upstream");
}

static void a_client_without_weir_that_marks_nothing_makes_nine(void **state) {
  struct scene *scene = *state;
  refuse_thrice(scene, false);
  assert_arrived(scene, 3, 9, 9);
}

/* --- what is left of the time --- */

/* What a hop had left when it asked the next. It was told `before` when the request came; `asked_at`
 * is rather early than late, so that this is rather too much. */
static int64_t left_us(const struct chain_event *before, int64_t asked_at_ns) {
  return before->budget_us - (asked_at_ns - before->at_ns) / 1000;
}

static void assert_budget_within(const struct chain_event *next, int64_t left) {
  assert_true(next->budget_us >= 0);
  if (next->budget_us > left) {
    fail_msg("%" PRId64 " us, of %" PRId64, next->budget_us, left);
  }
}

static const struct chain_event *arrival(const struct scene *scene, enum hop_name hop, size_t i) {
  return chain_event(&scene->chain, hop, CHAIN_ARRIVED, i);
}

static const struct chain_event *attempt(const struct scene *scene, enum hop_name hop, size_t i) {
  return chain_event(&scene->chain, hop, CHAIN_TRIED, i);
}

static void budgets_shrink_hop_by_hop_and_attempt_by_attempt(void **state) {
  struct scene *scene = *state;
  refuse_one(scene, CLIENT_TRIES, A_TRIES, B_TRIES);
  assert_arrived(scene, 3, 3, 3);
  int64_t left = LONG_TIME / 1000;
  for (size_t i = 0; i < N_TRIES; i++) {
    assert_int_equal(arrival(scene, HOP_A, i)->previous_attempts, i == 0 ? -1 : (int64_t)i);
    assert_budget_within(arrival(scene, HOP_A, i), left);
    assert_budget_within(arrival(scene, HOP_B, i),
                         left_us(arrival(scene, HOP_A, i), attempt(scene, HOP_A, i)->at_ns));
    assert_budget_within(arrival(scene, HOP_C, i),
                         left_us(arrival(scene, HOP_B, i), attempt(scene, HOP_B, i)->at_ns));
    /* The next attempt comes after this one has been at C. */
    left = arrival(scene, HOP_C, i)->budget_us - 1;
  }
}

static void attempts_of_a_hop_in_the_middle_share_what_its_caller_has_left(void **state) {
  struct scene *scene = *state;
  refuse_one(scene, CLIENT_ONCE, A_TRIES, B_TRIES);
  assert_arrived(scene, 1, 3, 3);
  for (size_t i = 0; i < N_TRIES; i++) {
    assert_budget_within(arrival(scene, HOP_B, i),
                         left_us(arrival(scene, HOP_A, 0), attempt(scene, HOP_A, i)->at_ns));
    assert_budget_within(arrival(scene, HOP_C, i),
                         left_us(arrival(scene, HOP_B, i), attempt(scene, HOP_B, i)->at_ns));
  }
}

static void a_margin_is_kept_back_from_all_behind_it(void **state) {
  struct scene *scene = *state;
  refuse_one(scene, CLIENT_TRIES,
             POLICY("a", "," NO_BREAKER TRIES ",\"deadline\":{\"deadlineMargin\":\"5s\"}"),
             B_TRIES);
  for (size_t i = 0; i < N_TRIES; i++) {
    int64_t left = left_us(arrival(scene, HOP_A, i), attempt(scene, HOP_A, i)->at_ns);
    assert_budget_within(arrival(scene, HOP_B, i), left - SECONDS(5) / 1000);
    assert_budget_within(arrival(scene, HOP_C, i),
                         left_us(arrival(scene, HOP_B, i), attempt(scene, HOP_B, i)->at_ns));
  }
}

/* The core hands the deadline on by itself, as grpc-timeout, which it rounds up. */
static void a_silent_hop_still_hands_the_cores_deadline_on(void **state) {
  struct scene *scene = *state;
  refuse_one(scene, CLIENT_ONCE, NO_WEIR, B_ONCE);
  assert_int_equal(arrival(scene, HOP_B, 0)->budget_us, -1);
  assert_in_range(arrival(scene, HOP_B, 0)->timeout_ns, 1, LONG_TIME * 107 / 100);
  assert_in_range(arrival(scene, HOP_C, 0)->budget_us, 1, LONG_TIME * 107 / 100 / 1000);
}

/* --- what goes wrong while calls are under way --- */

static void assert_deadline_at_the_root(const struct root *root) {
  assert_int_equal(root->unary.report.origin, WEIR_ORIGIN_LOCAL_DEADLINE);
  assert_int_equal(root->unary.report.n_attempts, 1);
  assert_false(is_in(root->unary.details, CHAIN_SECRET));
}

static void a_service_that_hangs_holds_nobody_past_the_roots_deadline(void **state) {
  struct scene *scene = *state;
  struct root roots[N_CALLS];
  scene_open(scene, CLIENT_TRIES, A_TRIES, B_TRIES);
  connect_all(scene);
  chain_order(&scene->chain, &hangs);
  roots_start(roots, scene, SHORT_TIME);
  await_roots(scene, N_CALLS, GRPC_STATUS_DEADLINE_EXCEEDED);
  chain_await_idle(&scene->chain);
  for (size_t i = 0; i < N_CALLS; i++) {
    assert_deadline_at_the_root(&roots[i]);
    root_fini(&roots[i]);
  }
  scene_close(scene);
  assert_true(n_arrived(scene, HOP_C) <= N_CALLS);
}

/* --- processes that are stopped, and go on --- */

/* The roots' time is over, and all who run know it. */
static void await_deadline_everywhere(struct scene *scene, struct root *roots) {
  roots_end(roots, scene, GRPC_STATUS_DEADLINE_EXCEEDED);
  chain_await_idle(&scene->chain);
}

/* A call that takes its time, since a hop is stopped: what has been written before it has arrived
 * once it is over, and who had a little longer than the client has seen its end too. It is late
 * itself, and not looked at. */
static void let_time_pass(struct scene *scene) {
  struct root root;
  root_start(&root, scene, CHAIN_HELLO, SHORT_TIME / 3);
  scene->chain.root_deadlines_at_ns[scene->chain.n_roots - 1] += LONG_TIME;
  await_roots(scene, 1, GRPC_STATUS_DEADLINE_EXCEEDED);
  root_fini(&root);
}

/* Has a hop go on, and the client ask again. Its request comes behind all that waited for the hop,
 * so once it is answered, those have been looked at. */
static void go_on_and_ask(struct scene *scene, enum hop_name hop) {
  if (hop != HOP_C) {
    chain_order(&scene->chain, &works); /* a hop that is stopped takes no orders */
  }
  hop_continue(&scene->chain, hop);
  if (hop == HOP_C) {
    chain_order(&scene->chain, &works);
  }
  run_and_forget(scene, CHAIN_HELLO, GRPC_STATUS_OK);
  chain_await_idle(&scene->chain);
}

/* Of the client's calls from number `first` on, none has come to a hop behind `hop` since that went
 * on. */
static void assert_none_behind(const struct scene *scene, enum hop_name hop, int64_t first) {
  int64_t since_ns = scene->chain.hops[hop].continued_at_ns;
  for (size_t i = 0; i < scene->chain.n_told; i++) {
    const struct told *told = &scene->chain.told[i];
    if (told->hop > hop && told->event.kind == CHAIN_ARRIVED && told->event.at_ns >= since_ns) {
      assert_false(told->event.root >= first && told->event.root < first + N_CALLS);
    }
  }
}

/* Stopped with the client's calls under way, and going on after the end of their time: for none of
 * them is anything begun anew. */
static void stop_with_calls_under_way(struct scene *scene, enum hop_name hop,
                                      const struct chain_order *order) {
  struct root roots[N_CALLS];
  connect_all(scene);
  chain_order(&scene->chain, order);
  int64_t first = (int64_t)scene->chain.n_roots;
  roots_start(roots, scene, SHORT_TIME);
  chain_await(&scene->chain, HOP_C, CHAIN_ARRIVED, scene->n_before[HOP_C] + N_CALLS);
  hop_stop(&scene->chain, hop);
  await_deadline_everywhere(scene, roots);
  let_time_pass(scene);
  go_on_and_ask(scene, hop);
  scene_close(scene);
  assert_none_behind(scene, hop, first);
}

static void a_that_goes_on_after_a_stop_begins_nothing_anew(void **state) {
  struct scene *scene = *state;
  scene_open(scene, CLIENT_TRIES, A_TRIES, B_TRIES);
  stop_with_calls_under_way(scene, HOP_A, &hangs);
}

static void b_that_goes_on_after_a_stop_begins_nothing_anew(void **state) {
  struct scene *scene = *state;
  scene_open(scene, CLIENT_TRIES, A_TRIES, B_TRIES);
  stop_with_calls_under_way(scene, HOP_B, &hangs);
}

static void c_that_goes_on_after_a_stop_begins_nothing_anew(void **state) {
  struct scene *scene = *state;
  scene_open(scene, CLIENT_TRIES, A_TRIES, B_TRIES);
  stop_with_calls_under_way(scene, HOP_C, &hangs);
}

/* B would retry what C said while it was stopped. */
static void a_failure_that_waited_for_b_that_was_stopped_is_not_retried(void **state) {
  struct scene *scene = *state;
  const struct chain_order fails_later = {
      .n_failures = CHAIN_ALWAYS, .failure = GRPC_STATUS_UNAVAILABLE, .delay_ns = SHORT_TIME / 2};
  scene_open(scene, CLIENT_ONCE, A_ONCE, B_TRIES);
  stop_with_calls_under_way(scene, HOP_B, &fails_later);
}

/* The client asks again whoever takes too long, so each call leaves several requests with the hop
 * that is stopped. */
#define CLIENT_IS_IMPATIENT \
  POLICY("client",          \
         CALM "," ASK("\"perAttemptTimeout\":\"0.2s\"," RETRY("3", "0.005s", UNAVAILABLE)))

/* Requests wait in the socket of a hop that is stopped, and their cancellations behind them. */
static void stop_before_requests_come(struct scene *scene, enum hop_name hop) {
  struct root roots[N_CALLS];
  scene_open(scene, CLIENT_IS_IMPATIENT, A_TRIES, B_TRIES);
  connect_all(scene);
  hop_stop(&scene->chain, hop);
  int64_t first = (int64_t)scene->chain.n_roots;
  roots_start(roots, scene, LONG_TIME);
  await_deadline_everywhere(scene, roots);
  let_time_pass(scene);
  go_on_and_ask(scene, hop);
  scene_close(scene);
  assert_none_behind(scene, hop, first);
}

static void what_waited_for_a_that_was_stopped_goes_no_further(void **state) {
  struct scene *scene = *state;
  stop_before_requests_come(scene, HOP_A);
  assert_true(n_arrived(scene, HOP_A) > 1); /* they did come */
}

static void what_waited_for_b_that_was_stopped_goes_no_further(void **state) {
  struct scene *scene = *state;
  stop_before_requests_come(scene, HOP_B);
  assert_true(n_arrived(scene, HOP_B) > 1);
}

/* --- processes that are killed --- */

/* Calls under way end as soon as the connection is lost, long before their time is over. */
static void kill_with_calls_under_way(struct scene *scene, enum hop_name hop) {
  struct root roots[N_CALLS];
  scene_open(scene, CLIENT_TRIES, A_TRIES, B_TRIES);
  connect_all(scene);
  chain_order(&scene->chain, &hangs);
  roots_start(roots, scene, LONG_TIME);
  chain_await(&scene->chain, HOP_C, CHAIN_ARRIVED, scene->n_before[HOP_C] + N_CALLS);
  hop_kill(&scene->chain, hop);
  roots_end(roots, scene, GRPC_STATUS_UNAVAILABLE);
  chain_await_idle(&scene->chain);
  scene_close(scene);
  assert_int_equal(n_arrived(scene, HOP_C), N_CALLS);
  assert_true(n_arrived(scene, HOP_A) <= N_TRIES * N_CALLS);
  assert_true(n_arrived(scene, HOP_B) <= N_TRIES * N_CALLS);
}

static void all_that_was_done_for_a_ends_when_it_is_killed(void **state) {
  kill_with_calls_under_way(*state, HOP_A);
}

static void all_that_was_done_for_b_ends_when_it_is_killed(void **state) {
  kill_with_calls_under_way(*state, HOP_B);
}

static void all_that_waited_for_c_ends_when_it_is_killed(void **state) {
  kill_with_calls_under_way(*state, HOP_C);
}

/* --- what the client is told --- */

/* A's or B's own timeout on a slow C is no time of the client's that is up, and nothing that trying
 * again would help. */
static void time_out_at(struct scene *scene, const char *a, const char *b) {
  struct root root;
  scene_open(scene, CLIENT_TRIES, a, b);
  connect_all(scene);
  chain_order(&scene->chain, &hangs);
  root_run(&root, scene, CHAIN_ASK);
  assert_int_equal(root.unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(root.unary.report.reason, WEIR_REASON_PUSHBACK);
  assert_int_equal(root.unary.report.n_attempts, 1);
  root_fini(&root);
  chain_await_idle(&scene->chain);
  scene_close(scene);
  assert_int_equal(n_arrived(scene, HOP_A), 1);
  assert_true(n_arrived(scene, HOP_C) <= 1);
}

#define TIMES_OUT "," ASK("\"timeout\":\"0.3s\"," RETRY("3", "0.005s", UNAVAILABLE))

static void a_slow_service_is_asked_once_when_a_runs_out_of_its_own_time(void **state) {
  time_out_at(*state, POLICY("a", CALM TIMES_OUT), B_TRIES);
}

static void a_slow_service_is_asked_once_when_b_runs_out_of_its_own_time(void **state) {
  time_out_at(*state, A_TRIES, POLICY("b", CALM TIMES_OUT));
}

/* A passes UNAVAILABLE on, and not that it makes no sense to try again. */
static void a_silent_hop_has_a_slow_service_asked_three_times(void **state) {
  struct scene *scene = *state;
  scene_open(scene, CLIENT_TRIES, NO_WEIR, POLICY("b", CALM TIMES_OUT));
  connect_all(scene);
  chain_order(&scene->chain, &hangs);
  run_and_forget(scene, CHAIN_ASK, GRPC_STATUS_UNAVAILABLE);
  scene_close(scene);
  assert_int_equal(n_arrived(scene, HOP_B), N_TRIES);
  assert_true(n_arrived(scene, HOP_C) > 1);
}

static void an_open_breaker_at_b_is_not_asked_again_by_the_client(void **state) {
  struct scene *scene = *state;
  struct root root;
  scene_open(scene, CLIENT_TRIES, A_TRIES, POLICY("b", "")); /* with a breaker, as by default */
  chain_order(&scene->chain, &refuses);
  run_and_forget(scene, CHAIN_ASK, GRPC_STATUS_UNAVAILABLE);
  run_and_forget(scene, CHAIN_ASK, GRPC_STATUS_UNAVAILABLE);
  chain_await_idle(&scene->chain);
  assert_arrived(scene, 6, 6, 5); /* the fifth opened it, and the sixth was refused */
  root_run(&root, scene, CHAIN_ASK);
  assert_int_equal(root.unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(root.unary.report.reason, WEIR_REASON_PUSHBACK);
  root_fini(&root);
  scene_close(scene);
  assert_arrived(scene, 7, 7, 5);
  assert_int_equal(chain_event(&scene->chain, HOP_B, CHAIN_ASKED, 6)->reason,
                   WEIR_REASON_BREAKER_OPEN);
}

static void mistakes_behind_the_boundary_are_not_the_clients(void **state) {
  static const struct {
    grpc_status_code at_c;
    grpc_status_code at_client;
  } rows[] = {
      {GRPC_STATUS_INVALID_ARGUMENT, GRPC_STATUS_INTERNAL},
      {GRPC_STATUS_FAILED_PRECONDITION, GRPC_STATUS_INTERNAL},
      {GRPC_STATUS_OUT_OF_RANGE, GRPC_STATUS_INTERNAL},
      {GRPC_STATUS_UNAUTHENTICATED, GRPC_STATUS_INTERNAL},
      {GRPC_STATUS_PERMISSION_DENIED, GRPC_STATUS_INTERNAL},
      {GRPC_STATUS_UNIMPLEMENTED, GRPC_STATUS_INTERNAL},
      {GRPC_STATUS_CANCELLED, GRPC_STATUS_INTERNAL},
      {GRPC_STATUS_NOT_FOUND, GRPC_STATUS_NOT_FOUND},
      {GRPC_STATUS_RESOURCE_EXHAUSTED, GRPC_STATUS_RESOURCE_EXHAUSTED},
      {GRPC_STATUS_DEADLINE_EXCEEDED, GRPC_STATUS_UNAVAILABLE},
  };
  struct scene *scene = *state;
  /* The client sees what A has sent it. */
  scene_open(scene, POLICY("client", CALM "," NO_BOUNDARY), A_ONCE, B_ONCE);
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    struct root root;
    chain_order(&scene->chain,
                &(struct chain_order){.n_failures = CHAIN_ALWAYS, .failure = rows[i].at_c});
    root_run(&root, scene, CHAIN_ASK);
    if (root.unary.code != rows[i].at_client) {
      fail_msg("%d came as %d", (int)rows[i].at_c, (int)root.unary.code);
    }
    assert_false(is_in(root.unary.details, CHAIN_SECRET));
    assert_true(is_in(root.unary.details, "downstream service"));
    root_fini(&root);
  }
  scene_close(scene);
}

/* --- the client gives up --- */

static void a_cancellation_reaches_all_hops(void **state) {
  struct scene *scene = *state;
  struct root roots[N_CALLS];
  scene_open(scene, CLIENT_TRIES, A_TRIES, B_TRIES);
  connect_all(scene);
  chain_order(&scene->chain, &hangs);
  roots_start(roots, scene, LONG_TIME);
  chain_await(&scene->chain, HOP_C, CHAIN_ARRIVED, scene->n_before[HOP_C] + N_CALLS);
  for (size_t i = 0; i < N_CALLS; i++) {
    assert_int_equal(weir_call_cancel(roots[i].unary.call, NULL), GRPC_CALL_OK);
  }
  roots_end(roots, scene, GRPC_STATUS_CANCELLED);
  chain_await_idle(&scene->chain);
  scene_close(scene);
  assert_arrived(scene, N_CALLS, N_CALLS, N_CALLS);
  for (size_t i = 0; i < N_CALLS; i++) {
    assert_true(
        chain_event(&scene->chain, HOP_C, CHAIN_ENDED, scene->n_before[HOP_C] + i)->cancelled);
  }
}

/* In a long backoff, no attempt is under way that it could reach. */
static void a_cancellation_reaches_a_hop_in_its_backoff(void **state) {
  struct scene *scene = *state;
  struct root root;
  scene_open(scene, CLIENT_ONCE, A_ONCE,
             POLICY("b", CALM "," METHODS(RETRY("3", "20s", UNAVAILABLE))));
  connect_all(scene);
  chain_order(&scene->chain, &refuses);
  root_start(&root, scene, CHAIN_ASK, LONG_TIME);
  chain_await(&scene->chain, HOP_C, CHAIN_ENDED, scene->n_before[HOP_C] + 1);
  assert_int_equal(weir_call_cancel(root.unary.call, NULL), GRPC_CALL_OK);
  await_roots(scene, 1, GRPC_STATUS_CANCELLED);
  root_fini(&root);
  chain_await_idle(&scene->chain);
  scene_close(scene);
  assert_arrived(scene, 1, 1, 1);
  assert_int_equal(chain_event(&scene->chain, HOP_B, CHAIN_ASKED, 1)->code, GRPC_STATUS_CANCELLED);
}

/* What A does anyway goes on to its end, and so does what B and C do for it. */
static void a_call_that_a_finishes_anyway_goes_on_when_the_client_has_gone(void **state) {
  struct scene *scene = *state;
  struct root root;
  scene_open(scene, CLIENT_TRIES, A_TRIES, B_TRIES);
  connect_all(scene);
  chain_order(&scene->chain, &(struct chain_order){.delay_ns = SHORT_TIME / 2});
  root_start(&root, scene, CHAIN_FINISH, LONG_TIME);
  chain_await(&scene->chain, HOP_C, CHAIN_ARRIVED, scene->n_before[HOP_C] + 1);
  assert_int_equal(weir_call_cancel(root.unary.call, NULL), GRPC_CALL_OK);
  await_roots(scene, 1, GRPC_STATUS_CANCELLED);
  root_fini(&root);
  chain_await_idle(&scene->chain);
  scene_close(scene);
  assert_arrived(scene, 1, 1, 1);
  assert_true(chain_event(&scene->chain, HOP_A, CHAIN_ENDED, 1)->cancelled);
  assert_int_equal(chain_event(&scene->chain, HOP_A, CHAIN_ASKED, 1)->code, GRPC_STATUS_OK);
  assert_false(chain_event(&scene->chain, HOP_C, CHAIN_ENDED, 1)->cancelled);
}

/* Nor does the client's deadline bound it: it has the time that A's policy gives. */
static void a_call_that_a_finishes_anyway_has_the_time_of_as_policy(void **state) {
  struct scene *scene = *state;
  struct root root;
  scene_open(scene, CLIENT_ONCE, A_ONCE, B_ONCE);
  connect_all(scene);
  root_start(&root, scene, CHAIN_FINISH, SECONDS(5));
  await_roots(scene, 1, GRPC_STATUS_OK);
  root_fini(&root);
  scene_close(scene);
  assert_true(arrival(scene, HOP_A, 1)->budget_us <= SECONDS(5) / 1000);
  assert_true(arrival(scene, HOP_B, 1)->budget_us > SECONDS(5) / 1000);
}

/* --- streams --- */

static void watch(struct shaped_call *call, struct scene *scene, int64_t timeout_ns) {
  grpc_metadata number = root_entry(chain_new_root(&scene->chain, timeout_ns));
  shaped_run(
      call, SHAPE_SERVER_STREAM, scene->client,
      &(struct unary_setup){
          .method = CHAIN_WATCH, .metadata = &number, .n_metadata = 1, .timeout_ns = timeout_ns});
  entry_fini(&number);
}

#define N_MESSAGES 20

static void a_stream_comes_through_the_chain(void **state) {
  struct scene *scene = *state;
  struct shaped_call call;
  scene_open(scene, CLIENT_TRIES, A_TRIES, B_TRIES);
  chain_order(&scene->chain, &(struct chain_order){.n_messages = N_MESSAGES});
  watch(&call, scene, LONG_TIME);
  assert_int_equal(call.unary.code, GRPC_STATUS_OK);
  assert_int_equal(call.n_messages, N_MESSAGES);
  shaped_fini(&call);
  scene_close(scene);
  assert_arrived(scene, 1, 1, 1);
}

static void a_stream_that_was_never_there_is_tried_three_times(void **state) {
  struct scene *scene = *state;
  struct shaped_call call;
  scene_open(scene, CLIENT_TRIES, A_TRIES, B_TRIES);
  chain_order(&scene->chain, &refuses);
  watch(&call, scene, LONG_TIME);
  assert_int_equal(call.unary.code, GRPC_STATUS_UNAVAILABLE);
  shaped_fini(&call);
  scene_close(scene);
  assert_arrived(scene, 3, 3, 3);
}

static void the_roots_deadline_ends_a_stream_at_all_hops(void **state) {
  struct scene *scene = *state;
  struct shaped_call call;
  scene_open(scene, CLIENT_TRIES, A_TRIES, B_TRIES);
  connect_all(scene);
  chain_order(&scene->chain,
              &(struct chain_order){.n_messages = N_MESSAGES, .delay_ns = CHAIN_FOREVER});
  watch(&call, scene, SHORT_TIME);
  assert_int_equal(call.unary.code, GRPC_STATUS_DEADLINE_EXCEEDED);
  chain_await_idle(&scene->chain);
  assert_true(call.n_messages <= N_MESSAGES);
  shaped_fini(&call);
  scene_close(scene);
  assert_true(n_arrived(scene, HOP_C) <= 1);
}

int main(void) {
#define CLAIM(function) cmocka_unit_test_setup_teardown(function, scene_new, scene_release)
  const struct CMUnitTest tests[] = {
      CLAIM(three_tries_at_every_hop_are_three_calls_at_the_last),
      CLAIM(three_tries_that_every_hop_owns_are_twenty_seven),
      CLAIM(the_outermost_hop_that_may_retry_does),
      CLAIM(the_last_hop_that_may_retry_does_if_no_other_may),
      CLAIM(a_failure_that_passes_is_not_seen_by_the_client),
      CLAIM(a_silent_hop_in_the_middle_makes_nine),
      CLAIM(a_silent_hop_before_the_last_makes_three),
      CLAIM(a_client_without_weir_that_marks_its_retries_makes_five),
      CLAIM(a_client_without_weir_that_marks_nothing_makes_nine),
      CLAIM(budgets_shrink_hop_by_hop_and_attempt_by_attempt),
      CLAIM(attempts_of_a_hop_in_the_middle_share_what_its_caller_has_left),
      CLAIM(a_margin_is_kept_back_from_all_behind_it),
      CLAIM(a_silent_hop_still_hands_the_cores_deadline_on),
      CLAIM(a_service_that_hangs_holds_nobody_past_the_roots_deadline),
      CLAIM(a_that_goes_on_after_a_stop_begins_nothing_anew),
      CLAIM(b_that_goes_on_after_a_stop_begins_nothing_anew),
      CLAIM(c_that_goes_on_after_a_stop_begins_nothing_anew),
      CLAIM(a_failure_that_waited_for_b_that_was_stopped_is_not_retried),
      CLAIM(what_waited_for_a_that_was_stopped_goes_no_further),
      CLAIM(what_waited_for_b_that_was_stopped_goes_no_further),
      CLAIM(all_that_was_done_for_a_ends_when_it_is_killed),
      CLAIM(all_that_was_done_for_b_ends_when_it_is_killed),
      CLAIM(all_that_waited_for_c_ends_when_it_is_killed),
      CLAIM(a_slow_service_is_asked_once_when_a_runs_out_of_its_own_time),
      CLAIM(a_slow_service_is_asked_once_when_b_runs_out_of_its_own_time),
      CLAIM(a_silent_hop_has_a_slow_service_asked_three_times),
      CLAIM(an_open_breaker_at_b_is_not_asked_again_by_the_client),
      CLAIM(mistakes_behind_the_boundary_are_not_the_clients),
      CLAIM(a_cancellation_reaches_all_hops),
      CLAIM(a_cancellation_reaches_a_hop_in_its_backoff),
      CLAIM(a_call_that_a_finishes_anyway_goes_on_when_the_client_has_gone),
      CLAIM(a_call_that_a_finishes_anyway_has_the_time_of_as_policy),
      CLAIM(a_stream_comes_through_the_chain),
      CLAIM(a_stream_that_was_never_there_is_tried_three_times),
      CLAIM(the_roots_deadline_ends_a_stream_at_all_hops),
  };
#undef CLAIM
  return cmocka_run_group_tests_name("chain", tests, start_core, stop_core);
}
