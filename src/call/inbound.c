/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/inbound.h"

#include <assert.h>
#include <string.h>

#include <grpc/slice.h>

#include "src/base/allocator.h"
#include "src/base/decimal.h"
#include "src/base/options.h"
#include "src/call/headers.h"
#include "src/time/clock.h"
#include "src/time/instant.h"
#include "src/time/timespec.h"

#define NS_PER_US 1000

/* --- what the request says --- */

/* WEIR_NO_DEADLINE for what can't be read, or is later than can be said. */
static int64_t budget_deadline(const grpc_slice *value, int64_t now_ns) {
  uint64_t budget_us = 0;
  if (!weir__decimal_read((const char *)GRPC_SLICE_START_PTR(*value), GRPC_SLICE_LENGTH(*value),
                          &budget_us) ||
      budget_us > (uint64_t)INT64_MAX / NS_PER_US) {
    return WEIR_NO_DEADLINE;
  }
  return weir__instant_add(now_ns, (int64_t)budget_us * NS_PER_US);
}

/* The nearest of what the server's core and the caller's budgets say: a header more can only bring
 * it nearer. */
static int64_t deadline_of(const struct weir__inbound_source *source, int64_t now_ns) {
  int64_t deadline_at_ns = source->details != NULL
                               ? weir__instant_from_timespec(source->details->deadline, now_ns)
                               : WEIR_NO_DEADLINE;
  for (size_t i = 0; source->metadata != NULL && i < source->metadata->count; i++) {
    const grpc_metadata *entry = &source->metadata->metadata[i];
    if (grpc_slice_str_cmp(entry->key, WEIR__HEADER_BUDGET) == 0) {
      deadline_at_ns = weir__instant_min(deadline_at_ns, budget_deadline(&entry->value, now_ns));
    }
  }
  return deadline_at_ns;
}

/* A caller without weir marks its retries, too, but not by whom. */
static bool is_a_retry(const grpc_metadata_array *metadata) {
  for (size_t i = 0; i < metadata->count; i++) {
    if (grpc_slice_str_cmp(metadata->metadata[i].key, WEIR__HEADER_PREVIOUS_ATTEMPTS) == 0) {
      return true;
    }
  }
  return false;
}

static void read_retry_owner(weir_inbound *inbound, const grpc_metadata_array *metadata) {
  if (metadata == NULL) {
    return;
  }
  inbound->has_retry_owner =
      weir__retry_owner_find(metadata->metadata, metadata->count, inbound->retry_owner);
  if (!inbound->has_retry_owner && is_a_retry(metadata)) {
    inbound->has_retry_owner = true;
    memcpy(inbound->retry_owner, WEIR__UNKNOWN_RETRY_OWNER, sizeof WEIR__UNKNOWN_RETRY_OWNER);
  }
}

/* --- life --- */

/* The options as this library knows them, and complete. */
static enum weir_error read_options(const struct weir_inbound_options *options,
                                    struct weir_inbound_options *known) {
  static const char *const usual_keys[] = {"traceparent", "tracestate"};
  if (options != NULL) {
    enum weir_error error = weir__options_copy(known, sizeof *known, options);
    if (error != WEIR_OK) {
      return error;
    }
  }
  if (known->trace_keys == NULL) {
    known->trace_keys = usual_keys;
    known->n_trace_keys = sizeof usual_keys / sizeof usual_keys[0];
  }
  return weir__trace_check_keys(known->trace_keys, known->n_trace_keys);
}

enum weir_error weir__inbound_new(const struct weir__inbound_source *source,
                                  const struct weir_inbound_options *options,
                                  weir_inbound **inbound_out) {
  struct weir_inbound_options known = WEIR_INBOUND_OPTIONS_INIT;
  enum weir_error error = read_options(options, &known);
  *inbound_out = NULL;
  if (error != WEIR_OK) {
    return error;
  }
  const struct weir_allocator *allocator = weir__allocator_or_default(known.allocator);
  weir_inbound *inbound = weir__zalloc(allocator, sizeof *inbound);
  if (inbound == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  atomic_init(&inbound->n_app_refs, 1);
  atomic_init(&inbound->n_refs, 1);
  inbound->allocator = allocator;
  inbound->transport = source->transport;
  if (source->server_call != NULL) {
    inbound->transport->call_ref(inbound->transport->context, source->server_call);
    inbound->server_call = source->server_call;
  }
  inbound->facts.deadline_at_ns =
      deadline_of(source, weir__clock_now_ns(weir__clock_or_default(NULL)));
  inbound->detached_facts.deadline_at_ns = WEIR_NO_DEADLINE;
  read_retry_owner(inbound, source->metadata);
  weir__trace_read(&inbound->trace, known.trace_keys, known.n_trace_keys, source->metadata);
  *inbound_out = inbound;
  return WEIR_OK;
}

enum weir_error weir_inbound_new(const grpc_call_details *details,
                                 const grpc_metadata_array *request_metadata,
                                 grpc_call *server_call, const struct weir_inbound_options *options,
                                 weir_inbound **inbound_out) {
  const struct weir__inbound_source source = {.details = details,
                                              .metadata = request_metadata,
                                              .server_call = server_call,
                                              .transport = weir__transport_core()};
  return weir__inbound_new(&source, options, inbound_out);
}

weir_inbound *weir__inbound_hold(weir_inbound *inbound) {
  /* relaxed: the caller has a share already */
  atomic_fetch_add_explicit(&inbound->n_refs, 1, memory_order_relaxed);
  return inbound;
}

void weir__inbound_let_go(weir_inbound *inbound) {
  /* acq_rel: what the others read comes before the end */
  if (inbound != NULL &&
      atomic_fetch_sub_explicit(&inbound->n_refs, 1, memory_order_acq_rel) == 1) {
    weir__trace_fini(&inbound->trace);
    weir__free(inbound->allocator, inbound);
  }
}

weir_inbound *weir_inbound_ref(weir_inbound *inbound) {
  if (inbound != NULL) {
    /* relaxed: the caller has a share already */
    atomic_fetch_add_explicit(&inbound->n_app_refs, 1, memory_order_relaxed);
  }
  return inbound;
}

void weir_inbound_release(weir_inbound *inbound) {
  /* acq_rel: calls that others have made of the server's call come before it is given back */
  if (inbound == NULL ||
      atomic_fetch_sub_explicit(&inbound->n_app_refs, 1, memory_order_acq_rel) != 1) {
    return;
  }
  if (inbound->server_call != NULL) {
    inbound->transport->call_unref(inbound->transport->context, inbound->server_call);
    inbound->server_call = NULL;
  }
  weir__inbound_let_go(inbound);
}

/* --- the thread's --- */

static _Thread_local struct weir_inbound_scope *innermost;

void weir_inbound_enter(weir_inbound *inbound, struct weir_inbound_scope *scope) {
  scope->inbound = weir_inbound_ref(inbound);
  scope->outer = innermost;
  innermost = scope;
}

void weir_inbound_leave(struct weir_inbound_scope *scope) {
  assert(innermost == scope);
  innermost = scope->outer;
  weir_inbound_release(scope->inbound);
  memset(scope, 0, sizeof *scope);
}

weir_inbound *weir_inbound_current(void) {
  return innermost != NULL ? innermost->inbound : NULL;
}
