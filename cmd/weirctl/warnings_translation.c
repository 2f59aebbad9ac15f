/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <weir/outcome.h>
#include <weir/v1/policy.upbdefs.h>

#include "cmd/weirctl/warnings.h"

#define PATH_SIZE (ENTRY_PATH_SIZE + 16)
#define ELEMENT_SIZE 32

struct subject {
  const struct policy_view *view;
  const weir_v1_Translation *given;
  char path[PATH_SIZE];
  struct findings *findings;
};

static struct warning about(const struct subject *subject, const char *id, const char *json_name,
                            const char *name) {
  return (struct warning){
      .id = id,
      .path = subject->path,
      .json_name = json_name,
      .field = {.message = subject->given,
                .def = weir_v1_Translation_getmsgdef(subject->view->layered.schema),
                .name = name},
      .index = VIEW_WHOLE};
}

/* ---- codes ---- */

/* Callers with the usual policies try again on these. */
static bool invites_retries(int32_t code) {
  return code == GRPC_STATUS_UNAVAILABLE || code == GRPC_STATUS_ABORTED ||
         code == GRPC_STATUS_RESOURCE_EXHAUSTED;
}

/* These say that the one who called is at fault. */
static bool blames_caller(int32_t code) {
  return code == GRPC_STATUS_INVALID_ARGUMENT || code == GRPC_STATUS_FAILED_PRECONDITION ||
         code == GRPC_STATUS_OUT_OF_RANGE || code == GRPC_STATUS_PERMISSION_DENIED ||
         code == GRPC_STATUS_UNAUTHENTICATED || code == GRPC_STATUS_UNIMPLEMENTED;
}

/* The warning is the field's, or the code's element of it. A slow downstream told as UNAVAILABLE goes with "do
 * not retry", by weir's own doing. */
static void warn_of_code(const struct subject *subject, struct warning *warning, int32_t code,
                         int32_t becomes) {
  const char *name = weir_status_code_name((grpc_status_code)becomes);
  const bool is_told_not_to =
      code == GRPC_STATUS_DEADLINE_EXCEEDED && becomes == GRPC_STATUS_UNAVAILABLE;
  if (invites_retries(becomes) && !invites_retries(code) && !is_told_not_to) {
    warning->id = "translation-invites-retries";
    warn(subject->view, subject->findings, warning,
         "becomes %s, which callers retry: what failed for good is asked for again", name);
  } else if (blames_caller(becomes)) {
    warning->id = "translation-blames-caller";
    warn(subject->view, subject->findings, warning,
         "becomes %s: the caller is blamed for what this service asked of another", name);
  }
}

static void warn_of_codes(const struct subject *subject) {
  char element[ELEMENT_SIZE];
  for (int32_t code = 0; code < WEIR_N_STATUS_CODES; code++) {
    int32_t becomes = 0;
    const char *name = weir_status_code_name((grpc_status_code)code);
    if (weir_v1_Translation_codes_get(subject->given, upb_StringView_FromString(name), &becomes)) {
      struct warning warning = about(subject, "", "codes", "codes");
      (void)snprintf(element, sizeof element, ".%s", name);
      warning.element = element;
      warning.index = (size_t)code;
      warn_of_code(subject, &warning, code, becomes);
    }
  }
  if (weir_v1_Translation_has_deadline_exceeded_as(subject->given)) {
    struct warning warning = about(subject, "", "deadlineExceededAs", "deadline_exceeded_as");
    warn_of_code(subject, &warning, GRPC_STATUS_DEADLINE_EXCEEDED,
                 weir_v1_Translation_deadline_exceeded_as(subject->given));
  }
}

/* ---- what is kept ---- */

static bool holds(upb_StringView text, const char *part) {
  const size_t size = strlen(part);
  for (size_t i = 0; i + size <= text.size; i++) {
    if (memcmp(text.data + i, part, size) == 0) {
      return true;
    }
  }
  return false;
}

/* A key that is likely to carry what lets somebody in. Keys are in lower case. */
static bool is_sensitive(upb_StringView key) {
  static const char *const parts[] = {"auth",    "cookie",     "token",   "secret",
                                      "passw",   "credential", "api-key", "apikey",
                                      "api_key", "session",    "jwt"};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    if (holds(key, parts[i])) {
      return true;
    }
  }
  return false;
}

static void warn_of_metadata(const struct subject *subject) {
  char element[ELEMENT_SIZE];
  size_t n = 0;
  const upb_StringView *keys = weir_v1_Translation_keep_metadata(subject->given, &n);
  for (size_t i = 0; i < n; i++) {
    if (is_sensitive(keys[i])) {
      struct warning warning =
          about(subject, "keep-sensitive-metadata", "keepMetadata", "keep_metadata");
      (void)snprintf(element, sizeof element, "[%zu]", i);
      warning.element = element;
      warning.index = i;
      warn(subject->view, subject->findings, &warning,
           "\"%.*s\" may let its reader in somewhere: it passes the boundary to every caller",
           (int)keys[i].size, keys[i].data);
    }
  }
}

static void warn_of_details(const struct subject *subject) {
  static const char debug_info[] = "google.rpc.DebugInfo";
  char element[ELEMENT_SIZE];
  size_t n = 0;
  const upb_StringView *types = weir_v1_Translation_keep_details(subject->given, &n);
  for (size_t i = 0; i < n; i++) {
    if (types[i].size == sizeof debug_info - 1 &&
        memcmp(types[i].data, debug_info, types[i].size) == 0) {
      struct warning warning = about(subject, "keep-debug-info", "keepDetails", "keep_details");
      (void)snprintf(element, sizeof element, "[%zu]", i);
      warning.element = element;
      warning.index = i;
      warn(subject->view, subject->findings, &warning,
           "stack traces of another service pass the boundary to every caller");
    }
  }
}

void translation_warnings_add(const struct policy_view *view, const weir_v1_Translation *given,
                              const char *path, struct findings *findings) {
  struct subject subject = {.view = view, .given = given, .findings = findings};
  if (given == NULL) {
    return;
  }
  (void)snprintf(subject.path, sizeof subject.path, "%s%stranslation", path,
                 path[0] != '\0' ? "." : "");
  if (weir_v1_Translation_has_boundary(given) && !weir_v1_Translation_boundary(given)) {
    const struct warning warning = about(&subject, "boundary-off", "boundary", "boundary");
    warn(view, findings, &warning,
         "codes, messages and details of another service reach the caller as they are");
    return; /* the rest has no effect */
  }
  warn_of_codes(&subject);
  warn_of_metadata(&subject);
  warn_of_details(&subject);
}
