/* SPDX-License-Identifier: Apache-2.0 */
#include "src/decide/breaker_annex.h"

#include <string.h>

#include "src/base/allocator.h"
#include "src/decide/breaker_options.h"
#include "src/decide/breaker_probes.h"
#include "src/decide/breaker_window.h"

struct weir__breaker_place *weir__breaker_place_at(const weir_breaker *breaker, uint32_t index) {
  if (index < breaker->rules->n_places) {
    unsigned char *stripe = (unsigned char *)weir__breaker_first_stripe(breaker);
    void *places = stripe + weir__breaker_stripe_size(breaker->rules->n_buckets);
    return (struct weir__breaker_place *)places + index;
  }
  const struct weir__breaker_annex *annex = weir__breaker_annex_of(breaker);
  while (index < annex->first_place) {
    annex = annex->older;
  }
  return annex->places + (index - annex->first_place);
}

struct weir__breaker_stripes weir__breaker_stripes_begin(const weir_breaker *breaker) {
  return (struct weir__breaker_stripes){
      .breaker = breaker, .annex = atomic_load_explicit(&breaker->annex, memory_order_seq_cst)};
}

struct weir__breaker_stripe *weir__breaker_stripes_next(struct weir__breaker_stripes *stripes,
                                                        uint32_t *n_buckets_out) {
  while (stripes->annex != NULL) {
    const struct weir__breaker_annex *annex = stripes->annex;
    if (annex->owns_stripes && stripes->nth <= annex->stripe_mask) {
      *n_buckets_out = annex->n_buckets;
      return (struct weir__breaker_stripe *)(void *)(annex->stripes +
                                                     stripes->nth++ * annex->stripe_bytes);
    }
    stripes->annex = annex->older;
    stripes->nth = 0;
  }
  if (stripes->at_end) {
    return NULL;
  }
  stripes->at_end = true;
  *n_buckets_out = stripes->breaker->rules->n_buckets;
  return weir__breaker_first_stripe(stripes->breaker);
}

/* What a breaker has room for. */
struct room {
  uint32_t n_buckets;
  uint32_t n_places;
  uint32_t stripe_mask;
};

static struct room room_of(const weir_breaker *breaker, const struct weir__breaker_annex *annex) {
  const struct weir__breaker_rules *rules = breaker->rules;
  return annex != NULL ? (struct room){annex->n_buckets, annex->n_places, annex->stripe_mask}
                       : (struct room){rules->n_buckets, rules->n_places, 0};
}

static uint32_t larger_of(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

/* More than is asked for, so that small steps don't make a long row of annexes. */
static uint32_t grown(uint32_t present, uint32_t wanted, uint32_t limit) {
  uint32_t doubled = present < limit / 2 ? present * 2 : limit;
  return wanted > present ? larger_of(wanted, doubled) : present;
}

static size_t aligned(size_t size) {
  return (size + WEIR__BREAKER_STRIPE_ALIGNMENT - 1) &
         ~(size_t)(WEIR__BREAKER_STRIPE_ALIGNMENT - 1);
}

/* An annex that follows `older` and makes `room`. Its stripes are on cache lines of their own, and
 * its places behind them. */
static struct weir__breaker_annex *
annex_new(const weir_breaker *breaker, struct weir__breaker_annex *older, const struct room *room) {
  struct room before = room_of(breaker, older);
  bool more_stripes = room->n_buckets > before.n_buckets || room->stripe_mask > before.stripe_mask;
  size_t stripe_bytes = aligned(weir__breaker_stripe_size(room->n_buckets));
  size_t stripes_bytes = more_stripes ? (room->stripe_mask + (size_t)1) * stripe_bytes : 0;
  size_t places_bytes = (room->n_places - before.n_places) * sizeof(struct weir__breaker_place);
  struct weir__breaker_annex *annex =
      weir__zalloc(breaker->rules->allocator, sizeof *annex + WEIR__BREAKER_STRIPE_ALIGNMENT - 1 +
                                                  stripes_bytes + places_bytes);
  if (annex == NULL) {
    return NULL;
  }
  unsigned char *after = (unsigned char *)(annex + 1);
  after += aligned((uintptr_t)after) - (uintptr_t)after;
  annex->older = older;
  annex->n_buckets = room->n_buckets;
  annex->stripe_mask = room->stripe_mask;
  annex->n_places = room->n_places;
  annex->first_place = before.n_places;
  annex->places = (struct weir__breaker_place *)(void *)(after + stripes_bytes);
  annex->owns_stripes = more_stripes;
  annex->stripe_bytes = more_stripes || older == NULL ? stripe_bytes : older->stripe_bytes;
  annex->stripes = more_stripes ? after : older != NULL ? older->stripes : NULL;
  return annex;
}

/* Makes room for `wanted` beside what there is. seq_cst, with weir__breaker_stripes_begin: whoever
 * adds up without an annex's stripes has counted before anybody who uses them adds up. */
static bool annex_add(weir_breaker *breaker, const struct room *wanted) {
  struct weir__breaker_annex *last = atomic_load_explicit(&breaker->annex, memory_order_acquire);
  for (;;) {
    struct room before = room_of(breaker, last);
    struct room room = {
        .n_buckets = grown(before.n_buckets, wanted->n_buckets, WEIR__BREAKER_MAX_BUCKETS),
        .n_places = grown(before.n_places, wanted->n_places, WEIR__BREAKER_MAX_PROBES),
        .stripe_mask = larger_of(before.stripe_mask, wanted->stripe_mask),
    };
    if (memcmp(&room, &before, sizeof room) == 0) {
      return true;
    }
    struct weir__breaker_annex *annex = annex_new(breaker, last, &room);
    if (annex == NULL) {
      return false;
    }
    if (atomic_compare_exchange_strong_explicit(&breaker->annex, &last, annex, memory_order_seq_cst,
                                                memory_order_acquire)) {
      return true;
    }
    weir__free(breaker->rules->allocator, annex);
  }
}

bool weir__breaker_spread(weir_breaker *breaker) {
  const struct room wanted = {.stripe_mask = breaker->rules->stripe_mask};
  return annex_add(breaker, &wanted);
}

bool weir__breaker_reserve(weir_breaker *breaker, const struct weir_breaker_options *options) {
  const struct room wanted = {.n_buckets = options->window_buckets, .n_places = options->probes};
  return annex_add(breaker, &wanted);
}

void weir__breaker_annexes_end(weir_breaker *breaker) {
  /* Relaxed: whoever ends the breaker has seen its calls end. */
  struct weir__breaker_annex *annex = atomic_load_explicit(&breaker->annex, memory_order_relaxed);
  while (annex != NULL) {
    struct weir__breaker_annex *older = annex->older;
    weir__free(breaker->rules->allocator, annex);
    annex = older;
  }
}
