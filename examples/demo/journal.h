/* journal – a log sink that keeps weir's records, to be looked into afterwards.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_EXAMPLES_DEMO_JOURNAL_H
#define WEIR_EXAMPLES_DEMO_JOURNAL_H

#include <pthread.h>
#include <stddef.h>

#include <weir/log.h>

#define JOURNAL_LENGTH 256
#define JOURNAL_TEXT_SIZE 512

struct journal_entry {
  char reference[32];
  char original
      [JOURNAL_TEXT_SIZE]; /* the downstream's message, and its details, without their NULs */
};

/* The last of the records. One that is older is forgotten. */
struct journal {
  struct weir_log_sink sink; /* for weir_channel_options */
  struct {
    pthread_mutex_t mutex; /* first: what follows is guarded by it */
    size_t n_written;
    struct journal_entry entries[JOURNAL_LENGTH];
  } guarded;
};

void journal_init(struct journal *journal);
void journal_fini(struct journal *journal);

/* How many of the records kept hold `text`; with `reference` not NULL: those under that reference
 * only. */
size_t journal_count(struct journal *journal, const char *text, const char *reference);

#endif /* WEIR_EXAMPLES_DEMO_JOURNAL_H */
