/* SPDX-License-Identifier: Apache-2.0 */
#include "src/policy/policy.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "src/base/allocator.h"
#include "src/policy/method_table.h"
#include "src/policy/options_check.h"
#include "src/policy/policy_source.h"

/* More methods than this are a mistake of the program; sizes are computed without an overflow below
 * it. */
#define MAX_METHODS ((size_t)1 << 24)

struct weir_policy {
  const struct weir_allocator *allocator; /* NULL: static */
  _Atomic uint32_t n_shares;
  uint32_t throttle_max_tokens;
  uint32_t throttle_ratio_milli;
  bool pass_trace;
  const char *name;
  const char *core_service_config;
  struct weir_deadline_options deadline;
  struct weir_translation_options translation;
  struct weir_breaker_options breaker;
  struct weir_retry_options retry;
  struct weir_fallback_options fallback;
  struct weir_method_policy otherwise; /* of the entry without a name, or built in */
  struct weir_method_policy *methods;
  struct weir__method_table table; /* whose entries are indices of `methods` */
  size_t n_methods;                /* with an entry for the method alone */
  size_t n_services;
  struct weir__policy_sources sources;
};

/* ---- the defaults ---- */

static weir_policy default_policy = {
    .allocator = NULL,
    .n_shares = 1,
    .pass_trace = true,
    .name = "weir",
    .deadline = WEIR_DEADLINE_OPTIONS_INIT,
    .translation = WEIR_TRANSLATION_OPTIONS_INIT,
    .breaker = WEIR_BREAKER_OPTIONS_INIT,
    .retry = WEIR_RETRY_OPTIONS_INIT,
    .fallback = WEIR_FALLBACK_OPTIONS_INIT,
    .otherwise = {.timeout_ns = WEIR_NO_LIMIT_NS,
                  .wait_for_ready = WEIR_WAIT_FOR_READY_UNSET,
                  .max_request_bytes = WEIR_NO_LIMIT_BYTES,
                  .max_response_bytes = WEIR_NO_LIMIT_BYTES,
                  .retry = WEIR_RETRY_POLICY_NONE,
                  .per_attempt_timeout_ns = WEIR_NO_LIMIT_NS,
                  .deadline = &default_policy.deadline,
                  .translation = &default_policy.translation,
                  .retry_options = &default_policy.retry,
                  .fallback = &default_policy.fallback},
};

weir_policy *weir__policy_default(void) {
  return &default_policy;
}

/* ---- one block ---- */

/* What a policy's block holds behind the struct, in this order. */
struct layout {
  size_t n_entries; /* methods and services */
  size_t n_slots;
  size_t n_translations; /* of methods' own */
  size_t n_fallbacks;    /* likewise */
  size_t n_kept;         /* metadata keys and message types in all translations */
  size_t text_size;
};

/* Where the next of each goes. */
struct block {
  struct weir_translation_options *translations;
  struct weir_fallback_options *fallbacks;
  const char **kept;
  char *text;
  /* The translation that was taken last: the names of one entry of a document share it. */
  const struct weir_translation_options *last_given;
  const struct weir_translation_options *last_taken;
  const struct weir_fallback_options *last_fallback_given; /* likewise */
  const struct weir_fallback_options *last_fallback_taken;
};

static char *take_bytes(struct block *block, size_t size) {
  char *bytes = block->text;
  block->text += size;
  return bytes;
}

static const char *take_text(struct block *block, const char *text) {
  const size_t size = strlen(text) + 1;
  return memcpy(take_bytes(block, size), text, size);
}

static const char *const *take_list(struct block *block, const char *const *list, size_t n) {
  const char **kept = block->kept;
  block->kept += n;
  for (size_t i = 0; i < n; i++) {
    kept[i] = take_text(block, list[i]);
  }
  return n > 0 ? kept : NULL;
}

/* ---- translations of methods' own ---- */

static bool has_own_translation(const struct weir__policy_parts *parts,
                                const struct weir_method_options *method) {
  return method->translation != NULL && method->translation != parts->policy.translation;
}

