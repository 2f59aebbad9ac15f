/* fallback – a channel whose calls are answered by another provider where its own can't.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_EXAMPLES_FALLBACK_H
#define WEIR_EXAMPLES_FALLBACK_H

#include <weir/weir.h>

/* `other` is taken over, if there is a channel. */
weir_channel *channel_with_other(const char *target, grpc_channel_credentials *creds,
                                 weir_policy *policy, weir_channel *other);

#endif /* WEIR_EXAMPLES_FALLBACK_H */
