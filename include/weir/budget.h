/* weir/budget.h – whether another attempt fits into the time that a call has.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BUDGET_H
#define WEIR_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Says whether an attempt that starts at `start_at_ns` and needs at least `min_attempt_ns` ends
 * before the call's deadline. One that would end exactly with it does not fit.
 *
 * Ownership: nothing changes hands. Instants are of one monotonic clock; WEIR_NO_DEADLINE = none.
 * Threads:   any thread.
 * Errors:    none; sums saturate. */
WEIR_API bool weir_budget_allows(int64_t deadline_at_ns, int64_t start_at_ns,
                                 int64_t min_attempt_ns);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_BUDGET_H */
