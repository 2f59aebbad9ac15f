/* translation – the layer that decides what the caller sees of a failure at a service boundary.
 *
 * It sets plan->visible_code, plan->scrubbed and plan->do_not_retry; the engine puts the words in
 * place.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_INTERCEPTORS_TRANSLATION_TRANSLATION_H
#define WEIR_INTERCEPTORS_TRANSLATION_TRANSLATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/status.h>

#include <weir/allocator.h>
#include <weir/error.h>
#include <weir/interceptor.h>
#include <weir/policy.h>
#include <weir/report.h>

/* The longest scrubbed message and its end: "downstream service: RESOURCE_EXHAUSTED" or
 * FAILED_PRECONDITION, and " [ref 0123456789ab]". */
#define WEIR__TRANSLATION_MESSAGE_BYTES 64

/* What options may have: names of types that are kept, and bytes of each. */
#define WEIR__TRANSLATION_MAX_KEEP_DETAILS 64
#define WEIR__TRANSLATION_TYPE_NAME_BYTES 255

/* The caller ends `*layer_out` with its destroy hook; NULL on failure. WEIR_ERROR_NO_MEMORY. */
WEIR_MUST_CHECK enum weir_error weir__translation_layer_new(const struct weir_allocator *allocator,
                                                            weir_interceptor **layer_out);

/* The message of a scrubbed failure, terminated; returns its length. `reference` is one as
 * weir__reference_make makes it; NULL = without one. */
size_t weir__translation_message(grpc_status_code visible, const char *reference,
                                 char out[WEIR__TRANSLATION_MESSAGE_BYTES]);

/* What a message that is cut ends with: U+2026. */
#define WEIR__TRANSLATION_CUT "\xe2\x80\xa6"

/* How much of a message stays where `max_bytes` is the most: all of it, or so much that
 * WEIR__TRANSLATION_CUT fits behind it, without a part of a UTF-8 character at the end. */
size_t weir__translation_message_fit(const char *message, size_t size, size_t max_bytes);

/* 12 hex digits of `random`, terminated. */
void weir__reference_make(uint64_t random, char reference_out[WEIR_REFERENCE_LENGTH + 1]);

/* Whether metadata under `key` (not terminated) passes a boundary. */
bool weir__translation_keeps(const struct weir_translation_options *options, const char *key,
                             size_t key_size);

/* WEIR_ERROR_INVALID_ARGUMENT: OK is translated, or something to OK; a code or a size is out of
 * range; a key can't be one, or is reserved by gRPC; a name can't be that of a message type, or
 * there are too many. `diagnostic` may be NULL. */
WEIR_MUST_CHECK enum weir_error
weir__translation_options_check(const struct weir_translation_options *options,
                                struct weir_diagnostic *diagnostic);

#endif /* WEIR_INTERCEPTORS_TRANSLATION_TRANSLATION_H */
