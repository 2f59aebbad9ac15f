/* policy_view – a policy in force, and the documents that it came from: what checks and tables are
 * made from.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_WEIRCTL_POLICY_VIEW_H
#define WEIR_CMD_WEIRCTL_POLICY_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include <upb/def.h>
#include <upb/reflection.h>
#include <weir/policy.h>
#include <weir/v1/policy.upb.h>

#include "cmd/weirctl/entries.h"
#include "cmd/weirctl/findings.h"
#include "cmd/weirctl/source.h"
#include "src/policy/layered.h"

/* How documents are read. */
enum strictness { STRICT = 0, LENIENT };

struct policy_view {
  const struct source *channel;      /* an organisation's own, if that is looked at by itself */
  const struct source *organisation; /* NULL: none */
  weir_policy *policy;
  struct weir__layered layered; /* what both say, and where */
  struct entries channel_entries;
  struct entries organisation_entries;
  enum strictness strictness;
};

/* Makes the policy of a channel's document, under an organisation's if there is one (NULL = none),
 * and tells of all the problems that the channel's has. The source and the other view stay
 * borrowed, and the view where it is, until policy_view_fini. False: the document is refused, and
 * there is nothing to end. */
bool policy_view_init(struct policy_view *view, const struct source *channel,
                      const struct policy_view *organisation, enum strictness strictness,
                      struct findings *findings);

void policy_view_fini(struct policy_view *view);

/* A field of a message of the document, whose place is wanted. */
struct view_field {
  const upb_Message *message;
  const upb_MessageDef *def;
  const char *name; /* as in policy.proto */
};

/* Of an element of a list, or of what a code becomes, where `index` is the code. */
#define VIEW_WHOLE SIZE_MAX

/* The place of a field; `path` is its caller's. */
struct place view_place(const struct policy_view *view, const struct view_field *field,
                        size_t index, const char *path);

/* An entry of methodConfig, and what holds for its methods. */
struct view_entry {
  const weir_v1_MethodConfig *config;
  const struct weir_method_policy *method; /* of its first name */
  size_t n_names;
  char path[ENTRY_PATH_SIZE];
  const char *file; /* where it stands */
  uint32_t line;
  uint32_t column;
};

size_t view_n_entries(const struct policy_view *view);

/* False: it has no name, and holds for nothing. */
bool view_entry_at(const struct policy_view *view, size_t i, struct view_entry *entry_out);

/* Where it stands; the path is the entry's. */
struct place view_entry_place(const struct view_entry *entry);

/* A name as a path: "/package.Service/Method", "/package.Service/" for all of a service, "" for
 * every other method. free() ends it. */
char *view_name(const struct view_entry *entry, size_t i);

/* What holds for a name. */
const struct weir_method_policy *view_method(const struct policy_view *view, const char *name);

#endif /* WEIR_CMD_WEIRCTL_POLICY_VIEW_H */
