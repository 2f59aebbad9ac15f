/* SPDX-License-Identifier: Apache-2.0 */
#include "src/decide/breaker_window.h"

#include <assert.h>

#include "src/decide/breaker_phase.h"

/* A word holds its bucket's epoch above its count. Both grow with time: a stripe takes less than
 * one result in four nanoseconds, so a bucket of 2^b ns needs b - 2 bits to count, and the other
 * bits number buckets for 2^64 ns. Above 2^44 (80 days of 2.5 million a second) the count
 * saturates. */
#define MAX_COUNT_BITS 44

/* The upper bits of an epoch are the generation's lower ones; the rest goes round in 2^55 ns or
 * more. So epochs of two generations meet only when a bucket has been left alone for a year. Two
 * grids are as far apart as so many generations, which is also where a word of another format has
 * its upper bits. */
#define GENERATION_BITS 10
#define GRID_GENERATIONS 16

#define NTH_MASK ((UINT32_C(1) << (64 - WEIR__BREAKER_NTH_SHIFT)) - 1)

/* A result that is no older than its bucket's by more than this is late, and dropped; what is older
 * takes the bucket over, since the clock has been set back. Both cost counts: the one if it was,
 * for a second, the other if a thread was stopped for a second. */
#define CLOCK_SKEW_NS WEIR_SECOND_NS

/* A breaker gets stripes when so many exchanges are lost in about a second, which is some ten
 * microseconds of waiting: less, and the memory is not worth it. */
#define MAX_CONTENTION 256
#define CONTENTION_BITS 10
#define CONTENTION_SECOND_BITS 30 /* 2^30 ns */

static unsigned bit_width(uint64_t value) {
  return value == 0 ? 0 : 64U - (unsigned)__builtin_clzll(value);
}

/* Rounded up, so that (time * reciprocal) >> (64 + shift) is the exact quotient for any time below
 * 2^63 (Granlund and Montgomery: Division by Invariant Integers using Multiplication, 1994). */
static void bucket_reciprocal_make(struct weir__breaker_grid *grid, uint64_t bucket_ns) {
  assert(bucket_ns > 1); /* a millisecond at least */
  unsigned width = bit_width(bucket_ns - 1);
  uint64_t high = UINT64_C(1) << (width - 1); /* 2^(63 + width) / bucket_ns by long division */
  uint64_t quotient = 0;
  uint64_t rest = high;
  for (int bit = 0; bit < 64; bit++) {
    bool carry = rest >> 63 != 0;
    rest <<= 1;
    quotient <<= 1;
    if (carry || rest >= bucket_ns) {
      rest -= bucket_ns;
      quotient |= 1;
    }
  }
  grid->bucket_reciprocal = rest == 0 ? quotient : quotient + 1;
  grid->bucket_shift = width - 1;
}

struct weir__breaker_grid weir__breaker_grid_make(const struct weir_breaker_options *options,
                                                  uint32_t nth) {
  uint64_t bucket_ns = (uint64_t)options->window_ns / options->window_buckets;
  unsigned count_bits = bit_width(bucket_ns) - 2;
  uint64_t ahead = (CLOCK_SKEW_NS + bucket_ns - 1) / bucket_ns;
  struct weir__breaker_grid grid = {
      .nth = nth & NTH_MASK,
      .n_buckets = options->window_buckets,
      .count_bits = count_bits < MAX_COUNT_BITS ? count_bits : MAX_COUNT_BITS,
      .slot_reciprocal = UINT64_MAX / options->window_buckets,
      .epoch_ahead =
          (uint32_t)(ahead < options->window_buckets ? options->window_buckets - 1 : ahead),
  };
  bucket_reciprocal_make(&grid, bucket_ns);
  grid.epoch_step = (UINT64_C(1) << (64 - grid.count_bits - GENERATION_BITS)) + grid.n_buckets;
  grid.first_epoch = (uint64_t)nth * GRID_GENERATIONS * grid.epoch_step;
  return grid;
}

