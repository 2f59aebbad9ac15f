/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/gated_fallback.h"

#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

static enum weir_fallback_found ask(void *context, const struct weir_fallback_request *request,
                                    struct weir_fallback_answer *answer) {
  struct gated_fallback *fallback = context;
  (void)request;
  (void)pthread_mutex_lock(&fallback->mutex);
  fallback->n_asked++;
  fallback->n_inside++;
  if (fallback->n_inside > fallback->n_inside_most) {
    fallback->n_inside_most = fallback->n_inside;
  }
  (void)pthread_cond_broadcast(&fallback->changed);
  while (!fallback->is_open) {
    (void)pthread_cond_wait(&fallback->changed, &fallback->mutex);
  }
  fallback->n_inside--;
  (void)pthread_cond_broadcast(&fallback->changed);
  (void)pthread_mutex_unlock(&fallback->mutex);
  grpc_slice slice = grpc_slice_from_copied_string(fallback->text);
  answer->message = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  answer->source = "gate";
  return fallback->found;
}

static void release(void *context) {
  struct gated_fallback *fallback = context;
  (void)pthread_mutex_lock(&fallback->mutex);
  fallback->n_released++;
  (void)pthread_cond_broadcast(&fallback->changed);
  (void)pthread_mutex_unlock(&fallback->mutex);
}

void gated_fallback_init(struct gated_fallback *fallback) {
  memset(fallback, 0, sizeof *fallback);
  fallback->base = (struct weir_fallback)WEIR_FALLBACK_INIT;
  fallback->base.ask = ask;
  fallback->base.release = release;
  fallback->base.context = fallback;
  fallback->found = WEIR_FALLBACK_FOUND;
  fallback->text = "stale";
  fallback->is_open = true;
  (void)pthread_mutex_init(&fallback->mutex, NULL);
  (void)pthread_cond_init(&fallback->changed, NULL);
}

void gated_fallback_fini(struct gated_fallback *fallback, unsigned n_released) {
  (void)pthread_mutex_lock(&fallback->mutex);
  while (fallback->n_released < n_released) {
    (void)pthread_cond_wait(&fallback->changed, &fallback->mutex);
  }
  (void)pthread_mutex_unlock(&fallback->mutex);
  (void)pthread_cond_destroy(&fallback->changed);
  (void)pthread_mutex_destroy(&fallback->mutex);
}

static void set_open(struct gated_fallback *fallback, bool is_open) {
  (void)pthread_mutex_lock(&fallback->mutex);
  fallback->is_open = is_open;
  (void)pthread_cond_broadcast(&fallback->changed);
  (void)pthread_mutex_unlock(&fallback->mutex);
}

void gated_fallback_open(struct gated_fallback *fallback) {
  set_open(fallback, true);
}

void gated_fallback_close(struct gated_fallback *fallback) {
  set_open(fallback, false);
}

void gated_fallback_await_inside(struct gated_fallback *fallback, unsigned n_inside) {
  (void)pthread_mutex_lock(&fallback->mutex);
  while (fallback->n_inside < n_inside) {
    (void)pthread_cond_wait(&fallback->changed, &fallback->mutex);
  }
  (void)pthread_mutex_unlock(&fallback->mutex);
}

void gated_fallback_await_empty(struct gated_fallback *fallback) {
  (void)pthread_mutex_lock(&fallback->mutex);
  while (fallback->n_inside > 0) {
    (void)pthread_cond_wait(&fallback->changed, &fallback->mutex);
  }
  (void)pthread_mutex_unlock(&fallback->mutex);
}
