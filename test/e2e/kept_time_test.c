/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/support/odd_peer.h"
#include "test/support/child_exit.h"

/* Calls whose time is kept by their queue, to a peer that says nothing and has no clock. */

#define N_MAKERS 3
#define N_DRAINERS 2
#define N_CALLS 400 /* of each maker's */

/* A deadline is kept to this, on a machine that is busy. */
#define GENEROUS SECONDS(30)

/* Attempts that are cut off after 3 ms, and three of them. */
#define POLICY_ATTEMPTS                                                                      \
  "{" NO_BOUNDARY "," NO_BREAKER                                                             \
  ",\"methodConfig\":[{\"name\":[{}],\"perAttemptTimeout\":\"0.003s\"," RETRY("3", "0.001s", \
                                                                              DEADLINE) "}]}"
#define DEADLINE "\"DEADLINE_EXCEEDED\""

/* --- what the peer is told --- */

/* The core counts in milliseconds of its own clock, and what it says is left when the headers are
 * written, here after a connection was made: it must not be less than there is. */
static void the_peer_is_not_told_less_time_than_there_is(void **state) {
  (void)state;
  struct odd_peer *peer = odd_peer_answering(&(struct odd_script)ODD_SCRIPT(ODD_ONLY(0)));
  struct odd_request *request = calloc(1, sizeof *request);
  enum { N_TOLD = 60 };
  assert_non_null(request);
  for (size_t i = 0; i < N_TOLD; i++) {
    weir_channel *channel = channel_new(&(struct channel_setup){
        .port = odd_peer_port(peer), .policy = POLICY_PLAIN, .own_connection = true});
    struct unary unary;
    char value[32];
    int64_t until_ns = now_ns() + MS(900);
    unary_run(&unary, channel, &(struct unary_setup){.timeout_ns = MS(900)});
    assert_int_equal(unary.code, GRPC_STATUS_OK);
    assert_true(odd_peer_request(peer, i, request));
    assert_true(odd_request_value(request, "grpc-timeout", value, sizeof value));
    char *unit = NULL;
    int64_t told_ns = strtol(value, &unit, 10) * WEIR_MS_NS;
    assert_string_equal(unit, "m");
    int64_t lost_ns = until_ns - (request->began_at_ns + told_ns);
    if (lost_ns > 0) {
      fail_msg("%s, which is %lld ns less", value, (long long)lost_ns);
    }
    unary_fini(&unary);
    weir_channel_destroy(channel);
  }
  free(request);
  odd_peer_release(peer);
}

/* What the application says of a time is none of the call's. */
static void an_application_s_grpc_timeout_is_replaced(void **state) {
  (void)state;
  struct odd_peer *peer = odd_peer_answering(&(struct odd_script)ODD_SCRIPT(ODD_ONLY(0)));
  weir_channel *channel = channel_to(odd_peer_port(peer), POLICY_PLAIN);
  static const char *const values[] = {"1n", "5S", "7H", "nonsense", "99999999H", ""};
  for (size_t i = 0; i < COUNT_OF(values); i++) {
    grpc_metadata metadata[2] = {{.key = grpc_slice_from_static_string("grpc-timeout"),
                                  .value = grpc_slice_from_static_string(values[i])},
                                 {.key = grpc_slice_from_static_string("weir-budget-us"),
                                  .value = grpc_slice_from_static_string("3")}};
    struct unary unary;
    struct odd_request *request = calloc(1, sizeof *request);
    char value[32];
    assert_non_null(request);
    unary_run(&unary, channel,
              &(struct unary_setup){.timeout_ns = SECONDS(40),
                                    .metadata = metadata,
                                    .n_metadata = COUNT_OF(metadata)});
    assert_int_equal(unary.code, GRPC_STATUS_OK);
    assert_true(odd_peer_request(peer, i, request));
    assert_true(odd_request_value(request, "grpc-timeout", value, sizeof value));
    if (strcmp(value, "40S") != 0 && strcmp(value, "41S") != 0 && strncmp(value, "40", 2) != 0) {
      fail_msg("\"%s\" became %s", values[i], value);
    }
    const char *first = strstr(request->lines, "grpc-timeout");
    assert_null(strstr(first + 1, "grpc-timeout"));
    const char *budget = strstr(request->lines, "weir-budget-us");
    assert_null(strstr(budget + 1, "weir-budget-us"));
    free(request);
    unary_fini(&unary);
  }
  weir_channel_destroy(channel);
  odd_peer_release(peer);
}

/* It does not even read. The core resets a stream that was cancelled before its headers were written,
 * which a peer that reads may call an error of the connection. */
