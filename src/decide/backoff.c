/* SPDX-License-Identifier: Apache-2.0 */
#include <weir/backoff.h>

#include <weir/clock.h>

/* A6, text of August 2024: x random(0.8, 1.2), the first retry included. */
#define JITTER_LOW 0.8
#define JITTER_SPAN 0.4

/* `base` to the power of `exponent`; infinite rather than wrong. */
static double power(double base, uint32_t exponent) {
  double result = 1.0;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) {
      result *= base;
    }
    base *= base;
  }
  return result;
}

/* A6 caps every delay but the first, which is initialBackoff even where that is above maxBackoff.
 */
static double delay_before_jitter(const struct weir_retry_policy *policy, uint32_t nth) {
  double initial_ns = (double)policy->initial_backoff_ns;
  double max_ns = (double)policy->max_backoff_ns;
  if (nth <= 1) {
    return initial_ns;
  }
  double delay_ns = initial_ns * power(policy->backoff_multiplier, nth - 1);
  return delay_ns < max_ns ? delay_ns : max_ns; /* not a number goes the way of infinity */
}

int64_t weir_backoff_delay_ns(const struct weir_retry_policy *policy, uint32_t nth, double unit) {
  double delay_ns = delay_before_jitter(policy, nth) * (JITTER_LOW + JITTER_SPAN * unit);
  if (delay_ns >= (double)WEIR_NO_LIMIT_NS) {
    return WEIR_NO_LIMIT_NS;
  }
  return delay_ns >= 1.0 ? (int64_t)delay_ns : 1;
}