/* The model once more: a definition without one takes back what the declaration says. */
_Thread_local uint32_t weir__breaker_thread __attribute__((tls_model("initial-exec")));

static void thread_set(uint32_t number) {
  weir__breaker_thread = number != 0 ? number : 1;
}

uint32_t weir__breaker_thread_enter(void) {
  static _Atomic uint32_t n_threads;
  /* Relaxed: only the number matters. */
  thread_set(atomic_fetch_add_explicit(&n_threads, 1, memory_order_relaxed) + 1);
  return weir__breaker_thread;
}

/* Another thread was at the same word. If there are more stripes, this one moves on to the next.
 * Relaxed: the counts stand on their own, and one that is lost is made up for by the next. */
void weir__breaker_contention_note(weir_breaker *breaker, int64_t now_ns) {
  const struct weir__breaker_annex *annex = weir__breaker_annex_of(breaker);
  if (breaker->rules->stripe_mask == 0) {
    return;
  }
  if (annex != NULL && annex->stripe_mask != 0) {
    thread_set(weir__breaker_thread + 1);
    return;
  }
  uint32_t second = (uint32_t)((uint64_t)now_ns >> CONTENTION_SECOND_BITS) << CONTENTION_BITS;
  uint32_t old = atomic_load_explicit(&breaker->contention, memory_order_relaxed);
  uint32_t new = (old ^ second) >> CONTENTION_BITS == 0 ? old + 1 : second | 1;
  if (atomic_compare_exchange_strong_explicit(&breaker->contention, &old, new, memory_order_relaxed,
                                              memory_order_relaxed) &&
      new - second == MAX_CONTENTION) {
    (void)weir__breaker_spread(breaker); /* without memory it goes on as before */
  }
}

/* Whether `epoch` is later than `than`, and a clock that is read at the same time can show it. */
static bool epoch_is_ahead(const struct weir__breaker_grid *grid, uint64_t epoch, uint64_t than) {
  uint64_t ahead = (epoch - than) & weir__breaker_epoch_mask(grid);
  return ahead != 0 && ahead <= grid->epoch_ahead;
}

/* Whether results of `generation` are still counted, and by this grid. */
static bool is_counted(const weir_breaker *breaker, const struct weir__breaker_grid *grid,
                       uint64_t generation) {
  return weir__breaker_phase_generation(weir__breaker_phase_load(breaker)) == generation &&
         weir__breaker_nth_grid(breaker->rules) == grid->nth;
}

/* Acquire, of the word: who finds a bucket of a later grid or generation knows of it then. */
void weir__breaker_count(weir_breaker *breaker, const struct weir__breaker_grid *grid,
                         _Atomic uint64_t *word, uint64_t epoch, uint64_t generation,
                         int64_t now_ns) {
  uint64_t count_mask = (UINT64_C(1) << grid->count_bits) - 1;
  uint64_t old = atomic_load_explicit(word, memory_order_acquire);
  for (;;) {
    uint64_t held = old >> grid->count_bits;
    uint64_t count = old & count_mask;
    uint64_t new = old + 1;
    if (count == 0 || held != epoch) {
      /* The bucket is taken over, unless it has been taken for a later time, generation or grid. */
      if ((count != 0 && epoch_is_ahead(grid, held, epoch)) ||
          !is_counted(breaker, grid, generation)) {
        return;
      }
      new = (epoch << grid->count_bits) | 1;
    } else if (count == count_mask) {
      return;
    }
    if (atomic_compare_exchange_strong_explicit(word, &old, new, memory_order_seq_cst,
                                                memory_order_acquire)) {
      return;
    }
    weir__breaker_contention_note(breaker, now_ns);
  }
}

/* What is ahead counts: it happened, on a thread that read its clock later. */
static uint64_t count_within(const struct weir__breaker_grid *grid, uint64_t word, uint64_t epoch) {
  uint64_t held = word >> grid->count_bits;
  uint64_t age = (epoch - held) & weir__breaker_epoch_mask(grid);
  if (age >= grid->n_buckets && !epoch_is_ahead(grid, held, epoch)) {
    return 0;
  }
  return word & ((UINT64_C(1) << grid->count_bits) - 1);
}

