/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/outcome.h>
#include <weir/v1/policy.upbdefs.h>

#include "cmd/weirctl/warnings.h"
#include "cmd/weirctl/worst.h"
#include "src/policy/duration.h"

#define NAMES_SIZE 200
#define CODES_SIZE 200

struct subject {
  const struct policy_view *view;
  const struct view_entry *entry;
  struct findings *findings;
  char names[NAMES_SIZE]; /* of the entry, for people */
};

/* Of a field of the entry itself. */
static struct warning about(const struct subject *subject, const char *id, const char *json_name,
                            const char *name) {
  return (struct warning){
      .id = id,
      .path = subject->entry->path,
      .json_name = json_name,
      .field = {.message = subject->entry->config,
                .def = weir_v1_MethodConfig_getmsgdef(subject->view->layered.schema),
                .name = name},
      .index = VIEW_WHOLE};
}

/* Of a field of its retry policy; `path_out` stays with the warning. */
static struct warning about_retries(const struct subject *subject, const char *id,
                                    const char *json_name, const char *name,
                                    char path_out[ENTRY_PATH_SIZE + 16]) {
  (void)snprintf(path_out, ENTRY_PATH_SIZE + 16, "%s.retryPolicy", subject->entry->path);
  return (struct warning){
      .id = id,
      .path = path_out,
      .json_name = json_name,
      .field = {.message = weir_v1_MethodConfig_retry_policy(subject->entry->config),
                .def = weir_v1_RetryPolicy_getmsgdef(subject->view->layered.schema),
                .name = name},
      .index = VIEW_WHOLE};
}

/* "/a.B/C", "all of a.B", "all other methods"; the first, and how many more. */
static void print_names(const struct view_entry *entry, char names_out[NAMES_SIZE]) {
  char more[32] = "";
  char *name = view_name(entry, 0);
  const size_t length = strlen(name);
  if (entry->n_names > 1) {
    (void)snprintf(more, sizeof more, " and %zu more", entry->n_names - 1);
  }
  if (length == 0) {
    (void)snprintf(names_out, NAMES_SIZE, "all other methods%s", more);
  } else if (name[length - 1] == '/') {
    (void)snprintf(names_out, NAMES_SIZE, "all of %.*s%s", (int)length - 2, name + 1, more);
  } else {
    (void)snprintf(names_out, NAMES_SIZE, "%s%s", name, more);
  }
  free(name);
}

/* ---- what is retried ---- */

static void warn_of_idempotence(const struct subject *subject) {
  const struct warning warning =
      about(subject, "retry-not-idempotent", "retryPolicy", "retry_policy");
  if (!weir_v1_MethodConfig_idempotent(subject->entry->config)) {
    warn(subject->view, subject->findings, &warning,
         "retries %s, not marked idempotent: a call whose answer was lost is made twice",
         subject->names);
  }
}

#define BIT(code) (1u << (uint32_t)(code))

/* Codes that are seldom worth a retry, and why. */
static const struct {
  const char *id;
  uint32_t codes;
  const char *why;
} doubtful[] = {
    {"retry-code-local", BIT(GRPC_STATUS_CANCELLED) | BIT(GRPC_STATUS_DEADLINE_EXCEEDED),
     "retried only when a peer says it, never when this process does"},
    {"retry-code-unsafe",
     BIT(GRPC_STATUS_UNKNOWN) | BIT(GRPC_STATUS_INTERNAL) | BIT(GRPC_STATUS_DATA_LOSS),
     "the call may have had its effect, or fail the same way again"},
    {"retry-code-final",
     BIT(GRPC_STATUS_INVALID_ARGUMENT) | BIT(GRPC_STATUS_NOT_FOUND) |
         BIT(GRPC_STATUS_ALREADY_EXISTS) | BIT(GRPC_STATUS_PERMISSION_DENIED) |
         BIT(GRPC_STATUS_FAILED_PRECONDITION) | BIT(GRPC_STATUS_OUT_OF_RANGE) |
         BIT(GRPC_STATUS_UNIMPLEMENTED) | BIT(GRPC_STATUS_UNAUTHENTICATED),
     "the same call gets the same answer"},
};

static void print_codes(uint32_t codes, char out[CODES_SIZE]) {
  size_t n = 0;
  out[0] = '\0';
  for (uint32_t code = 0; code < WEIR_N_STATUS_CODES; code++) {
    if ((codes & BIT(code)) != 0 && n < CODES_SIZE) {
      n += (size_t)snprintf(out + n, CODES_SIZE - n, "%s%s", n > 0 ? ", " : "",
                            weir_status_code_name((grpc_status_code)code));
    }
  }
}

static void warn_of_codes(const struct subject *subject) {
  char path[ENTRY_PATH_SIZE + 16];
  char codes[CODES_SIZE];
  for (size_t i = 0; i < sizeof doubtful / sizeof doubtful[0]; i++) {
    const uint32_t found = subject->entry->method->retry.retryable_codes & doubtful[i].codes;
    if (found != 0) {
      const struct warning warning = about_retries(subject, doubtful[i].id, "retryableStatusCodes",
                                                   "retryable_status_codes", path);
      print_codes(found, codes);
      warn(subject->view, subject->findings, &warning, "%s: %s", codes, doubtful[i].why);
    }
  }
}

