/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/log_recorder.h"

#include <string.h>

static void copy(char out[LOG_RECORDER_TEXT], const char *data, size_t size) {
  size_t length = size < LOG_RECORDER_TEXT ? size : LOG_RECORDER_TEXT - 1;
  if (length > 0) {
    memcpy(out, data, length);
  }
  out[length] = '\0';
}

static void record_failure(void *context, const struct weir_log_record *record) {
  struct log_recorder *recorder = context;
  if (recorder->n_records++ >= LOG_RECORDER_RECORDS) {
    return;
  }
  struct recorded_failure *kept = &recorder->records[recorder->n_records - 1];
  memcpy(kept->reference, record->reference, strlen(record->reference) + 1);
  copy(kept->path, record->path.data, record->path.size);
  copy(kept->target, record->target, strlen(record->target));
  copy(kept->peer, record->peer.data, record->peer.size);
  copy(kept->message, record->message.data, record->message.size);
  copy(kept->details, record->details.data, record->details.size);
  copy(kept->error_string, record->error_string.data, record->error_string.size);
  copy(kept->trace, record->trace.data, record->trace.size);
  copy(kept->text, record->text, strlen(record->text));
  copy(kept->fallback_source, record->fallback_source, strlen(record->fallback_source));
  kept->numbers = *record;
}

void log_recorder_init(struct log_recorder *recorder) {
  memset(recorder, 0, sizeof *recorder);
  recorder->base = (struct weir_log_sink){
      .size = sizeof(struct weir_log_sink), .write = record_failure, .context = recorder};
}
