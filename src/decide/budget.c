/* SPDX-License-Identifier: Apache-2.0 */
#include <weir/budget.h>

#include <weir/clock.h>

#include "src/time/instant.h"

bool weir_budget_allows(int64_t deadline_at_ns, int64_t start_at_ns, int64_t min_attempt_ns) {
  return deadline_at_ns == WEIR_NO_DEADLINE ||
         weir__instant_add(start_at_ns, min_attempt_ns) < deadline_at_ns;
}
