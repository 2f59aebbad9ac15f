/* SPDX-License-Identifier: Apache-2.0 */
#include <weir/policy.h>

#include "src/base/allocator.h"
#include "src/base/options.h"
#include "src/policy/document.h"
#include "src/policy/document_file.h"
#include "src/policy/policy.h"
#include "src/policy/policy_options.h"
#include "src/policy/problems.h"

/* `options` NULL leaves the defaults. */
static enum weir_error copy_options(struct weir_policy_load_options *copy,
                                    const struct weir_policy_load_options *options) {
  *copy = (struct weir_policy_load_options)WEIR_POLICY_LOAD_OPTIONS_INIT;
  return options == NULL ? WEIR_OK : weir__options_copy(copy, sizeof *copy, options);
}

/* What options struct is refused here was made from a document without problems: it is one more. */
static enum weir_error make_policy(const struct weir__document *document,
                                   const struct weir_allocator *allocator,
                                   struct weir__problems *problems, weir_policy **policy_out) {
  struct weir__policy_options options;
  struct weir_diagnostic fault;
  enum weir_error error = weir__policy_options_init(&options, document);
  if (error == WEIR_OK) {
    error = weir__policy_make(&options.policy, &options.methods, allocator, policy_out, &fault);
  }
  if (error == WEIR_ERROR_INVALID_ARGUMENT) {
    weir__problems_add(problems, WEIR_POLICY_REFUSED, &fault);
    return WEIR_ERROR_INVALID_POLICY;
  }
  return error;
}

enum weir_error weir_policy_from_json(const char *json, size_t json_size,
                                      const struct weir_policy_load_options *options,
                                      const struct weir_allocator *allocator,
                                      weir_policy **policy_out,
                                      struct weir_diagnostic *diagnostic) {
  struct weir_policy_load_options load_options;
  struct weir__problems problems = {.options = &load_options, .first = diagnostic};
  struct weir__document document;
  *policy_out = NULL;
  enum weir_error error = copy_options(&load_options, options);
  if (error != WEIR_OK) {
    return error;
  }
  allocator = weir__allocator_or_default(allocator);
  error = weir__document_init(&document, json, json_size, allocator, &problems);
  if (error == WEIR_OK) {
    error = make_policy(&document, allocator, &problems, policy_out);
  }
  weir__document_fini(&document);
  return error;
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
    error = weir_policy_from_json(file.text, file.size, &load_options, allocator, policy_out,
                                  diagnostic);
  }
  weir__document_file_fini(&file);
  return error;
}
