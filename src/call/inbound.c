/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/inbound.h"

#include <string.h>

#include <grpc/slice.h>

#include "src/base/allocator.h"
#include "src/base/decimal.h"
#include "src/call/headers.h"
#include "src/time/clock.h"
#include "src/time/instant.h"

#define NS_PER_US 1000

static const grpc_slice *find(const grpc_metadata_array *metadata, const char *key) {
  for (size_t i = 0; metadata != NULL && i < metadata->count; i++) {
    if (grpc_slice_str_cmp(metadata->metadata[i].key, key) == 0) {
      return &metadata->metadata[i].value;
    }
  }
  return NULL;
}

/* When the caller's budget is used up; WEIR_NO_DEADLINE when it says none, or nothing that can be
 * read. */
static int64_t budget_deadline(const grpc_metadata_array *metadata, int64_t now_ns) {
  const grpc_slice *value = find(metadata, WEIR__HEADER_BUDGET);
  uint64_t budget_us = 0;
  if (value == NULL || !weir__decimal_read((const char *)GRPC_SLICE_START_PTR(*value),
                                           GRPC_SLICE_LENGTH(*value), &budget_us)) {
    return WEIR_NO_DEADLINE;
  }
  if (budget_us > (uint64_t)INT64_MAX / NS_PER_US) {
    return WEIR_NO_DEADLINE;
  }
  return weir__instant_add(now_ns, (int64_t)budget_us * NS_PER_US);
}

/* A name as policies have them; see weir_policy_options. */
static bool is_owner_name(const char *text, size_t size) {
  static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  for (size_t i = 0; i < size; i++) {
    if (text[i] == '\0' || strchr(allowed, text[i]) == NULL) {
      return false;
    }
  }
  return size > 0 && size < WEIR__RETRY_OWNER_BYTES;
}

/* Whether a layer further out owns the retries, and under which name to pass that on. A marker that
 * can't be a name still marks: whoever sent it wants no retries here. */
static void read_retry_owner(weir_inbound *inbound, const grpc_metadata_array *metadata) {
  const grpc_slice *owner = find(metadata, WEIR__HEADER_RETRY_OWNER);
  if (owner == NULL && find(metadata, WEIR__HEADER_PREVIOUS_ATTEMPTS) == NULL) {
    return;
  }
  const char *name = WEIR__UNKNOWN_RETRY_OWNER;
  size_t size = sizeof WEIR__UNKNOWN_RETRY_OWNER - 1;
  if (owner != NULL &&
      is_owner_name((const char *)GRPC_SLICE_START_PTR(*owner), GRPC_SLICE_LENGTH(*owner))) {
    name = (const char *)GRPC_SLICE_START_PTR(*owner);
    size = GRPC_SLICE_LENGTH(*owner);
  }
  memcpy(inbound->retry_owner, name, size);
  inbound->retry_owner[size] = '\0';
  inbound->facts.retry_owner = inbound->retry_owner;
}

enum weir_error weir_inbound_new(const grpc_call_details *details,
                                 const grpc_metadata_array *request_metadata,
                                 grpc_call *server_call, const struct weir_allocator *allocator,
                                 weir_inbound **inbound_out) {
  const struct weir_allocator *own = weir__allocator_or_default(allocator);
  weir_inbound *inbound = weir__zalloc(own, sizeof *inbound);
  *inbound_out = inbound;
  if (inbound == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  int64_t now_ns = weir__clock_now_ns(weir__clock_or_default(NULL));
  atomic_init(&inbound->n_refs, 1);
  inbound->allocator = own;
  inbound->server_call = server_call;
  inbound->facts.deadline_at_ns =
      details != NULL ? weir__instant_from_timespec(details->deadline, now_ns) : WEIR_NO_DEADLINE;
  inbound->facts.deadline_at_ns =
      weir__instant_min(inbound->facts.deadline_at_ns, budget_deadline(request_metadata, now_ns));
  read_retry_owner(inbound, request_metadata);
  return WEIR_OK;
}

weir_inbound *weir__inbound_ref(weir_inbound *inbound) {
  atomic_fetch_add_explicit(&inbound->n_refs, 1,
                            memory_order_relaxed); /* the caller has a share already */
  return inbound;
}

void weir_inbound_release(weir_inbound *inbound) {
  /* acq_rel: what the others read comes before the end */
  if (inbound != NULL &&
      atomic_fetch_sub_explicit(&inbound->n_refs, 1, memory_order_acq_rel) == 1) {
    weir__free(inbound->allocator, inbound);
  }
}
