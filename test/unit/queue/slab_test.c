/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/base/allocator.h"
#include "src/queue/slab.h"
#include "test/support/counting_allocator.h"

#define BLOCK_BYTES 1024
#define N_BLOCKS WEIR__SLAB_MAX_BLOCKS
#define N_MANY 100000
#define MEMBER sizeof(void *) /* where a block has a member */

/* --- one thread --- */

static void a_block_that_was_given_back_is_taken_again(void **state) {
  (void)state;
  struct counting_allocator counting;
  struct weir__slab_pool pool;
  counting_allocator_init(&counting);
  weir__slab_pool_init(&pool, &counting.base, N_BLOCKS, BLOCK_BYTES);

  void *block = weir__slab_take(&pool);
  size_t n_outstanding = counting.n_outstanding;
  for (int i = 0; i < 1000; i++) {
    weir__slab_give(&pool, block);
    assert_ptr_equal(weir__slab_take(&pool), block);
  }

  assert_int_equal(counting.n_outstanding, n_outstanding);
  weir__slab_give(&pool, block);
  weir__slab_pool_fini(&pool);
  assert_int_equal(counting.n_outstanding, 0);
}

static void blocks_are_on_cache_lines_of_their_own(void **state) {
  (void)state;
  static const size_t sizes[] = {1, 63, 64, 65, 1000, 1024};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    struct weir__slab_pool pool;
    weir__slab_pool_init(&pool, weir__allocator_or_default(NULL), N_BLOCKS, sizes[i]);
    uintptr_t a = (uintptr_t)weir__slab_take(&pool);
    uintptr_t b = (uintptr_t)weir__slab_take(&pool);
    assert_int_equal(a % 64, 0);
    assert_int_equal(b % 64, 0);
    assert_true((a > b ? a - b : b - a) >= sizes[i]);
    weir__slab_pool_fini(&pool);
  }
}

static void a_pool_that_was_never_used_owns_nothing_and_holds_nothing(void **state) {
  (void)state;
  struct counting_allocator counting;
  struct weir__slab_pool pool;
  counting_allocator_init(&counting);
  weir__slab_pool_init(&pool, &counting.base, N_BLOCKS, BLOCK_BYTES);

  assert_false(weir__slab_owns(&pool, NULL));
  assert_false(weir__slab_owns(&pool, &pool));

  weir__slab_pool_fini(&pool);
  assert_int_equal(counting.n_outstanding, 0);
}

static void addresses_are_told_apart_without_reading_them(void **state) {
  (void)state;
  struct weir__slab_pool pool;
  struct weir__slab_pool other;
  weir__slab_pool_init(&pool, weir__allocator_or_default(NULL), N_BLOCKS, BLOCK_BYTES);
  weir__slab_pool_init(&other, weir__allocator_or_default(NULL), N_BLOCKS, BLOCK_BYTES);
  char *block = weir__slab_take(&pool);
  char *second = weir__slab_take(&pool);
  char *foreign_block = weir__slab_take(&other);
  char *freed = malloc(100);
  const uintptr_t freed_address = (uintptr_t)freed;
  free(freed);
  /* The pool takes its first block first. */
  const uintptr_t end = (uintptr_t)block + N_BLOCKS * pool.block_bytes;
  const struct {
    const char *why;
    uintptr_t address;
    bool owned;
  } rows[] = {
      {"a block, as its user shows it", (uintptr_t)block, false},
      {"another, so", (uintptr_t)second, false},
      {"a member", (uintptr_t)block + MEMBER, true},
      {"a member of another", (uintptr_t)second + MEMBER, true},
      {"a block, with a mark in its lowest bit", (uintptr_t)block + 1, false},
      {"another, with all of its lowest three set", (uintptr_t)second + 7, false},
      {"inside a block", (uintptr_t)block + BLOCK_BYTES / 2 + MEMBER, true},
      {"inside a block, where a cache line begins", (uintptr_t)block + BLOCK_BYTES / 2, false},
      {"the end of a block", (uintptr_t)block + BLOCK_BYTES - MEMBER, true},
      {"NULL", 0, false},
      {"a small integer", 1, false},
      {"a larger integer", 65537, false},
      {"the largest integer", UINTPTR_MAX, false},
      {"the stack", (uintptr_t)&pool, false},
      {"freed memory", freed_address, false},
      {"in a block of another pool", (uintptr_t)foreign_block + MEMBER, false},
      {"before the blocks", (uintptr_t)block - MEMBER, false},
      {"the last of the blocks", end - MEMBER, true},
      {"behind the blocks", end + MEMBER, false},
      {"a code address", (uintptr_t)addresses_are_told_apart_without_reading_them, false},
      {"not an address of this machine", UINT64_C(0x8000000000000000) + (uintptr_t)block + MEMBER,
       false},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (weir__slab_owns(&pool, (const void *)rows[i].address) != rows[i].owned) {
      fail_msg("%s", rows[i].why);
    }
  }
  weir__slab_pool_fini(&pool);
  weir__slab_pool_fini(&other);
}

