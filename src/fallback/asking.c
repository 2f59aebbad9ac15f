/* SPDX-License-Identifier: Apache-2.0 */
#include "src/fallback/asking.h"

#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

#include <weir/policy.h>

#include "src/base/allocator.h"
#include "src/base/label.h"

_Static_assert(WEIR_FALLBACK_SOURCE_MAX == WEIR__LABEL_MAX, "a source is a label");

/* --- life --- */

/* One block: the asking, the metadata, the path. */
struct weir__asking *weir__asking_new(const struct weir__asking_arguments *arguments) {
  const struct weir_fallback_request *request = arguments->request;
  struct weir__fallbacks *fallbacks = arguments->fallbacks;
  struct weir__asking *asking = NULL;
  if (request->n_metadata <= (SIZE_MAX / 2 - sizeof *asking) / sizeof *request->metadata) {
    asking = weir__zalloc(fallbacks->allocator,
                          sizeof *asking + request->n_metadata * sizeof *request->metadata +
                              request->path_size + 1);
  }
  if (asking == NULL) {
    return NULL;
  }
  atomic_init(&asking->n_refs, 2);
  asking->fallbacks = fallbacks;
  weir__fallbacks_ref(fallbacks);
  asking->request = *request;
  asking->metadata = (grpc_metadata *)(void *)(asking + 1);
  for (size_t i = 0; i < request->n_metadata; i++) {
    /* The application may have it in memory that is valid until its tag is back. */
    asking->metadata[i].key = grpc_slice_copy(request->metadata[i].key);
    asking->metadata[i].value = grpc_slice_copy(request->metadata[i].value);
  }
  asking->request.metadata = asking->metadata;
  asking->request.path =
      memcpy(asking->metadata + request->n_metadata, request->path, request->path_size);
  asking->ops = arguments->ops;
  pthread_mutex_init(&asking->guarded.lock, NULL);
  asking->guarded.waiter = arguments->waiter;
  return asking;
}

static void destroy_message(grpc_byte_buffer **message) {
  if (*message != NULL) {
    grpc_byte_buffer_destroy(*message);
    *message = NULL;
  }
}

/* The fallback looks at it no more. */
static void drop_request(struct weir__asking *asking) {
  destroy_message(&asking->request.message);
  for (size_t i = 0; i < asking->request.n_metadata; i++) {
    grpc_slice_unref(asking->metadata[i].key);
    grpc_slice_unref(asking->metadata[i].value);
  }
  asking->request.n_metadata = 0;
}

void weir__asking_release(struct weir__asking *asking) {
  /* acq_rel: what the other did with it comes before its end */
  if (atomic_fetch_sub_explicit(&asking->n_refs, 1, memory_order_acq_rel) != 1) {
    return;
  }
  struct weir__fallbacks *fallbacks = asking->fallbacks;
  destroy_message(&asking->message);
  pthread_mutex_destroy(&asking->guarded.lock);
  weir__free(fallbacks->allocator, asking);
  weir__fallbacks_unref(fallbacks);
}

/* --- whose the end is --- */

/* Under the lock the waiter is there, whatever it does: to abandon, it needs the lock. */
void *weir__asking_claim(struct weir__asking *asking) {
  pthread_mutex_lock(&asking->guarded.lock);
  void *waiter = asking->guarded.waiter;
  if (waiter != NULL && asking->ops->claim(waiter)) {
    asking->guarded.waiter = NULL;
  } else {
    waiter = NULL;
  }
  pthread_mutex_unlock(&asking->guarded.lock);
  return waiter;
}

void weir__asking_abandon(struct weir__asking *asking) {
  pthread_mutex_lock(&asking->guarded.lock);
  asking->guarded.waiter = NULL;
  pthread_mutex_unlock(&asking->guarded.lock);
}

/* --- the thread --- */

static bool is_message(const grpc_byte_buffer *message) {
  return message != NULL && message->type == GRPC_BB_RAW &&
         message->data.raw.compression == GRPC_COMPRESS_NONE;
}

/* Whether it can be handed out as what the source holds. */
static bool is_real(const struct weir_fallback_request *request,
                    const struct weir_fallback_answer *answer) {
  if (!is_message(answer->message) || answer->source == NULL ||
      !weir__label_is_legal(answer->source)) {
    return false;
  }
  size_t size = grpc_byte_buffer_length(answer->message);
  if (request->max_response_bytes != WEIR_NO_LIMIT_BYTES && size > request->max_response_bytes) {
    return false;
  }
  return size > 0 || answer->empty_is_real;
}

static enum weir_fallback_result judge(enum weir_fallback_found found,
                                       const struct weir_fallback_request *request,
                                       const struct weir_fallback_answer *answer) {
  switch (found) {
  case WEIR_FALLBACK_FOUND_NOTHING:
    return WEIR_FALLBACK_MISS;
  case WEIR_FALLBACK_FOUND:
    return is_real(request, answer) ? WEIR_FALLBACK_HIT : WEIR_FALLBACK_BROKEN;
  }
  return WEIR_FALLBACK_BROKEN; /* what this library does not know */
}

/* Hands the answer to who waits for it; the message is taken over. */
static void give_answer(struct weir__asking *asking, enum weir_fallback_result result,
                        struct weir_fallback_answer *answer) {
  void *waiter = weir__asking_claim(asking);
  if (waiter == NULL) {
    destroy_message(&answer->message);
    /* relaxed: a count that nothing else is ordered by */
    (void)atomic_fetch_add_explicit(&asking->fallbacks->n_late, 1, memory_order_relaxed);
    return;
  }
  asking->result = result;
  asking->message = answer->message;
  asking->source = answer->source;
  asking->ops->answer(waiter);
}

static void *ask(void *context) {
  struct weir__asking *asking = context;
  struct weir__fallbacks *fallbacks = asking->fallbacks;
  struct weir_fallback_answer answer = {.size = sizeof answer};
  enum weir_fallback_found found =
      fallbacks->fallback.ask(fallbacks->fallback.context, &asking->request, &answer);
  enum weir_fallback_result result = judge(found, &asking->request, &answer);
  if (answer.message == asking->request.message) {
    asking->request.message = NULL; /* the request itself is the answer */
  }
  drop_request(asking);
  if (result != WEIR_FALLBACK_HIT) {
    destroy_message(&answer.message);
  }
  weir__fallbacks_leave(fallbacks); /* before the answer: who has got it may ask the next */
  give_answer(asking, result, &answer);
  weir__asking_release(asking);
  return NULL;
}

bool weir__asking_start(struct weir__asking *asking) {
  const struct weir__fallback_threads *threads = asking->fallbacks->threads;
  return threads->start(threads->context, ask, asking);
}

void weir__asking_drop(struct weir__asking *asking) {
  drop_request(asking);
  weir__fallbacks_leave(asking->fallbacks);
  weir__asking_release(asking);
}
