/* SPDX-License-Identifier: Apache-2.0 */
#include "src/policy/layered.h"

#include <stdio.h>
#include <string.h>

#include <weir/v1/policy.upbdefs.h>

#include "src/base/allocator.h"
#include "src/decide/breaker_options.h"
#include "src/policy/layer_rules.h"
#include "src/policy/layering.h"
#include "src/policy/policy_message.h"
#include "src/policy/policy_options.h"

static const struct weir__path enforce_path = {.key = "enforce", .key_size = sizeof "enforce" - 1};

/* ---- reading ---- */

static enum weir_error read_document(struct weir__layered *layered,
                                     const struct weir__policy_text *text,
                                     const struct weir__document_reading *reading,
                                     struct weir__document *document_out,
                                     struct weir__problems *problems) {
  const struct weir_allocator *allocator = layered->origins.allocator;
  const struct weir_policy_load_options *outer = problems->options;
  struct weir_policy_load_options options = *outer;
  if (text->made_in_code != NULL) {
    return weir__layer_document_of_code(document_out, text->made_in_code, reading, allocator,
                                        problems);
  }
  options.lenient = text->lenient;
  problems->options = &options;
  const enum weir_error error =
      weir__document_read(document_out, text->text, text->size, reading, allocator, problems);
  problems->options = outer;
  return error;
}

/* What is wrong with the organisation's document where a channel's is what is loaded: no warnings,
 * and a word whose problem it is. */
static void tell_of_organisation(void *context, enum weir_policy_severity severity,
                                 const struct weir_diagnostic *problem) {
  struct weir_diagnostic worded = *problem;
  if (severity == WEIR_POLICY_REFUSED) {
    const int n = snprintf(worded.message, sizeof worded.message,
                           "in the organisation's document: %s", problem->message);
    weir__text_make_printable(worded.message, sizeof worded.message,
                              n >= (int)sizeof worded.message);
    weir__problems_add(context, severity, &worded);
  }
}

/* ---- laying ---- */

/* What a whole policy, or an entry of methodConfig, has that both can have, as an entry. The parts
 * are shared. NULL and out_of_memory: there is none left. */
static weir_v1_MethodConfig *view_of(struct weir__layering *layering, const upb_MessageDef *def,
                                     const upb_Message *message) {
  static const char *const names[] = {"translation", "fallback"};
  const upb_MessageDef *view_def = weir_v1_MethodConfig_getmsgdef(layering->schema);
  weir_v1_MethodConfig *view = weir_v1_MethodConfig_new(layering->arena);
  layering->out_of_memory = layering->out_of_memory || view == NULL;
  for (size_t i = 0; i < sizeof names / sizeof names[0] && !layering->out_of_memory; i++) {
    const upb_FieldDef *field = weir__layer_field(def, names[i]);
    if (weir__layer_says(message, field)) {
      layering->out_of_memory = !upb_Message_Set(view, weir__layer_field(view_def, names[i]),
                                                 upb_Message_Get(message, field), layering->arena);
    }
  }
  return view;
}

static weir_v1_MethodConfig *view_of_policy(struct weir__layering *layering,
                                            const weir_v1_Policy *policy) {
  return view_of(layering, weir_v1_Policy_getmsgdef(layering->schema), policy);
}

/* The enforced entries without a name hold for the channel as a whole, too. */
static void check_against_all(struct weir__layering *layering) {
  const upb_MessageDef *def = weir_v1_MethodConfig_getmsgdef(layering->schema);
  const struct weir__path list = {
      .parent = &enforce_path, .key = "methodConfig", .key_size = sizeof "methodConfig" - 1};
  const struct weir__layer_part stated = {.message = view_of_policy(layering, layering->channel)};
  size_t n = 0;
  const weir_v1_MethodConfig *const *configs = weir_v1_Policy_method_config(layering->enforced, &n);
  for (uint32_t i = weir__layer_demands_on_all(layering);
       i != WEIR__METHOD_NONE && !layering->out_of_memory; i = layering->demands[i].next) {
    const uint32_t entry = layering->demands[i].entry;
    const struct weir__path path = {.parent = &list, .index = entry};
    const struct weir__layer_part enforced = {.message = configs[entry], .path = &path};
    weir__layer_check(layering, def, &stated, &enforced);
  }
}

/* What contradicts itself, or enforces nothing. */
static void check_organisation(struct weir__layering *layering) {
  const upb_MessageDef *def = weir_v1_Policy_getmsgdef(layering->schema);
  const struct weir__layer_part enforced = {.message = layering->enforced, .path = &enforce_path};
  weir__layer_check_together(layering, def, &enforced, &enforced);
  weir__layer_check_demands(layering);
  weir__layer_check_use(layering, def, &enforced);
}

