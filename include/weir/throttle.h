/* weir/throttle.h – the retry throttle (A6) of a server name, shared by all of the process.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_THROTTLE_H
#define WEIR_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/error.h>
#include <weir/export.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_THROTTLE_MAX_TOKENS 1000 /* A6: maxTokens is in (0, 1000] */

typedef struct weir_throttle weir_throttle;

/* Finds or makes the bucket of a target, and takes a share of it. The name is the target without the
 * schemes that name no other server (dns, ipv4, ipv6), in lower case. A new bucket is full; one that
 * exists with other parameters takes the new ones, for all who share it, and stays as full as it was
 * in proportion.
 *
 * Ownership: `target` is borrowed for the call. The share is the caller's until
 *            weir_throttle_release; `*throttle_out` is NULL on failure. Its memory is malloc's, since
 *            it outlives the allocator of any one channel.
 * Threads:   any thread.
 * Errors:    WEIR_ERROR_INVALID_ARGUMENT `max_tokens` is not 1..WEIR_THROTTLE_MAX_TOKENS or
 *            `token_ratio_milli` is 0. WEIR_ERROR_NO_MEMORY. */
WEIR_API WEIR_MUST_CHECK enum weir_error weir_throttle_acquire(const char *target,
                                                               uint32_t max_tokens,
                                                               uint32_t token_ratio_milli,
                                                               weir_throttle **throttle_out);

/* Takes another share.
 *
 * Ownership: the new share is the caller's until weir_throttle_release.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API void weir_throttle_ref(weir_throttle *throttle);

/* Gives a share back.
 *
 * Ownership: the share is taken over; NULL is allowed.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API void weir_throttle_release(weir_throttle *throttle);

/* Takes a token. Says whether a retry is allowed: only while more than half are left (A6).
 *
 * Ownership: nothing changes hands.
 * Threads:   any thread; no lock.
 * Errors:    none. */
WEIR_API bool weir_throttle_record_failure(weir_throttle *throttle);

/* Gives a part of a token back; a full bucket is only read.
 *
 * Ownership: nothing changes hands.
 * Threads:   any thread; no lock.
 * Errors:    none. */
WEIR_API void weir_throttle_record_success(weir_throttle *throttle);

/* Tells the level, in thousandths of a token.
 *
 * Ownership: nothing changes hands.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API uint32_t weir_throttle_tokens_milli(const weir_throttle *throttle);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_THROTTLE_H */
