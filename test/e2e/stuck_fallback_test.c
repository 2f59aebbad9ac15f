/* A fallback that never returns: channels, queues and the core end without it, and so does the
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

#define STUCK 3

static void one_that_never_returns_holds_nothing_up(void **state) {
  (void)state;
  static struct gated_fallback fallback; /* its threads look at it until the process is gone */
  gated_fallback_init(&fallback);
  gated_fallback_close(&fallback);
  weir_channel *channel = channel_new(&(struct channel_setup){
      .port = odd_closed_port(),
      .policy = "{" NO_BOUNDARY "," NO_BREAKER
                ",\"fallback\":{\"onFailure\":true,\"timeout\":\"0.01s\",\"maxConcurrent\":3}}",
      .fallback = &fallback.base});
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct unary unaries[STUCK + 1];
  for (size_t i = 0; i < STUCK; i++) {
    unary_start(&unaries[i], channel, queue, NULL);
  }
  for (size_t i = 0; i < STUCK; i++) {
    assert_non_null(next_tag(queue));
  }
  gated_fallback_await_inside(&fallback, STUCK);
  unary_start(&unaries[STUCK], channel, queue, NULL);
  assert_ptr_equal(next_tag(queue), &unaries[STUCK]);
  for (size_t i = 0; i <= STUCK; i++) {
    unary_read_report(&unaries[i]);
    assert_int_equal(unaries[i].code, GRPC_STATUS_UNAVAILABLE);
    assert_int_equal(unaries[i].report.fallback_result,
                     i < STUCK ? WEIR_FALLBACK_TIMED_OUT : WEIR_FALLBACK_BUSY);
    unary_fini(&unaries[i]);
  }
  queue_end(queue);
  weir_channel_destroy(channel);
  assert_int_equal(fallback.n_released, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_that_never_returns_holds_nothing_up),
  };
  return cmocka_run_group_tests_name("stuck_fallback", tests, start_core, stop_core);
}
