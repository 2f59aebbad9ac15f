/* throttle – the token bucket (A6) of a server name, shared by all channels of the process to it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_INTERCEPTORS_RETRY_THROTTLE_H
#define WEIR_INTERCEPTORS_RETRY_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/error.h>

#define WEIR__THROTTLE_MAX_TOKENS 1000 /* A6: maxTokens is in (0, 1000] */

struct weir__throttle;

/* Finds or makes the bucket of a channel's target, and takes a share of it. The name is the target
 * without the schemes that name no other server (dns, ipv4, ipv6), in lower case. A new bucket is
 * full; one that exists with other parameters takes the new ones, for all who share it, and stays
 * as full as it was in proportion. It outlives the allocator of any one channel, so its memory is
 * malloc's.
 *
 * `max_tokens` is 1..WEIR__THROTTLE_MAX_TOKENS, `token_ratio_milli` at least 1. Any thread. The
 * share ends with weir__throttle_release; NULL on failure. WEIR_ERROR_NO_MEMORY. */
WEIR_MUST_CHECK enum weir_error weir__throttle_acquire(const char *target, uint32_t max_tokens,
                                                       uint32_t token_ratio_milli,
                                                       struct weir__throttle **throttle_out);

/* Takes another share. Any thread. */
void weir__throttle_ref(struct weir__throttle *throttle);

/* Gives a share back; the bucket goes with the last one. Any thread. NULL is allowed. */
void weir__throttle_release(struct weir__throttle *throttle);

/* Takes a token. Says whether a retry is allowed: only while more than half are left. Any thread,
 * no lock. */
bool weir__throttle_record_failure(struct weir__throttle *throttle);

/* Gives a part of a token back. Any thread, no lock; of a full bucket it only reads. */
void weir__throttle_record_success(struct weir__throttle *throttle);

/* For reports and tests. Any thread. */
uint32_t weir__throttle_tokens_milli(const struct weir__throttle *throttle);

#endif /* WEIR_INTERCEPTORS_RETRY_THROTTLE_H */