static bool keeps_same_metadata(const struct weir_translation_options *a,
                                const struct weir_translation_options *b) {
  return a->keep_metadata == b->keep_metadata && a->n_keep_metadata == b->n_keep_metadata;
}

static bool keeps_same_details(const struct weir_translation_options *a,
                               const struct weir_translation_options *b) {
  return a->keep_details == b->keep_details && a->n_keep_details == b->n_keep_details;
}

static void measure_list(struct layout *layout, const char *const *list, size_t n) {
  layout->n_kept += n;
  for (size_t i = 0; i < n; i++) {
    layout->text_size += strlen(list[i]) + 1;
  }
}

/* Lists that are the channel's very own are not taken again. */
static void measure_translation(struct layout *layout, const struct weir_translation_options *own,
                                const struct weir_translation_options *channel) {
  layout->n_translations++;
  if (!keeps_same_metadata(own, channel)) {
    measure_list(layout, own->keep_metadata, own->n_keep_metadata);
  }
  if (!keeps_same_details(own, channel)) {
    measure_list(layout, own->keep_details, own->n_keep_details);
  }
}

static const struct weir_translation_options *
take_translation(struct block *block, const struct weir_translation_options *own,
                 const struct weir_translation_options *given_to_channel,
                 const struct weir_translation_options *channel) {
  struct weir_translation_options *taken = block->translations++;
  *taken = *own;
  taken->keep_metadata = keeps_same_metadata(own, given_to_channel)
                             ? channel->keep_metadata
                             : take_list(block, own->keep_metadata, own->n_keep_metadata);
  taken->keep_details = keeps_same_details(own, given_to_channel)
                            ? channel->keep_details
                            : take_list(block, own->keep_details, own->n_keep_details);
  return taken;
}

/* ---- rules of methods' own for the fallback ---- */

static bool has_own_fallback(const struct weir__policy_parts *parts,
                             const struct weir_method_options *method) {
  return method->fallback != NULL && method->fallback != parts->policy.fallback;
}

/* ---- measuring ---- */

static bool is_default_entry(const struct weir_method_options *method) {
  return method->service[0] == '\0';
}

static enum weir_error measure(const struct weir__policy_parts *parts, struct layout *layout,
                               struct weir_diagnostic *diagnostic) {
  const struct weir_policy_options *policy = &parts->policy;
  const struct weir_translation_options *last = NULL;
  const struct weir_fallback_options *last_fallback = NULL;
  *layout = (struct layout){.text_size = strlen(policy->name) + 1};
  if (policy->core_service_config != NULL) {
    layout->text_size += strlen(policy->core_service_config) + 1;
  }
  measure_list(layout, parts->translation.keep_metadata, parts->translation.n_keep_metadata);
  measure_list(layout, parts->translation.keep_details, parts->translation.n_keep_details);
  const size_t n_methods = weir__policy_parts_n_methods(parts);
  if (n_methods > MAX_METHODS) {
    return weir__policy_refuse(diagnostic, "more than 16777216 entries", "methods");
  }
  for (size_t i = 0; i < n_methods; i++) {
    struct weir__policy_method method;
    const enum weir_error error = weir__policy_parts_method(parts, i, &method, diagnostic);
    if (error != WEIR_OK) {
      return error;
    }
    if (!is_default_entry(&method.options)) {
      layout->n_entries++;
      layout->text_size += strlen(method.options.service) + strlen(method.options.method) + 2;
    }
    if (has_own_translation(parts, &method.options) && method.options.translation != last) {
      last = method.options.translation;
      measure_translation(layout, &method.translation, &parts->translation);
    }
    if (has_own_fallback(parts, &method.options) && method.options.fallback != last_fallback) {
      last_fallback = method.options.fallback;
      layout->n_fallbacks++;
    }
  }
  layout->n_slots = weir__method_table_slots((uint32_t)layout->n_entries);
  return WEIR_OK;
}

/* ---- filling it ---- */

