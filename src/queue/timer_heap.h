/* timer_heap – what is due, the earliest first; an intrusive pairing heap, so arming never
 * allocates and never fails.
 *
 * Arming is O(1), disarming and taking the earliest O(log n) amortised. The caller synchronises.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_QUEUE_TIMER_HEAP_H
#define WEIR_SRC_QUEUE_TIMER_HEAP_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed = not armed. */
struct weir__timer {
  int64_t due_at_ns;
  /* In a thread that drains the queue, or in the one that shuts it down or hands out its last tag:
   * then it may be early. Without a lock. */
  void (*on_due)(struct weir__timer *timer, int64_t now_ns);
  struct weir__timer *child;
  struct weir__timer *sibling;
  struct weir__timer *previous; /* the elder sibling, or the parent of an eldest child */
  bool armed;
  bool in_parts; /* on_due may leave work to a next time: what is there to hand out comes first */
  bool lasting;  /* see weir__queue_arm_lasting_locked */
};

/* Zeroed = empty. */
struct weir__timer_heap {
  struct weir__timer *root;
};

/* `timer` is not armed; its due_at_ns is set. */
void weir__timer_heap_add(struct weir__timer_heap *heap, struct weir__timer *timer);

/* False when it was not armed. */
bool weir__timer_heap_remove(struct weir__timer_heap *heap, struct weir__timer *timer);

/* The earliest, or NULL; it stays in. */
struct weir__timer *weir__timer_heap_first(const struct weir__timer_heap *heap);

#endif /* WEIR_SRC_QUEUE_TIMER_HEAP_H */