static void check(struct weir__layering *layering) {
  const struct weir__layer_part stated = {.message = layering->channel};
  const struct weir__layer_part enforced = {.message = layering->enforced, .path = &enforce_path};
  if (layering->enforced == NULL) {
    return;
  }
  weir__layer_collect_demands(layering);
  layering->enforced_for_all = view_of_policy(layering, layering->enforced);
  if (layering->out_of_memory) {
    return;
  }
  if (layering->is_alone) {
    check_organisation(layering);
  }
  weir__layer_check(layering, weir_v1_Policy_getmsgdef(layering->schema), &stated, &enforced);
  weir__layer_check_passed_on(layering);
  check_against_all(layering);
  weir__layer_check_methods(layering);
}

/* Lays what all methods have to bear over the channel's part of it. */
static void enforce_on_all(struct weir__layering *layering) {
  const upb_MessageDef *def = weir_v1_Policy_getmsgdef(layering->schema);
  const upb_MessageDef *method_def = weir_v1_MethodConfig_getmsgdef(layering->schema);
  size_t n = 0;
  const weir_v1_MethodConfig *const *configs = weir_v1_Policy_method_config(layering->enforced, &n);
  const struct weir__layer_target whole = {
      .message = layering->merged,
      .view = {.message = layering->merged, .built_in = layering->built_in}};
  weir__layer_enforce(layering, def, &whole, layering->enforced);
  for (uint32_t i = weir__layer_demands_on_all(layering);
       i != WEIR__METHOD_NONE && !layering->out_of_memory; i = layering->demands[i].next) {
    const weir_v1_MethodConfig *demand =
        view_of(layering, method_def, configs[layering->demands[i].entry]);
    weir_v1_MethodConfig *all = view_of_policy(layering, layering->merged);
    if (layering->out_of_memory) {
      return;
    }
    const struct weir__layer_target target = {
        .message = all, .view = {.message = all, .built_in = layering->built_in_method}};
    weir__layer_enforce(layering, method_def, &target, demand);
    if (weir_v1_MethodConfig_has_translation(all)) {
      weir_v1_Policy_set_translation(
          layering->merged, weir_v1_MethodConfig_mutable_translation(all, layering->arena));
    }
    if (weir_v1_MethodConfig_has_fallback(all)) {
      weir_v1_Policy_set_fallback(layering->merged,
                                  weir_v1_MethodConfig_mutable_fallback(all, layering->arena));
    }
  }
}

/* ---- a breaker of parts ---- */

/* maxOpenFor makes way for an openFor that it was not written for, unless it is the channel's. */
static void fit_open_times(struct weir__layering *layering, weir_v1_Breaker *breaker) {
  const upb_MessageDef *def = weir_v1_Breaker_getmsgdef(layering->schema);
  const weir_v1_Breaker *stated = weir_v1_Policy_breaker(layering->channel);
  const bool is_channels = stated != NULL && weir_v1_Breaker_has_max_open_for(stated);
  struct weir_breaker_options options;
  weir__policy_options_breaker(&options, breaker);
  if (!is_channels && weir_v1_Breaker_has_max_open_for(breaker) &&
      weir_v1_Breaker_has_open_for(breaker) && options.max_open_for_ns < options.open_for_ns) {
    (void)upb_Message_Set(breaker, weir__layer_field(def, "max_open_for"),
                          upb_Message_Get(breaker, weir__layer_field(def, "open_for")),
                          layering->arena);
  }
}

/* The part of a document that a field of the merged breaker is from; its message is NULL for what
 * is built in. */
static struct weir__layer_part breaker_part_of(const struct weir__layering *layering,
                                               const upb_FieldDef *field) {
  static const struct weir__path plain = {.key = "breaker", .key_size = sizeof "breaker" - 1};
  static const struct weir__path enforced = {
      .parent = &enforce_path, .key = "breaker", .key_size = sizeof "breaker" - 1};
  const struct weir__origin_key key = {.message = weir_v1_Policy_breaker(layering->merged),
                                       .field = field};
  switch (weir__origins_get(layering->origins, key).kind) {
  case WEIR__ORIGIN_BUILT_IN:
    break;
  case WEIR__ORIGIN_CHANNEL:
    return (struct weir__layer_part){weir_v1_Policy_breaker(layering->channel), &plain};
  case WEIR__ORIGIN_ORGANISATION:
  case WEIR__ORIGIN_CEILING:
    return (struct weir__layer_part){weir_v1_Policy_breaker(layering->organisation), &plain};
  case WEIR__ORIGIN_ENFORCED:
    return (struct weir__layer_part){weir_v1_Policy_breaker(layering->enforced), &enforced};
  }
  return (struct weir__layer_part){.path = &plain};
}

