/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/queue/queue_fixture.h"

static int setup(void **state) {
  (void)state;
  grpc_init();
  return 0;
}

static int teardown(void **state) {
  (void)state;
  grpc_shutdown();
  return 0;
}

static unsigned n_runs;

static void count_run(grpc_completion_queue_functor *functor, int success) {
  (void)functor;
  (void)success;
  n_runs++;
}

static grpc_completion_queue_functor at_shutdown = {.functor_run = count_run, .inlineable = 1};

/* --- the wrong way --- */

static void a_queue_of_another_kind_is_at_its_end_for_who_drains_it(void **state) {
  (void)state;
  static const struct {
    const char *why;
    grpc_cq_completion_type type;
    bool by_next;
    bool by_pluck;
    bool by_poll;
  } rows[] = {
      {"next", GRPC_CQ_NEXT, true, false, false},
      {"pluck", GRPC_CQ_PLUCK, false, true, false},
      {"callback", GRPC_CQ_CALLBACK, false, false, true},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct queue_fixture f;
    queue_fixture_init(&f, rows[i].type);
    grpc_event next = weir_completion_queue_next(f.queue, at_once(), NULL);
    grpc_event pluck = weir_completion_queue_pluck(f.queue, &f, at_once(), NULL);
    grpc_completion_type poll = weir_completion_queue_poll(f.queue, at_once(), NULL);
    if ((next.type == GRPC_QUEUE_TIMEOUT) != rows[i].by_next ||
        (pluck.type == GRPC_QUEUE_TIMEOUT) != rows[i].by_pluck ||
        (poll == GRPC_QUEUE_TIMEOUT) != rows[i].by_poll) {
      fail_msg("%s", rows[i].why);
    }
    assert_int_equal(next.success + pluck.success, 0);
    assert_null(next.tag);
    assert_null(pluck.tag);
    queue_fixture_fini(&f);
  }
}

/* --- by attributes --- */

static void drain_to_the_end(weir_completion_queue *queue, grpc_cq_completion_type type) {
  weir_completion_queue_shutdown(queue);
  if (type == GRPC_CQ_NEXT) {
    assert_int_equal(weir_completion_queue_next(queue, never(), NULL).type, GRPC_QUEUE_SHUTDOWN);
  } else if (type == GRPC_CQ_PLUCK) {
    assert_int_equal(weir_completion_queue_pluck(queue, NULL, never(), NULL).type,
                     GRPC_QUEUE_SHUTDOWN);
  }
  weir_completion_queue_destroy(queue);
}

static void attributes_tell_the_kind_and_how_it_is_polled(void **state) {
  (void)state;
  static const struct {
    const char *why;
    grpc_completion_queue_attributes attributes;
    bool is_made;
    unsigned n_runs;
  } rows[] = {
      {"as the core's", {1, GRPC_CQ_NEXT, GRPC_CQ_DEFAULT_POLLING, NULL}, true, 0},
      {"not listening", {1, GRPC_CQ_PLUCK, GRPC_CQ_NON_LISTENING, NULL}, true, 0},
      {"not polling", {2, GRPC_CQ_NEXT, GRPC_CQ_NON_POLLING, NULL}, true, 0},
      {"callback", {2, GRPC_CQ_CALLBACK, GRPC_CQ_DEFAULT_POLLING, &at_shutdown}, true, 1},
      {"no shutdown callback", {2, GRPC_CQ_CALLBACK, GRPC_CQ_DEFAULT_POLLING, NULL}, true, 0},
      {"not of this kind", {2, GRPC_CQ_NEXT, GRPC_CQ_DEFAULT_POLLING, &at_shutdown}, true, 0},
      {"version 0", {0, GRPC_CQ_NEXT, GRPC_CQ_DEFAULT_POLLING, NULL}, false, 0},
      {"a later version", {3, GRPC_CQ_NEXT, GRPC_CQ_DEFAULT_POLLING, NULL}, false, 0},
      {"callback in version 1",
       {1, GRPC_CQ_CALLBACK, GRPC_CQ_DEFAULT_POLLING, &at_shutdown},
       false,
       0},
      {"no such kind", {2, (grpc_cq_completion_type)3, GRPC_CQ_DEFAULT_POLLING, NULL}, false, 0},
      {"no such polling", {2, GRPC_CQ_NEXT, (grpc_cq_polling_type)3, NULL}, false, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    n_runs = 0;
    weir_completion_queue *queue = weir_completion_queue_create(&rows[i].attributes, NULL);
    if ((queue != NULL) != rows[i].is_made) {
      fail_msg("%s", rows[i].why);
    }
    if (queue != NULL) {
      drain_to_the_end(queue, rows[i].attributes.cq_completion_type);
    }
    assert_int_equal(n_runs, rows[i].n_runs);
  }
}

static void options_of_an_older_program_are_understood(void **state) {
  (void)state;
  struct weir_completion_queue_options options = WEIR_COMPLETION_QUEUE_OPTIONS_INIT;
  options.size = offsetof(struct weir_completion_queue_options, n_callback_threads);
  options.n_callback_threads = UINT32_MAX; /* not read: there would be no memory for it */
  weir_completion_queue *queue = weir_completion_queue_create_for_callback(NULL, &options);
  assert_non_null(queue);
  weir_completion_queue_destroy(queue);
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      CLAIM(a_queue_of_another_kind_is_at_its_end_for_who_drains_it),
      CLAIM(attributes_tell_the_kind_and_how_it_is_polled),
      CLAIM(options_of_an_older_program_are_understood),
  };
  return cmocka_run_group_tests_name("kinds", tests, NULL, NULL);
}
