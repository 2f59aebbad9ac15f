/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/weirctl/warnings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <weir/v1/policy.upbdefs.h>

#include "cmd/weirctl/worst.h"

#define PATH_SIZE 256
#define MESSAGE_SIZE 512

/* "translation.keepMetadata[2]"; the path of a message may be empty. */
static void print_path(const struct warning *warning, char path_out[PATH_SIZE]) {
  (void)snprintf(path_out, PATH_SIZE, "%s%s%s%s", warning->path,
                 warning->path[0] != '\0' && warning->json_name[0] != '\0' ? "." : "",
                 warning->json_name, warning->element != NULL ? warning->element : "");
}

void warn(const struct policy_view *view, struct findings *findings, const struct warning *warning,
          const char *format, ...) {
  char path[PATH_SIZE];
  char message[MESSAGE_SIZE];
  va_list arguments;
  print_path(warning, path);
  va_start(arguments, format);
  (void)vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  const struct place place = view_place(view, &warning->field, warning->index, path);
  if (view->organisation != NULL && place.file == view->organisation->path) {
    return; /* it has been told of that document by itself */
  }
  findings_add(findings, WEIR_POLICY_WARNING, warning->id, &place, NULL, message);
}

/* ---- single keys of the whole document ---- */

static void warn_of_breaker(const struct policy_view *view, struct findings *findings) {
  const weir_v1_Breaker *breaker = weir_v1_Policy_breaker(view->layered.policy);
  struct warning warning = {
      .path = "breaker",
      .field = {.message = breaker, .def = weir_v1_Breaker_getmsgdef(view->layered.schema)},
      .index = VIEW_WHOLE};
  if (breaker == NULL) {
    return;
  }
  if (weir_v1_Breaker_has_enabled(breaker) && !weir_v1_Breaker_enabled(breaker)) {
    warning.id = "breaker-off";
    warning.json_name = warning.field.name = "enabled";
    warn(view, findings, &warning,
         "nothing keeps calls off a server that is down, or lets it come back");
  } else if (weir_v1_Breaker_has_mode(breaker) &&
             weir_v1_Breaker_mode(breaker) == weir_v1_Breaker_SHADOW) {
    warning.id = "breaker-shadow";
    warning.json_name = warning.field.name = "mode";
    warn(view, findings, &warning, "the breaker counts and reports, and refuses no call");
  }
}

static void warn_of_deadline(const struct policy_view *view, struct findings *findings) {
  const weir_v1_Deadline *deadline = weir_v1_Policy_deadline(view->layered.policy);
  if (deadline == NULL || !weir_v1_Deadline_has_inherits_parent(deadline) ||
      weir_v1_Deadline_inherits_parent(deadline)) {
    return;
  }
  const struct warning warning = {.id = "parent-ignored",
                                  .path = "deadline",
                                  .json_name = "inheritsParent",
                                  .field = {.message = deadline,
                                            .def = weir_v1_Deadline_getmsgdef(view->layered.schema),
                                            .name = "inherits_parent"},
                                  .index = VIEW_WHOLE};
  warn(view, findings, &warning,
       "calls go on after the request that they are made for has run out of time");
}

/* ---- retries of the whole document ---- */

/* The first entry that has a retry policy, and the most attempts of any. */
struct retries {
  struct view_entry first;
  uint32_t max_attempts; /* 0: nothing is retried */
};

static struct retries find_retries(const struct policy_view *view) {
  struct retries retries = {.max_attempts = 0};
  for (size_t i = 0; i < view_n_entries(view); i++) {
    struct view_entry entry;
    if (!view_entry_at(view, i, &entry) || entry.method->retry.max_attempts < 2) {
      continue;
    }
    if (retries.max_attempts == 0) {
      retries.first = entry;
    }
    if (entry.method->retry.max_attempts > retries.max_attempts) {
      retries.max_attempts = entry.method->retry.max_attempts;
    }
  }
  return retries;
}

static void warn_of_owner(const struct policy_view *view, const struct retries *retries,
                          struct findings *findings) {
  const weir_v1_Retry *retry = weir_v1_Policy_retry(view->layered.policy);
  const enum weir_retry_owner owner = retries->first.method->retry_options->owner;
  struct warning warning = {.path = "retry",
                            .json_name = "owner",
                            .field = {.message = retry,
                                      .def = weir_v1_Retry_getmsgdef(view->layered.schema),
                                      .name = "owner"},
                            .index = VIEW_WHOLE};
  switch (owner) {
  case WEIR_RETRY_OWNER_OUTERMOST:
    return;
  case WEIR_RETRY_OWNER_ALWAYS:
    warning.id = "retry-owner-nested";
    warn(view, findings, &warning,
         "ALWAYS retries also where a caller further out does: attempts multiply, up to %u for "
         "each of the caller's",
         (unsigned)retries->max_attempts);
    return;
  case WEIR_RETRY_OWNER_NEVER:
    warning.id = "retry-owner-never";
    warn(view, findings, &warning, "NEVER leaves the retryPolicy of methods without effect");
    return;
  }
}

static void warn_of_throttle(const struct policy_view *view, const struct retries *retries,
                             struct findings *findings) {
  if (weir_v1_Policy_has_retry_throttling(view->layered.policy) ||
      worst_attempts_allowed(retries->first.method) < 2) {
    return;
  }
  const struct warning warning = {
      .id = "throttle-missing",
      .path = retries->first.path,
      .json_name = "retryPolicy",
      .field = {.message = retries->first.config,
                .def = weir_v1_MethodConfig_getmsgdef(view->layered.schema),
                .name = "retry_policy"},
      .index = VIEW_WHOLE};
  warn(view, findings, &warning,
       "there are retries and no retryThrottling: while a server is down, it gets up to %u times "
       "the calls",
       (unsigned)retries->max_attempts);
}

void warnings_add(const struct policy_view *view, struct findings *findings) {
  const struct retries retries = find_retries(view);
  if (retries.max_attempts > 0) {
    warn_of_throttle(view, &retries, findings);
    warn_of_owner(view, &retries, findings);
  }
  for (size_t i = 0; i < view_n_entries(view); i++) {
    struct view_entry entry;
    if (view_entry_at(view, i, &entry)) {
      entry_warnings_add(view, &entry, findings);
    }
  }
  warn_of_deadline(view, findings);
  translation_warnings_add(view, weir_v1_Policy_translation(view->layered.policy), "", findings);
  warn_of_breaker(view, findings);
  balancing_warning_add(view, findings);
}
