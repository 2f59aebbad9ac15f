/* weir/error.h – whether a call of the library worked: configuration, misuse, memory.
 *
 * How an RPC ended is never told with these; that is a grpc_status_code in a report or an outcome.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_ERROR_H
#define WEIR_ERROR_H

#include <stdint.h>

#include <weir/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a function answers that can fail. */
enum weir_error {
  WEIR_OK = 0,
  WEIR_ERROR_INVALID_ARGUMENT, /* a value that can't be right, whatever the state */
  /* a policy document that was refused; the diagnostic names the place */
  WEIR_ERROR_INVALID_POLICY,
  WEIR_ERROR_NO_MEMORY,   /* the allocator said no; nothing was changed */
  WEIR_ERROR_UNSUPPORTED, /* a newer program asks an older library for something it does not know */
  WEIR_ERROR_UNAVAILABLE  /* the thing exists no more, or is shutting down */
};

/* Room for a path in a diagnostic, its end included; a longer one is cut. */
#define WEIR_DIAGNOSTIC_PATH_SIZE 96

/* Room for a message, likewise. */
#define WEIR_DIAGNOSTIC_MESSAGE_SIZE 160

/* Where and why something was refused. The caller's memory; written only on failure, always
 * terminated. */
struct weir_diagnostic {
  /* the field, e.g. "methodConfig[2].retryPolicy.maxBackoff"; "" = whole */
  char path[WEIR_DIAGNOSTIC_PATH_SIZE];
  char message[WEIR_DIAGNOSTIC_MESSAGE_SIZE]; /* English, one line */
  /* In the document, from 1: of the value that is wrong, of a key that should not be there, or of the
   * object that lacks one. In characters. 0 = it is about no document, or about one as a whole. */
  uint32_t line;
  uint32_t column; /* in that line, likewise */
  /* the place that it is so because of: mostly one of the organisation's document; "" = none */
  char other_path[WEIR_DIAGNOSTIC_PATH_SIZE];
  uint32_t other_line;   /* from 1; 0 = unknown */
  uint32_t other_column; /* likewise */
};

/* Names an error for logs and tests, e.g. "NO_MEMORY".
 *
 * Ownership: the result is static.
 * Threads:   any thread.
 * Errors:    none; a value that is none of the enum's is "UNKNOWN". */
WEIR_API const char *weir_error_name(enum weir_error error);

/* Describes an error in English. The text may change between releases.
 *
 * Ownership: the result is static.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API const char *weir_error_string(enum weir_error error);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_ERROR_H */
