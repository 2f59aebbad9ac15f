/* SPDX-License-Identifier: Apache-2.0 */
#include "src/queue/timer_heap.h"

#include <stddef.h>

/* Fredman, Sedgewick, Sleator, Tarjan: The pairing heap (1986). */
static struct weir__timer *meld(struct weir__timer *a, struct weir__timer *b) {
  if (a == NULL) {
    return b;
  }
  if (b == NULL) {
    return a;
  }
  if (b->due_at_ns < a->due_at_ns) {
    struct weir__timer *swap = a;
    a = b;
    b = swap;
  }
  b->sibling = a->child;
  if (b->sibling != NULL) {
    b->sibling->previous = b;
  }
  b->previous = a;
  a->child = b;
  return a;
}

/* Melds a list of siblings into one heap: pairs from the left, then the pairs from the right.
 * Iterative, because a heap of 100,000 timers added in order has one parent for them all. */
static struct weir__timer *meld_siblings(struct weir__timer *first) {
  struct weir__timer *pairs = NULL; /* linked by `sibling`, the last pair first */
  while (first != NULL) {
    struct weir__timer *a = first;
    struct weir__timer *b = a->sibling;
    first = b != NULL ? b->sibling : NULL;
    a->sibling = NULL;
    if (b != NULL) {
      b->sibling = NULL;
    }
    struct weir__timer *pair = meld(a, b);
    pair->sibling = pairs;
    pairs = pair;
  }
  struct weir__timer *root = NULL;
  while (pairs != NULL) {
    struct weir__timer *next = pairs->sibling;
    pairs->sibling = NULL;
    root = meld(root, pairs);
    pairs = next;
  }
  return root;
}

void weir__timer_heap_add(struct weir__timer_heap *heap, struct weir__timer *timer) {
  timer->child = NULL;
  timer->sibling = NULL;
  timer->previous = NULL;
  timer->armed = true;
  heap->root = meld(heap->root, timer);
}

bool weir__timer_heap_remove(struct weir__timer_heap *heap, struct weir__timer *timer) {
  if (!timer->armed) {
    return false;
  }
  timer->armed = false;
  struct weir__timer *rest = meld_siblings(timer->child);
  timer->child = NULL;
  if (heap->root == timer) {
    heap->root = rest;
    if (rest != NULL) {
      rest->previous = NULL;
    }
    return true;
  }
  if (timer->previous->child == timer) {
    timer->previous->child = timer->sibling;
  } else {
    timer->previous->sibling = timer->sibling;
  }
  if (timer->sibling != NULL) {
    timer->sibling->previous = timer->previous;
  }
  timer->sibling = NULL;
  heap->root = meld(heap->root, rest);
  heap->root->previous = NULL;
  return true;
}

struct weir__timer *weir__timer_heap_first(const struct weir__timer_heap *heap) {
  return heap->root;
}
