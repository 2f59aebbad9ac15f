/* awaited_tag – a tag that is out with a batch, and that comes back once.
 *
 * On a queue that carries nothing but awaited tags, whatever else comes fails the test.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SUPPORT_AWAITED_TAG_H
#define WEIR_TEST_SUPPORT_AWAITED_TAG_H

#include <stdbool.h>
#include <stddef.h>

#include <grpc/grpc.h>

#include <weir/completion_queue.h>

/* Its address is the tag. Zeroed = it has never been out. */
struct awaited_tag {
  bool is_out;
  bool success; /* when it came last */
  size_t n_came;
};

/* A batch is being started with it; not while it is out. Returns what to give to the core. */
void *awaited_tag_go(struct awaited_tag *tag);

/* The batch was refused: it never comes. */
void awaited_tag_stay(struct awaited_tag *tag);

/* Takes one event from the queue, waiting until `until`; false when there is none. The tag of the
 * event is an awaited one that is out. */
bool awaited_tag_take(weir_completion_queue *queue, gpr_timespec until);

/* The same on a pluck queue, for one tag. */
bool awaited_tag_pluck(struct awaited_tag *tag, weir_completion_queue *queue, gpr_timespec until);

/* Drains a queue of the real core until `tag` has come, for ten seconds at most; says whether it
 * was a success. Others that come meanwhile are noted. */
#define awaited_tag_wait(tag, queue) awaited_tag_wait_at((tag), (queue), __FILE__, __LINE__)
bool awaited_tag_wait_at(struct awaited_tag *tag, weir_completion_queue *queue, const char *file,
                         int line);

#endif /* WEIR_TEST_SUPPORT_AWAITED_TAG_H */
