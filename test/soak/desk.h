/* desk – a thread's own queue of weir's, and the tags that it waits for one by one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_DESK_H
#define WEIR_TEST_SOAK_DESK_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

/* Zeroed at first; its address is the tag. It lives until it has come as often as it is owed. */
struct desk_tag {
  uint32_t n_owed;
  uint32_t n_came;
  bool ok; /* the last time */
};

enum desk_kind { DESK_PLUCKS = 0, DESK_NEXT };

struct desk {
  weir_completion_queue *queue;
  enum desk_kind kind;
};

void desk_init(struct desk *desk, enum desk_kind kind);

/* Nothing is owed. Aborts if something comes all the same. */
void desk_fini(struct desk *desk);

/* The tag, with which a batch is about to be started. */
void *desk_owe(struct desk_tag *tag);

/* Whether the tag has come, or does within `span_ns` (WEIR_NO_LIMIT_NS = whenever). Aborts if one
 * comes that is not owed. */
bool desk_await(struct desk *desk, struct desk_tag *tag, int64_t span_ns);

#endif /* WEIR_TEST_SOAK_DESK_H */
