/* log_recorder – a log sink that keeps copies of what it was told.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SUPPORT_LOG_RECORDER_H
#define WEIR_TEST_SUPPORT_LOG_RECORDER_H

#include <stddef.h>

#include <weir/log.h>
#include <weir/report.h>

#define LOG_RECORDER_RECORDS 16
#define LOG_RECORDER_TEXT 256

/* Texts are cut at LOG_RECORDER_TEXT, and terminated. */
struct recorded_failure {
  char reference[WEIR_REFERENCE_LENGTH + 1];
  char path[LOG_RECORDER_TEXT];
  char target[LOG_RECORDER_TEXT];
  char peer[LOG_RECORDER_TEXT];
  char message[LOG_RECORDER_TEXT];
  char details[LOG_RECORDER_TEXT];
  char error_string[LOG_RECORDER_TEXT];
  char trace[LOG_RECORDER_TEXT];
  char text[LOG_RECORDER_TEXT];
  char fallback_source[LOG_RECORDER_TEXT];
  struct weir_log_record numbers; /* its pointers are not valid any more */
};

struct log_recorder {
  struct weir_log_sink base;                             /* what is handed to the code under test */
  size_t n_records;                                      /* also those that there was no room for */
  struct recorded_failure records[LOG_RECORDER_RECORDS]; /* the first of them */
};

void log_recorder_init(struct log_recorder *recorder);

#endif /* WEIR_TEST_SUPPORT_LOG_RECORDER_H */