/* A field that does not fit another: told where the channel says one of the two. */
static void tell_misfit(struct weir__layering *layering, const struct weir_diagnostic *fault) {
  static const char *const pairs[][2] = {{"window", "windowBuckets"}, {"maxOpenFor", "openFor"}};
  const upb_MessageDef *def = weir_v1_Breaker_getmsgdef(layering->schema);
  const bool is_window = strcmp(fault->path, pairs[0][0]) == 0;
  struct weir__layer_part parts[2];
  struct weir__layer_place places[2];
  for (size_t i = 0; i < 2; i++) {
    const char *name = pairs[is_window ? 0 : 1][i];
    const upb_FieldDef *field = upb_MessageDef_FindByJsonNameWithSize(def, name, strlen(name));
    parts[i] = breaker_part_of(layering, field);
    places[i] = (struct weir__layer_place){.part = &parts[i], .field = field};
  }
  const weir_v1_Breaker *channel = weir_v1_Policy_breaker(layering->channel);
  const size_t at = parts[0].message != NULL && parts[0].message == channel ? 0 : 1;
  weir__layer_tell(layering, WEIR_POLICY_REFUSED, &places[at],
                   parts[1 - at].message != NULL ? &places[1 - at] : NULL,
                   "%s %s, in what both documents make together", fault->path, fault->message);
}

/* Each part was right for itself. */
static void check_breaker(struct weir__layering *layering) {
  weir_v1_Breaker *breaker = NULL;
  struct weir_breaker_options options;
  struct weir_diagnostic fault;
  if (!weir_v1_Policy_has_breaker(layering->merged)) {
    return;
  }
  breaker = weir_v1_Policy_mutable_breaker(layering->merged, layering->arena);
  fit_open_times(layering, breaker);
  weir__policy_options_breaker(&options, breaker);
  if (weir__breaker_options_check(&options, &fault) != WEIR_OK) {
    tell_misfit(layering, &fault);
  }
}

/* ---- the whole ---- */

static const struct weir__json_text *choose(const struct weir__json_text *first,
                                            const struct weir__json_text *second) {
  return first != NULL && first->text != NULL ? first : second;
}

/* What is passed on: as it is enforced, else as the channel has it, else the organisation. */
static void merge_passed_on(struct weir__layering *layering, struct weir__layered *layered,
                            const struct weir__passed_on *organisation) {
  const struct weir__passed_on none = {.others = {.size = 0}};
  const struct weir__passed_on *over =
      layering->enforced_passed_on != NULL ? layering->enforced_passed_on : &none;
  const struct weir__passed_on *under = organisation != NULL ? organisation : &none;
  struct weir__passed_on *merged = &layered->merged.passed_on;
  for (size_t i = 0; i < WEIR__N_PASSED_ON; i++) {
    merged->values[i] = *choose(&over->values[i],
                                choose(&layering->channel_passed_on->values[i], &under->values[i]));
  }
  merged->others = choose(&layering->channel_passed_on->others, &under->others)->size > 0
                       ? *choose(&layering->channel_passed_on->others, &under->others)
                       : under->others;
  layering->out_of_memory =
      layering->out_of_memory ||
      !weir__passed_on_print(merged, layering->arena, &layered->merged.core_service_config);
}

static void merge(struct weir__layering *layering, struct weir__layered *layered) {
  const struct weir__layer_part over = {.message = layering->channel};
  const struct weir__layer_part under = {.message = layering->organisation};
  layering->merged =
      weir__layer_lay(layering, weir_v1_Policy_getmsgdef(layering->schema), &over, &under);
  if (!layering->out_of_memory && layering->enforced != NULL) {
    enforce_on_all(layering);
  }
  if (!layering->out_of_memory) {
    layering->inherited = view_of_policy(layering, layering->merged);
    weir__layer_merge_methods(layering);
  }
  if (!layering->out_of_memory) {
    check_breaker(layering);
    weir__layer_check_timeouts(layering);
  }
  merge_passed_on(layering, layered,
                  layering->organisation != NULL ? &layered->organisation.passed_on : NULL);
}

static enum weir_error finish(struct weir__layering *layering, struct weir__layered *layered) {
  layered->merged.policy = layering->merged;
  layered->whole = &layered->merged;
  layered->policy = layering->merged;
  return layering->out_of_memory ? WEIR_ERROR_NO_MEMORY : WEIR_OK;
}

