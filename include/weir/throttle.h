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

/* So many names of which nobody has a share any more have their level kept: those given back last.
 * One that is full is not among them, as it has nothing to keep. */
#define WEIR_THROTTLE_KEPT_NAMES 1024

/* A share of a server name's bucket of tokens. */
typedef struct weir_throttle weir_throttle;

/* Finds or makes the bucket of the server that a target names, and takes a share of it. A bucket
 * that is new is full; one that nobody had is as full as it was left. One that exists with other
 * parameters takes these, for all who share it, and stays as full as it was in proportion: to
 * a thousandth of a token, and without drift, however often they change back and forth.
 *
 * Names are compared as text, with what can't tell two servers apart taken out: the schemes dns,
 * ipv4 and ipv6 with their authority, the case of letters, escapes, whether a port of 443 (the
 * core's default) is written, and the ways to write an IPv6 address. "host" and "host." may differ
 * and stay two. A target of another scheme (unix, xds, ...) is its own name, as it stands.
 *
 * Ownership: `target` is borrowed for the call. The share is the caller's until
 *            weir_throttle_release; `*throttle_out` is NULL on failure. Its memory is malloc's,
 *            since it outlives the allocator of any one channel.
 * Threads:   any thread; it takes a lock of the process for a look-up, as long with one name as
 *            with 10,000. After a fork the child has the levels of that moment, and counts for
 *            itself.
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

/* Gives a share back. With the last one the bucket is nobody's; its level is kept as
 * WEIR_THROTTLE_KEPT_NAMES says.
 *
 * Ownership: the share is taken over; NULL is allowed.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API void weir_throttle_release(weir_throttle *throttle);

/* Forgets the levels that are kept of names nobody has: whoever takes a share of one next begins
 * with a full bucket. For tests, and after an outage that is known to be over.
 *
 * Ownership: nothing changes hands; buckets that somebody has stay as they are.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API void weir_throttle_forget(void);

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
