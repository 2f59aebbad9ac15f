/* SPDX-License-Identifier: Apache-2.0 */
#include "src/log/json_log.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include <weir/json_log.h>

#include "src/base/allocator.h"
#include "src/base/options.h"
#include "src/log/json_line.h"
#include "src/log/line_limit.h"
#include "src/log/line_write.h"

/* Failed calls have a kind for each reason, and some to spare for later ones; reasons beyond share
 * the last. Each other event is a kind. */
#define REASON_KINDS 32
#define N_KINDS (REASON_KINDS + 9)

struct weir_json_log {
  struct weir_log_sink sink;
  const struct weir_allocator *allocator;
  int fd;
  uint32_t max_lines;
  atomic_bool torn; /* the last line was not written to its end: the next begins with one */
  struct weir__line_limit limits[N_KINDS];
};

static struct weir__line_limit *limit_of(weir_json_log *log, const struct weir_log_record *record) {
  switch (record->event) {
  case WEIR_LOG_CALL_FAILED: {
    unsigned reason = (unsigned)record->reason;
    return &log->limits[reason < REASON_KINDS ? reason : REASON_KINDS - 1];
  }
  case WEIR_LOG_CHANNEL_WRAPPED:
    return &log->limits[REASON_KINDS];
  case WEIR_LOG_BREAKER_CHANGED:
    return &log->limits[REASON_KINDS + 1];
  case WEIR_LOG_CORE_CONFIG_KEPT:
    return &log->limits[REASON_KINDS + 2];
  case WEIR_LOG_POLICY_REFUSED:
    return &log->limits[REASON_KINDS + 3];
  case WEIR_LOG_POLICY_APPLIED:
    return &log->limits[REASON_KINDS + 4];
  case WEIR_LOG_POLICY_MISSING:
    return &log->limits[REASON_KINDS + 5];
  case WEIR_LOG_POLICY_UNREADABLE:
    return &log->limits[REASON_KINDS + 6];
  case WEIR_LOG_POLICY_POLLED:
    return &log->limits[REASON_KINDS + 7];
  }
  return &log->limits[REASON_KINDS + 8];
}

static void write_record(void *context, const struct weir_log_record *record) {
  weir_json_log *log = context;
  struct weir__line_limit *limit = limit_of(log, record);
  char line[1 + WEIR__JSON_LINE_BYTES];
  if (!weir__line_limit_admit(limit, log->max_lines, record->at_ns)) {
    return;
  }
  uint64_t n_left_out = weir__line_limit_take_left_out(limit);
  size_t size = weir__json_line_format(record, n_left_out, line + 1);
  line[0] = '\n';
  /* relaxed: it only concerns how lines look */
  bool torn = atomic_exchange_explicit(&log->torn, false, memory_order_relaxed);
  enum weir__line_fate fate =
      torn ? weir__line_write(log->fd, line, size + 1) : weir__line_write(log->fd, line + 1, size);
  if (fate != WEIR__LINE_WRITTEN) {
    weir__line_limit_leave_out(limit, n_left_out + 1);
  }
  if (fate == WEIR__LINE_TORN || (fate == WEIR__LINE_DROPPED && torn)) {
    atomic_store_explicit(&log->torn, true, memory_order_relaxed); /* as above */
  }
}

/* Nobody has asked for the default log, so it tells warnings only. */
static void write_warning(void *context, const struct weir_log_record *record) {
  if (record->event != WEIR_LOG_POLICY_APPLIED) {
    write_record(context, record);
  }
}

static weir_json_log default_log = {
    .sink = {.size = sizeof(struct weir_log_sink), .write = write_warning, .context = &default_log},
    .allocator = NULL,
    .fd = STDERR_FILENO,
    .max_lines = WEIR_JSON_LOG_LINES_PER_SECOND,
};

const struct weir_log_sink *weir__json_log_default_sink(void) {
  return &default_log.sink;
}

enum weir_error weir_json_log_new(const struct weir_json_log_options *options,
                                  weir_json_log **log_out) {
  struct weir_json_log_options known = WEIR_JSON_LOG_OPTIONS_INIT;
  *log_out = NULL;
  enum weir_error error =
      options != NULL ? weir__options_copy(&known, sizeof known, options) : WEIR_OK;
  if (error != WEIR_OK) {
    return error;
  }
  if (known.fd < 0 || known.max_lines_per_second < 1 ||
      known.max_lines_per_second > WEIR__LINE_LIMIT_MAX) {
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  const struct weir_allocator *allocator = weir__allocator_or_default(known.allocator);
  weir_json_log *log = weir__zalloc(allocator, sizeof *log);
  if (log == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  log->sink = (struct weir_log_sink){
      .size = sizeof(struct weir_log_sink), .write = write_record, .context = log};
  log->allocator = allocator;
  log->fd = known.fd;
  log->max_lines = known.max_lines_per_second;
  *log_out = log;
  return WEIR_OK;
}

const struct weir_log_sink *weir_json_log_sink(const weir_json_log *log) {
  return &log->sink;
}

void weir_json_log_release(weir_json_log *log) {
  if (log != NULL) {
    weir__free(log->allocator, log);
  }
}
