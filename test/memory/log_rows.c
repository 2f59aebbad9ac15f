/* The log of JSON lines. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <weir/json_log.h>

#include "test/memory/trial.h"

static void write_record(weir_json_log *log) {
  struct weir_log_record record;
  memset(&record, 0, sizeof record);
  record.reference = record.target = record.text = record.fallback_source = "";
  record.message = (struct weir_bytes){.data = "words", .size = 5};
  const struct weir_log_sink *sink = weir_json_log_sink(log);
  sink->write(sink->context, &record);
}

/* Ends with a line read from the pipe. */
static void check_line(int fd) {
  char line[4096];
  const ssize_t n_read = read(fd, line, sizeof line - 1);
  assert_true(n_read > 0);
  line[n_read] = '\0';
  assert_non_null(strstr(line, "words"));
}

static void make_log(struct trial *trial) {
  int fds[2];
  assert_int_equal(pipe(fds), 0);
  struct weir_json_log_options options = WEIR_JSON_LOG_OPTIONS_INIT;
  options.fd = fds[1];
  weir_json_log *log = NULL;
  trial_begin(trial);
  enum weir_error error = weir_json_log_new(&options, &log);
  trial_end(trial);
  trial_check_made(trial, error, log);
  if (log == NULL) {
    assert_int_equal(weir_json_log_new(&options, &log), WEIR_OK);
  }
  write_record(log);
  check_line(fds[0]);
  weir_json_log_release(log);
  (void)close(fds[0]);
  (void)close(fds[1]);
}

static void write_line(struct trial *trial) {
  int fds[2];
  assert_int_equal(pipe(fds), 0);
  struct weir_json_log_options options = WEIR_JSON_LOG_OPTIONS_INIT;
  options.fd = fds[1];
  weir_json_log *log = NULL;
  assert_int_equal(weir_json_log_new(&options, &log), WEIR_OK);
  trial_begin(trial);
  write_record(log);
  weir_json_log_release(log);
  trial_end(trial);
  check_line(fds[0]);
  (void)close(fds[0]);
  (void)close(fds[1]);
}

const struct trial_row log_rows[] = {
    {"weir_json_log_new", TAKES_MEMORY, make_log},
    {"weir_json_log_release", TAKES_NOTHING, write_line},
    {"weir_json_log_sink", TAKES_NOTHING, write_line},
    TRIAL_ROWS_END,
};
