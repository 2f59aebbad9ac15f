/* layering – the state of laying one policy over another, shared by the files that do it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_LAYERING_H
#define WEIR_SRC_POLICY_LAYERING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <upb/arena.h>
#include <upb/def.h>
#include <upb/reflection.h>
#include <weir/v1/policy.upb.h>

#include <weir/allocator.h>
#include <weir/error.h>
#include <weir/policy.h>

#include "src/policy/document.h"
#include "src/policy/method_table.h"
#include "src/policy/origins.h"
#include "src/policy/passed_on.h"
#include "src/policy/problems.h"

/* A message of a document, and where it stands there. */
struct weir__layer_part {
  const upb_Message *message; /* NULL: the document says nothing of it */
  const struct weir__path *path;
};

/* A message, and where what it does not say comes from. */
struct weir__layer_view {
  const upb_Message *message;   /* NULL: it says nothing */
  const upb_Message *inherited; /* a method's: the channel's; NULL = nothing */
  const upb_Message *built_in;  /* NULL: what is not said is none */
};

/* One that is being made. */
struct weir__layer_target {
  upb_Message *message;
  struct weir__layer_view view; /* of the same message */
};

/* An entry under `enforce`, and the next one that has one of its names. */
struct weir__layer_demand {
  uint32_t entry; /* of enforce.methodConfig */
  uint32_t next;  /* of the same name; WEIR__METHOD_NONE = none */
  uint32_t n;     /* of the first of a name: how many there are */
};

/* The first demands of what a name stands for: WEIR__METHOD_NONE where there are none. Two names
 * with the same covers have the same said of them. */
struct weir__layer_covers {
  uint32_t everything;
  uint32_t service;
  uint32_t method;
};

struct weir__layering {
  upb_Arena *arena;
  upb_DefPool *schema;
  struct weir__origins *origins;
  struct weir__problems *problems;
  bool out_of_memory;
  bool is_alone; /* no channel's document: what the organisation says is looked at for itself */
  const char *enforced_by;            /* the name of the organisation's file, or NULL */
  const weir_v1_Policy *organisation; /* NULL: none */
  const weir_v1_Policy *channel;
  const weir_v1_Policy *enforced; /* NULL: nothing */
  const struct weir__passed_on *channel_passed_on;
  const struct weir__passed_on *enforced_passed_on;
  const weir_v1_Policy *built_in;
  weir_v1_Policy *merged;
  /* what `enforced` has for all methods, and what an entry inherits, as entries of methodConfig */
  const weir_v1_MethodConfig *enforced_for_all;
  const weir_v1_MethodConfig *inherited;
  const weir_v1_MethodConfig *built_in_method;
  /* the entries under `enforce`, by their names */
  struct weir__method_table demand_table;
  struct weir__layer_demand *demands;
  uint32_t *seen; /* of each entry under `enforce`: who has been checked against it last */
};

/* ---- layer_check.c ---- */

/* Tells each value of `stated` that is weaker than what `enforced` has, or takes the ground from
 * under it. */
void weir__layer_check(struct weir__layering *layering, const upb_MessageDef *def,
                       const struct weir__layer_part *stated,
                       const struct weir__layer_part *enforced);

/* Two parts that are enforced together: tells what can't hold at once. */
void weir__layer_check_together(struct weir__layering *layering, const upb_MessageDef *def,
                                const struct weir__layer_part *one,
                                const struct weir__layer_part *other);

/* Warns of what is enforced and can't be weaker anyway. */
void weir__layer_check_use(struct weir__layering *layering, const upb_MessageDef *def,
                           const struct weir__layer_part *enforced);

/* What is only passed on. */
void weir__layer_check_passed_on(struct weir__layering *layering);

/* Whether what is enforced of translation means nothing without a boundary: the field that does, or
 * NULL. */
const upb_FieldDef *weir__layer_wants_boundary(const upb_MessageDef *def,
                                               const upb_Message *enforced);

/* A field of a part, or an element of it. */
struct weir__layer_place {
  const struct weir__layer_part *part;
  const upb_FieldDef *field;
  uint32_t element; /* as in struct weir__origin_key */
};

/* Words a problem that is so because of another place, and names that one as well; `other` NULL =
 * there is none. */
__attribute__((format(printf, 5, 6))) void weir__layer_tell(struct weir__layering *layering,
                                                            enum weir_policy_severity severity,
                                                            const struct weir__layer_place *at,
                                                            const struct weir__layer_place *other,
                                                            const char *format, ...);

/* ---- layer_merge.c ---- */

/* A new message with what `over` says, and what `under` says of the rest; ceilings that `under` has
 * bound `over`, with a warning. NULL and out_of_memory: there is none left. */
upb_Message *weir__layer_lay(struct weir__layering *layering, const upb_MessageDef *def,
                             const struct weir__layer_part *over,
                             const struct weir__layer_part *under);

/* Takes what `under` has of a ceiling instead of what `over` has, with a warning. */
void weir__layer_lower_to_ceiling(struct weir__layering *layering, upb_Message *laid,
                                  const upb_FieldDef *field, const struct weir__layer_part *over,
                                  const struct weir__layer_part *under);

/* Whether what is enforced holds already. */
bool weir__layer_holds(const upb_MessageDef *def, const struct weir__layer_view *view,
                       const upb_Message *enforced);

/* Makes a target at least as strict as what is enforced. */
void weir__layer_enforce(struct weir__layering *layering, const upb_MessageDef *def,
                         const struct weir__layer_target *target, const upb_Message *enforced);

/* Sets a field as `from` has it, with where it stands. */
void weir__layer_copy_field(struct weir__layering *layering, upb_Message *to,
                            const upb_Message *from, const upb_FieldDef *field);

/* A copy of a message whose parts are the message's own. */
upb_Message *weir__layer_copy(struct weir__layering *layering, const upb_MessageDef *def,
                              const upb_Message *from);

/* NULL and out_of_memory: there is none left. */
void *weir__layer_allocate(struct weir__layering *layering, size_t size);

/* ---- layer_methods.c ---- */

/* Prepares for the others. */
void weir__layer_collect_demands(struct weir__layering *layering);

/* Demands on every method: the first of those of the entry without a name. */
uint32_t weir__layer_demands_on_all(const struct weir__layering *layering);

/* Checks the channel's entries of methodConfig; the enforced ones against each other; makes those
 * of `merged`. */
void weir__layer_check_methods(struct weir__layering *layering);
void weir__layer_check_demands(struct weir__layering *layering);
void weir__layer_merge_methods(struct weir__layering *layering);

/* Warns of the channel's timeouts that are above the ceilings of `merged`. */
void weir__layer_check_timeouts(struct weir__layering *layering);

/* ---- layer_code.c ---- */

/* Fills a document from a policy that was made in code; weir__document_fini ends it, also after a
 * failure. WEIR_ERROR_INVALID_POLICY: what it passes on to the core is no JSON object.
 * WEIR_ERROR_NO_MEMORY. */
WEIR_MUST_CHECK enum weir_error
weir__layer_document_of_code(struct weir__document *document, const weir_policy *policy,
                             const struct weir__document_reading *reading,
                             const struct weir_allocator *allocator,
                             struct weir__problems *problems);

#endif /* WEIR_SRC_POLICY_LAYERING_H */
