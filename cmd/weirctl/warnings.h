/* warnings – what a policy may do and is seldom meant to.
 *
 * Nothing here refuses a document. Each kind has a name that stays, for scripts that look for it;
 * doc/weirctl.md says what to do about each.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_WEIRCTL_WARNINGS_H
#define WEIR_CMD_WEIRCTL_WARNINGS_H

#include "cmd/weirctl/findings.h"
#include "cmd/weirctl/policy_view.h"

void warnings_add(const struct policy_view *view, struct findings *findings);

/* What an entry of methodConfig adds: for warnings.c. */
void entry_warnings_add(const struct policy_view *view, const struct view_entry *entry,
                        struct findings *findings);

/* What is said of a translation, the channel's or an entry's: for both. `path` is that of its
 * owner, "" = the document. */
void translation_warnings_add(const struct policy_view *view, const weir_v1_Translation *given,
                              const char *path, struct findings *findings);

/* What is said of how the core finds servers. */
void balancing_warning_add(const struct policy_view *view, struct findings *findings);

/* A warning about a field; `path` is that of its message, and `element` is put behind its name. */
struct warning {
  const char *id;
  const char *path;
  const char *json_name;
  const char *element;
  struct view_field field;
  size_t index; /* VIEW_WHOLE: the field, not an element of it */
};

__attribute__((format(printf, 4, 5))) void warn(const struct policy_view *view,
                                                struct findings *findings,
                                                const struct warning *warning, const char *format,
                                                ...);

#endif /* WEIR_CMD_WEIRCTL_WARNINGS_H */
