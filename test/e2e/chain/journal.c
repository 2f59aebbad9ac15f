/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/chain/journal.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include <weir/policy.h>

int64_t journal_now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * WEIR_SECOND_NS + now.tv_nsec;
}

void journal_init(struct journal *journal, int fd) {
  memset(journal, 0, sizeof *journal);
  journal->fd = fd;
  (void)pthread_mutex_init(&journal->guarded.mutex, NULL);
}

void journal_write(struct journal *journal, const struct chain_event *event) {
  struct chain_event written = *event;
  (void)pthread_mutex_lock(&journal->guarded.mutex);
  if (event->kind == CHAIN_ARRIVED) {
    journal->guarded.n_under_way++;
  } else if (event->kind == CHAIN_ENDED) {
    journal->guarded.n_under_way--;
  }
  written.n_under_way = journal->guarded.n_under_way;
  if (written.at_ns == 0) {
    written.at_ns = journal_now_ns();
  }
  /* Without a reader the test is over, and this process about to be killed. */
  ssize_t size = write(journal->fd, &written, sizeof written);
  (void)size;
  (void)pthread_mutex_unlock(&journal->guarded.mutex);
}
