/* SPDX-License-Identifier: Apache-2.0 */
#include "src/decide/throttle.h"

#include <stdbool.h>

/* A token is 1000: ratios have three decimals (A6), and integers add up the same in any order. */
#define TOKEN_MILLI 1000u

/* The largest of each field is 1000 tokens = 1,000,000 thousandths, which 20 bits hold. */
#define FIELD_BITS 20
#define FIELD_MASK ((UINT64_C(1) << FIELD_BITS) - 1)

/* The tokens are the uppermost field: what is added there or taken from there touches no other. */
#define TOKENS_UNIT (UINT64_C(1) << (2 * FIELD_BITS))

/* As fine as a level of 1,000,000 times a maximum of as much leaves room for in 64 bits. */
#define CUT_OFF_BITS 24

struct bucket {
  uint32_t tokens_milli;
  uint32_t max_milli;
  uint32_t ratio_milli; /* at most max_milli: more fills the bucket no fuller */
};

static uint64_t bucket_pack(struct bucket bucket) {
  return ((uint64_t)bucket.tokens_milli << (2 * FIELD_BITS)) |
         ((uint64_t)bucket.max_milli << FIELD_BITS) | bucket.ratio_milli;
}

static struct bucket bucket_unpack(uint64_t state) {
  return (struct bucket){.tokens_milli = (uint32_t)((state >> (2 * FIELD_BITS)) & FIELD_MASK),
                         .max_milli = (uint32_t)((state >> FIELD_BITS) & FIELD_MASK),
                         .ratio_milli = (uint32_t)(state & FIELD_MASK)};
}

static struct bucket bucket_full(uint32_t max_tokens, uint32_t token_ratio_milli) {
  uint32_t max_milli = max_tokens * TOKEN_MILLI;
  return (struct bucket){.tokens_milli = max_milli,
                         .max_milli = max_milli,
                         .ratio_milli =
                             token_ratio_milli < max_milli ? token_ratio_milli : max_milli};
}

/* Relaxed everywhere below: the word is all there is, nothing else is published with it. */

static struct bucket throttle_look(const weir_throttle *throttle) {
  return bucket_unpack(atomic_load_explicit(&throttle->state, memory_order_relaxed));
}

void weir__throttle_init(weir_throttle *throttle, uint32_t max_tokens, uint32_t token_ratio_milli) {
  atomic_init(&throttle->state, bucket_pack(bucket_full(max_tokens, token_ratio_milli)));
  throttle->cut_off = 0;
}

/* The level of `present`, in 2^-24 thousandths, once it has the maximum of `wanted`; to the
 * nearest. */
static uint64_t level_rescale(struct bucket present, uint32_t cut_off, struct bucket wanted) {
  uint64_t level = (uint64_t)present.tokens_milli << CUT_OFF_BITS;
  if (present.tokens_milli < present.max_milli) {
    level += cut_off; /* of a bucket that has become full since, nothing is left to add */
  }
  return (level * wanted.max_milli + present.max_milli / 2) / present.max_milli;
}

void weir__throttle_reconfigure(weir_throttle *throttle, uint32_t max_tokens,
                                uint32_t token_ratio_milli) {
  struct bucket wanted = bucket_full(max_tokens, token_ratio_milli);
  uint64_t state = atomic_load_explicit(&throttle->state, memory_order_relaxed);
  struct bucket present = bucket_unpack(state);
  while (present.max_milli != wanted.max_milli || present.ratio_milli != wanted.ratio_milli) {
    uint64_t level = level_rescale(present, throttle->cut_off, wanted);
    wanted.tokens_milli = (uint32_t)(level >> CUT_OFF_BITS);
    if (atomic_compare_exchange_weak_explicit(&throttle->state, &state, bucket_pack(wanted),
                                              memory_order_relaxed, memory_order_relaxed)) {
      throttle->cut_off = (uint32_t)(level & ((UINT64_C(1) << CUT_OFF_BITS) - 1));
      return;
    }
    present = bucket_unpack(state);
  }
}

bool weir__throttle_is_full(const weir_throttle *throttle) {
  struct bucket bucket = throttle_look(throttle);
  return bucket.tokens_milli == bucket.max_milli;
}

bool weir_throttle_record_failure(weir_throttle *throttle) {
  const uint64_t token = TOKEN_MILLI * TOKENS_UNIT;
  uint64_t state = atomic_load_explicit(&throttle->state, memory_order_relaxed);
  uint64_t next = 0;
  do {
    next = state >= token ? state - token : state & (TOKENS_UNIT - 1);
    if (next == state) {
      return false; /* empty, as in an outage: nothing is written then, either */
    }
  } while (!atomic_compare_exchange_weak_explicit(&throttle->state, &state, next,
                                                  memory_order_relaxed, memory_order_relaxed));
  const struct bucket bucket = bucket_unpack(next);
  return bucket.tokens_milli > bucket.max_milli / 2; /* exact: max_milli is a multiple of 1000 */
}

void weir_throttle_record_success(weir_throttle *throttle) {
  uint64_t state = atomic_load_explicit(&throttle->state, memory_order_relaxed);
  uint64_t next = 0;
  do {
    const struct bucket bucket = bucket_unpack(state);
    const uint32_t room_milli = bucket.max_milli - bucket.tokens_milli;
    if (room_milli == 0) {
      return; /* the usual case writes nothing, so that cores don't share the line */
    }
    const uint32_t added_milli = bucket.ratio_milli < room_milli ? bucket.ratio_milli : room_milli;
    next = state + added_milli * TOKENS_UNIT;
  } while (!atomic_compare_exchange_weak_explicit(&throttle->state, &state, next,
                                                  memory_order_relaxed, memory_order_relaxed));
}

uint32_t weir_throttle_tokens_milli(const weir_throttle *throttle) {
  return throttle_look(throttle).tokens_milli;
}
