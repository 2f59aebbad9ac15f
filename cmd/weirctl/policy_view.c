/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/weirctl/policy_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/v1/policy.upbdefs.h>

#include "cmd/weirctl/memory.h"
#include "src/base/allocator.h"
#include "src/policy/problems.h"

/* A document by itself. */
static enum weir_error load(const struct policy_view *view, weir_policy **policy_out,
                            struct findings *findings) {
  struct load load = {
      .findings = findings, .file = view->channel->path, .other_file = view->channel->path};
  struct weir_policy_load_options options = WEIR_POLICY_LOAD_OPTIONS_INIT;
  options.lenient = view->strictness == LENIENT;
  options.on_problem = load_on_problem;
  options.context = &load;
  options.file_name = source_name(view->channel->path);
  return weir_policy_from_json(view->channel->text, view->channel->size, &options, NULL, policy_out,
                               NULL);
}

/* A document that is laid under another has to hold by itself; then all that it has is told anew,
 * with what the other has against it. */
static enum weir_error layer(struct policy_view *view, const weir_policy *organisation,
                             struct findings *findings) {
  struct findings alone = {.list = NULL};
  weir_policy *channel = NULL;
  enum weir_error error = load(view, &channel, &alone);
  if (error != WEIR_OK) {
    *findings = alone;
    return error;
  }
  struct load load = {
      .findings = findings, .file = view->channel->path, .other_file = view->organisation->path};
  struct weir_policy_load_options options = WEIR_POLICY_LOAD_OPTIONS_INIT;
  options.on_problem = load_on_problem;
  options.context = &load;
  findings_fini(&alone);
  error = weir_policy_layer(organisation, channel, &options, NULL, &view->policy, NULL);
  weir_policy_unref(channel);
  return error;
}

static struct weir__policy_text text_of(const struct source *source, enum strictness strictness) {
  return (struct weir__policy_text){.text = source->text,
                                    .size = source->size,
                                    .file_name = source_name(source->path),
                                    .lenient = strictness == LENIENT};
}

/* What was accepted is read once more, for its places; nothing is new in that. */
static enum weir_error read_places(struct policy_view *view, const struct policy_view *over) {
  const struct weir_policy_load_options silent = WEIR_POLICY_LOAD_OPTIONS_INIT;
  struct weir__problems problems = {.options = &silent};
  const struct weir__policy_text channel = text_of(view->channel, view->strictness);
  struct weir__policy_text organisation = {.text = NULL};
  if (over != NULL) {
    organisation = text_of(over->channel, over->strictness);
  }
  return weir__layered_init(&view->layered, over != NULL ? &organisation : NULL, &channel,
                            weir__allocator_or_default(NULL), &problems);
}

bool policy_view_init(struct policy_view *view, const struct source *channel,
                      const struct policy_view *organisation, enum strictness strictness,
                      struct findings *findings) {
  *view = (struct policy_view){.channel = channel,
                               .organisation = organisation != NULL ? organisation->channel : NULL,
                               .strictness = strictness};
  enum weir_error error = organisation == NULL ? load(view, &view->policy, findings)
                                               : layer(view, organisation->policy, findings);
  memory_check(error);
  if (error != WEIR_OK) {
    return false;
  }
  error = read_places(view, organisation);
  memory_check(error);
  if (error != WEIR_OK) {
    weir__layered_fini(&view->layered);
    weir_policy_unref(view->policy);
    return false;
  }
  entries_init(&view->channel_entries, channel);
  if (organisation != NULL) {
    entries_init(&view->organisation_entries, organisation->channel);
  }
  return true;
}

void policy_view_fini(struct policy_view *view) {
  entries_fini(&view->organisation_entries);
  entries_fini(&view->channel_entries);
  weir__layered_fini(&view->layered);
  weir_policy_unref(view->policy);
}

/* ---- places ---- */

static bool is_the_organisations(const struct policy_view *view, enum weir__origin_kind kind) {
  switch (kind) {
  case WEIR__ORIGIN_BUILT_IN:
  case WEIR__ORIGIN_CHANNEL:
    return false;
  case WEIR__ORIGIN_ORGANISATION:
  case WEIR__ORIGIN_CEILING:
  case WEIR__ORIGIN_ENFORCED: /* a document that is used alone has an `enforce` of its own */
    return view->organisation != NULL;
  }
  return false;
}

