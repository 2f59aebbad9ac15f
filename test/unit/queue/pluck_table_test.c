/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "src/base/allocator.h"
#include "src/queue/pluck_table.h"
#include "test/support/counting_allocator.h"

static int tags[4];

static void a_batch_goes_from_hand_to_hand(void **state) {
  (void)state;
  struct weir__pluck_table table;
  struct weir__completion completion = {.app_tag = &tags[0]};
  weir__pluck_table_init(&table, weir__allocator_or_default(NULL));
  assert_null(
      weir__pluck_table_claim(&table, NULL)); /* no slot is taken for a batch without a tag */
  assert_true(weir__pluck_table_add(&table, &completion));
  struct weir__pluck_slot *slot = completion.in_queue.pluck_slot;
  assert_true(weir__pluck_table_has(&table, &tags[0]));
  assert_false(weir__pluck_table_has(&table, &tags[1]));
  assert_null(weir__pluck_table_claim(&table, &tags[1]));

  assert_ptr_equal(weir__pluck_table_claim(&table, &tags[0]), slot);
  assert_int_equal(weir__pluck_slot_state(slot), WEIR__PLUCK_WAITING);
  assert_false(weir__pluck_table_has(&table, &tags[0]));
  assert_null(weir__pluck_table_claim(&table, &tags[0]));
  assert_true(weir__pluck_slot_leave(slot));
  assert_false(weir__pluck_slot_end(slot)); /* nobody is to be woken */
  assert_ptr_equal(weir__pluck_table_claim(&table, &tags[0]), slot);
  assert_int_equal(weir__pluck_slot_state(slot), WEIR__PLUCK_READY_CLAIMED);
  assert_false(weir__pluck_slot_leave(slot));
  weir__pluck_slot_free(slot);

  assert_null(weir__pluck_table_claim(&table, &tags[0]));
  weir__pluck_table_fini(&table);
}

static void who_plucks_is_rung_when_the_batch_is_over(void **state) {
  (void)state;
  struct weir__pluck_table table;
  struct weir__completion completion = {.app_tag = &tags[0]};
  weir__pluck_table_init(&table, weir__allocator_or_default(NULL));
  assert_true(weir__pluck_table_add(&table, &completion));
  struct weir__pluck_slot *slot = weir__pluck_table_claim(&table, &tags[0]);
  assert_true(weir__pluck_slot_end(slot));
  assert_int_equal(weir__pluck_slot_state(slot), WEIR__PLUCK_READY_RUNG);
  assert_false(weir__pluck_slot_leave(slot));
  weir__pluck_slot_free(slot);

  assert_true(weir__pluck_table_add(&table, &completion));
  slot = weir__pluck_table_claim(&table, &tags[0]);
  uint64_t hands = weir__pluck_slot_hands(slot);
  assert_true(weir__pluck_slot_abandon(slot));
  assert_int_equal(weir__pluck_slot_state(slot), WEIR__PLUCK_ABANDONED);
  assert_int_equal(weir__pluck_slot_hands(slot), hands);
  weir__pluck_slot_free(slot);
  assert_int_not_equal(weir__pluck_slot_hands(slot), hands);

  assert_true(weir__pluck_table_add(&table, &completion));
  assert_false(weir__pluck_slot_abandon(completion.in_queue.pluck_slot));
  assert_false(weir__pluck_table_has(&table, &tags[0]));
  weir__pluck_table_fini(&table);
}

