/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/scripted_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct scripted_event {
  struct scripted_event *next;
  void *tag;
  bool success;
};

void scripted_queue_push(struct scripted_queue *queue, void *tag, bool success) {
  struct scripted_event *event = calloc(1, sizeof *event);
  assert_non_null(event);
  event->tag = tag;
  event->success = success;
  if (queue->has_cache && queue->cached == NULL) {
    queue->cached = event; /* it is under way yet */
    return;
  }
  struct scripted_event **last = &queue->events;
  while (*last != NULL) {
    last = &(*last)->next;
  }
  *last = event;
  assert_true(queue->n_open > 0);
  queue->n_open--;
}

void scripted_queue_begin(struct scripted_queue *queue) {
  if (queue->n_open == 0) {
    fail_msg("an operation was started on a queue that is shut down: the core aborts");
  }
  queue->n_open++;
}

bool scripted_queue_holds(const struct scripted_queue *queue, const void *tag) {
  const struct scripted_event *event = queue->events;
  while (event != NULL && event->tag != tag) {
    event = event->next;
  }
  return event != NULL || (queue->cached != NULL && queue->cached->tag == tag);
}

void scripted_queue_turn(struct scripted_queue *queue) {
  struct scripted_event *turned = NULL;
  while (queue->events != NULL) {
    struct scripted_event *event = queue->events;
    queue->events = event->next;
    event->next = turned;
    turned = event;
  }
  queue->events = turned;
}

static grpc_event event_take(struct scripted_event *event) {
  grpc_event taken = {
      .type = GRPC_OP_COMPLETE, .success = event->success ? 1 : 0, .tag = event->tag};
  free(event);
  return taken;
}

bool scripted_queue_pop(struct scripted_queue *queue, grpc_event *event_out) {
  struct scripted_event *event = queue->events;
  if (event == NULL) {
    return false;
  }
  queue->events = event->next;
  *event_out = event_take(event);
  return true;
}

bool scripted_queue_flush(struct scripted_queue *queue, grpc_event *event_out) {
  struct scripted_event *event = queue->cached;
  queue->has_cache = false;
  queue->cached = NULL;
  if (event == NULL) {
    return false;
  }
  queue->n_open--;
  *event_out = event_take(event);
  return true;
}
