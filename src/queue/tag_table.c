/* SPDX-License-Identifier: Apache-2.0 */
#include "src/queue/tag_table.h"

#include <stdint.h>
#include <string.h>

#include "src/base/allocator.h"

#define MAX_ENTRIES_A_BUCKET 2

static struct weir__tag_bucket *bucket_of(const struct weir__tag_table *table, const void *tag) {
  uint64_t hash = (uint64_t)(uintptr_t)tag * UINT64_C(0x9e3779b97f4a7c15);
  return &table->buckets[(size_t)(hash >> 32) & (table->length - 1)];
}

void weir__tag_table_init(struct weir__tag_table *table) {
  memset(table, 0, sizeof *table);
  table->buckets = table->first;
  table->length = WEIR__TAG_TABLE_FIRST_LENGTH;
}

void weir__tag_table_fini(struct weir__tag_table *table, const struct weir_allocator *allocator) {
  if (table->buckets != table->first) {
    weir__free(allocator, table->buckets);
  }
}

void weir__tag_table_put(struct weir__tag_table *table, struct weir__completion *completion) {
  weir__completion_list_push(&bucket_of(table, completion->app_tag)->come, completion);
  table->n_entries++;
}

struct weir__completion *weir__tag_table_take(struct weir__tag_table *table, const void *tag) {
  struct weir__completion_list *come = &bucket_of(table, tag)->come;
  struct weir__completion *before = NULL;
  for (struct weir__completion *completion = come->first; completion != NULL;
       before = completion, completion = completion->next) {
    if (completion->app_tag != tag) {
      continue;
    }
    if (before != NULL) {
      before->next = completion->next;
    } else {
      come->first = completion->next;
    }
    if (come->last == completion) {
      come->last = before;
    }
    table->n_entries--;
    return completion;
  }
  return NULL;
}

static void bucket_add_waiter(struct weir__tag_bucket *bucket, struct weir__tag_waiter *waiter) {
  waiter->next = NULL;
  waiter->previous = bucket->last_waiter;
  if (bucket->last_waiter != NULL) {
    bucket->last_waiter->next = waiter;
  } else {
    bucket->first_waiter = waiter;
  }
  bucket->last_waiter = waiter;
}

void weir__tag_table_add_waiter(struct weir__tag_table *table, struct weir__tag_waiter *waiter) {
  bucket_add_waiter(bucket_of(table, waiter->tag), waiter);
  table->n_entries++;
}

void weir__tag_table_remove_waiter(struct weir__tag_table *table, struct weir__tag_waiter *waiter) {
  struct weir__tag_bucket *bucket = bucket_of(table, waiter->tag);
  if (waiter->previous != NULL) {
    waiter->previous->next = waiter->next;
  } else {
    bucket->first_waiter = waiter->next;
  }
  if (waiter->next != NULL) {
    waiter->next->previous = waiter->previous;
  } else {
    bucket->last_waiter = waiter->previous;
  }
  table->n_entries--;
}

struct weir__tag_waiter *weir__tag_table_find_waiter(const struct weir__tag_table *table,
                                                     const void *tag) {
  struct weir__tag_waiter *waiter = bucket_of(table, tag)->first_waiter;
  while (waiter != NULL && waiter->tag != tag) {
    waiter = waiter->next;
  }
  return waiter;
}

size_t weir__tag_table_wanted_length(const struct weir__tag_table *table) {
  if (table->n_entries <= table->length * MAX_ENTRIES_A_BUCKET) {
    return 0;
  }
  size_t length = table->length;
  while (length < table->n_entries) {
    length *= 2;
  }
  return length > table->length ? length : table->length * 2;
}

struct weir__tag_bucket *weir__tag_buckets_new(const struct weir_allocator *allocator,
                                               size_t length) {
  return weir__zalloc_array(allocator, length, sizeof(struct weir__tag_bucket));
}

struct weir__tag_bucket *weir__tag_table_grow(struct weir__tag_table *table,
                                              struct weir__tag_bucket *buckets, size_t length) {
  struct weir__tag_bucket *old = table->buckets;
  size_t old_length = table->length;
  table->buckets = buckets;
  table->length = length;
  for (size_t i = 0; i < old_length; i++) {
    struct weir__completion *completion = NULL;
    while ((completion = weir__completion_list_pop(&old[i].come)) != NULL) {
      weir__completion_list_push(&bucket_of(table, completion->app_tag)->come, completion);
    }
    struct weir__tag_waiter *waiter = old[i].first_waiter;
    while (waiter != NULL) {
      struct weir__tag_waiter *next = waiter->next;
      bucket_add_waiter(bucket_of(table, waiter->tag), waiter);
      waiter = next;
    }
  }
  return old != table->first ? old : NULL;
}
