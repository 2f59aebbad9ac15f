/* SPDX-License-Identifier: Apache-2.0 */
#include "src/queue/kept_events.h"

#include "src/base/allocator.h"
#include "src/base/container_of.h"

/* A page of them, about. */
#define CHUNK_LENGTH 85

struct kept_event {
  struct weir__completion completion;
  int success;
};

struct weir__kept_chunk {
  struct weir__kept_chunk *next;
  struct kept_event events[CHUNK_LENGTH];
};

void weir__kept_events_fini(struct weir__kept_events *kept,
                            const struct weir_allocator *allocator) {
  while (kept->chunks != NULL) {
    struct weir__kept_chunk *next = kept->chunks->next;
    weir__free(allocator, kept->chunks);
    kept->chunks = next;
  }
}

struct weir__kept_chunk *weir__kept_chunk_new(const struct weir_allocator *allocator) {
  return weir__zalloc(allocator, sizeof(struct weir__kept_chunk));
}

void weir__kept_events_add(struct weir__kept_events *kept, struct weir__kept_chunk *chunk) {
  chunk->next = kept->chunks;
  kept->chunks = chunk;
  for (size_t i = 0; i < CHUNK_LENGTH; i++) {
    chunk->events[i].completion.next = kept->free;
    kept->free = &chunk->events[i].completion;
  }
}

struct weir__completion *weir__kept_events_keep(struct weir__kept_events *kept,
                                                const grpc_event *event) {
  struct weir__completion *completion = kept->free;
  if (completion == NULL) {
    return NULL;
  }
  kept->free = completion->next;
  completion->app_tag = event->tag;
  WEIR__CONTAINER_OF(completion, struct kept_event, completion)->success = event->success;
  return completion;
}

grpc_event weir__kept_events_take(struct weir__kept_events *kept,
                                  struct weir__completion *completion) {
  int success = WEIR__CONTAINER_OF(completion, struct kept_event, completion)->success;
  completion->next = kept->free;
  kept->free = completion;
  return (grpc_event){.type = GRPC_OP_COMPLETE, .success = success, .tag = completion->app_tag};
}