static struct odd_peer *silent_peer(void) {
  static const struct odd_script greeting = ODD_SCRIPT(ODD_SETTINGS(0, 0), ODD_DEAF);
  return odd_peer_new(&(struct odd_setup){.greetings = &greeting, .n_greetings = 1});
}

/* --- a crowd of calls --- */

enum fate { FATE_DEADLINE, FATE_CANCELLED, FATE_LEFT };

struct timed {
  grpc_completion_queue_functor functor; /* first: the tag of each kind of queue */
  struct unary unary;
  struct world *world;
  int64_t deadline_at_ns; /* at the earliest */
  int64_t came_at_ns;
  enum fate fate;
  atomic_int n_came;
};

struct world {
  weir_channel *channel;
  weir_completion_queue *queue;
  bool has_attempts; /* that are cut off */
  grpc_cq_completion_type type;
  atomic_uint n_came;
  atomic_uint n_wrong;
  grpc_completion_queue_functor at_end;
  struct timed timed[N_MAKERS][N_CALLS];
};

struct maker {
  struct world *world;
  size_t index;
  pthread_t thread;
};

static void timed_came(struct timed *timed) {
  timed->came_at_ns = now_ns();
  atomic_fetch_add(&timed->n_came, 1);
  atomic_fetch_add(&timed->world->n_came, 1);
}

static void timed_run(grpc_completion_queue_functor *functor, int ok) {
  (void)ok;
  timed_came((struct timed *)(void *)functor);
}

static void at_end_run(grpc_completion_queue_functor *functor, int ok) {
  (void)functor;
  (void)ok;
}

static void timed_start(struct timed *timed, uint32_t *seed) {
  struct world *world = timed->world;
  *seed = *seed * UINT32_C(1664525) + UINT32_C(1013904223);
  const struct unary_setup setup = {.timeout_ns = 1000 + (int64_t)(*seed >> 8) % MS(12)};
  grpc_op ops[UNARY_OPS];
  timed->functor.functor_run = timed_run;
  timed->fate = (*seed >> 4) % 8 == 0   ? FATE_CANCELLED
                : (*seed >> 4) % 8 == 1 ? FATE_LEFT
                                        : FATE_DEADLINE;
  timed->deadline_at_ns = now_ns() + setup.timeout_ns;
  unary_create(&timed->unary, world->channel, world->queue, &setup);
  unary_ops(&timed->unary, &setup, ops);
  if (timed->fate == FATE_LEFT) {
    weir_call *call = timed->unary.call;
    timed->unary.call = NULL; /* before the tag can come */
    bool started = weir_call_start_batch(call, ops, UNARY_OPS, timed, NULL) == GRPC_CALL_OK;
    atomic_fetch_add(&world->n_wrong, started ? 0 : 1);
    weir_call_unref(call); /* which cancels it */
    return;
  }
  weir_call *call = timed->unary.call;
  bool started = weir_call_start_batch(call, ops, UNARY_OPS, timed, NULL) == GRPC_CALL_OK;
  atomic_fetch_add(&world->n_wrong, started ? 0 : 1);
  if (timed->fate == FATE_CANCELLED) {
    weir_call_cancel(call, NULL);
  }
}

