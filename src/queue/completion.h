/* completion – one batch of the application that a queue owes a tag for.
 *
 * Its address is the tag that the core is given. It lives in a block of its queue, and not at its
 * start if the core gets it, so a queue can tell it from any other tag by the address alone: also
 * from that of a call.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_QUEUE_COMPLETION_H
#define WEIR_SRC_QUEUE_COMPLETION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

struct weir__completion;

struct weir__completion_ops {
  /* The core's event for it, in the thread that drains. True: `event_out` is for the application,
   * now. False: the batch goes on (a retry). */
  bool (*on_event)(struct weir__completion *completion, bool ok, grpc_event *event_out);

  /* It was put on the ready list, and is about to be handed out. */
  void (*deliver)(struct weir__completion *completion, grpc_event *event_out);
};

struct weir__completion {
  const struct weir__completion_ops *ops;
  void *app_tag;
  struct weir__completion *next; /* in a list of its queue's, once it has ended */
  uint8_t slot;                  /* which of its call's */
  uint8_t op_types;              /* bit n = grpc_op_type n is in the batch */
  uint8_t core_op_types;         /* those of them that the core was given with it */
  bool ok;                       /* once it has ended without the core: what its event says */
};

/* First in, first out. Zeroed = empty. The caller synchronises. */
struct weir__completion_list {
  struct weir__completion *first;
  struct weir__completion *last;
};

static inline void weir__completion_list_push(struct weir__completion_list *list,
                                              struct weir__completion *completion) {
  completion->next = NULL;
  if (list->last != NULL) {
    list->last->next = completion;
  } else {
    list->first = completion;
  }
  list->last = completion;
}

/* NULL when it is empty. */
static inline struct weir__completion *
weir__completion_list_pop(struct weir__completion_list *list) {
  struct weir__completion *completion = list->first;
  if (completion != NULL) {
    list->first = completion->next;
    if (list->first == NULL) {
      list->last = NULL;
    }
  }
  return completion;
}

#endif /* WEIR_SRC_QUEUE_COMPLETION_H */