/* seq_cst for the failures, see weir__breaker_count; of the successes, any recent value will do. */
static void sum_add(const struct weir__breaker_grid *grid,
                    const struct weir__breaker_stripe *stripe, uint32_t n_buckets, uint64_t epoch,
                    struct weir__breaker_sum *sum) {
  for (uint32_t i = 0; i < n_buckets; i++) {
    const struct weir__breaker_bucket *bucket = &stripe->buckets[i];
    uint64_t n_failures =
        count_within(grid, atomic_load_explicit(&bucket->failures, memory_order_seq_cst), epoch);
    sum->n_failures += n_failures;
    sum->n_requests +=
        n_failures +
        count_within(grid, atomic_load_explicit(&bucket->successes, memory_order_relaxed), epoch);
  }
}

/* A stripe of another grid may have fewer buckets, or more; what is there is of that one. */
struct weir__breaker_sum weir__breaker_window_sum(const weir_breaker *breaker,
                                                  const struct weir__breaker_grid *grid,
                                                  uint64_t generation, int64_t now_ns) {
  struct weir__breaker_sum sum = {0, 0};
  uint64_t epoch = weir__breaker_moment_at(grid, generation, now_ns).epoch;
  struct weir__breaker_stripes stripes = weir__breaker_stripes_begin(breaker);
  uint32_t n_buckets = 0;
  const struct weir__breaker_stripe *stripe = NULL;
  while ((stripe = weir__breaker_stripes_next(&stripes, &n_buckets)) != NULL) {
    sum_add(grid, stripe, n_buckets < grid->n_buckets ? n_buckets : grid->n_buckets, epoch, &sum);
  }
  return sum;
}

/* Relaxed: a count of before, if any comes back, is of another epoch. */
void weir__breaker_window_clear(weir_breaker *breaker) {
  struct weir__breaker_stripes stripes = weir__breaker_stripes_begin(breaker);
  uint32_t n_buckets = 0;
  struct weir__breaker_stripe *stripe = NULL;
  while ((stripe = weir__breaker_stripes_next(&stripes, &n_buckets)) != NULL) {
    for (uint32_t i = 0; i < n_buckets; i++) {
      atomic_store_explicit(&stripe->buckets[i].successes, 0, memory_order_relaxed);
      atomic_store_explicit(&stripe->buckets[i].failures, 0, memory_order_relaxed);
    }
  }
}

/* Relaxed, here and below: a statistic stands on its own. */
void weir__breaker_count_again(weir_breaker *breaker, _Atomic uint64_t *counter, int64_t now_ns) {
  weir__breaker_contention_note(breaker, now_ns);
  atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

void weir__breaker_refusals_read(const weir_breaker *breaker, uint64_t *n_refused_out,
                                 uint64_t *n_shadowed_out) {
  struct weir__breaker_stripes stripes = weir__breaker_stripes_begin(breaker);
  uint32_t n_buckets = 0;
  *n_refused_out = 0;
  *n_shadowed_out = 0;
  const struct weir__breaker_stripe *stripe = NULL;
  while ((stripe = weir__breaker_stripes_next(&stripes, &n_buckets)) != NULL) {
    *n_refused_out += atomic_load_explicit(&stripe->n_refused, memory_order_relaxed);
    *n_shadowed_out += atomic_load_explicit(&stripe->n_shadowed, memory_order_relaxed);
  }
}

void weir__breaker_refusals_clear(weir_breaker *breaker) {
  struct weir__breaker_stripes stripes = weir__breaker_stripes_begin(breaker);
  uint32_t n_buckets = 0;
  struct weir__breaker_stripe *stripe = NULL;
  while ((stripe = weir__breaker_stripes_next(&stripes, &n_buckets)) != NULL) {
    atomic_store_explicit(&stripe->n_refused, 0, memory_order_relaxed);
    atomic_store_explicit(&stripe->n_shadowed, 0, memory_order_relaxed);
  }
}
