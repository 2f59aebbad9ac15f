/* swap – what a channel goes by: its first policy, and those that are put in its place.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CHANNEL_SWAP_H
#define WEIR_SRC_CHANNEL_SWAP_H

#include <weir/channel.h>
#include <weir/error.h>
#include <weir/policy.h>

/* Puts a channel's first policy in force (NULL = the built-in one), or what an organisation's makes
 * of it; tells the log where that refuses it. Before anybody else has the channel.
 * WEIR_ERROR_NO_MEMORY, or what is wrong with the policy. */
WEIR_MUST_CHECK enum weir_error weir__channel_begin_policy(weir_channel *channel,
                                                           weir_policy *policy);

#endif /* WEIR_SRC_CHANNEL_SWAP_H */
