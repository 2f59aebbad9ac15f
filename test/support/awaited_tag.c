/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/awaited_tag.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <grpc/support/time.h>

#define WAIT_LIMIT_S 10

void *awaited_tag_go(struct awaited_tag *tag) {
  assert_false(tag->is_out);
  tag->is_out = true;
  return tag;
}

void awaited_tag_stay(struct awaited_tag *tag) {
  assert_true(tag->is_out);
  tag->is_out = false;
}

static bool note(const grpc_event *event) {
  if (event->type != GRPC_OP_COMPLETE) {
    return false;
  }
  struct awaited_tag *tag = event->tag;
  assert_non_null(tag);
  assert_true(tag->is_out); /* or it comes a second time */
  tag->is_out = false;
  tag->success = event->success != 0;
  tag->n_came++;
  return true;
}

bool awaited_tag_take(weir_completion_queue *queue, gpr_timespec until) {
  grpc_event event = weir_completion_queue_next(queue, until, NULL);
  return note(&event);
}

bool awaited_tag_pluck(struct awaited_tag *tag, weir_completion_queue *queue, gpr_timespec until) {
  grpc_event event = weir_completion_queue_pluck(queue, tag, until, NULL);
  if (event.type == GRPC_OP_COMPLETE) {
    assert_ptr_equal(event.tag, tag);
  }
  return note(&event);
}

bool awaited_tag_wait_at(struct awaited_tag *tag, weir_completion_queue *queue, const char *file,
                         int line) {
  gpr_timespec limit =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(WAIT_LIMIT_S, GPR_TIMESPAN));
  while (tag->is_out) {
    if (!awaited_tag_take(queue, limit)) {
      print_error("a tag did not come back\n");
      _fail(file, line);
    }
  }
  return tag->success;
}
