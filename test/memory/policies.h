/* policies – documents that have something of everything. SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_MEMORY_POLICIES_H
#define WEIR_TEST_MEMORY_POLICIES_H

#include <weir/policy.h>

/* Of a channel: what a policy may keep memory for. */
extern const char policy_rich[];

/* Of an organisation: enforces something that policy_rich does not contradict. */
extern const char policy_organisation[];

/* Refused, for three reasons, with a warning. */
extern const char policy_refused[];

/* Retries UNAVAILABLE at once, as often as may be; no boundary, no breaker. */
extern const char policy_retrying[];

/* Reads one, with memory. */
weir_policy *policy_of(const char *json);

#endif /* WEIR_TEST_MEMORY_POLICIES_H */