static int compare_addresses(const void *a, const void *b) {
  const char *const *left = a;
  const char *const *right = b;
  return (*left > *right) - (*left < *right);
}

/* Sums what is asked for, for the cost of a block. */
struct measuring_allocator {
  struct weir_allocator base;
  size_t n_bytes;
};

static void *measuring_allocate(void *context, size_t n_bytes) {
  struct measuring_allocator *measuring = context;
  measuring->n_bytes += n_bytes;
  return malloc(n_bytes);
}

static void measuring_release(void *context, void *memory) {
  (void)context;
  free(memory);
}

static void many_blocks_are_distinct_and_cost_little_more_than_themselves(void **state) {
  (void)state;
  struct measuring_allocator measuring = {.base = {.size = sizeof measuring.base,
                                                   .allocate = measuring_allocate,
                                                   .release = measuring_release,
                                                   .context = &measuring}};
  struct weir__slab_pool pool;
  static char *blocks[N_MANY];
  weir__slab_pool_init(&pool, &measuring.base, N_BLOCKS, BLOCK_BYTES);
  for (size_t i = 0; i < N_MANY; i++) {
    blocks[i] = weir__slab_take(&pool);
    assert_non_null(blocks[i]);
    assert_true(weir__slab_owns(&pool, blocks[i] + MEMBER));
  }
  /* What the last growth may not have used yet is a sixteenth. */
  const size_t block_bytes = BLOCK_BYTES + 64 + 16;
  assert_true(measuring.n_bytes <= (size_t)N_MANY * block_bytes / 16 * 17);

  size_t n_bytes = measuring.n_bytes;
  for (size_t i = 0; i < N_MANY; i++) {
    weir__slab_give(&pool, blocks[i]);
  }
  for (size_t i = 0; i < N_MANY; i++) {
    blocks[i] = weir__slab_take(&pool);
  }
  assert_int_equal(measuring.n_bytes, n_bytes);

  qsort(blocks, N_MANY, sizeof blocks[0], compare_addresses);
  for (size_t i = 1; i < N_MANY; i++) {
    assert_true(blocks[i] - blocks[i - 1] >= BLOCK_BYTES);
  }
  weir__slab_pool_fini(&pool);
}

static void running_out_of_memory_is_survived_at_every_growth(void **state) {
  (void)state;
  struct counting_allocator counting;
  counting_allocator_init(&counting);
  const size_t n_blocks = 300; /* of one slab each: some thirty growths */
  size_t n_allowed = 0;
  for (bool complete = false; !complete; n_allowed++) {
    struct weir__slab_pool pool;
    void *blocks[300];
    size_t n_taken = 0;
    weir__slab_pool_init(&pool, &counting.base, 1, BLOCK_BYTES);
    counting.n_allowed = n_allowed;
    while (n_taken < n_blocks && (blocks[n_taken] = weir__slab_take(&pool)) != NULL) {
      n_taken++;
    }
    complete = n_taken == n_blocks;
    if (!complete) {
      assert_null(weir__slab_take(&pool));
    }
    counting.n_allowed = SIZE_MAX;
    void *one_more = weir__slab_take(&pool);
    assert_non_null(one_more);
    for (size_t i = 0; i < n_taken; i++) {
      assert_true(weir__slab_owns(&pool, (char *)blocks[i] + MEMBER));
      assert_ptr_not_equal(blocks[i], one_more);
      weir__slab_give(&pool, blocks[i]);
    }
    weir__slab_pool_fini(&pool);
    assert_int_equal(counting.n_outstanding, 0);
  }
  assert_true(n_allowed > 10);
}

/* --- threads --- */

#define N_THREADS 8
#define N_ROUNDS 200
#define N_HELD 40