static void fill_options(weir_policy *policy, const struct weir__policy_parts *parts) {
  policy->deadline = parts->deadline;
  policy->translation = parts->translation;
  policy->breaker = parts->breaker;
  policy->retry = parts->retry;
  policy->fallback = parts->fallback;
  policy->pass_trace = parts->policy.pass_trace;
  if (parts->policy.throttle_max_tokens > 0) {
    /* A larger ratio fills the bucket at once as well. */
    const uint32_t full_milli = parts->policy.throttle_max_tokens * 1000;
    const uint32_t ratio_milli = parts->policy.throttle_token_ratio_milli;
    policy->throttle_max_tokens = parts->policy.throttle_max_tokens;
    policy->throttle_ratio_milli = ratio_milli < full_milli ? ratio_milli : full_milli;
  }
}

static void fill_texts(weir_policy *policy, const struct weir__policy_parts *parts,
                       struct block *block) {
  const struct weir_translation_options *translation = &parts->translation;
  policy->name = take_text(block, parts->policy.name);
  if (parts->policy.core_service_config != NULL) {
    policy->core_service_config = take_text(block, parts->policy.core_service_config);
  }
  policy->translation.keep_metadata =
      take_list(block, translation->keep_metadata, translation->n_keep_metadata);
  policy->translation.keep_details =
      take_list(block, translation->keep_details, translation->n_keep_details);
}

/* In the order of `measure`. */
static const struct weir_translation_options *
translation_of(const weir_policy *policy, const struct weir__policy_parts *parts,
               const struct weir__policy_method *method, struct block *block) {
  if (!has_own_translation(parts, &method->options)) {
    return &policy->translation;
  }
  if (method->options.translation != block->last_given) {
    block->last_given = method->options.translation;
    block->last_taken =
        take_translation(block, &method->translation, &parts->translation, &policy->translation);
  }
  return block->last_taken;
}

static const struct weir_fallback_options *fallback_of(const weir_policy *policy,
                                                       const struct weir__policy_parts *parts,
                                                       const struct weir__policy_method *method,
                                                       struct block *block) {
  if (!has_own_fallback(parts, &method->options)) {
    return &policy->fallback;
  }
  if (method->options.fallback != block->last_fallback_given) {
    block->last_fallback_given = method->options.fallback;
    *block->fallbacks = method->fallback;
    block->last_fallback_taken = block->fallbacks++;
  }
  return block->last_fallback_taken;
}

/* What of a method's rules is not in its options, but in the policy's block. */
struct in_block {
  const struct weir_translation_options *translation;
  const struct weir_fallback_options *fallback;
};

static struct weir_method_policy method_policy_of(const weir_policy *policy,
                                                  const struct weir_method_options *method,
                                                  const struct in_block *in_block) {
  return (struct weir_method_policy){
      .timeout_ns = method->timeout_ns,
      .wait_for_ready = method->wait_for_ready,
      .max_request_bytes = method->max_request_bytes,
      .max_response_bytes = method->max_response_bytes,
      .retry = method->retry,
      .per_attempt_timeout_ns = method->per_attempt_timeout_ns,
      .deadline = &policy->deadline,
      .translation = in_block->translation,
      .retry_options = &policy->retry,
      .fallback = in_block->fallback,
  };
}

/* "/service/method", not terminated. */
static uint32_t take_path(struct block *block, const struct weir_method_options *method,
                          const char **path_out) {
  const size_t service_size = strlen(method->service);
  const size_t method_size = strlen(method->method);
  char *path = take_bytes(block, service_size + method_size + 2);
  path[0] = '/';
  memcpy(path + 1, method->service, service_size);
  path[1 + service_size] = '/';
  memcpy(path + 2 + service_size, method->method, method_size);
  *path_out = path;
  return (uint32_t)(service_size + method_size + 2);
}

/* False: there is an entry of that name already. */
static bool add_method(weir_policy *policy, const struct weir_method_options *method,
                       const struct in_block *in_block, struct block *block, bool *has_default) {
  const char *path = NULL;
  if (is_default_entry(method)) {
    const bool first = !*has_default;
    *has_default = true;
    policy->otherwise = method_policy_of(policy, method, in_block);
    return first;
  }
  const uint32_t entry = (uint32_t)(policy->n_methods + policy->n_services);
  const uint32_t path_size = take_path(block, method, &path);
  policy->methods[entry] = method_policy_of(policy, method, in_block);
  policy->n_services += method->method[0] == '\0' ? 1 : 0;
  policy->n_methods += method->method[0] == '\0' ? 0 : 1;
  return weir__method_table_insert(&policy->table, path, path_size, entry) == WEIR__METHOD_NONE;
}

