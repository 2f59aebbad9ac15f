/* SPDX-License-Identifier: Apache-2.0 */
#include "src/decide/breaker_window.h"

#include <assert.h>

#include "src/base/allocator.h"
#include "src/decide/breaker_phase.h"

/* A word holds its bucket's epoch above its count. Both grow with time: a stripe takes less than
 * one result a nanosecond, so a bucket of 2^b ns needs b bits to count, and the other 64 - b bits
 * number buckets for 2^64 ns. Above 2^44 (20 days of 10 million a second) the count saturates. */
#define MAX_COUNT_BITS 44

/* The upper bits of an epoch are the generation's lower ones; the rest goes round in 2^55 ns or
 * more. So epochs of two generations meet only when a bucket has been left alone for a year. */
#define GENERATION_BITS 8

/* A result that is no older than its bucket's by more than this is late, and dropped; what is older
 * takes the bucket over, since the clock has been set back. Both cost counts: the one if it was,
 * for a second, the other if a thread was stopped for a second. */
#define CLOCK_SKEW_NS WEIR_SECOND_NS

/* A breaker gets stripes when so many exchanges are lost in about a second, which is some ten
 * microseconds of waiting: less, and the memory is not worth it. */
#define MAX_CONTENTION 256
#define CONTENTION_SECOND_BITS 30 /* 2^30 ns */

static unsigned bit_width(uint64_t value) {
  return value == 0 ? 0 : 64U - (unsigned)__builtin_clzll(value);
}

/* Rounded up, so that (time * reciprocal) >> (64 + shift) is the exact quotient for any time below
 * 2^63 (Granlund and Montgomery: Division by Invariant Integers using Multiplication, 1994). */
static void bucket_reciprocal_derive(struct weir__breaker_rules *rules, uint64_t bucket_ns) {
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
  rules->bucket_reciprocal = rest == 0 ? quotient : quotient + 1;
  rules->bucket_shift = width - 1;
}

void weir__breaker_window_derive(struct weir__breaker_rules *rules) {
  const struct weir_breaker_options *options = &rules->options;
  uint64_t bucket_ns = (uint64_t)options->window_ns / options->window_buckets;
  rules->n_buckets = options->window_buckets;
  bucket_reciprocal_derive(rules, bucket_ns);
  rules->slot_reciprocal = UINT64_MAX / rules->n_buckets;
  rules->count_bits = bit_width(bucket_ns) < MAX_COUNT_BITS ? bit_width(bucket_ns) : MAX_COUNT_BITS;
  rules->epoch_mask = UINT64_MAX >> rules->count_bits;
  rules->epoch_step =
      (UINT64_C(1) << (64 - rules->count_bits - GENERATION_BITS)) + rules->n_buckets;
  rules->epoch_ahead = (CLOCK_SKEW_NS + bucket_ns - 1) / bucket_ns;
  if (rules->epoch_ahead < rules->n_buckets - 1) {
    rules->epoch_ahead = rules->n_buckets - 1;
  }
  rules->stripe_bytes = (weir__breaker_stripe_size(rules) + WEIR__BREAKER_STRIPE_ALIGNMENT - 1) &
                        ~(size_t)(WEIR__BREAKER_STRIPE_ALIGNMENT - 1);
}

_Thread_local uint32_t weir__breaker_thread;

static void thread_set(uint32_t number) {
  weir__breaker_thread = number != 0 ? number : 1;
}

uint32_t weir__breaker_thread_enter(void) {
  static _Atomic uint32_t n_threads;
  /* Relaxed: only the number matters. */
  thread_set(atomic_fetch_add_explicit(&n_threads, 1, memory_order_relaxed) + 1);
  return weir__breaker_thread;
}

bool weir__breaker_spread(weir_breaker *breaker) {
  const struct weir__breaker_rules *rules = breaker->rules;
  size_t n_bytes =
      WEIR__BREAKER_STRIPE_ALIGNMENT - 1 + ((size_t)rules->stripe_mask + 1) * rules->stripe_bytes;
  void *none = NULL;
  if (rules->stripe_mask == 0 || atomic_load_explicit(&breaker->spread, memory_order_relaxed)) {
    return true;
  }
  void *spread = weir__zalloc(rules->allocator, n_bytes);
  if (spread == NULL) {
    return false;
  }
  /* seq_cst, with the load in weir__breaker_window_sum: whoever adds up without these stripes has
   * counted before anybody who uses them adds up. */
  if (!atomic_compare_exchange_strong_explicit(&breaker->spread, &none, spread,
                                               memory_order_seq_cst, memory_order_relaxed)) {
    weir__free(rules->allocator, spread);
  }
  return true;
}

/* Another thread was at the same word. If there are more stripes, this one moves on to the next.
 * Relaxed: the counts stand on their own, and one that is lost is made up for by the next. */
void weir__breaker_contention_note(weir_breaker *breaker, int64_t now_ns) {
  if (breaker->rules->stripe_mask == 0) {
    return;
  }
  if (atomic_load_explicit(&breaker->spread, memory_order_relaxed) != NULL) {
    thread_set(weir__breaker_thread + 1);
    return;
  }
  uint64_t second = ((uint64_t)now_ns >> CONTENTION_SECOND_BITS) << 32;
  uint64_t old = atomic_load_explicit(&breaker->contention, memory_order_relaxed);
  uint64_t new = (old ^ second) >> 32 == 0 ? old + 1 : second | 1;
  if (atomic_compare_exchange_strong_explicit(&breaker->contention, &old, new, memory_order_relaxed,
                                              memory_order_relaxed) &&
      (new &UINT32_MAX) == MAX_CONTENTION) {
    (void)weir__breaker_spread(breaker); /* without memory it goes on as before */
  }
}