static void *make(void *context) {
  struct maker *maker = context;
  struct world *world = maker->world;
  uint32_t seed = (uint32_t)maker->index * 7919 + 1;
  for (size_t i = 0; i < N_CALLS; i++) {
    timed_start(&world->timed[maker->index][i], &seed);
    if (world->type == GRPC_CQ_PLUCK && i % 4 == 3) { /* a few under way at once */
      for (size_t j = i - 3; j <= i; j++) {
        struct timed *timed = &world->timed[maker->index][j];
        grpc_event event = weir_completion_queue_pluck(world->queue, timed,
                                                       gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (event.type == GRPC_OP_COMPLETE && event.tag == timed) {
          timed_came(timed);
        }
      }
    }
  }
  return NULL;
}

static void *drain(void *context) {
  struct world *world = context;
  grpc_event event;
  while (
      (event = weir_completion_queue_next(world->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL))
          .type == GRPC_OP_COMPLETE) {
    timed_came(event.tag);
  }
  return NULL;
}

static void check_deadline(const struct timed *timed) {
  const struct weir_call_report *report = &timed->unary.report;
  assert_int_equal(timed->unary.code, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(report->origin, WEIR_ORIGIN_LOCAL_DEADLINE);
  if (timed->world->has_attempts && report->deadline_bound == WEIR_DEADLINE_BOUND_ATTEMPT) {
    return;
  }
  assert_int_equal(report->deadline_bound, WEIR_DEADLINE_BOUND_CALL);
  assert_true(timed->came_at_ns >= timed->deadline_at_ns);
}

static void timed_check(struct timed *timed) {
  struct unary *unary = &timed->unary;
  assert_int_equal(atomic_load(&timed->n_came), 1);
  assert_true(timed->came_at_ns < timed->deadline_at_ns + GENEROUS);
  bool cancelled = unary->code == GRPC_STATUS_CANCELLED && timed->fate != FATE_DEADLINE;
  if (timed->fate != FATE_LEFT) {
    unary_read_report(unary);
  }
  if (!cancelled && timed->fate != FATE_LEFT) {
    check_deadline(timed);
  }
  unary_fini(unary);
}

static void world_make_queue(struct world *world, grpc_cq_completion_type type) {
  world->type = type;
  world->at_end.functor_run = at_end_run;
  struct weir_completion_queue_options options = WEIR_COMPLETION_QUEUE_OPTIONS_INIT;
  options.n_callback_threads = 2;
  switch (type) {
  case GRPC_CQ_NEXT:
    world->queue = weir_completion_queue_create_for_next(NULL);
    break;
  case GRPC_CQ_PLUCK:
    world->queue = weir_completion_queue_create_for_pluck(NULL);
    break;
  case GRPC_CQ_CALLBACK:
    world->queue = weir_completion_queue_create_for_callback(&world->at_end, &options);
    break;
  }
  assert_non_null(world->queue);
}

static void world_end(struct world *world, pthread_t drainers[N_DRAINERS]) {
  weir_completion_queue_shutdown(world->queue); /* while most are under way */
  for (size_t i = 0; world->type == GRPC_CQ_NEXT && i < N_DRAINERS; i++) {
    assert_int_equal(pthread_join(drainers[i], NULL), 0);
  }
  if (world->type == GRPC_CQ_PLUCK) {
    assert_int_equal(
        weir_completion_queue_pluck(world->queue, world, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL)
            .type,
        GRPC_QUEUE_SHUTDOWN);
  }
  weir_completion_queue_destroy(world->queue);
}

static void run_crowd(grpc_cq_completion_type type, const char *policy, void (*meanwhile)(void)) {
  struct world *world = calloc(1, sizeof *world);
  struct maker makers[N_MAKERS];
  pthread_t drainers[N_DRAINERS];
  assert_non_null(world);
  struct odd_peer *peer = silent_peer();
  world->channel = channel_to(odd_peer_port(peer), policy);
  world->has_attempts = strcmp(policy, POLICY_PLAIN) != 0;
  world_make_queue(world, type);
  for (size_t i = 0; i < N_MAKERS * N_CALLS; i++) {
    world->timed[i / N_CALLS][i % N_CALLS].world = world;
  }
  for (size_t i = 0; i < N_MAKERS; i++) {
    makers[i] = (struct maker){.world = world, .index = i};
    assert_int_equal(pthread_create(&makers[i].thread, NULL, make, &makers[i]), 0);
  }
  for (size_t i = 0; type == GRPC_CQ_NEXT && i < N_DRAINERS; i++) {
    assert_int_equal(pthread_create(&drainers[i], NULL, drain, world), 0);
  }
  if (meanwhile != NULL) {
    meanwhile();
  }
  for (size_t i = 0; i < N_MAKERS; i++) {
    assert_int_equal(pthread_join(makers[i].thread, NULL), 0);
  }
  world_end(world, drainers);
  assert_int_equal(atomic_load(&world->n_wrong), 0);
  assert_int_equal(atomic_load(&world->n_came), N_MAKERS * N_CALLS);
  for (size_t i = 0; i < N_MAKERS * N_CALLS; i++) {
    timed_check(&world->timed[i / N_CALLS][i % N_CALLS]);
  }
  weir_channel_destroy(world->channel);
  odd_peer_release(peer);
  free(world);
}

static void each_ends_once_at_its_time_where_threads_ask_for_the_next(void **state) {
  (void)state;
  run_crowd(GRPC_CQ_NEXT, POLICY_PLAIN, NULL);
  run_crowd(GRPC_CQ_NEXT, POLICY_ATTEMPTS, NULL);
}

static void each_ends_once_at_its_time_where_it_is_plucked(void **state) {
  (void)state;
  run_crowd(GRPC_CQ_PLUCK, POLICY_PLAIN, NULL);
  run_crowd(GRPC_CQ_PLUCK, POLICY_ATTEMPTS, NULL);
}

static void each_ends_once_at_its_time_where_it_is_called_back(void **state) {
  (void)state;
  run_crowd(GRPC_CQ_CALLBACK, POLICY_PLAIN, NULL);
  run_crowd(GRPC_CQ_CALLBACK, POLICY_ATTEMPTS, NULL);
}

/* --- a process that forks meanwhile --- */

static void leave(void) {
  child_exit(0);
}

static void become_another(void) {
  (void)execl("/bin/true", "true", (char *)NULL);
  child_exit(1);
}

/* What a child may do with calls of its parent's: nothing. */
static void fork_some(void) {
  enum { N_FORKS = 20 };
  for (int i = 0; i < N_FORKS; i++) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
      (i % 2 == 0 ? leave : become_another)();
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
  }
}

static void each_ends_once_at_its_time_though_children_leave(void **state) {
  (void)state;
  run_crowd(GRPC_CQ_NEXT, POLICY_PLAIN, fork_some);
  run_crowd(GRPC_CQ_PLUCK, POLICY_ATTEMPTS, fork_some);
  run_crowd(GRPC_CQ_CALLBACK, POLICY_PLAIN, fork_some);
}

/* --- blocking calls --- */

static void *block(void *context) {
  struct world *world = context;
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  request.method = METHOD;
  request.message = message_of("hello");
  for (int i = 0; i < N_CALLS / 4; i++) {
    struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
    request.timeout_ns = 1000 + i % 7 * MS(1);
    int64_t before_ns = now_ns();
    bool right = weir_unary(world->channel, &request, &reply) == WEIR_OK &&
                 reply.code == GRPC_STATUS_DEADLINE_EXCEEDED &&
                 reply.report.origin == WEIR_ORIGIN_LOCAL_DEADLINE &&
                 reply.report.deadline_bound == WEIR_DEADLINE_BOUND_CALL &&
                 now_ns() - before_ns >= request.timeout_ns;
    atomic_fetch_add(&world->n_wrong, right ? 0 : 1);
    weir_unary_reply_fini(&reply);
  }
  grpc_byte_buffer_destroy(request.message);
  return NULL;
}

static void blocking_calls_end_at_their_time(void **state) {
  (void)state;
  struct odd_peer *peer = silent_peer();
  struct world *world = calloc(1, sizeof *world);
  pthread_t threads[N_MAKERS];
  assert_non_null(world);
  world->channel = channel_to(odd_peer_port(peer), POLICY_PLAIN);
  for (size_t i = 0; i < N_MAKERS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, block, world), 0);
  }
  for (size_t i = 0; i < N_MAKERS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  }
  assert_int_equal(atomic_load(&world->n_wrong), 0);
  weir_channel_destroy(world->channel);
  free(world);
  odd_peer_release(peer);
}