static enum weir_error add_methods(weir_policy *policy, const struct weir__policy_parts *parts,
                                   struct block *block, struct weir_diagnostic *diagnostic) {
  bool has_default = false;
  policy->otherwise = default_policy.otherwise;
  policy->otherwise.deadline = &policy->deadline;
  policy->otherwise.translation = &policy->translation;
  policy->otherwise.retry_options = &policy->retry;
  policy->otherwise.fallback = &policy->fallback;
  for (size_t i = 0; i < weir__policy_parts_n_methods(parts); i++) {
    struct weir__policy_method method;
    const enum weir_error error = weir__policy_parts_method(parts, i, &method, diagnostic);
    if (error != WEIR_OK) {
      return error;
    }
    const struct in_block in_block = {
        .translation = translation_of(policy, parts, &method, block),
        .fallback = fallback_of(policy, parts, &method, block),
    };
    if (!add_method(policy, &method.options, &in_block, block, &has_default)) {
      return weir__policy_refuse(diagnostic, "names what an earlier entry names", "methods[%zu]",
                                 i);
    }
  }
  return WEIR_OK;
}

/* NULL: there is no memory. */
static weir_policy *allocate_policy(const struct layout *layout,
                                    const struct weir_allocator *allocator,
                                    struct block *block_out) {
  const size_t methods_size = layout->n_entries * sizeof(struct weir_method_policy);
  const size_t slots_size = layout->n_slots * sizeof(struct weir__method_slot);
  const size_t translations_size = layout->n_translations * sizeof(struct weir_translation_options);
  const size_t fallbacks_size = layout->n_fallbacks * sizeof(struct weir_fallback_options);
  const size_t kept_size = layout->n_kept * sizeof(char *);
  weir_policy *policy =
      weir__zalloc(allocator, sizeof *policy + methods_size + slots_size + translations_size +
                                  fallbacks_size + kept_size + layout->text_size);
  if (policy == NULL) {
    return NULL;
  }
  void *methods = policy + 1;
  void *slots = (char *)methods + methods_size;
  void *translations = (char *)slots + slots_size;
  void *fallbacks = (char *)translations + translations_size;
  void *kept = (char *)fallbacks + fallbacks_size;
  policy->allocator = allocator;
  atomic_init(&policy->n_shares, 1);
  policy->methods = methods;
  weir__method_table_init(&policy->table, slots, (uint32_t)layout->n_slots);
  *block_out = (struct block){.translations = translations,
                              .fallbacks = fallbacks,
                              .kept = kept,
                              .text = (char *)kept + kept_size};
  return policy;
}

