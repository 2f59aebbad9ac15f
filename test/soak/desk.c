/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/desk.h"

#include <stdio.h>
#include <stdlib.h>

#include <grpc/support/time.h>

#include "test/soak/live_memory.h"

static void check(bool fine, const char *what) {
  if (!fine) {
    fprintf(stderr, "soak: desk: %s\n", what);
    abort();
  }
}

void desk_init(struct desk *desk, enum desk_kind kind) {
  struct weir_completion_queue_options options = WEIR_COMPLETION_QUEUE_OPTIONS_INIT;
  options.allocator = &live_memory;
  desk->kind = kind;
  desk->queue = kind == DESK_PLUCKS ? weir_completion_queue_create_for_pluck(&options)
                                    : weir_completion_queue_create_for_next(&options);
  check(desk->queue != NULL, "no queue");
}

void desk_fini(struct desk *desk) {
  struct desk_tag none = {.n_owed = 0};
  grpc_event event;
  weir_completion_queue_shutdown(desk->queue);
  if (desk->kind == DESK_PLUCKS) {
    event =
        weir_completion_queue_pluck(desk->queue, &none, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  } else {
    event = weir_completion_queue_next(desk->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  }
  check(event.type == GRPC_QUEUE_SHUTDOWN, "a tag came after all that were owed");
  weir_completion_queue_destroy(desk->queue);
}

void *desk_owe(struct desk_tag *tag) {
  tag->n_owed++;
  return tag;
}

static gpr_timespec instant_after(int64_t span_ns) {
  return span_ns == WEIR_NO_LIMIT_NS ? gpr_inf_future(GPR_CLOCK_MONOTONIC)
                                     : gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                                    gpr_time_from_nanos(span_ns, GPR_TIMESPAN));
}

static void take(grpc_event event) {
  struct desk_tag *tag = event.tag;
  check(tag->n_came < tag->n_owed, "a tag came once too often");
  tag->n_came++;
  tag->ok = event.success != 0;
}

bool desk_await(struct desk *desk, struct desk_tag *tag, int64_t span_ns) {
  gpr_timespec until = instant_after(span_ns);
  while (tag->n_came < tag->n_owed) {
    grpc_event event = desk->kind == DESK_PLUCKS
                           ? weir_completion_queue_pluck(desk->queue, tag, until, NULL)
                           : weir_completion_queue_next(desk->queue, until, NULL);
    if (event.type != GRPC_OP_COMPLETE) {
      return false;
    }
    take(event);
  }
  return true;
}
