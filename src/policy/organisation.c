/* SPDX-License-Identifier: Apache-2.0 */
#include "src/policy/organisation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/policy/policy.h"
#include "src/policy/policy_source.h"
#include "src/policy/problems.h"
#include "src/time/clock.h"

/* A place of a diagnostic, with room for the line. */
#define PLACE_SIZE (WEIR_DIAGNOSTIC_PATH_SIZE + 32)

const char *weir__organisation_file(void) {
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): as doc/threading.md says */
  const char *file = getenv(WEIR__ORGANISATION_VARIABLE);
  return file != NULL && file[0] != '\0' ? file : NULL;
}

/* A message tells of the channel's document, but for this: the organisation's own is at fault. */
static void blame_file(struct weir_diagnostic *diagnostic, const struct weir_diagnostic *fault,
                       const char *file) {
  if (diagnostic != NULL) {
    *diagnostic = *fault;
    const int n = snprintf(diagnostic->message, sizeof diagnostic->message,
                           WEIR__ORGANISATION_VARIABLE ", %s: %s", file, fault->message);
    weir__text_make_printable(diagnostic->message, sizeof diagnostic->message,
                              n >= (int)sizeof diagnostic->message);
  }
}

enum weir_error weir__policy_in_force(weir_policy *policy, const struct weir_allocator *allocator,
                                      weir_policy **in_force_out,
                                      struct weir_diagnostic *diagnostic) {
  const char *file = weir__organisation_file();
  struct weir_diagnostic fault = {.line = 0};
  weir_policy *organisation = NULL;
  *in_force_out = NULL;
  policy = policy != NULL ? policy : weir__policy_default();
  if (file == NULL || weir__policy_sources_of(policy)->layered) {
    *in_force_out = weir_policy_ref(policy);
    return WEIR_OK;
  }
  enum weir_error error = weir_policy_from_file(file, NULL, allocator, &organisation, &fault);
  if (error != WEIR_OK) {
    blame_file(diagnostic, &fault, file);
    return error;
  }
  error = weir_policy_layer(organisation, policy, NULL, allocator, in_force_out, diagnostic);
  weir_policy_unref(organisation);
  return error;
}

/* "path, line:column: ", or as much of it as there is. */
static void print_place(const struct weir_diagnostic *diagnostic, char place_out[PLACE_SIZE]) {
  place_out[0] = '\0';
  if (diagnostic->line > 0) {
    snprintf(place_out, PLACE_SIZE, "%s%s%u:%u: ", diagnostic->path,
             diagnostic->path[0] != '\0' ? ", " : "", (unsigned)diagnostic->line,
             (unsigned)diagnostic->column);
  } else if (diagnostic->path[0] != '\0') {
    snprintf(place_out, PLACE_SIZE, "%s: ", diagnostic->path);
  }
}

void weir__policy_log_refused(const struct weir_log_sink *log, const char *target,
                              const struct weir_diagnostic *diagnostic) {
  char place[PLACE_SIZE];
  char text[PLACE_SIZE + WEIR_DIAGNOSTIC_MESSAGE_SIZE + WEIR_DIAGNOSTIC_PATH_SIZE + 64];
  print_place(diagnostic, place);
  /* The message names the other place, but may have been cut before its end. */
  const bool named = diagnostic->other_path[0] == '\0' ||
                     strstr(diagnostic->message, diagnostic->other_path) != NULL;
  snprintf(text, sizeof text, "the policy is refused: %s%s%s%s", place, diagnostic->message,
           named ? "" : " ", named ? "" : diagnostic->other_path);
  const struct weir_log_record record = {
      .reference = "",
      .target = target,
      .event = WEIR_LOG_POLICY_REFUSED,
      .at_ns = weir__clock_now_ns(weir__clock_or_default(NULL)),
      .time_unix_ns = weir__wall_clock_now_ns(),
      .text = text,
      .fallback_source = "",
  };
  log->write(log->context, &record);
}
