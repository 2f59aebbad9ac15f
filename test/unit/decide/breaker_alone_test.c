/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <weir/decide.h>

/* What a program without gRPC can do: this test is linked with //:weir_decide and nothing else. */

#define T0 (1200 * WEIR_SECOND_NS)

struct memory {
  struct weir_allocator allocator;
  size_t n_allocations;
  size_t n_outstanding;
  size_t fails_at; /* the nth allocation fails; 0 = none */
};

static void *memory_allocate(void *context, size_t n_bytes) {
  struct memory *memory = context;
  if (++memory->n_allocations == memory->fails_at) {
    return NULL;
  }
  memory->n_outstanding++;
  return malloc(n_bytes);
}

static void memory_release(void *context, void *block) {
  struct memory *memory = context;
  memory->n_outstanding--;
  free(block);
}

static void memory_init(struct memory *memory) {
  *memory = (struct memory){.allocator = {.size = sizeof memory->allocator,
                                          .allocate = memory_allocate,
                                          .release = memory_release,
                                          .context = memory}};
}

static enum weir_admission one_call(weir_breaker *breaker, enum weir_breaker_verdict verdict,
                                    int64_t now_ns, struct weir_breaker_view *view_out) {
  struct weir_breaker_ticket ticket;
  enum weir_admission admission = weir_breaker_admit(breaker, now_ns, NULL, &ticket, view_out);
  if (admission == WEIR_ADMISSION_PROCEED) {
    weir_breaker_settle(breaker, &ticket, verdict, now_ns, NULL, view_out);
  }
  return admission;
}

static void guards_what_is_no_call_of_grpc(void **state) {
  (void)state;
  struct memory memory;
  weir_breaker *breaker = NULL;
  struct weir_breaker_view view;
  memory_init(&memory);
  assert_int_equal(weir_breaker_new(NULL, &memory.allocator, &breaker), WEIR_OK);
  size_t n_allocations = memory.n_allocations;
  for (int i = 0; i < 5; i++) {
    assert_int_equal(one_call(breaker, WEIR_BREAKER_VERDICT_FAILURE, T0, &view),
                     WEIR_ADMISSION_PROCEED);
  }
  assert_true(view.changed);
  assert_int_equal(view.state, WEIR_BREAKER_OPEN);
  assert_in_range(view.next_probe_in_ns, 27 * WEIR_SECOND_NS, 33 * WEIR_SECOND_NS);
  assert_int_equal(one_call(breaker, WEIR_BREAKER_VERDICT_SUCCESS, T0, &view),
                   WEIR_ADMISSION_REFUSE);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(
        one_call(breaker, WEIR_BREAKER_VERDICT_SUCCESS, T0 + 33 * WEIR_SECOND_NS, &view),
        WEIR_ADMISSION_PROCEED);
  }
  assert_int_equal(view.state, WEIR_BREAKER_CLOSED);
  assert_int_equal(memory.n_allocations, n_allocations);
  weir_breaker_free(breaker);
  assert_int_equal(memory.n_outstanding, 0);
}

static void scope_of_a_channel_is_no_matter(void **state) {
  (void)state;
  struct weir_breaker_options options = WEIR_BREAKER_OPTIONS_INIT;
  weir_breaker *breaker = NULL;
  options.scope = WEIR_BREAKER_SCOPE_METHOD;
  assert_int_equal(weir_breaker_new(&options, NULL, &breaker), WEIR_OK);
  weir_breaker_free(breaker);
  weir_breaker_free(NULL);
}

