/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>

#include "test/e2e/fixture.h"

/* Long enough to be seen in it. */
#define POLICY_BACKOFF \
  "{" NO_BOUNDARY "," NO_BREAKER "," METHODS(RETRY("3", "0.3s", UNAVAILABLE)) "}"

#define WAIT_LIMIT_S 10
#define ROUNDS 3

/* weir has nothing to initialise and nothing to shut down: what it holds is held by its objects. So
 * what is to be seen is the core's end, with calls that were in every state. */

static unsigned long n_threads(void) {
  static const char key[] = "Threads:";
  char line[256];
  unsigned long count = 0;
  FILE *status = fopen("/proc/self/status", "r");
  assert_non_null(status);
  while (fgets(line, sizeof line, status) != NULL) {
    if (strncmp(line, key, sizeof key - 1) == 0) {
      count = strtoul(line + sizeof key - 1, NULL, 10);
    }
  }
  (void)fclose(status);
  assert_true(count > 0);
  return count;
}

/* The last of the core's own objects may end by a thread of its own. */
static void wait_for_the_cores_end(unsigned long n_before) {
  int64_t limit_ns = now_ns() + SECONDS(WAIT_LIMIT_S);
  while (grpc_is_initialized() != 0 || n_threads() > n_before) {
    assert_true(now_ns() < limit_ns);
    (void)sched_yield();
  }
}

struct world {
  unsigned long n_threads_before;
  struct script script;
  struct counted_random random;
  weir__test_server *server;
  weir_channel *channel;
  weir_completion_queue *queue;
};

static const struct answer not_now = {.code = GRPC_STATUS_UNAVAILABLE, .text = "not now"};
static const struct answer works = {.code = GRPC_STATUS_OK};
static const struct answer not_now_then_works[] = {
    {.code = GRPC_STATUS_UNAVAILABLE, .text = "not now"}, {.code = GRPC_STATUS_OK}};

static void world_open(struct world *world, const struct answer *answers, size_t n_answers,
                       const char *policy) {
  world->n_threads_before = n_threads();
  grpc_init();
  world->script = (struct script){.answers = answers, .n_answers = n_answers};
  counted_random_init(&world->random);
  world->server = weir__test_server_new(answer_by_script, &world->script, 0);
  world->channel =
      channel_new(&(struct channel_setup){.port = weir__test_server_port(world->server),
                                          .policy = policy,
                                          .random = &world->random.base});
  world->queue = weir_completion_queue_create_for_next(NULL);
}

static weir_call *call_new(const struct world *world) {
  weir_call *call = weir_channel_create_call(world->channel, NULL, 0, world->queue,
                                             grpc_slice_from_static_string(METHOD), NULL,
                                             gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  assert_non_null(call);
  return call;
}

/* --- in order --- */

static void end_with_calls_in_many_states(struct world *world) {
  struct unary in_backoff;
  struct unary under_way;
  struct unary cancelled;
  weir_call *never_started = call_new(world);
  weir_call *cancelled_first = call_new(world);
  unary_start(&in_backoff, world->channel, world->queue,
              &(struct unary_setup){.timeout_ns = SECONDS(60)});
  drain_into_backoff(world->queue, &world->random, 1);
  (void)weir_call_cancel(cancelled_first, NULL);
  unary_start_on(&cancelled, cancelled_first, NULL);
  unary_start(&under_way, world->channel, world->queue, NULL);
  (void)weir_call_cancel(under_way.call, NULL);
  weir_channel_watch_connectivity_state(world->channel, GRPC_CHANNEL_SHUTDOWN,
                                        gpr_inf_future(GPR_CLOCK_MONOTONIC), world->queue, world);
  assert_non_null(weir_channel_register_call(world->channel, METHOD, NULL, NULL));

  weir_completion_queue_shutdown(world->queue);
  size_t n_tags = 0;
  while (next_tag(world->queue) != NULL) {
    n_tags++;
  }
  assert_int_equal(n_tags, 4);
  assert_int_equal(in_backoff.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(cancelled.code, GRPC_STATUS_CANCELLED);
  weir_completion_queue_destroy(world->queue);
  unary_fini(&in_backoff);
  unary_fini(&under_way);
  unary_fini(&cancelled);
  weir_call_unref(never_started);
}

static void a_blocking_call(struct world *world) {
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  request.method = METHOD;
  request.message = message_of("hello");
  request.timeout_ns = SECONDS(20); /* too little for the backoff */
  assert_int_equal(weir_unary(world->channel, &request, &reply), WEIR_OK);
  weir_unary_reply_fini(&reply);
  grpc_byte_buffer_destroy(request.message);
}

static void nothing_of_the_core_is_left_and_it_can_begin_again(void **state) {
  (void)state;
  for (int round = 0; round < ROUNDS; round++) {
    struct world world;
    world_open(&world, &not_now, 1, POLICY_LONG_BACKOFF);
    end_with_calls_in_many_states(&world);
    a_blocking_call(&world);
    weir_channel_destroy(world.channel);
    counted_random_fini(&world.random);
    weir__test_server_release(world.server);
    grpc_shutdown_blocking();
    wait_for_the_cores_end(world.n_threads_before);
  }
}

/* --- too early --- */

static void a_call_in_backoff_goes_on_after_an_early_shutdown(void **state) {
  (void)state;
  struct world world;
  struct unary unary;
  world_open(&world, not_now_then_works, COUNT_OF(not_now_then_works), POLICY_BACKOFF);
  unary_start(&unary, world.channel, world.queue, NULL);
  drain_into_backoff(world.queue, &world.random, 1);
  grpc_shutdown();
  assert_int_not_equal(grpc_is_initialized(), 0); /* the channel keeps the core */
  unary_wait(&unary, world.queue);
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  assert_int_equal(unary.report.n_attempts, 2);
  unary_fini(&unary);
  counted_random_fini(&world.random);
  weir__test_server_release(world.server);
  queue_end(world.queue);
  weir_channel_destroy(world.channel); /* last, and the core with it */
  wait_for_the_cores_end(world.n_threads_before);
}

static void a_call_that_is_kept_keeps_the_core(void **state) {
  (void)state;
  struct world world;
  struct unary unary;
  world_open(&world, &works, 1, POLICY_RETRY);
  unary_start(&unary, world.channel, world.queue, NULL);
  unary_wait(&unary, world.queue);
  weir_call *never_started = call_new(&world);
  queue_end(world.queue);
  weir_channel_destroy(world.channel);
  counted_random_fini(&world.random);
  weir__test_server_release(world.server);
  grpc_shutdown();
  assert_int_not_equal(grpc_is_initialized(), 0);
  unary_fini(&unary);
  weir_call_unref(never_started);
  wait_for_the_cores_end(world.n_threads_before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_of_the_core_is_left_and_it_can_begin_again),
      cmocka_unit_test(a_call_in_backoff_goes_on_after_an_early_shutdown),
      cmocka_unit_test(a_call_that_is_kept_keeps_the_core),
  };
  return cmocka_run_group_tests_name("core shutdown", tests, NULL, NULL);
}