/* --- a queue that nobody drains --- */

static void calls_of_a_queue_that_was_not_drained_end_when_it_is(void **state) {
  (void)state;
  struct odd_peer *peer = silent_peer();
  weir_channel *channel = channel_to(odd_peer_port(peer), POLICY_PLAIN);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  enum { N_LEFT = 200 };
  struct unary unaries[N_LEFT];
  for (size_t i = 0; i < N_LEFT; i++) {
    unary_start(&unaries[i], channel, queue, &(struct unary_setup){.timeout_ns = MS(5)});
  }
  weir_completion_queue_shutdown(queue);
  weir_channel_destroy(channel);
  for (size_t i = 0; i < N_LEFT; i++) {
    struct unary *unary = next_tag(queue);
    assert_non_null(unary);
    unary_read_report(unary);
    assert_int_equal(unary->code, GRPC_STATUS_DEADLINE_EXCEEDED);
    assert_int_equal(unary->report.origin, WEIR_ORIGIN_LOCAL_DEADLINE);
    unary_fini(unary);
  }
  assert_null(next_tag(queue));
  weir_completion_queue_destroy(queue);
  odd_peer_release(peer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_peer_is_not_told_less_time_than_there_is),
      cmocka_unit_test(an_application_s_grpc_timeout_is_replaced),
      cmocka_unit_test(each_ends_once_at_its_time_where_threads_ask_for_the_next),
      cmocka_unit_test(each_ends_once_at_its_time_where_it_is_plucked),
      cmocka_unit_test(each_ends_once_at_its_time_where_it_is_called_back),
      cmocka_unit_test(each_ends_once_at_its_time_though_children_leave),
      cmocka_unit_test(blocking_calls_end_at_their_time),
      cmocka_unit_test(calls_of_a_queue_that_was_not_drained_end_when_it_is),
  };
  return cmocka_run_group_tests_name("kept_time", tests, start_core, stop_core);
}
