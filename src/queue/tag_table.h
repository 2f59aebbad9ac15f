/* tag_table – what has come and waits to be plucked, and who waits to pluck what, by tag.
 *
 * For one tag both are first in, first out. The caller synchronises.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_QUEUE_TAG_TABLE_H
#define WEIR_SRC_QUEUE_TAG_TABLE_H

#include <stddef.h>

#include <weir/allocator.h>

#include "src/queue/completion.h"

#define WEIR__TAG_TABLE_FIRST_LENGTH 16

struct weir__tag_waiter {
  void *tag;
  struct weir__tag_waiter *next;
  struct weir__tag_waiter *previous;
};

struct weir__tag_bucket {
  struct weir__completion_list come;
  struct weir__tag_waiter *first_waiter;
  struct weir__tag_waiter *last_waiter;
};

struct weir__tag_table {
  struct weir__tag_bucket *buckets;
  size_t length; /* a power of two */
  size_t n_entries;
  struct weir__tag_bucket first[WEIR__TAG_TABLE_FIRST_LENGTH];
};

void weir__tag_table_init(struct weir__tag_table *table);
void weir__tag_table_fini(struct weir__tag_table *table, const struct weir_allocator *allocator);

/* With app_tag for its tag. */
void weir__tag_table_put(struct weir__tag_table *table, struct weir__completion *completion);

/* The first that has come with the tag, or NULL. */
struct weir__completion *weir__tag_table_take(struct weir__tag_table *table, const void *tag);

void weir__tag_table_add_waiter(struct weir__tag_table *table, struct weir__tag_waiter *waiter);
void weir__tag_table_remove_waiter(struct weir__tag_table *table, struct weir__tag_waiter *waiter);

/* The first that waits for the tag, or NULL; it stays in. */
struct weir__tag_waiter *weir__tag_table_find_waiter(const struct weir__tag_table *table,
                                                     const void *tag);

/* A table that has become crowded works on, but slower. What it had better be replaced by, in
 * buckets, is allocated with no lock held; 0 = it is large enough. */
size_t weir__tag_table_wanted_length(const struct weir__tag_table *table);
struct weir__tag_bucket *weir__tag_buckets_new(const struct weir_allocator *allocator,
                                               size_t length);

/* Moves in. What was there before is to be freed; NULL = nothing. */
struct weir__tag_bucket *weir__tag_table_grow(struct weir__tag_table *table,
                                              struct weir__tag_bucket *buckets, size_t length);

#endif /* WEIR_SRC_QUEUE_TAG_TABLE_H */