static struct weir__origin origin_of(const struct policy_view *view, const struct view_field *field,
                                     size_t index) {
  const upb_FieldDef *def = upb_MessageDef_FindFieldByName(field->def, field->name);
  return index == VIEW_WHOLE
             ? weir__layered_origin(&view->layered, field->message, def)
             : weir__layered_element_origin(&view->layered, field->message, def, (uint32_t)index);
}

struct place view_place(const struct policy_view *view, const struct view_field *field,
                        size_t index, const char *path) {
  const struct weir__origin origin = origin_of(view, field, index);
  const struct source *source =
      is_the_organisations(view, origin.kind) ? view->organisation : view->channel;
  return (struct place){
      .file = source->path, .path = path, .line = origin.line, .column = origin.column};
}

/* ---- entries ---- */

static const weir_v1_MethodConfig *config_at(const struct policy_view *view, size_t i) {
  size_t n = 0;
  return weir_v1_Policy_method_config(view->layered.policy, &n)[i];
}

size_t view_n_entries(const struct policy_view *view) {
  size_t n = 0;
  (void)weir_v1_Policy_method_config(view->layered.policy, &n);
  return n;
}

char *view_name(const struct view_entry *entry, size_t i) {
  size_t n = 0;
  const weir_v1_Name *name = weir_v1_MethodConfig_name(entry->config, &n)[i];
  const upb_StringView service = weir_v1_Name_service(name);
  const upb_StringView method = weir_v1_Name_method(name);
  const size_t size = service.size + method.size + sizeof "//";
  char *text = memory_new(size);
  if (service.size > 0) {
    (void)snprintf(text, size, "/%.*s/%.*s", (int)service.size, service.data, (int)method.size,
                   method.data);
  }
  return text;
}

const struct weir_method_policy *view_method(const struct policy_view *view, const char *name) {
  return weir_policy_method(view->policy, name, strlen(name));
}

struct place view_entry_place(const struct view_entry *entry) {
  return (struct place){
      .file = entry->file, .path = entry->path, .line = entry->line, .column = entry->column};
}

/* Where something of an entry stands: the whole of it, or the first of its fields that has a place,
 * if layers have made it. */
static struct weir__origin entry_origin(const struct policy_view *view, size_t i) {
  const struct view_field list = {.message = view->layered.policy,
                                  .def = weir_v1_Policy_getmsgdef(view->layered.schema),
                                  .name = "method_config"};
  struct view_field field = {.message = config_at(view, i),
                             .def = weir_v1_MethodConfig_getmsgdef(view->layered.schema)};
  struct weir__origin origin = origin_of(view, &list, i);
  for (int k = 0; origin.line == 0 && k < upb_MessageDef_FieldCount(field.def); k++) {
    field.name = upb_FieldDef_Name(upb_MessageDef_Field(field.def, k));
    origin = origin_of(view, &field, VIEW_WHOLE);
  }
  return origin;
}

static void entry_locate(const struct policy_view *view, struct view_entry *entry, size_t i) {
  const struct weir__origin origin = entry_origin(view, i);
  const bool organisations = is_the_organisations(view, origin.kind);
  const struct entry *found =
      origin.line == 0
          ? NULL
          : entries_find(organisations ? &view->organisation_entries : &view->channel_entries,
                         origin.line, origin.column);
  entry->file = organisations ? view->organisation->path : view->channel->path;
  if (found != NULL) {
    entry->line = found->line;
    entry->column = found->column;
    entry_path(found, entry->path);
  }
}

bool view_entry_at(const struct policy_view *view, size_t i, struct view_entry *entry_out) {
  *entry_out = (struct view_entry){.config = config_at(view, i)};
  (void)weir_v1_MethodConfig_name(entry_out->config, &entry_out->n_names);
  entry_locate(view, entry_out, i);
  if (entry_out->n_names == 0) {
    return false;
  }
  char *name = view_name(entry_out, 0);
  entry_out->method = view_method(view, name);
  free(name);
  return true;
}
