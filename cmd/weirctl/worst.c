/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/weirctl/worst.h"

#include <stdbool.h>

#include <weir/backoff.h>
#include <weir/budget.h>

#include "src/time/instant.h"

/* Where in its range chance puts a backoff. */
#define SHORTEST 0.0
#define LONGEST 1.0

static bool is_unary(enum weir_call_shape shape) {
  return shape == WEIR_CALL_SHAPE_ONE_BATCH;
}

uint32_t worst_attempts_allowed(const struct weir_method_policy *method) {
  switch (method->retry_options->owner) {
  case WEIR_RETRY_OWNER_OUTERMOST:
  case WEIR_RETRY_OWNER_ALWAYS:
    return method->retry.max_attempts;
  case WEIR_RETRY_OWNER_NEVER:
    return 1;
  }
  return 1;
}

/* When the attempt starts before which there are `n_backoffs`, and as many attempts that take
 * `attempt_ns` each. A call starts at 0. */
static int64_t start_at_ns(const struct weir_method_policy *method, uint32_t n_backoffs,
                           int64_t attempt_ns, double chance) {
  int64_t at_ns = 0;
  for (uint32_t n = 1; n <= n_backoffs; n++) {
    at_ns = weir__instant_add(at_ns, attempt_ns);
    at_ns = weir__instant_add(at_ns, weir_backoff_delay_ns(&method->retry, n, chance));
  }
  return at_ns;
}

int64_t worst_attempts_ns(const struct weir_method_policy *method, uint32_t n_attempts) {
  const int64_t attempt_ns = method->per_attempt_timeout_ns;
  return weir__instant_add(start_at_ns(method, n_attempts - 1, attempt_ns, LONGEST), attempt_ns);
}

/* Attempts that start in time if all before them fail at once and the backoffs are short. */
static uint32_t attempts_in_time(const struct weir_method_policy *method, int64_t deadline_ns) {
  const uint32_t n_allowed = worst_attempts_allowed(method);
  const int64_t min_ns = method->retry_options->min_attempt_time_ns;
  uint32_t n = deadline_ns > 0 ? 1 : 0;
  while (n > 0 && n < n_allowed &&
         weir_budget_allows(deadline_ns, start_at_ns(method, n, 0, SHORTEST), min_ns)) {
    n++;
  }
  return n;
}

/* Of a call that has `n_attempts`, and is not bounded by its deadline alone. The last attempt
 * starts as late as the budget allows. */
static int64_t attempts_end_ns(const struct weir_method_policy *method, uint32_t n_attempts,
                               int64_t deadline_ns) {
  const int64_t attempt_ns = method->per_attempt_timeout_ns;
  int64_t last_at_ns = start_at_ns(method, n_attempts - 1, attempt_ns, LONGEST);
  if (n_attempts > 1 && deadline_ns != WEIR_NO_LIMIT_NS) {
    last_at_ns = weir__instant_min(
        last_at_ns, weir__instant_add(deadline_ns, -method->retry_options->min_attempt_time_ns));
  }
  return weir__instant_add(last_at_ns, attempt_ns);
}

struct worst worst_of(const struct weir_method_policy *method, enum weir_call_shape shape) {
  const struct weir_deadline_options *deadline = method->deadline;
  const int64_t max_ns =
      is_unary(shape) ? deadline->max_timeout_ns : deadline->max_stream_timeout_ns;
  const int64_t default_ns =
      is_unary(shape) ? deadline->default_timeout_ns : deadline->default_stream_timeout_ns;
  const bool has_timeout = method->timeout_ns != WEIR_NO_LIMIT_NS;
  struct worst worst = {.deadline_ns = weir__instant_min(method->timeout_ns, max_ns)};
  worst.default_ns = weir__instant_min(has_timeout ? method->timeout_ns : default_ns, max_ns);
  worst.longest_ns = worst.deadline_ns;
  worst.n_attempts = attempts_in_time(method, worst.deadline_ns);
  /* A stream that has been answered is bounded by its deadline alone. */
  if (is_unary(shape) && worst.n_attempts > 0) {
    int64_t end_ns = attempts_end_ns(method, worst.n_attempts, worst.deadline_ns);
    if (method->fallback->on_failure) {
      end_ns = weir__instant_add(end_ns, method->fallback->timeout_ns);
    }
    worst.longest_ns = weir__instant_min(end_ns, worst.deadline_ns);
  }
  return worst;
}
