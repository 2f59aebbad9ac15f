/* backoff – how long to wait before a retry (A6).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_INTERCEPTORS_RETRY_BACKOFF_H
#define WEIR_INTERCEPTORS_RETRY_BACKOFF_H

#include <stdint.h>

#include <weir/policy.h>

/* The delay before the `nth` retry (from 1), with `unit` in [0, 1) for the jitter of +-20 %. At
 * least 1 ns. */
int64_t weir__backoff_delay_ns(const struct weir_retry_policy *policy, uint32_t nth, double unit);

#endif /* WEIR_INTERCEPTORS_RETRY_BACKOFF_H */