static void a_ring_is_for_one_waiter_and_may_be_taken_by_another(void **state) {
  (void)state;
  struct weir__pluck_table table;
  weir__pluck_table_init(&table, weir__allocator_or_default(NULL));
  struct weir__pluck_waiter *first = weir__pluck_table_wait(&table, &tags[0]);
  struct weir__pluck_waiter *second = weir__pluck_table_wait(&table, &tags[0]);
  struct weir__pluck_waiter *other = weir__pluck_table_wait(&table, &tags[1]);

  assert_false(weir__pluck_table_settle(&table, &tags[0])); /* nobody was rung */
  assert_true(weir__pluck_table_pick(&table, &tags[0]));
  assert_true(weir__pluck_table_pick(&table, &tags[0]));
  assert_false(weir__pluck_table_pick(&table, &tags[0]));
  assert_false(weir__pluck_table_settle(&table, &tags[1]));

  assert_false(weir__pluck_waiter_end(first)); /* there is a ring to be taken */
  assert_false(weir__pluck_waiter_end(first));
  assert_true(weir__pluck_table_settle(&table, &tags[0]));
  assert_true(weir__pluck_table_settle(&table, &tags[0]));
  assert_false(weir__pluck_table_settle(&table, &tags[0]));
  assert_true(weir__pluck_waiter_end(first));
  assert_true(weir__pluck_table_pick(&table, &tags[0])); /* the second waits again */
  assert_true(weir__pluck_table_settle(&table, &tags[0]));
  assert_true(weir__pluck_waiter_end(second));
  assert_true(weir__pluck_waiter_end(other));
  assert_false(weir__pluck_table_pick(&table, &tags[0]));
  weir__pluck_table_fini(&table);
}

static void as_many_wait_as_the_core_allows(void **state) {
  (void)state;
  struct weir__pluck_table table;
  struct weir__pluck_waiter *waiters[WEIR__MAX_PLUCKERS];
  weir__pluck_table_init(&table, weir__allocator_or_default(NULL));
  for (size_t i = 0; i < WEIR__MAX_PLUCKERS; i++) {
    waiters[i] = weir__pluck_table_wait(&table, &tags[0]);
    assert_non_null(waiters[i]);
  }
  assert_null(weir__pluck_table_wait(&table, &tags[0]));
  for (size_t i = 0; i < WEIR__MAX_PLUCKERS; i++) {
    assert_true(weir__pluck_waiter_end(waiters[i]));
  }
  waiters[0] = weir__pluck_table_wait(&table, &tags[0]);
  assert_non_null(waiters[0]);
  assert_true(weir__pluck_waiter_end(waiters[0]));
  weir__pluck_table_fini(&table);
}

static void running_out_of_memory_is_told_and_what_there_is_stays(void **state) {
  (void)state;
  struct counting_allocator counting;
  struct weir__pluck_table table;
  static struct weir__completion completions[3 * WEIR__PLUCK_CHUNK_LENGTH];
  counting_allocator_init(&counting);
  counting.n_allowed = 1; /* the first chunk is the table's own */
  weir__pluck_table_init(&table, &counting.base);
  for (size_t i = 0; i < 3 * WEIR__PLUCK_CHUNK_LENGTH; i++) {
    completions[i].app_tag = &completions[i];
    assert_int_equal(weir__pluck_table_add(&table, &completions[i]),
                     i < 2 * WEIR__PLUCK_CHUNK_LENGTH);
  }
  for (size_t i = 0; i < 3 * WEIR__PLUCK_CHUNK_LENGTH; i++) {
    assert_int_equal(weir__pluck_table_has(&table, &completions[i]),
                     i < 2 * WEIR__PLUCK_CHUNK_LENGTH);
  }
  weir__pluck_table_fini(&table);
  assert_int_equal(counting.n_outstanding, 0);
}

/* --- threads --- */

#define N_OWNERS 3
#define N_PLUCKERS 3
#define N_ROUNDS 5000

/* A batch whose memory is used again as soon as it is over, for another tag. */
struct owned {
  struct weir__completion completion;
  atomic_bool is_plucked; /* a thread has claimed it */
  atomic_bool is_over;
};

struct crowd {
  struct weir__pluck_table table;
  atomic_bool over;
  atomic_size_t n_failures;
};

struct crowd_thread {
  pthread_t thread;
  struct crowd *crowd;
  uint64_t seed;
};

static uint64_t random_next(uint64_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed;
}

static void *owner_run(void *context) {
  struct crowd_thread *self = context;
  struct crowd *crowd = self->crowd;
  struct owned owned;
  memset(&owned, 0, sizeof owned);
  for (int round = 0; round < N_ROUNDS; round++) {
    atomic_store(&owned.is_over, false);
    owned.completion.app_tag = &tags[random_next(&self->seed) % 4];
    if (!weir__pluck_table_add(&crowd->table, &owned.completion)) {
      atomic_fetch_add(&crowd->n_failures, 1);
      return NULL;
    }
    struct weir__pluck_slot *slot = owned.completion.in_queue.pluck_slot;
    if (random_next(&self->seed) % 4 == 0) {
      uint64_t hands = weir__pluck_slot_hands(slot);
      if (weir__pluck_slot_abandon(slot)) {
        while (weir__pluck_slot_hands(slot) == hands) {
          (void)sched_yield();
        }
      }
      continue;
    }
    (void)weir__pluck_slot_end(slot);
    while (!atomic_load(&owned.is_over)) {
      (void)sched_yield();
    }
  }
  return NULL;
}

