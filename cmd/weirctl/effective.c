/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/weirctl/effective.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/v1/policy.upbdefs.h>

#include "cmd/weirctl/memory.h"
#include "src/policy/policy.h"
#include "src/policy/policy_message.h"

/* ---- loading ---- */

static bool read_one(struct source *source, const char *path) {
  const bool whole = source_read(source, path);
  if (!whole) {
    source_complain(path);
  }
  return whole;
}

/* Both are read, whatever comes of the first. */
static bool read_sources(struct effective *effective) {
  const struct effective_sources *sources = &effective->sources;
  const bool whole = read_one(&effective->channel_source, sources->path);
  return (sources->organisation == NULL ||
          read_one(&effective->organisation_source, sources->organisation)) &&
         whole;
}

static enum strictness strictness_of(const struct effective_sources *sources) {
  return sources->lenient ? LENIENT : STRICT;
}

/* An organisation's document has to hold by itself, and is not laid under itself. */
static bool load_organisation(struct effective *effective, struct findings *findings) {
  if (effective->sources.organisation == NULL ||
      source_is_same(&effective->organisation_source, &effective->channel_source)) {
    effective->sources.organisation = NULL;
    return true;
  }
  effective->organisation_loaded =
      policy_view_init(&effective->organisation, &effective->organisation_source, NULL,
                       strictness_of(&effective->sources), findings);
  return effective->organisation_loaded;
}

static bool load(struct effective *effective, struct findings *findings) {
  struct findings under = {.list = NULL}; /* an accepted one's warnings are its own affair */
  if (!load_organisation(effective, &under)) {
    *findings = under;
    return false;
  }
  findings_fini(&under);
  effective->loaded =
      policy_view_init(&effective->view, &effective->channel_source,
                       effective->organisation_loaded ? &effective->organisation : NULL,
                       strictness_of(&effective->sources), findings);
  return effective->loaded;
}

/* ---- names ---- */

static int compare_paths(const char *a, size_t a_size, const char *b, size_t b_size) {
  const int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
  return order != 0 ? order : (a_size > b_size) - (a_size < b_size);
}

static int compare_names(const void *a, const void *b) {
  const struct effective_name *left = a;
  const struct effective_name *right = b;
  return compare_paths(left->path, left->path_size, right->path, right->path_size);
}

static char *path_of(const weir_v1_Name *name, size_t *size_out) {
  const upb_StringView service = weir_v1_Name_service(name);
  const upb_StringView method = weir_v1_Name_method(name);
  char *path = memory_new(service.size + method.size + 3);
  char *at = path;
  *at++ = '/';
  if (service.size > 0) {
    memcpy(at, service.data, service.size);
    at += service.size;
  }
  *at++ = '/';
  if (method.size > 0) {
    memcpy(at, method.data, method.size);
    at += method.size;
  }
  *size_out = (size_t)(at - path);
  return path;
}

static void index_names(struct effective *effective) {
  size_t n_configs = 0;
  size_t capacity = 0;
  const weir_v1_MethodConfig *const *configs =
      weir_v1_Policy_method_config(effective->view.layered.policy, &n_configs);
  for (size_t i = 0; i < n_configs; i++) {
    size_t n_names = 0;
    const weir_v1_Name *const *names = weir_v1_MethodConfig_name(configs[i], &n_names);
    for (size_t j = 0; j < n_names; j++) {
      effective->names =
          memory_grow(effective->names, effective->n_names, &capacity, sizeof *effective->names);
      struct effective_name *name = &effective->names[effective->n_names++];
      *name = (struct effective_name){.config = configs[i], .nth = (uint32_t)j};
      name->path = path_of(names[j], &name->path_size);
    }
  }
  if (effective->n_names > 0) {
    qsort(effective->names, effective->n_names, sizeof *effective->names, compare_names);
  }
}

const struct effective_name *effective_find(const struct effective *effective, const char *path,
                                            size_t path_size) {
  size_t low = 0;
  size_t high = effective->n_names;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const struct effective_name *name = &effective->names[middle];
    const int order = compare_paths(path, path_size, name->path, name->path_size);
    if (order == 0) {
      return name;
    }
    low = order > 0 ? middle + 1 : low;
    high = order < 0 ? middle : high;
  }
  return NULL;
}

const char *effective_kind_name(enum effective_kind kind) {
  switch (kind) {
  case EFFECTIVE_METHOD:
    return "METHOD";
  case EFFECTIVE_SERVICE:
    return "SERVICE";
  case EFFECTIVE_DEFAULT:
    return "DEFAULT";
  case EFFECTIVE_BUILT_IN:
    return "BUILT_IN";
  }
  return "BUILT_IN";
}

/* "/pkg.Service/" of it. */
static size_t service_size(const char *path, size_t path_size) {
  while (path_size > 0 && path[path_size - 1] != '/') {
    path_size--;
  }
  return path_size;
}

