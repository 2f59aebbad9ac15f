/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weir/policy.h>

#include "src/base/allocator.h"
#include "src/base/options.h"
#include "src/policy/document.h"
#include "src/policy/json.h"
#include "src/policy/policy_options.h"
#include "src/policy/problems.h"

#define FIRST_READ ((size_t)64 * 1024)

/* What options struct is refused here was made from a document without problems: it is one more. */
static enum weir_error make_policy(const struct weir__document *document,
                                   const struct weir_allocator *allocator,
                                   struct weir__problems *problems, weir_policy **policy_out) {
  struct weir__policy_options options;
  struct weir_diagnostic fault;
  enum weir_error error = weir__policy_options_init(&options, document);
  if (error == WEIR_OK) {
    error = weir_policy_new(&options.policy, allocator, policy_out, &fault);
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
  struct weir_policy_load_options load_options = WEIR_POLICY_LOAD_OPTIONS_INIT;
  struct weir__problems problems = {.options = &load_options, .first = diagnostic};
  struct weir__document document;
  *policy_out = NULL;
  if (options != NULL) {
    const enum weir_error error = weir__options_copy(&load_options, sizeof load_options, options);
    if (error != WEIR_OK) {
      return error;
    }
  }
  allocator = weir__allocator_or_default(allocator);
  enum weir_error error = weir__document_init(&document, json, json_size, allocator, &problems);
  if (error == WEIR_OK) {
    error = make_policy(&document, allocator, &problems, policy_out);
  }
  weir__document_fini(&document);
  return error;
}

/* ---- files ---- */

static enum weir_error fail_file(struct weir_diagnostic *diagnostic, const char *what) {
  const int number = errno;
  if (diagnostic != NULL) {
    memset(diagnostic, 0, sizeof *diagnostic);
    snprintf(diagnostic->message, sizeof diagnostic->message, "the file can't be %s (errno %d)",
             what, number);
  }
  return WEIR_ERROR_UNAVAILABLE;
}

/* What a file holds, and a byte beyond the limit at most, so that the reader sees that it is too
 * large. */
struct contents {
  const struct weir_allocator *allocator;
  char *text;
  size_t size;
  size_t capacity;
};

/* A file that can tell its size gets room for it and a byte more, so that its end is seen. */
static size_t first_capacity(FILE *file) {
  if (fseek(file, 0, SEEK_END) != 0) {
    return FIRST_READ;
  }
  const long size = ftell(file);
  rewind(file);
  return size >= 0 && (size_t)size < WEIR__JSON_MAX_SIZE ? (size_t)size + 1 : FIRST_READ;
}

static bool contents_grow(struct contents *contents, FILE *file) {
  const size_t most = WEIR__JSON_MAX_SIZE + 1;
  size_t capacity = contents->capacity == 0 ? first_capacity(file) : contents->capacity * 2;
  capacity = capacity < most ? capacity : most;
  char *text = contents->allocator->allocate(contents->allocator->context, capacity);
  if (text == NULL) {
    return false;
  }
  if (contents->size > 0) {
    memcpy(text, contents->text, contents->size);
  }
  weir__free(contents->allocator, contents->text);
  contents->text = text;
  contents->capacity = capacity;
  return true;
}

static enum weir_error contents_read(struct contents *contents, FILE *file,
                                     struct weir_diagnostic *diagnostic) {
  while (contents->size <= WEIR__JSON_MAX_SIZE) {
    if (contents->size == contents->capacity && !contents_grow(contents, file)) {
      return WEIR_ERROR_NO_MEMORY;
    }
    const size_t room = contents->capacity - contents->size;
    const size_t n = fread(contents->text + contents->size, 1, room, file);
    contents->size += n;
    if (ferror(file)) {
      return fail_file(diagnostic, "read");
    }
    if (n < room) {
      break;
    }
  }
  return WEIR_OK;
}

enum weir_error weir_policy_from_file(const char *path,
                                      const struct weir_policy_load_options *options,
                                      const struct weir_allocator *allocator,
                                      weir_policy **policy_out,
                                      struct weir_diagnostic *diagnostic) {
  struct contents contents = {.allocator = weir__allocator_or_default(allocator)};
  *policy_out = NULL;
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    return fail_file(diagnostic, "opened");
  }
  enum weir_error error = contents_read(&contents, file, diagnostic);
  (void)fclose(file);
  if (error == WEIR_OK) {
    error = weir_policy_from_json(contents.text, contents.size, options, allocator, policy_out,
                                  diagnostic);
  }
  weir__free(contents.allocator, contents.text);
  return error;
}
