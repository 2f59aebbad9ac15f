/* journal – where a hop tells what happens to it, as it happens.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_CHAIN_JOURNAL_H
#define WEIR_TEST_E2E_CHAIN_JOURNAL_H

#include <pthread.h>
#include <stdint.h>

#include "test/e2e/chain/protocol.h"

struct journal {
  int fd;
  struct {
    pthread_mutex_t mutex;
    uint32_t n_under_way;
  } guarded;
};

void journal_init(struct journal *journal, int fd);

/* Writes an event, and counts what is under way. `at_ns` 0 = now. */
void journal_write(struct journal *journal, const struct chain_event *event);

int64_t journal_now_ns(void);

#endif /* WEIR_TEST_E2E_CHAIN_JOURNAL_H */
