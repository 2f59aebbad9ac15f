/* SPDX-License-Identifier: Apache-2.0 */
#include "src/decide/breaker_options.h"

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct rule {
  bool broken;
  const char *field;
  const char *message;
};

static void diagnose(struct weir_diagnostic *diagnostic, const struct rule *rule) {
  if (diagnostic == NULL) {
    return;
  }
  memset(diagnostic, 0, sizeof *diagnostic);
  (void)snprintf(diagnostic->path, sizeof diagnostic->path, "%s", rule->field);
  (void)snprintf(diagnostic->message, sizeof diagnostic->message, "%s", rule->message);
}

static bool scope_is_known(enum weir_breaker_scope scope) {
  switch (scope) {
  case WEIR_BREAKER_SCOPE_CHANNEL:
  case WEIR_BREAKER_SCOPE_SERVICE:
  case WEIR_BREAKER_SCOPE_METHOD:
    return true;
  }
  return false;
}

static bool mode_is_known(enum weir_breaker_mode mode) {
  switch (mode) {
  case WEIR_BREAKER_MODE_ENFORCE:
  case WEIR_BREAKER_MODE_SHADOW:
    return true;
  }
  return false;
}

/* The comparisons of floating-point fields are written so that NaN breaks them. */
enum weir_error weir__breaker_options_check(const struct weir_breaker_options *options,
                                            struct weir_diagnostic *diagnostic) {
  const struct rule rules[] = {
      {!scope_is_known(options->scope), "scope", "must be CHANNEL, SERVICE or METHOD"},
      {options->max_breakers == 0, "maxBreakers", "must be at least 1"},
      {options->window_buckets == 0 || options->window_buckets > WEIR__BREAKER_MAX_BUCKETS,
       "windowBuckets", "must be 1 to 60"},
      {options->window_ns / WEIR_MS_NS < (int64_t)options->window_buckets, "window",
       "must be at least 1 ms for each of windowBuckets"},
      {options->min_requests == 0, "minRequests", "must be at least 1"},
      {!(options->failure_ratio > 0.0 && options->failure_ratio <= 1.0), "failureRatio",
       "must be above 0 and at most 1"},
      {options->open_for_ns <= 0, "openFor", "must be above 0"},
      {!(options->open_jitter >= 0.0 && options->open_jitter < 1.0), "openJitter",
       "must be at least 0 and below 1"},
      {!(options->open_backoff >= 1.0 && options->open_backoff <= DBL_MAX), "openBackoff",
       "must be at least 1 and finite"},
      {options->max_open_for_ns < options->open_for_ns, "maxOpenFor", "must not be below openFor"},
      {options->probes == 0 || options->probes > WEIR__BREAKER_MAX_PROBES, "probes",
       "must be 1 to 1024"},
      {options->probe_lease_ns <= 0, "probeLease",
       "must be above 0: without it every call would be a probe"},
      {options->deadline_floor_ns < 0, "deadlineFloor", "must not be negative"},
      {!mode_is_known(options->mode), "mode", "must be ENFORCE or SHADOW"},
      {options->ramp_for_ns < 0, "rampFor", "must not be negative"},
  };
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    if (rules[i].broken) {
      diagnose(diagnostic, &rules[i]);
      return WEIR_ERROR_INVALID_ARGUMENT;
    }
  }
  return WEIR_OK;
}
