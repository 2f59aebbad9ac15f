/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/demo/journal.h"

#include <stdio.h>
#include <string.h>

/* Appends bytes as text: what is no character becomes a full stop. */
static size_t append(char *text, size_t length, const struct weir_bytes *bytes) {
  for (size_t i = 0; i < bytes->size && length < JOURNAL_TEXT_SIZE - 1; i++) {
    unsigned char byte = (unsigned char)bytes->data[i];
    text[length++] = byte < ' ' ? '.' : (char)byte;
  }
  text[length] = '\0';
  return length;
}

static void journal_write(void *context, const struct weir_log_record *record) {
  struct journal *journal = context;
  (void)pthread_mutex_lock(&journal->guarded.mutex);
  struct journal_entry *entry =
      &journal->guarded.entries[journal->guarded.n_written++ % JOURNAL_LENGTH];
  (void)snprintf(entry->reference, sizeof entry->reference, "%s", record->reference);
  (void)append(entry->original, append(entry->original, 0, &record->message), &record->details);
  (void)pthread_mutex_unlock(&journal->guarded.mutex);
}

void journal_init(struct journal *journal) {
  memset(journal, 0, sizeof *journal);
  (void)pthread_mutex_init(&journal->guarded.mutex, NULL);
  journal->sink.size = sizeof journal->sink;
  journal->sink.write = journal_write;
  journal->sink.context = journal;
}

void journal_fini(struct journal *journal) {
  (void)pthread_mutex_destroy(&journal->guarded.mutex);
}

size_t journal_count(struct journal *journal, const char *text, const char *reference) {
  size_t n_found = 0;
  (void)pthread_mutex_lock(&journal->guarded.mutex);
  for (size_t i = 0; i < JOURNAL_LENGTH && i < journal->guarded.n_written; i++) {
    const struct journal_entry *entry = &journal->guarded.entries[i];
    if (strstr(entry->original, text) != NULL &&
        (reference == NULL || strcmp(entry->reference, reference) == 0)) {
      n_found++;
    }
  }
  (void)pthread_mutex_unlock(&journal->guarded.mutex);
  return n_found;
}
