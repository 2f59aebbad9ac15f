/* trace – the identifiers by which a request is followed through a chain of services, as they came
 * and as they are passed on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_TRACE_H
#define WEIR_SRC_CALL_TRACE_H

#include <stdbool.h>
#include <stddef.h>

#include <grpc/grpc.h>

#include <weir/error.h>
#include <weir/log.h>

/* Keys that can be asked for. */
#define WEIR__TRACE_KEYS 8

/* What is passed on at most: a client must not be able to push the calls made for it over the 8 KiB
 * of metadata at which the core gives up the connection, and with it everybody's calls. */
#define WEIR__TRACE_ENTRIES 8
#define WEIR__TRACE_VALUE_BYTES 512 /* what the W3C has everybody pass on of a tracestate */
#define WEIR__TRACE_BYTES 2048      /* of keys and values together */

struct weir__trace_entry {
  grpc_slice key;
  grpc_slice value;
};

/* Zeroed = nothing is passed on. The slices are counted: the core may hold them longer than any
 * call. */
struct weir__trace {
  size_t n_entries;
  size_t n_bytes;
  bool has_first; /* the first entry is one of the first key */
  struct weir__trace_entry entries[WEIR__TRACE_ENTRIES];
};

/* WEIR_ERROR_INVALID_ARGUMENT: see weir_inbound_new. */
WEIR_MUST_CHECK enum weir_error weir__trace_check_keys(const char *const *keys, size_t n_keys);

/* Copies what the request has under these keys, in their order. */
void weir__trace_read(struct weir__trace *trace, const char *const *keys, size_t n_keys,
                      const grpc_metadata_array *metadata);

/* Whether metadata of the application's own have an entry's key. */
bool weir__trace_is_overridden(const struct weir__trace_entry *entry, const grpc_metadata *metadata,
                               size_t n_metadata);

/* The first value of the first key, borrowed; empty when there is none. */
struct weir_bytes weir__trace_first(const struct weir__trace *trace);

void weir__trace_fini(struct weir__trace *trace);

#endif /* WEIR_SRC_CALL_TRACE_H */
