/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/demo/pause.h"

#include <grpc/grpc.h>
#include <grpc/support/time.h>

#define NS_PER_SECOND INT64_C(1000000000)

void pause_for(int64_t span_ns) {
  grpc_completion_queue *queue = grpc_completion_queue_create_for_next(NULL);
  gpr_timespec until =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(span_ns, GPR_TIMESPAN));
  (void)grpc_completion_queue_next(queue, until, NULL);
  grpc_completion_queue_shutdown(queue);
  (void)grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  grpc_completion_queue_destroy(queue);
}

int64_t pause_now_ns(void) {
  gpr_timespec now = gpr_now(GPR_CLOCK_MONOTONIC);
  return now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}