enum weir_error weir__policy_make(const struct weir_policy_options *options,
                                  const struct weir__policy_methods *methods,
                                  const struct weir_allocator *allocator, weir_policy **policy_out,
                                  struct weir_diagnostic *diagnostic) {
  struct weir__policy_parts parts;
  struct layout layout;
  struct block block;
  *policy_out = NULL;
  enum weir_error error = weir__policy_parts_init(&parts, options, methods, diagnostic);
  if (error == WEIR_OK) {
    error = measure(&parts, &layout, diagnostic);
  }
  if (error != WEIR_OK) {
    return error;
  }
  allocator = weir__allocator_or_default(allocator);
  weir_policy *policy = allocate_policy(&layout, allocator, &block);
  if (policy == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  fill_options(policy, &parts);
  fill_texts(policy, &parts, &block);
  error = add_methods(policy, &parts, &block, diagnostic);
  if (error != WEIR_OK) {
    weir__free(allocator, policy);
    return error;
  }
  *policy_out = policy;
  return WEIR_OK;
}

enum weir_error weir_policy_new(const struct weir_policy_options *options,
                                const struct weir_allocator *allocator, weir_policy **policy_out,
                                struct weir_diagnostic *diagnostic) {
  return weir__policy_make(options, NULL, allocator, policy_out, diagnostic);
}

/* ---- shares ---- */

weir_policy *weir_policy_ref(weir_policy *policy) {
  /* relaxed: who calls has a share, so the object can't go away meanwhile */
  atomic_fetch_add_explicit(&policy->n_shares, 1, memory_order_relaxed);
  return policy;
}

void weir_policy_unref(weir_policy *policy) {
  if (policy == NULL || policy->allocator == NULL) {
    return;
  }
  /* acq_rel: what other threads did with their shares comes before the end, which is in the last
   * one's */
  if (atomic_fetch_sub_explicit(&policy->n_shares, 1, memory_order_acq_rel) == 1) {
    weir__policy_source_unref(policy->sources.own);
    weir__policy_source_unref(policy->sources.organisation);
    weir__free(policy->allocator, policy);
  }
}

/* ---- sources ---- */

void weir__policy_set_sources(weir_policy *policy, const struct weir__policy_sources *sources) {
  policy->sources = *sources;
  if (sources->own != NULL) {
    (void)weir__policy_source_ref(sources->own);
  }
  if (sources->organisation != NULL) {
    (void)weir__policy_source_ref(sources->organisation);
  }
}

const struct weir__policy_sources *weir__policy_sources_of(const weir_policy *policy) {
  return &policy->sources;
}

/* ---- reading ---- */

/* The size of "/service/", or 0 when the path is of another form. */
static size_t service_size(const char *path, size_t path_size) {
  size_t size = path_size;
  while (size > 0 && path[size - 1] != '/') {
    size--;
  }
  return size > 1 && path[0] == '/' ? size : 0;
}

const struct weir_method_policy *weir_policy_method(const weir_policy *policy, const char *path,
                                                    size_t path_size) {
  uint32_t entry = WEIR__METHOD_NONE;
  const size_t prefix_size = policy->table.n_slots > 0 ? service_size(path, path_size) : 0;
  if (prefix_size == 0) {
    return &policy->otherwise;
  }
  if (policy->n_methods > 0) {
    entry = weir__method_table_find(&policy->table, path, path_size);
  }
  if (entry == WEIR__METHOD_NONE && policy->n_services > 0) {
    entry = weir__method_table_find(&policy->table, path, prefix_size);
  }
  return entry == WEIR__METHOD_NONE ? &policy->otherwise : &policy->methods[entry];
}

size_t weir__policy_n_paths(const weir_policy *policy) {
  return policy->table.n_taken;
}

bool weir__policy_next_path(const weir_policy *policy, struct weir__policy_path *path) {
  while (path->nth < policy->table.n_slots) {
    const struct weir__method_slot *slot = &policy->table.slots[path->nth++];
    if (slot->path != NULL) {
      path->text = slot->path;
      path->size = slot->path_size;
      return true;
    }
  }
  return false;
}

const char *weir__policy_name(const weir_policy *policy) {
  return policy->name;
}

const struct weir_breaker_options *weir__policy_breaker(const weir_policy *policy) {
  return &policy->breaker;
}

bool weir__policy_throttle(const weir_policy *policy, uint32_t *max_tokens_out,
                           uint32_t *ratio_milli_out) {
  *max_tokens_out = policy->throttle_max_tokens;
  *ratio_milli_out = policy->throttle_ratio_milli;
  return policy->throttle_max_tokens > 0;
}

bool weir__policy_passes_trace(const weir_policy *policy) {
  return policy->pass_trace;
}

const char *weir__policy_core_service_config(const weir_policy *policy) {
  return policy->core_service_config;
}

struct weir_policy_options weir__policy_options_of(const weir_policy *policy) {
  struct weir_policy_options options = WEIR_POLICY_OPTIONS_INIT;
  options.name = policy->name;
  options.deadline = &policy->deadline;
  options.translation = &policy->translation;
  options.breaker = &policy->breaker;
  options.retry = &policy->retry;
  options.fallback = &policy->fallback;
  options.throttle_max_tokens = policy->throttle_max_tokens;
  options.throttle_token_ratio_milli = policy->throttle_ratio_milli;
  options.core_service_config = policy->core_service_config;
  options.pass_trace = policy->pass_trace;
  return options;
}