/* Plucks what is in `slot`, claimed for `tag`. */
static void pluck(struct crowd_thread *self, struct weir__pluck_slot *slot, const void *tag) {
  struct crowd *crowd = self->crowd;
  struct owned *owned = (struct owned *)slot->completion; /* its first member */
  bool right = owned->completion.app_tag == tag && !atomic_exchange(&owned->is_plucked, true);
  atomic_fetch_add(&crowd->n_failures, right ? 0 : 1);
  while (weir__pluck_slot_state(slot) == WEIR__PLUCK_WAITING) {
    atomic_store(&owned->is_plucked, false);
    if (random_next(&self->seed) % 2 == 0 && weir__pluck_slot_leave(slot)) {
      return;
    }
    (void)sched_yield();
  }
  atomic_store(&owned->is_plucked, false);
  bool is_abandoned = weir__pluck_slot_state(slot) == WEIR__PLUCK_ABANDONED;
  weir__pluck_slot_free(slot);
  if (!is_abandoned) {
    atomic_store(&owned->is_over, true);
  }
}

static void *plucker_run(void *context) {
  struct crowd_thread *self = context;
  while (!atomic_load(&self->crowd->over)) {
    const void *tag = &tags[random_next(&self->seed) % 4];
    struct weir__pluck_slot *slot = weir__pluck_table_claim(&self->crowd->table, tag);
    if (slot != NULL) {
      pluck(self, slot, tag);
    } else if (random_next(&self->seed) % 8 == 0) {
      (void)sched_yield();
    }
  }
  return NULL;
}

/* A slot changes hands while others look at it: who has seen a tag must not get the batch that
 * comes after. */
static void a_claim_is_of_the_tag_that_was_asked_for_and_of_one_thread(void **state) {
  (void)state;
  static struct crowd crowd;
  struct crowd_thread owners[N_OWNERS];
  struct crowd_thread pluckers[N_PLUCKERS];
  memset(&crowd, 0, sizeof crowd);
  weir__pluck_table_init(&crowd.table, weir__allocator_or_default(NULL));
  for (size_t i = 0; i < N_PLUCKERS; i++) {
    pluckers[i] = (struct crowd_thread){.crowd = &crowd, .seed = 11 * (i + 1)};
    assert_int_equal(pthread_create(&pluckers[i].thread, NULL, plucker_run, &pluckers[i]), 0);
  }
  for (size_t i = 0; i < N_OWNERS; i++) {
    owners[i] = (struct crowd_thread){.crowd = &crowd, .seed = 13 * (i + 1)};
    assert_int_equal(pthread_create(&owners[i].thread, NULL, owner_run, &owners[i]), 0);
  }
  for (size_t i = 0; i < N_OWNERS; i++) {
    assert_int_equal(pthread_join(owners[i].thread, NULL), 0);
  }
  atomic_store(&crowd.over, true);
  for (size_t i = 0; i < N_PLUCKERS; i++) {
    assert_int_equal(pthread_join(pluckers[i].thread, NULL), 0);
  }
  assert_int_equal(atomic_load(&crowd.n_failures), 0);
  weir__pluck_table_fini(&crowd.table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_batch_goes_from_hand_to_hand),
      cmocka_unit_test(who_plucks_is_rung_when_the_batch_is_over),
      cmocka_unit_test(a_ring_is_for_one_waiter_and_may_be_taken_by_another),
      cmocka_unit_test(as_many_wait_as_the_core_allows),
      cmocka_unit_test(running_out_of_memory_is_told_and_what_there_is_stays),
      cmocka_unit_test(a_claim_is_of_the_tag_that_was_asked_for_and_of_one_thread),
  };
  return cmocka_run_group_tests_name("pluck_table", tests, NULL, NULL);
}