struct effective_match effective_match_of(const struct effective *effective, const char *path,
                                          size_t path_size) {
  const size_t prefix_size = service_size(path, path_size);
  struct effective_match match = {.chosen = EFFECTIVE_METHOD};
  if (prefix_size < path_size) {
    match.names[EFFECTIVE_METHOD] = effective_find(effective, path, path_size);
  }
  match.names[EFFECTIVE_SERVICE] = effective_find(effective, path, prefix_size);
  match.names[EFFECTIVE_DEFAULT] =
      effective_find(effective, EFFECTIVE_EVERYTHING, sizeof EFFECTIVE_EVERYTHING - 1);
  if (match.names[EFFECTIVE_SERVICE] == match.names[EFFECTIVE_DEFAULT]) {
    match.names[EFFECTIVE_SERVICE] = NULL; /* the path is that of everything */
  }
  while (match.chosen < EFFECTIVE_BUILT_IN && match.names[match.chosen] == NULL) {
    match.chosen = (enum effective_kind)(match.chosen + 1);
  }
  return match;
}

/* ---- what holds ---- */

static struct weir_method_options options_of(const struct effective *effective,
                                             const struct weir_policy_options *channel,
                                             const char *path) {
  const struct weir_method_policy *method =
      weir_policy_method(effective->view.policy, path, strlen(path));
  struct weir_method_options options = WEIR_METHOD_OPTIONS_INIT;
  options.timeout_ns = method->timeout_ns;
  options.wait_for_ready = method->wait_for_ready;
  options.max_request_bytes = method->max_request_bytes;
  options.max_response_bytes = method->max_response_bytes;
  options.retry = method->retry;
  options.per_attempt_timeout_ns = method->per_attempt_timeout_ns;
  options.translation = method->translation != channel->translation ? method->translation : NULL;
  options.fallback = method->fallback != channel->fallback ? method->fallback : NULL;
  return options;
}

/* What says something of a method and is no part of the policy in force. */
static void hold_said(const struct effective *effective, const char *path,
                      weir_v1_MethodConfig *held) {
  const struct effective_match match = effective_match_of(effective, path, strlen(path));
  const struct effective_name *chosen = match.names[match.chosen];
  weir_v1_MethodConfig_set_idempotent(held, chosen != NULL &&
                                                weir_v1_MethodConfig_idempotent(chosen->config));
}

void effective_hold(struct effective *effective, const char *const *paths, size_t n_paths) {
  struct weir_method_options *methods = memory_new(n_paths * sizeof *methods);
  struct weir_policy_options options = weir__policy_options_of(effective->view.policy);
  for (size_t i = 0; i < n_paths; i++) {
    methods[i] = options_of(effective, &options, paths[i]);
  }
  options.methods = methods;
  options.n_methods = n_paths;
  weir_v1_Policy *held = weir__policy_message_of_options(&options, effective->arena);
  free(methods);
  if (held == NULL) {
    complain_of_memory();
  }
  size_t n_configs = 0;
  weir_v1_MethodConfig **configs = weir_v1_Policy_mutable_method_config(held, &n_configs);
  for (size_t i = 0; i < n_configs; i++) {
    hold_said(effective, paths[i], configs[i]);
  }
  effective->held = held;
}

/* ---- places in a text ---- */

/* How far apart the places are that are kept. */
#define PLACES_STRIDE ((size_t)4096)

static void places_init(struct effective_places *places, const struct source *source) {
  struct weir__json_place place = WEIR__JSON_PLACE_INIT;
  places->list = memory_new((source->size / PLACES_STRIDE + 1) * sizeof *places->list);
  places->list[places->n++] = place;
  while (place.at + PLACES_STRIDE < source->size) {
    weir__json_place_move(source->text, &place, place.at + PLACES_STRIDE);
    places->list[places->n++] = place;
  }
}

/* ---- from the files to that ---- */

static void open_up(struct effective *effective) {
  const char *core = weir__policy_core_service_config(effective->view.policy);
  effective->policy_def = weir_v1_Policy_getmsgdef(effective->view.layered.schema);
  effective->method_def = weir_v1_MethodConfig_getmsgdef(effective->view.layered.schema);
  effective->arena = upb_Arena_New();
  if (effective->policy_def == NULL || effective->method_def == NULL || effective->arena == NULL) {
    complain_of_memory();
  }
  effective->core = core != NULL ? json_loads(core, JSON_ALLOW_NUL, NULL) : NULL;
  index_names(effective);
}

enum verdict effective_load(struct effective *effective, const struct effective_sources *sources,
                            struct findings *findings) {
  *effective = (struct effective){.sources = *sources};
  if (!read_sources(effective)) {
    return VERDICT_FAILED;
  }
  if (!load(effective, findings)) {
    return VERDICT_REFUSED;
  }
  open_up(effective);
  places_init(&effective->channel_places, &effective->channel_source);
  places_init(&effective->organisation_places, &effective->organisation_source);
  return VERDICT_ACCEPTED;
}

