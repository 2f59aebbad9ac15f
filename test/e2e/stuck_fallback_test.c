/* A fallback that does not return: channels, queues and the core end without it, and so does the
 * process, which is this test's own for that.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <grpc/grpc.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/gated_fallback.h"
#include "test/e2e/support/odd_peer.h"

#define PLACES 3

/* Its threads look at them until the process is gone. */
static struct gated_fallback stuck;
static struct gated_fallback late;

#define POLICY                                                        \
  "{" NO_BOUNDARY "," NO_BREAKER ",\"fallback\":{\"onFailure\":true," \
  "\"timeout\":\"0.01s\",\"maxConcurrent\":3}}"

static void check_failure(struct unary *unary, enum weir_fallback_result result) {
  unary_read_report(unary);
  assert_int_equal(unary->code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary->report.fallback_result, result);
  unary_fini(unary);
}

/* Has calls ask until nobody is left to answer, and ends all that they needed. */
static void ask_in_vain(struct gated_fallback *fallback) {
  gated_fallback_init(fallback);
  gated_fallback_close(fallback);
  weir_channel *channel = channel_new(&(struct channel_setup){
      .port = odd_closed_port(), .policy = POLICY, .fallback = &fallback->base});
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct unary unaries[PLACES + 1];
  for (size_t i = 0; i < PLACES; i++) {
    unary_start(&unaries[i], channel, queue, NULL);
  }
  for (size_t i = 0; i < PLACES; i++) {
    assert_non_null(next_tag(queue));
  }
  gated_fallback_await_inside(fallback, PLACES);
  unary_start(&unaries[PLACES], channel, queue, NULL);
  assert_ptr_equal(next_tag(queue), &unaries[PLACES]);
  for (size_t i = 0; i < PLACES; i++) {
    check_failure(&unaries[i], WEIR_FALLBACK_TIMED_OUT);
  }
  check_failure(&unaries[PLACES], WEIR_FALLBACK_BUSY);
  queue_end(queue);
  weir_channel_destroy(channel);
  assert_int_equal(fallback->n_released, 0);
}

static void one_that_never_returns_holds_nothing_up(void **state) {
  (void)state;
  ask_in_vain(&stuck);
}

static void one_that_returns_too_late_is_let_go(void **state) {
  (void)state;
  ask_in_vain(&late);
}

/* The core is gone before it returns. */
static int stop_core_first(void **state) {
  (void)stop_core(state);
  gated_fallback_open(&late);
  gated_fallback_fini(&late, 1);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_that_never_returns_holds_nothing_up),
      cmocka_unit_test(one_that_returns_too_late_is_let_go),
  };
  return cmocka_run_group_tests_name("stuck_fallback", tests, start_core, stop_core_first);
}
