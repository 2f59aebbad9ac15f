/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/extras.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/slice.h>

#include "src/base/allocator.h"
#include "src/call/call.h"

/* --- life --- */

/* What the application asked for with weir_call_arena_alloc, once. */
struct weir__call_memory {
  struct weir__call_memory *next;
  alignas(max_align_t) unsigned char bytes[];
};

struct weir__call_extras *weir__call_extras_new(const grpc_slice *host,
                                                const struct weir_allocator *allocator) {
  struct weir__call_extras *extras = weir__zalloc(allocator, sizeof *extras);
  if (extras != NULL && host != NULL) {
    extras->has_host = true;
    extras->host = grpc_slice_ref(*host);
  }
  return extras;
}

static void release_credentials(struct weir__call_extras *extras) {
  if (extras->credentials_hold != NULL) {
    grpc_channel_credentials_release(extras->credentials_hold);
    extras->credentials_hold = NULL;
  }
  extras->credentials = NULL;
}

void weir__call_extras_free(struct weir__call_extras *extras,
                            const struct weir_allocator *allocator) {
  if (extras == NULL || extras->shared) {
    return;
  }
  if (extras->has_host) {
    grpc_slice_unref(extras->host);
  }
  if (extras->has_details) {
    grpc_slice_unref(extras->details);
  }
  release_credentials(extras);
  /* relaxed: whoever frees a call has seen all that was done with it */
  struct weir__call_memory *memory = atomic_load_explicit(&extras->memory, memory_order_relaxed);
  while (memory != NULL) {
    struct weir__call_memory *next = memory->next;
    weir__free(allocator, memory);
    memory = next;
  }
  weir__free(allocator, extras);
}

/* --- attempts --- */

void weir__call_extras_aim(const struct weir__call_extras *extras,
                           struct weir__call_target *target) {
  target->registered = extras->registered;
  target->host = extras->has_host ? &extras->host : NULL;
}

void weir__call_extras_apply(const struct weir__call_extras *extras,
                             const struct weir__transport *transport, grpc_call *core) {
  if (extras->shared) {
    return;
  }
  if (extras->credentials != NULL) {
    transport->call_set_credentials(transport->context, core, extras->credentials);
  }
  if (extras->census != NULL) {
    transport->call_set_census(transport->context, core, extras->census);
  }
}

/* --- what the application sets --- */

/* The call's own, made if it has none; NULL when there is no memory. Threads may meet here: memory
 * can be asked for at any time. */
static struct weir__call_extras *own_extras(weir_call *call) {
  const struct weir_allocator *allocator = call->environment->allocator;
  struct weir__call_extras *extras = atomic_load_explicit(&call->extras, memory_order_acquire);
  while (extras == NULL || extras->shared) {
    struct weir__call_extras *own = weir__call_extras_new(NULL, allocator);
    if (own == NULL) {
      return NULL;
    }
    if (extras != NULL) {
      own->registered = extras->registered;
      own->policy = extras->policy;
      own->breaker_entry = extras->breaker_entry;
    }
    /* release: what is in it, for threads that load it; acquire: what another thread has put there
     * instead */
    if (atomic_compare_exchange_strong_explicit(&call->extras, &extras, own, memory_order_acq_rel,
                                                memory_order_acquire)) {
      return own;
    }
    weir__call_extras_free(own, allocator);
  }
  return extras;
}

static bool is_started(const weir_call *call) {
  unsigned state = atomic_load_explicit(&call->state, memory_order_acquire);
  return (state & (WEIR__CALL_STARTING | WEIR__CALL_STARTED)) != 0;
}

/* A share of `credentials`, in the only way that the core's surface has to take one: channel
 * credentials that are composed of them. */
static grpc_channel_credentials *hold_credentials(grpc_call_credentials *credentials) {
  grpc_channel_credentials *insecure = grpc_insecure_credentials_create(); /* a share of the one */
  grpc_channel_credentials *hold =
      grpc_composite_channel_credentials_create(insecure, credentials, NULL);
  grpc_channel_credentials_release(insecure);
  return hold;
}

grpc_call_error weir_call_set_credentials(weir_call *call, grpc_call_credentials *creds) {
  if (is_started(call)) {
    return GRPC_CALL_ERROR_ALREADY_INVOKED;
  }
  struct weir__call_extras *extras = own_extras(call);
  if (extras == NULL) {
    return GRPC_CALL_ERROR;
  }
  release_credentials(extras);
  if (creds != NULL) {
    extras->credentials = creds;
    extras->credentials_hold = hold_credentials(creds);
  }
  return GRPC_CALL_OK;
}

void weir_census_call_set_context(weir_call *call, struct census_context *context) {
  if (context == NULL || is_started(call)) {
    return;
  }
  struct weir__call_extras *extras = own_extras(call);
  if (extras != NULL) {
    extras->census = context;
  }
}

void *weir_call_arena_alloc(weir_call *call, size_t size) {
  struct weir__call_extras *extras = own_extras(call);
  if (extras == NULL || size > SIZE_MAX - sizeof(struct weir__call_memory)) {
    return NULL;
  }
  struct weir__call_memory *memory =
      weir__zalloc(call->environment->allocator, sizeof *memory + size);
  if (memory == NULL) {
    return NULL;
  }
  memory->next = atomic_load_explicit(&extras->memory, memory_order_relaxed);
  /* release: `next`, for the thread that frees them all */
  while (!atomic_compare_exchange_weak_explicit(&extras->memory, &memory->next, memory,
                                                memory_order_release, memory_order_relaxed)) {
  }
  return memory->bytes;
}

/* --- what weir makes for the application --- */

bool weir__call_extras_hold_details(weir_call *call, grpc_slice details) {
  struct weir__call_extras *extras = own_extras(call);
  if (extras == NULL) {
    grpc_slice_unref(details);
    return false;
  }
  extras->has_details = true; /* once a call: by the thread that ends it */
  extras->details = details;
  return true;
}
