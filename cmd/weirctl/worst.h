/* worst – how bad a call can get under a policy: its longest time, and its most attempts.
 *
 * It is what weir's own rules give: deadline, attempts, backoffs with their chance, the budget.
 * Two things are a server's to say and not counted: a pushback, which stands in the place of a
 * backoff, and the free replay of an attempt that no server has seen. Neither passes the deadline.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_WEIRCTL_WORST_H
#define WEIR_CMD_WEIRCTL_WORST_H

#include <stdint.h>

#include <weir/interceptor.h>
#include <weir/policy.h>

/* Times are WEIR_NO_LIMIT_NS where nothing bounds them. */
struct worst {
  int64_t deadline_ns; /* whatever the caller says */
  int64_t default_ns;  /* the deadline of a call whose caller says nothing */
  int64_t longest_ns;  /* until such a call, or any other, has ended */
  uint32_t n_attempts; /* that can start before the deadline */
};

struct worst worst_of(const struct weir_method_policy *method, enum weir_call_shape shape);

/* Attempts that the policy allows, were there time enough. */
uint32_t worst_attempts_allowed(const struct weir_method_policy *method);

/* All attempts at their longest, and the longest backoffs between them. */
int64_t worst_attempts_ns(const struct weir_method_policy *method, uint32_t n_attempts);

#endif /* WEIR_CMD_WEIRCTL_WORST_H */