struct crowd {
  struct weir__slab_pool pool;
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

/* Writes its own mark to the whole of each block it holds: another holder would see it, or
 * ThreadSanitizer. */
static void *crowd_run(void *context) {
  struct crowd_thread *self = context;
  struct crowd *crowd = self->crowd;
  for (int round = 0; round < N_ROUNDS; round++) {
    uint64_t *held[N_HELD];
    size_t n_held = random_next(&self->seed) % N_HELD + 1;
    for (size_t i = 0; i < n_held; i++) {
      held[i] = weir__slab_take(&crowd->pool);
      if (held[i] == NULL || !weir__slab_owns(&crowd->pool, held[i] + 1)) {
        atomic_fetch_add(&crowd->n_failures, 1);
        return NULL;
      }
      for (size_t j = 0; j < BLOCK_BYTES / sizeof(uint64_t); j++) {
        held[i][j] = self->seed + i;
      }
    }
    for (size_t i = 0; i < n_held; i++) {
      for (size_t j = 0; j < BLOCK_BYTES / sizeof(uint64_t); j++) {
        atomic_fetch_add(&crowd->n_failures, held[i][j] == self->seed + i ? 0 : 1);
      }
      weir__slab_give(&crowd->pool, held[i]);
    }
  }
  return NULL;
}

static void crowd_together(size_t n_blocks) {
  struct crowd crowd;
  struct crowd_thread threads[N_THREADS];
  struct weir_allocator allocator = *weir__allocator_or_default(NULL);
  atomic_init(&crowd.n_failures, 0);
  weir__slab_pool_init(&crowd.pool, &allocator, n_blocks, BLOCK_BYTES);
  for (size_t i = 0; i < N_THREADS; i++) {
    threads[i] = (struct crowd_thread){.crowd = &crowd, .seed = 7 * (i + 1)};
    assert_int_equal(pthread_create(&threads[i].thread, NULL, crowd_run, &threads[i]), 0);
  }
  for (size_t i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_join(threads[i].thread, NULL), 0);
  }
  assert_int_equal(atomic_load(&crowd.n_failures), 0);
  weir__slab_pool_fini(&crowd.pool);
}

static void threads_never_hold_the_same_block(void **state) {
  (void)state;
  crowd_together(N_BLOCKS);
}

/* The pool grows at nearly every take, and what has grown is taken by others at once. */
static void threads_never_hold_the_same_block_of_slabs_with_one(void **state) {
  (void)state;
  for (int i = 0; i < 10; i++) {
    crowd_together(1);
  }
}

/* Blocks that one thread takes and another gives back. */
struct relay {
  struct weir__slab_pool pool;
  _Atomic(void *) handed[64];
  atomic_size_t n_failures;
};

static void *relay_give(void *context) {
  struct relay *relay = context;
  for (size_t n = 0; n < 64 * N_ROUNDS; n++) {
    void *block = NULL;
    while ((block = atomic_exchange_explicit(&relay->handed[n % 64], NULL, memory_order_acquire)) ==
           NULL) {
    }
    atomic_fetch_add(&relay->n_failures,
                     weir__slab_owns(&relay->pool, (char *)block + MEMBER) ? 0 : 1);
    weir__slab_give(&relay->pool, block);
  }
  return NULL;
}

static void blocks_may_be_given_back_by_another_thread(void **state) {
  (void)state;
  static struct relay relay;
  memset(&relay, 0, sizeof relay);
  pthread_t giver;
  weir__slab_pool_init(&relay.pool, weir__allocator_or_default(NULL), 1, BLOCK_BYTES);
  assert_int_equal(pthread_create(&giver, NULL, relay_give, &relay), 0);
  for (size_t n = 0; n < 64 * N_ROUNDS; n++) {
    uint64_t *block = weir__slab_take(&relay.pool);
    block[0] = n;
    while (atomic_load_explicit(&relay.handed[n % 64], memory_order_relaxed) != NULL) {
    }
    atomic_store_explicit(&relay.handed[n % 64], block, memory_order_release);
  }
  assert_int_equal(pthread_join(giver, NULL), 0);
  assert_int_equal(atomic_load(&relay.n_failures), 0);
  weir__slab_pool_fini(&relay.pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_block_that_was_given_back_is_taken_again),
      cmocka_unit_test(blocks_are_on_cache_lines_of_their_own),
      cmocka_unit_test(a_pool_that_was_never_used_owns_nothing_and_holds_nothing),
      cmocka_unit_test(addresses_are_told_apart_without_reading_them),
      cmocka_unit_test(many_blocks_are_distinct_and_cost_little_more_than_themselves),
      cmocka_unit_test(running_out_of_memory_is_survived_at_every_growth),
      cmocka_unit_test(threads_never_hold_the_same_block),
      cmocka_unit_test(threads_never_hold_the_same_block_of_slabs_with_one),
      cmocka_unit_test(blocks_may_be_given_back_by_another_thread),
  };
  return cmocka_run_group_tests_name("slab", tests, NULL, NULL);
}