/* ---- whether there is time ---- */

/* What bounds a unary call, for people. */
static const char *bound_name(const struct weir_method_policy *method) {
  return method->timeout_ns <= method->deadline->max_timeout_ns ? "its timeout"
                                                                : "deadline.maxTimeout";
}

/* Attempts that come too late even if all before them fail at once. */
static void warn_of_late_attempts(const struct subject *subject, const struct worst *worst) {
  const struct weir_method_policy *method = subject->entry->method;
  char path[ENTRY_PATH_SIZE + 16];
  char bound[WEIR__DURATION_TEXT_SIZE];
  const struct warning warning =
      about_retries(subject, "retry-never-fits", "maxAttempts", "max_attempts", path);
  weir__duration_print(worst->deadline_ns, bound);
  warn(subject->view, subject->findings, &warning,
       "attempt %u of %u never starts: with the shortest backoffs it would be too late for the %s "
       "of the call (%s)",
       (unsigned)worst->n_attempts + 1, (unsigned)method->retry.max_attempts, bound,
       bound_name(method));
}

/* All attempts at their longest. */
static void warn_of_long_attempts(const struct subject *subject, const struct worst *worst) {
  const struct weir_method_policy *method = subject->entry->method;
  char bound[WEIR__DURATION_TEXT_SIZE];
  char attempt[WEIR__DURATION_TEXT_SIZE];
  char sum[WEIR__DURATION_TEXT_SIZE];
  const uint32_t n_attempts = worst_attempts_allowed(method);
  const int64_t sum_ns = worst_attempts_ns(method, n_attempts);
  weir__duration_print(worst->deadline_ns, bound);
  weir__duration_print(method->per_attempt_timeout_ns, attempt);
  weir__duration_print(sum_ns, sum);
  if (method->per_attempt_timeout_ns >= worst->deadline_ns) {
    const struct warning warning =
        about(subject, "attempt-timeout-no-use", "perAttemptTimeout", "per_attempt_timeout");
    warn(subject->view, subject->findings, &warning,
         "%s is not below the %s of the whole call (%s): it never ends an attempt", attempt, bound,
         bound_name(method));
  } else if (sum_ns > worst->deadline_ns) {
    const struct warning warning =
        about(subject, "attempts-beyond-deadline", "perAttemptTimeout", "per_attempt_timeout");
    warn(subject->view, subject->findings, &warning,
         "%u x %s and the backoffs between are up to %s, beyond the %s of the call (%s)",
         (unsigned)n_attempts, attempt, sum, bound, bound_name(method));
  }
}

/* Who takes `timeout` for that of an attempt means more than the ceiling. */
static void warn_of_timeout(const struct subject *subject) {
  const struct weir_method_policy *method = subject->entry->method;
  char timeout[WEIR__DURATION_TEXT_SIZE];
  char ceiling[WEIR__DURATION_TEXT_SIZE];
  const uint32_t n_attempts = worst_attempts_allowed(method);
  const int64_t ceiling_ns = method->deadline->max_timeout_ns;
  if (method->timeout_ns == WEIR_NO_LIMIT_NS || ceiling_ns == WEIR_NO_LIMIT_NS ||
      method->timeout_ns <= ceiling_ns / (int64_t)n_attempts) {
    return;
  }
  const struct warning warning = about(subject, "timeout-of-all-attempts", "timeout", "timeout");
  weir__duration_print(method->timeout_ns, timeout);
  weir__duration_print(ceiling_ns, ceiling);
  warn(subject->view, subject->findings, &warning,
       "%s is for all attempts together, since %u x %s is beyond deadline.maxTimeout, %s: "
       "perAttemptTimeout would leave time for another",
       timeout, (unsigned)n_attempts, timeout, ceiling);
}

static void warn_of_times(const struct subject *subject) {
  const struct weir_method_policy *method = subject->entry->method;
  const struct worst worst = worst_of(method, WEIR_CALL_SHAPE_ONE_BATCH);
  const bool retries = worst_attempts_allowed(method) > 1;
  if (worst.deadline_ns == 0 || worst.deadline_ns == WEIR_NO_LIMIT_NS) {
    return; /* a timeout of 0s has been told of */
  }
  if (retries && worst.n_attempts < method->retry.max_attempts) {
    warn_of_late_attempts(subject, &worst);
  }
  if (method->per_attempt_timeout_ns != WEIR_NO_LIMIT_NS) {
    warn_of_long_attempts(subject, &worst);
  } else if (retries) {
    warn_of_timeout(subject);
  }
}

void entry_warnings_add(const struct policy_view *view, const struct view_entry *entry,
                        struct findings *findings) {
  struct subject subject = {.view = view, .entry = entry, .findings = findings};
  print_names(entry, subject.names);
  warn_of_times(&subject);
  if (worst_attempts_allowed(entry->method) > 1) {
    warn_of_idempotence(&subject);
    warn_of_codes(&subject);
  }
  translation_warnings_add(view, weir_v1_MethodConfig_translation(entry->config), entry->path,
                           findings);
}