static void jitter_and_ramp_need_no_source_of_chance(void **state) {
  (void)state;
  struct weir_breaker_options options = WEIR_BREAKER_OPTIONS_INIT;
  weir_breaker *breaker = NULL;
  struct weir_breaker_view view;
  options.ramp_for_ns = 1000 * WEIR_SECOND_NS;
  options.min_requests = 1;
  options.probes = 1;
  assert_int_equal(weir_breaker_new(&options, NULL, &breaker), WEIR_OK);
  (void)one_call(breaker, WEIR_BREAKER_VERDICT_FAILURE, T0, &view);
  (void)one_call(breaker, WEIR_BREAKER_VERDICT_SUCCESS, T0 + 33 * WEIR_SECOND_NS, &view);
  int n_admitted = 0;
  for (int i = 0; i < 10000; i++) {
    n_admitted += one_call(breaker, WEIR_BREAKER_VERDICT_SUCCESS, T0 + 33 * WEIR_SECOND_NS,
                           &view) == WEIR_ADMISSION_PROCEED;
  }
  assert_in_range(n_admitted, 700, 1300); /* ten standard deviations */
  weir_breaker_free(breaker);
}

static void refuses_options_that_it_cannot_follow(void **state) {
  (void)state;
  struct {
    struct weir_breaker_options options;
    unsigned char more[8];
  } newer = {.options = WEIR_BREAKER_OPTIONS_INIT, .more = {0}};
  struct weir_breaker_options options = WEIR_BREAKER_OPTIONS_INIT;
  weir_breaker *breaker = NULL;
  newer.options.size = sizeof newer;
  assert_int_equal(weir_breaker_new(&newer.options, NULL, &breaker), WEIR_OK);
  weir_breaker_free(breaker);
  newer.more[0] = 1;
  assert_int_equal(weir_breaker_new(&newer.options, NULL, &breaker), WEIR_ERROR_UNSUPPORTED);
  assert_null(breaker);
  options.failure_ratio = 0.0;
  assert_int_equal(weir_breaker_new(&options, NULL, &breaker), WEIR_ERROR_INVALID_ARGUMENT);
  assert_null(breaker);
}

/* Of a program that was built before the last three options: its breaker acts, has no rule on a row
 * of failures and no ramp. */
static void older_programs_have_the_defaults_of_what_they_do_not_know(void **state) {
  (void)state;
  struct weir_breaker_options options = WEIR_BREAKER_OPTIONS_INIT;
  weir_breaker *breaker = NULL;
  struct weir_breaker_view view;
  options.size = offsetof(struct weir_breaker_options, mode);
  options.mode = (enum weir_breaker_mode)77;
  options.consecutive_failures = 1;
  options.ramp_for_ns = -1;
  assert_int_equal(weir_breaker_new(&options, NULL, &breaker), WEIR_OK);
  (void)one_call(breaker, WEIR_BREAKER_VERDICT_FAILURE, T0, &view);
  assert_int_equal(view.state, WEIR_BREAKER_CLOSED);
  weir_breaker_free(breaker);
}

static void no_memory_leaves_nothing(void **state) {
  (void)state;
  for (size_t nth = 1;; nth++) {
    struct memory memory;
    weir_breaker *breaker = NULL;
    memory_init(&memory);
    memory.fails_at = nth;
    enum weir_error error = weir_breaker_new(NULL, &memory.allocator, &breaker);
    if (error == WEIR_OK) {
      assert_true(nth > 1);
      weir_breaker_free(breaker);
      assert_int_equal(memory.n_outstanding, 0);
      return;
    }
    assert_int_equal(error, WEIR_ERROR_NO_MEMORY);
    assert_null(breaker);
    assert_int_equal(memory.n_outstanding, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(guards_what_is_no_call_of_grpc),
      cmocka_unit_test(scope_of_a_channel_is_no_matter),
      cmocka_unit_test(jitter_and_ramp_need_no_source_of_chance),
      cmocka_unit_test(refuses_options_that_it_cannot_follow),
      cmocka_unit_test(older_programs_have_the_defaults_of_what_they_do_not_know),
      cmocka_unit_test(no_memory_leaves_nothing),
  };
  return cmocka_run_group_tests_name("breaker alone", tests, NULL, NULL);
}
