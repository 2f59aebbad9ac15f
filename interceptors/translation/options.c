/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "interceptors/translation/translation.h"

/* gRPC keeps these keys for itself. What a peer puts there is either not metadata or, as
 * grpc-status-details-bin, the very text that a boundary holds back. */
#define RESERVED_PREFIX "grpc-"

/* Room for weir's own words at least, and not so much that headers grow out of hand. */
#define MIN_MESSAGE_BYTES WEIR__TRANSLATION_MESSAGE_BYTES
#define MAX_MESSAGE_BYTES 8192

/* How much of a name a diagnostic shows. */
#define SHOWN_SIZE 64

/* What no failure may become, and what is never translated. */
#define OK_CODE 0

bool weir__translation_keeps(const struct weir_translation_options *options, const char *key,
                             size_t key_size) {
  for (size_t i = 0; i < options->n_keep_metadata; i++) {
    const char *kept = options->keep_metadata[i];
    if (strlen(kept) == key_size && memcmp(kept, key, key_size) == 0) {
      return true;
    }
  }
  return false;
}

/* Names the place where a fault is, if there is one; `index` NO_INDEX = the field is no list. */
#define NO_INDEX SIZE_MAX

static enum weir_error refuse(struct weir_diagnostic *diagnostic, const char *field, size_t index,
                              const char *fault) {
  if (diagnostic != NULL) {
    memset(diagnostic, 0, sizeof *diagnostic);
    if (index == NO_INDEX) {
      (void)snprintf(diagnostic->path, sizeof diagnostic->path, "translation.%s", field);
    } else {
      (void)snprintf(diagnostic->path, sizeof diagnostic->path, "translation.%s[%zu]", field,
                     index);
    }
    (void)snprintf(diagnostic->message, sizeof diagnostic->message, "%s", fault);
  }
  return WEIR_ERROR_INVALID_ARGUMENT;
}

/* What is wrong with a code as the target of a translation; NULL = nothing. */
static const char *target_fault(int8_t code) {
  if (code == WEIR_TRANSLATION_DEFAULT) {
    return NULL;
  }
  if (code == OK_CODE) {
    return "a failure can't be translated to OK";
  }
  return code < 0 || code >= WEIR_N_STATUS_CODES ? "a status code is 1 to 16" : NULL;
}

static bool is_key_byte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '-' ||
         byte == '_' || byte == '.';
}

/* What is wrong with a metadata key (PROTOCOL-HTTP2.md, Header-Name); NULL = nothing. */
static const char *key_fault(const char *key) {
  if (key == NULL || key[0] == '\0') {
    return "a metadata key can't be empty";
  }
  for (const char *byte = key; *byte != '\0'; byte++) {
    if (!is_key_byte(*byte)) {
      return "a metadata key is made of a-z, 0-9, '-', '_' and '.'";
    }
  }
  return strncmp(key, RESERVED_PREFIX, sizeof RESERVED_PREFIX - 1) == 0
             ? "keys with \"grpc-\" are gRPC's own"
             : NULL;
}

static bool is_name_byte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9') || byte == '_' || byte == '.';
}

/* What is wrong with the full name of a message type; NULL = nothing. */
static const char *type_fault(const char *name) {
  const size_t size = name == NULL ? 0 : strlen(name);
  if (size == 0 || size > WEIR__TRANSLATION_TYPE_NAME_BYTES) {
    return "the name of a message type has 1 to 255 bytes";
  }
  for (size_t i = 0; i < size; i++) {
    if (!is_name_byte(name[i])) {
      return "the name of a message type is made of A-Z, a-z, 0-9, '_' and '.'";
    }
  }
  if (strchr(name, '.') == NULL) {
    return "a message type has its package before it, as in \"google.rpc.RetryInfo\"";
  }
  return name[0] == '.' || name[size - 1] == '.' || strstr(name, "..") != NULL
             ? "the name of a message type has no empty part"
             : NULL;
}

/* A type URL is how a type is named inside of google.rpc.Status; what was meant is its end. */
static void suggest_type(struct weir_diagnostic *diagnostic, const char *name) {
  const char *slash = name == NULL ? NULL : strrchr(name, '/');
  if (diagnostic != NULL && slash != NULL && type_fault(slash + 1) == NULL) {
    (void)snprintf(diagnostic->message, sizeof diagnostic->message,
                   "a message type goes without the prefix of its URL; write \"%.*s\"", SHOWN_SIZE,
                   slash + 1);
  }
}

static enum weir_error check_keep_details(const struct weir_translation_options *options,
                                          struct weir_diagnostic *diagnostic) {
  if (options->n_keep_details > WEIR__TRANSLATION_MAX_KEEP_DETAILS) {
    return refuse(diagnostic, "keepDetails", NO_INDEX, "more than 64 message types");
  }
  for (size_t i = 0; i < options->n_keep_details; i++) {
    const char *name = options->keep_details == NULL ? NULL : options->keep_details[i];
    const char *fault = type_fault(name);
    if (fault != NULL) {
      (void)refuse(diagnostic, "keepDetails", i, fault);
      suggest_type(diagnostic, name);
      return WEIR_ERROR_INVALID_ARGUMENT;
    }
  }
  return WEIR_OK;
}

static const char *from_fault(size_t from, int8_t to) {
  if (from == OK_CODE && to != WEIR_TRANSLATION_DEFAULT) {
    return "OK is never translated";
  }
  return target_fault(to);
}

enum weir_error weir__translation_options_check(const struct weir_translation_options *options,
                                                struct weir_diagnostic *diagnostic) {
  for (size_t from = 0; from < WEIR_N_STATUS_CODES; from++) {
    const char *fault = from_fault(from, options->codes[from]);
    if (fault != NULL) {
      return refuse(diagnostic, "codes", from, fault);
    }
  }
  const char *deadline_fault = target_fault(options->deadline_exceeded_as);
  if (deadline_fault != NULL) {
    return refuse(diagnostic, "deadlineExceededAs", NO_INDEX, deadline_fault);
  }
  for (size_t i = 0; i < options->n_keep_metadata; i++) {
    const char *fault =
        options->keep_metadata == NULL ? "keys are missing" : key_fault(options->keep_metadata[i]);
    if (fault != NULL) {
      return refuse(diagnostic, "keepMetadata", i, fault);
    }
  }
  if (options->max_message_bytes < MIN_MESSAGE_BYTES ||
      options->max_message_bytes > MAX_MESSAGE_BYTES) {
    return refuse(diagnostic, "maxMessageBytes", NO_INDEX, "must be 64 to 8192");
  }
  return check_keep_details(options, diagnostic);
}
