/* weir/json_log.h – a log sink that writes one JSON line a record to a file descriptor.
 *
 * A channel without a sink writes to standard error by one that the process shares. Nothing waits:
 * a line that the descriptor has no room for is left out. Of each reason (of failed calls) and each
 * other event, so many lines a second are written; how many were left out is told with the next
 * line of the same kind.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_JSON_LOG_H
#define WEIR_JSON_LOG_H

#include <stddef.h>
#include <stdint.h>

#include <weir/allocator.h>
#include <weir/error.h>
#include <weir/export.h>
#include <weir/log.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A log of JSON lines. */
typedef struct weir_json_log weir_json_log;

/* Lines a second and kind. A storm of failures is the same line over and over: ten show what it is
 * and how it goes on, and its size is in `left_out`. All kinds together stay below 200 lines, some
 * 100 KB a second. */
#define WEIR_JSON_LOG_LINES_PER_SECOND 10

/* Start from WEIR_JSON_LOG_OPTIONS_INIT. */
struct weir_json_log_options {
  size_t size;
  int fd;                                 /* borrowed until weir_json_log_release */
  uint32_t max_lines_per_second;          /* of a kind; 1 … 10000 */
  const struct weir_allocator *allocator; /* NULL = malloc */
};

#define WEIR_JSON_LOG_OPTIONS_INIT                                            \
  {                                                                           \
    .size = sizeof(struct weir_json_log_options), .fd = 2,                    \
    .max_lines_per_second = WEIR_JSON_LOG_LINES_PER_SECOND, .allocator = NULL \
  }

/* Makes a log of the program's own.
 *
 * Ownership: `options` is copied. On success `*log_out` is the caller's until
 *            weir_json_log_release. On failure it is NULL.
 * Threads:   any thread.
 * Errors:    WEIR_ERROR_INVALID_ARGUMENT a field is out of range. WEIR_ERROR_UNSUPPORTED `options`
 *            is from a newer header and asks for what this library lacks. WEIR_ERROR_NO_MEMORY. */
WEIR_API WEIR_MUST_CHECK enum weir_error
weir_json_log_new(const struct weir_json_log_options *options, weir_json_log **log_out);

/* Gives the sink to be put in the options of channels. Any number of them may share it.
 *
 * Ownership: the result is borrowed until weir_json_log_release.
 * Threads:   any thread; so is the sink.
 * Errors:    none. */
WEIR_API const struct weir_log_sink *weir_json_log_sink(const weir_json_log *log);

/* Ends a log, once the last channel made with it is gone, and the last of its calls.
 *
 * Ownership: `log` is taken over; NULL is allowed. The descriptor is not closed.
 * Threads:   one thread at a time.
 * Errors:    none. */
WEIR_API void weir_json_log_release(weir_json_log *log);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_JSON_LOG_H */
