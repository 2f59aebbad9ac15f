/* SPDX-License-Identifier: Apache-2.0 */
#include <weir/policy.h>

#include "src/base/allocator.h"
#include "src/base/options.h"
#include "src/policy/document_file.h"
#include "src/policy/layered.h"
#include "src/policy/options_check.h"
#include "src/policy/policy.h"
#include "src/policy/policy_options.h"
#include "src/policy/policy_source.h"
#include "src/policy/problems.h"

/* `options` NULL leaves the defaults. */
static enum weir_error copy_options(struct weir_policy_load_options *copy,
                                    const struct weir_policy_load_options *options) {
  *copy = (struct weir_policy_load_options)WEIR_POLICY_LOAD_OPTIONS_INIT;
  return options == NULL ? WEIR_OK : weir__options_copy(copy, sizeof *copy, options);
}

/* ---- documents ---- */

/* What options struct is refused here was made from a document without problems: it is one more. */
static enum weir_error make_policy(const struct weir__layered *layered,
                                   const struct weir_allocator *allocator,
                                   struct weir__problems *problems, weir_policy **policy_out) {
  struct weir__policy_options options;
  struct weir_diagnostic fault;
  enum weir_error error = weir__policy_options_init(&options, layered->whole);
  if (error == WEIR_OK) {
    error = weir__policy_make(&options.policy, &options.methods, allocator, policy_out, &fault);
  }
  if (error == WEIR_ERROR_INVALID_ARGUMENT) {
    weir__problems_add(problems, WEIR_POLICY_REFUSED, &fault);
    return WEIR_ERROR_INVALID_POLICY;
  }
  return error;
}

static enum weir_error load_text(const struct weir__policy_text *text,
                                 const struct weir_allocator *allocator,
                                 struct weir__problems *problems, weir_policy **policy_out) {
  struct weir__layered layered;
  enum weir_error error = weir__layered_load(&layered, NULL, text, allocator, problems);
  if (error == WEIR_OK) {
    error = make_policy(&layered, allocator, problems, policy_out);
  }
  weir__layered_fini(&layered);
  return error;
}

/* Gives a policy the text that it was read from, which is taken over in any case. Without memory
 * the policy is given back. */
static enum weir_error keep_source(weir_policy **policy, char *text, size_t size,
                                   const struct weir_policy_load_options *options,
                                   const struct weir_allocator *allocator) {
  struct weir__policy_source *source =
      text == NULL ? NULL : weir__policy_source_new(text, size, options->file_name, allocator);
  if (source == NULL) {
    weir__free(allocator, text);
    weir_policy_unref(*policy);
    *policy = NULL;
    return WEIR_ERROR_NO_MEMORY;
  }
  source->lenient = options->lenient;
  const struct weir__policy_sources sources = {.own = source};
  weir__policy_set_sources(*policy, &sources);
  weir__policy_source_unref(source);
  return WEIR_OK;
}

enum weir_error weir_policy_from_json(const char *json, size_t json_size,
                                      const struct weir_policy_load_options *options,
                                      const struct weir_allocator *allocator,
                                      weir_policy **policy_out,
                                      struct weir_diagnostic *diagnostic) {
  struct weir_policy_load_options load_options;
  struct weir__problems problems = {.options = &load_options, .first = diagnostic};
  *policy_out = NULL;
  enum weir_error error = copy_options(&load_options, options);
  if (error != WEIR_OK) {
    return error;
  }
  const struct weir__policy_text text = {.text = json,
                                         .size = json_size,
                                         .file_name = load_options.file_name,
                                         .lenient = load_options.lenient};
  allocator = weir__allocator_or_default(allocator);
  error = load_text(&text, allocator, &problems, policy_out);
  return error != WEIR_OK ? error
                          : keep_source(policy_out, weir__copy_text(allocator, json, json_size),
                                        json_size, &load_options, allocator);
}

/* ---- layers ---- */

/* NULL says nothing. */
static struct weir__policy_text text_of(const weir_policy *policy) {
  const struct weir__policy_source *source =
      policy != NULL ? weir__policy_sources_of(policy)->own : NULL;
  if (source == NULL) {
    return (struct weir__policy_text){.made_in_code =
                                          policy != NULL ? policy : weir__policy_default()};
  }
  return (struct weir__policy_text){.text = source->text,
                                    .size = source->size,
                                    .file_name = source->file_name,
                                    .lenient = source->lenient};
}

static bool is_layered(const weir_policy *policy) {
  return policy != NULL && weir__policy_sources_of(policy)->layered;
}

enum weir_error weir_policy_layer(const weir_policy *organisation, const weir_policy *channel,
                                  const struct weir_policy_load_options *options,
                                  const struct weir_allocator *allocator, weir_policy **policy_out,
                                  struct weir_diagnostic *diagnostic) {
  struct weir_policy_load_options load_options;
  struct weir__problems problems = {.options = &load_options, .first = diagnostic};
  struct weir__layered layered;
  const struct weir__policy_text over = text_of(organisation);
  const struct weir__policy_text under = text_of(channel);
  *policy_out = NULL;
  enum weir_error error = copy_options(&load_options, options);
  if (error != WEIR_OK) {
    return error;
  }
  if (organisation == NULL) {
    return weir__policy_refuse(diagnostic, "there is no policy of an organisation", "%s", "");
  }
  if (is_layered(organisation) || is_layered(channel)) {
    return weir__policy_refuse(diagnostic, "a policy that is made of two can't be layered again",
                               "%s", "");
  }
  allocator = weir__allocator_or_default(allocator);
  error = weir__layered_load(&layered, &over, &under, allocator, &problems);
  if (error == WEIR_OK) {
    error = make_policy(&layered, allocator, &problems, policy_out);
  }
  weir__layered_fini(&layered);
  if (error == WEIR_OK) {
    const struct weir__policy_sources sources = {
        .own = channel != NULL ? weir__policy_sources_of(channel)->own : NULL,
        .organisation = weir__policy_sources_of(organisation)->own,
        .layered = true};
    weir__policy_set_sources(*policy_out, &sources);
  }
  return error;
}

/* ---- files ---- */

/* Hands what was read over to the policy: a copy would double it. */
static enum weir_error load_file(struct weir__document_file *file,
                                 const struct weir_policy_load_options *options,
                                 weir_policy **policy_out, struct weir_diagnostic *diagnostic) {
  struct weir__problems problems = {.options = options, .first = diagnostic};
  const struct weir__policy_text text = {.text = file->text,
                                         .size = file->size,
                                         .file_name = options->file_name,
                                         .lenient = options->lenient};
  const enum weir_error error = load_text(&text, file->allocator, &problems, policy_out);
  if (error != WEIR_OK) {
    return error;
  }
  char *taken = file->text;
  file->text = NULL;
  return keep_source(policy_out, taken, file->size, options, file->allocator);
}

enum weir_error weir_policy_from_file(const char *path,
                                      const struct weir_policy_load_options *options,
                                      const struct weir_allocator *allocator,
                                      weir_policy **policy_out,
                                      struct weir_diagnostic *diagnostic) {
  struct weir_policy_load_options load_options;
  struct weir__document_file file;
  *policy_out = NULL;
  enum weir_error error = copy_options(&load_options, options);
  if (error != WEIR_OK) {
    return error;
  }
  if (load_options.file_name == NULL) {
    load_options.file_name = path;
  }
  error = weir__document_file_read(&file, path, weir__allocator_or_default(allocator), diagnostic);
  if (error == WEIR_OK) {
    error = load_file(&file, &load_options, policy_out, diagnostic);
  }
  weir__document_file_fini(&file);
  return error;
}