/* The state that all layings of `layered` begin with. */
static enum weir_error begin(struct weir__layering *layering, struct weir__layered *layered,
                             struct weir__problems *problems) {
  const struct weir_policy_options defaults = WEIR_POLICY_OPTIONS_INIT;
  if (layered->merged.arena == NULL) {
    layered->merged.schema = layered->schema;
    layered->merged.schema_is_borrowed = true;
    layered->merged.arena =
        weir__document_arena(&layered->merged.memory, layered->origins.allocator);
  }
  *layering = (struct weir__layering){.arena = layered->merged.arena,
                                      .schema = layered->schema,
                                      .origins = &layered->origins,
                                      .problems = problems};
  if (layering->arena == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  layering->built_in = weir__policy_message_of_options(&defaults, layering->arena);
  if (layering->built_in == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  layering->built_in_method = view_of_policy(layering, layering->built_in);
  return layering->out_of_memory ? WEIR_ERROR_NO_MEMORY : WEIR_OK;
}

static enum weir_error end(const struct weir__layering *layering, size_t n_refused_before) {
  if (layering->out_of_memory) {
    return WEIR_ERROR_NO_MEMORY;
  }
  return layering->problems->n_refused > n_refused_before ? WEIR_ERROR_INVALID_POLICY : WEIR_OK;
}

static void take_enforced(struct weir__layering *layering, const struct weir__document *document,
                          const char *file_name) {
  layering->enforced = weir_v1_Policy_enforce(document->policy);
  layering->enforced_passed_on = &document->enforced_passed_on;
  layering->enforced_by = file_name;
}

/* A document for itself: what it enforces over what else it says. */
static enum weir_error lay_alone(struct weir__layered *layered,
                                 const struct weir__policy_text *text,
                                 struct weir__document *document, struct weir__problems *problems,
                                 bool merged_too) {
  struct weir__layering layering;
  const size_t n_refused = problems->n_refused;
  enum weir_error error = begin(&layering, layered, problems);
  if (error != WEIR_OK) {
    return error;
  }
  layering.is_alone = true;
  layering.channel = document->policy;
  layering.channel_passed_on = &document->passed_on;
  take_enforced(&layering, document, text->file_name);
  check(&layering);
  error = end(&layering, n_refused);
  if (error == WEIR_OK && merged_too) {
    merge(&layering, layered);
    error = end(&layering, n_refused);
  }
  return error == WEIR_OK && merged_too ? finish(&layering, layered) : error;
}

static void refuse_enforcing_channel(struct weir__layering *layering) {
  const upb_FieldDef *field =
      weir__layer_field(weir_v1_Policy_getmsgdef(layering->schema), "enforce");
  const struct weir__layer_part channel = {.message = layering->channel};
  const struct weir__layer_place at = {.part = &channel, .field = field};
  if (weir__layer_says(layering->channel, field)) {
    weir__layer_tell(layering, WEIR_POLICY_REFUSED, &at, NULL,
                     "a channel's document can't enforce anything: its organisation's does");
  }
}

static enum weir_error lay_both(struct weir__layered *layered,
                                const struct weir__policy_text *organisation,
                                struct weir__problems *problems) {
  struct weir__layering layering;
  const size_t n_refused = problems->n_refused;
  enum weir_error error = begin(&layering, layered, problems);
  if (error != WEIR_OK) {
    return error;
  }
  layering.organisation = layered->organisation.policy;
  layering.channel = layered->channel.policy;
  layering.channel_passed_on = &layered->channel.passed_on;
  take_enforced(&layering, &layered->organisation, organisation->file_name);
  refuse_enforcing_channel(&layering);
  check(&layering);
  error = end(&layering, n_refused);
  if (error == WEIR_OK) {
    merge(&layering, layered);
    error = end(&layering, n_refused);
  }
  return error == WEIR_OK ? finish(&layering, layered) : error;
}

static enum weir_error begin_layered(struct weir__layered *layered,
                                     const struct weir_allocator *allocator) {
  *layered =
      (struct weir__layered){.origins = {.allocator = weir__allocator_or_default(allocator)}};
  layered->schema = upb_DefPool_New();
  return layered->schema != NULL ? WEIR_OK : WEIR_ERROR_NO_MEMORY;
}

static enum weir_error load_alone(struct weir__layered *layered,
                                  const struct weir__policy_text *channel,
                                  const struct weir__document_reading *reading,
                                  struct weir__problems *problems) {
  const enum weir_error error =
      read_document(layered, channel, reading, &layered->channel, problems);
  layered->whole = &layered->channel;
  layered->policy = layered->channel.policy;
  if (error != WEIR_OK || !weir_v1_Policy_has_enforce(layered->channel.policy)) {
    return error;
  }
  return lay_alone(layered, channel, &layered->channel, problems, true);
}

static enum weir_error load_both(struct weir__layered *layered,
                                 const struct weir__policy_text *organisation,
                                 const struct weir__policy_text *channel,
                                 struct weir__problems *problems) {
  struct weir__document_reading reading = {.schema = layered->schema,
                                           .origins = &layered->origins,
                                           .kind = WEIR__ORIGIN_ORGANISATION,
                                           .is_layer = true};
  struct weir_policy_load_options options = *problems->options;
  struct weir__problems of_organisation = {.options = &options};
  options.on_problem = tell_of_organisation;
  options.context = problems;
  const enum weir_error over =
      read_document(layered, organisation, &reading, &layered->organisation, &of_organisation);
  if (over != WEIR_OK && over != WEIR_ERROR_INVALID_POLICY) {
    return over;
  }
  reading.kind = WEIR__ORIGIN_CHANNEL;
  const enum weir_error under =
      read_document(layered, channel, &reading, &layered->channel, problems);
  if (over != WEIR_OK || under != WEIR_OK) {
    return under == WEIR_OK ? over : under;
  }
  const enum weir_error itself =
      lay_alone(layered, organisation, &layered->organisation, &of_organisation, false);
  return itself == WEIR_OK ? lay_both(layered, organisation, problems) : itself;
}

enum weir_error weir__layered_init(struct weir__layered *layered,
                                   const struct weir__policy_text *organisation,
                                   const struct weir__policy_text *channel,
                                   const struct weir_allocator *allocator,
                                   struct weir__problems *problems) {
  const enum weir_error error = begin_layered(layered, allocator);
  if (error != WEIR_OK) {
    return error;
  }
  if (organisation != NULL) {
    return load_both(layered, organisation, channel, problems);
  }
  const struct weir__document_reading reading = {
      .schema = layered->schema, .origins = &layered->origins, .kind = WEIR__ORIGIN_CHANNEL};
  return load_alone(layered, channel, &reading, problems);
}

/* Without places and without a word. False: there is something to tell, so `layered` has been
 * ended. */
static bool load_both_silently(struct weir__layered *layered,
                               const struct weir__policy_text *organisation,
                               const struct weir__policy_text *channel,
                               const struct weir_allocator *allocator, enum weir_error *error_out) {
  const struct weir_policy_load_options options = WEIR_POLICY_LOAD_OPTIONS_INIT;
  struct weir__problems problems = {.options = &options};
  *error_out = begin_layered(layered, allocator);
  layered->origins.unwanted = true;
  if (*error_out == WEIR_OK) {
    *error_out = load_both(layered, organisation, channel, &problems);
  }
  if (problems.n_told == 0 || *error_out == WEIR_ERROR_NO_MEMORY) {
    return true;
  }
  weir__layered_fini(layered);
  return false;
}

enum weir_error weir__layered_load(struct weir__layered *layered,
                                   const struct weir__policy_text *organisation,
                                   const struct weir__policy_text *channel,
                                   const struct weir_allocator *allocator,
                                   struct weir__problems *problems) {
  enum weir_error error = WEIR_OK;
  if (organisation != NULL) {
    return load_both_silently(layered, organisation, channel, allocator, &error)
               ? error
               : weir__layered_init(layered, organisation, channel, allocator, problems);
  }
  error = begin_layered(layered, allocator);
  if (error != WEIR_OK) {
    return error;
  }
  const struct weir__document_reading reading = {.schema = layered->schema,
                                                 .origins = &layered->origins,
                                                 .kind = WEIR__ORIGIN_CHANNEL,
                                                 .only_if_enforcing = true};
  return load_alone(layered, channel, &reading, problems);
}

void weir__layered_fini(struct weir__layered *layered) {
  weir__document_fini(&layered->organisation);
  weir__document_fini(&layered->channel);
  weir__document_fini(&layered->merged);
  weir__origins_fini(&layered->origins);
  if (layered->schema != NULL) {
    upb_DefPool_Free(layered->schema);
  }
}

/* ---- origins ---- */

struct weir__origin weir__layered_origin(const struct weir__layered *layered,
                                         const upb_Message *message, const upb_FieldDef *field) {
  return weir__origins_get(&layered->origins,
                           (struct weir__origin_key){.message = message, .field = field});
}

struct weir__origin weir__layered_element_origin(const struct weir__layered *layered,
                                                 const upb_Message *message,
                                                 const upb_FieldDef *field, uint32_t index) {
  return weir__origins_get(&layered->origins, weir__origin_key_of(message, field, index));
}