void effective_fini(struct effective *effective) {
  for (size_t i = 0; i < effective->n_names; i++) {
    free(effective->names[i].path);
  }
  free(effective->names);
  json_decref(effective->core);
  if (effective->arena != NULL) {
    upb_Arena_Free(effective->arena);
  }
  if (effective->loaded) {
    policy_view_fini(&effective->view);
  }
  if (effective->organisation_loaded) {
    policy_view_fini(&effective->organisation);
  }
  free(effective->organisation_places.list);
  free(effective->channel_places.list);
  source_fini(&effective->channel_source);
  source_fini(&effective->organisation_source);
}

/* ---- places ---- */

struct weir__origin effective_name_origin(const struct effective *effective,
                                          const struct effective_name *name) {
  const upb_FieldDef *field = upb_MessageDef_FindFieldByName(effective->method_def, "name");
  return weir__layered_element_origin(&effective->view.layered, name->config, field, name->nth);
}

struct kind_words {
  const char *name;  /* stable */
  const char *words; /* behind the place */
  bool is_organisations;
};

static const struct kind_words kinds[] = {
    [WEIR__ORIGIN_BUILT_IN] = {"BUILT_IN", "", false},
    [WEIR__ORIGIN_CHANNEL] = {"CHANNEL", "", false},
    [WEIR__ORIGIN_ORGANISATION] = {"ORGANISATION", " (default)", true},
    [WEIR__ORIGIN_CEILING] = {"CEILING", " (ceiling)", true},
    [WEIR__ORIGIN_ENFORCED] = {"ENFORCED", " (enforced)", true},
};

/* A document that enforces something may be the channel's, when it is used alone. */
static const char *file_of(const struct effective *effective, const struct weir__origin *origin) {
  const struct effective_sources *sources = &effective->sources;
  return kinds[origin->kind].is_organisations && sources->organisation != NULL
             ? sources->organisation
             : sources->path;
}

static bool is_before(const struct weir__json_place *place, const struct weir__origin *origin) {
  return place->line != origin->line ? place->line < origin->line : place->column < origin->column;
}

/* The last that is kept and stands there or before. */
static struct weir__json_place places_before(const struct effective_places *places,
                                             const struct weir__origin *origin) {
  size_t low = 1;
  size_t high = places->n;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    low = is_before(&places->list[middle], origin) ? middle + 1 : low;
    high = low > middle ? high : middle;
  }
  return places->list[low - 1];
}

const char *effective_source_at(const struct effective *effective,
                                const struct weir__origin *origin) {
  const bool is_channels = file_of(effective, origin) == effective->sources.path;
  const struct source *source =
      is_channels ? &effective->channel_source : &effective->organisation_source;
  if (origin->kind == WEIR__ORIGIN_BUILT_IN || origin->line == 0) {
    return NULL;
  }
  struct weir__json_place place = places_before(
      is_channels ? &effective->channel_places : &effective->organisation_places, origin);
  while (place.at < source->size && is_before(&place, origin)) {
    weir__json_place_move(source->text, &place, place.at + 1);
  }
  return place.at < source->size ? source->text + place.at : NULL;
}

void effective_print_origin(const struct effective *effective, const struct weir__origin *origin,
                            const struct output *output) {
  const struct kind_words *kind = &kinds[origin->kind];
  if (origin->kind == WEIR__ORIGIN_BUILT_IN) {
    output_text(output, STYLE_FAINT, "built in");
    return;
  }
  const enum style style = origin->kind == WEIR__ORIGIN_ENFORCED ? STYLE_STRONG : STYLE_PLAIN;
  if (kind->is_organisations && effective->sources.organisation != NULL) {
    output_text(output, style, "org ");
  }
  output_foreign(output, style, source_name(file_of(effective, origin)));
  if (origin->line > 0) {
    output_text(output, style, ":%u:%u", (unsigned)origin->line, (unsigned)origin->column);
  }
  output_text(output, style, "%s", kind->words);
}

json_t *effective_origin_json(const struct effective *effective,
                              const struct weir__origin *origin) {
  json_t *object = json_object();
  const bool is_said = origin->kind != WEIR__ORIGIN_BUILT_IN;
  const bool has_place = is_said && origin->line > 0;
  (void)json_object_set_new(object, "kind", json_string(kinds[origin->kind].name));
  (void)json_object_set_new(object, "file",
                            is_said ? output_string(file_of(effective, origin)) : json_null());
  (void)json_object_set_new(object, "line", has_place ? json_integer(origin->line) : json_null());
  (void)json_object_set_new(object, "column",
                            has_place ? json_integer(origin->column) : json_null());
  return object;
}