/* Whether `epoch` is later than `than`, and a clock that is read at the same time can show it. */
static bool epoch_is_ahead(const struct weir__breaker_rules *rules, uint64_t epoch, uint64_t than) {
  uint64_t ahead = (epoch - than) & rules->epoch_mask;
  return ahead != 0 && ahead <= rules->epoch_ahead;
}

void weir__breaker_count(weir_breaker *breaker, _Atomic uint64_t *word, uint64_t epoch,
                         uint64_t generation, int64_t now_ns) {
  const struct weir__breaker_rules *rules = breaker->rules;
  uint64_t count_mask = (UINT64_C(1) << rules->count_bits) - 1;
  uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
  for (;;) {
    uint64_t held = old >> rules->count_bits;
    uint64_t count = old & count_mask;
    uint64_t new = old + 1;
    if (count == 0 || held != epoch) {
      /* The bucket is taken over, unless it has been taken for a later time or generation. */
      if ((count != 0 && epoch_is_ahead(rules, held, epoch)) ||
          weir__breaker_phase_generation(weir__breaker_phase_load(breaker)) != generation) {
        return;
      }
      new = (epoch << rules->count_bits) | 1;
    } else if (count == count_mask) {
      return;
    }
    if (atomic_compare_exchange_strong_explicit(word, &old, new, memory_order_seq_cst,
                                                memory_order_relaxed)) {
      return;
    }
    weir__breaker_contention_note(breaker, now_ns);
  }
}

/* What is ahead counts: it happened, on a thread that read its clock later. */
static uint64_t count_within(const struct weir__breaker_rules *rules, uint64_t word,
                             uint64_t epoch) {
  uint64_t held = word >> rules->count_bits;
  uint64_t age = (epoch - held) & rules->epoch_mask;
  if (age >= rules->n_buckets && !epoch_is_ahead(rules, held, epoch)) {
    return 0;
  }
  return word & ((UINT64_C(1) << rules->count_bits) - 1);
}

/* seq_cst for the failures, see weir__breaker_count; of the successes, any recent value will do. */
static void sum_add(const struct weir__breaker_rules *rules,
                    const struct weir__breaker_stripe *stripe, uint64_t epoch,
                    struct weir__breaker_sum *sum) {
  for (uint32_t i = 0; i < rules->n_buckets; i++) {
    const struct weir__breaker_bucket *bucket = &stripe->buckets[i];
    uint64_t n_failures =
        count_within(rules, atomic_load_explicit(&bucket->failures, memory_order_seq_cst), epoch);
    sum->n_failures += n_failures;
    sum->n_requests +=
        n_failures +
        count_within(rules, atomic_load_explicit(&bucket->successes, memory_order_relaxed), epoch);
  }
}

struct weir__breaker_sum weir__breaker_window_sum(const weir_breaker *breaker, uint64_t generation,
                                                  int64_t now_ns) {
  const struct weir__breaker_rules *rules = breaker->rules;
  struct weir__breaker_sum sum = {0, 0};
  uint64_t epoch = weir__breaker_moment_at(rules, generation, now_ns).epoch;
  const void *spread = atomic_load_explicit(&breaker->spread, memory_order_seq_cst);
  sum_add(rules, weir__breaker_first_stripe(breaker), epoch, &sum);
  for (uint32_t i = 0; spread != NULL && i <= rules->stripe_mask; i++) {
    sum_add(rules, weir__breaker_stripe_at(breaker, spread, i), epoch, &sum);
  }
  return sum;
}

/* Relaxed, here and below: a statistic stands on its own. */
void weir__breaker_count_again(weir_breaker *breaker, _Atomic uint64_t *counter, int64_t now_ns) {
  weir__breaker_contention_note(breaker, now_ns);
  atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

void weir__breaker_refusals_read(const weir_breaker *breaker, uint64_t *n_refused_out,
                                 uint64_t *n_shadowed_out) {
  const void *spread = atomic_load_explicit(&breaker->spread, memory_order_acquire);
  const struct weir__breaker_stripe *stripe = weir__breaker_first_stripe(breaker);
  *n_refused_out = 0;
  *n_shadowed_out = 0;
  for (uint32_t i = 0;; i++) {
    *n_refused_out += atomic_load_explicit(&stripe->n_refused, memory_order_relaxed);
    *n_shadowed_out += atomic_load_explicit(&stripe->n_shadowed, memory_order_relaxed);
    if (spread == NULL || i > breaker->rules->stripe_mask) {
      return;
    }
    stripe = weir__breaker_stripe_at(breaker, spread, i);
  }
}

void weir__breaker_refusals_clear(weir_breaker *breaker) {
  const void *spread = atomic_load_explicit(&breaker->spread, memory_order_acquire);
  struct weir__breaker_stripe *stripe = weir__breaker_first_stripe(breaker);
  for (uint32_t i = 0;; i++) {
    atomic_store_explicit(&stripe->n_refused, 0, memory_order_relaxed);
    atomic_store_explicit(&stripe->n_shadowed, 0, memory_order_relaxed);
    if (spread == NULL || i > breaker->rules->stripe_mask) {
      return;
    }
    stripe = weir__breaker_stripe_at(breaker, spread, i);
  }
}
