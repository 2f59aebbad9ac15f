/* effective – documents in force: what holds for methods, and where in the documents it stands.
 *
 * What holds is read off the policy that weir makes of the documents; the documents' own message is
 * asked for places only, and for what was said where something else holds.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_WEIRCTL_EFFECTIVE_H
#define WEIR_CMD_WEIRCTL_EFFECTIVE_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>
#include <upb/arena.h>
#include <upb/def.h>
#include <upb/reflection.h>
#include <weir/policy.h>
#include <weir/v1/policy.upb.h>

#include "cmd/weirctl/findings.h"
#include "cmd/weirctl/policy_view.h"
#include "cmd/weirctl/source.h"
#include "cmd/weirctl/verb.h"
#include "src/policy/json.h"
#include "src/policy/origins.h"

/* A name of methodConfig. */
struct effective_name {
  char *path; /* "/pkg.Service/Method"; "/pkg.Service/" for the service, "//" for everything */
  size_t path_size;
  const weir_v1_MethodConfig *config;
  uint32_t nth; /* of the names of its entry */
};

/* What `{}` is called among paths. */
#define EFFECTIVE_EVERYTHING "//"

/* Places of a document's text that lie far apart, in their order, so that one between them is found
 * without reading all before it. */
struct effective_places {
  struct weir__json_place *list;
  size_t n;
};

struct effective_sources {
  const char *path;
  const char *organisation; /* NULL: there is none */
  bool lenient;
};

/* Stays where it is between effective_load and effective_fini. */
struct effective {
  struct effective_sources sources;
  struct source channel_source;
  struct source organisation_source;
  struct effective_places channel_places;
  struct effective_places organisation_places;
  bool organisation_loaded;
  struct policy_view organisation;
  bool loaded;
  struct policy_view view;
  const upb_MessageDef *policy_def;
  const upb_MessageDef *method_def;
  json_t *core; /* what is passed on to the core; NULL: nothing */
  struct effective_name *names;
  size_t n_names;
  upb_Arena *arena;
  const weir_v1_Policy *held; /* what holds, all of it said; its entries as asked for */
};

/* Reads and loads; effective_fini ends it, whatever came of it. What there is to complain of a file
 * that can't be read is said; `findings` gets the rest. */
enum verdict effective_load(struct effective *effective, const struct effective_sources *sources,
                            struct findings *findings);

void effective_fini(struct effective *effective);

/* Fills `held`, its nth entry with what holds for the nth path. */
void effective_hold(struct effective *effective, const char *const *paths, size_t n_paths);

/* NULL: no entry names it. */
const struct effective_name *effective_find(const struct effective *effective, const char *path,
                                            size_t path_size);

enum effective_kind {
  EFFECTIVE_METHOD = 0,
  EFFECTIVE_SERVICE,
  EFFECTIVE_DEFAULT, /* {} */
  EFFECTIVE_BUILT_IN
};

#define EFFECTIVE_N_KINDS (EFFECTIVE_BUILT_IN + 1)

/* Stable: "METHOD". */
const char *effective_kind_name(enum effective_kind kind);

/* The entries that match a path, by their kind; NULL: there is none. The first of them holds. */
struct effective_match {
  const struct effective_name *names[EFFECTIVE_N_KINDS];
  enum effective_kind chosen;
};

struct effective_match effective_match_of(const struct effective *effective, const char *path,
                                          size_t path_size);

/* ---- places ---- */

/* Where a name stands. */
struct weir__origin effective_name_origin(const struct effective *effective,
                                          const struct effective_name *name);

/* The document from there on, which does not end with the value; NULL: it is no place in one. */
const char *effective_source_at(const struct effective *effective,
                                const struct weir__origin *origin);

/* "policy.json:3:5", "org org.json:4:7 (enforced)", "built in". */
void effective_print_origin(const struct effective *effective, const struct weir__origin *origin,
                            const struct output *output);

/* {"kind", "file", "line", "column"} */
json_t *effective_origin_json(const struct effective *effective, const struct weir__origin *origin);

#endif /* WEIR_CMD_WEIRCTL_EFFECTIVE_H */
