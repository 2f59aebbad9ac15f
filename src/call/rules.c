/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/rules.h"

#include <assert.h>

#include "src/base/allocator.h"
#include "src/call/call.h"
#include "src/call/extras.h"

/* While rules are in force, n_shares is so much more than it will be: it can't come down to 0. */
#define IN_FORCE (UINT64_C(1) << 62)

#define COUNT_MASK ((UINT64_C(1) << WEIR__RULES_COUNT_BITS) - 1)

_Static_assert(sizeof(uintptr_t) <= sizeof(uint64_t), "an address fits into the word");
_Static_assert(WEIR__RULES_ALIGNMENT % alignof(struct weir__rules) == 0, "as strict as is needed");
_Static_assert(64 - WEIR__RULES_ADDRESS_BITS + 8 == WEIR__RULES_COUNT_BITS &&
                   WEIR__RULES_ALIGNMENT == 1 << 8,
               "address and count share the word");

/* --- shares --- */

static uint64_t word_of(const struct weir__rules *rules) {
  return (uint64_t)(uintptr_t)rules << (64 - WEIR__RULES_ADDRESS_BITS);
}

void weir__rules_replace(struct weir__rules_place *place, struct weir__rules *rules) {
  /* release: the rules, for who takes a share; acquire: what was added to n_shares before the count
   * was taken down */
  uint64_t word = atomic_exchange_explicit(&place->word, word_of(rules), memory_order_acq_rel);
  struct weir__rules *old = weir__rules_of_word(word);
  if (old == NULL) {
    return;
  }
  /* From here on n_shares is what its name says. acq_rel: as in weir__rules_release */
  uint64_t change = (word & COUNT_MASK) - IN_FORCE;
  if (atomic_fetch_add_explicit(&old->n_shares, change, memory_order_acq_rel) + change == 0) {
    weir__rules_end(old);
  }
}

/* Shares go from the one count to the other: to n_shares first, so that it is never too low. */
void weir__rules_take_down(struct weir__rules_place *place, struct weir__rules *rules) {
  (void)atomic_fetch_add_explicit(&rules->n_shares, WEIR__RULES_MANY, memory_order_relaxed);
  uint64_t word = atomic_load_explicit(&place->word, memory_order_relaxed);
  while (weir__rules_of_word(word) == rules && (word & WEIR__RULES_MANY) != 0) {
    /* release: what was added, for weir__rules_replace */
    if (atomic_compare_exchange_weak_explicit(&place->word, &word, word - WEIR__RULES_MANY,
                                              memory_order_release, memory_order_relaxed)) {
      return;
    }
  }
  /* Another thread has done it, or these rules are in force no more. relaxed: the caller's share
   * stays */
  (void)atomic_fetch_sub_explicit(&rules->n_shares, WEIR__RULES_MANY, memory_order_relaxed);
}

/* --- registered methods --- */

/* Which piece the nth is in, and where. */
struct spot {
  unsigned piece;
  uint32_t index;
};

static struct spot spot_of(uint32_t nth) {
  uint32_t number = nth + WEIR__RULES_FIRST_PIECE; /* its highest bit tells the piece */
  unsigned high = 31 - (unsigned)__builtin_clz(number);
  unsigned first_high = 31 - (unsigned)__builtin_clz(WEIR__RULES_FIRST_PIECE);
  return (struct spot){.piece = high - first_high, .index = number - (UINT32_C(1) << high)};
}

struct weir__call_extras *weir__rules_registered(const struct weir__rules *rules, uint32_t nth) {
  struct spot spot = spot_of(nth);
  return &rules->registered[spot.piece][spot.index];
}

enum weir_error weir__rules_make_room(struct weir__rules *rules, uint32_t nth) {
  struct spot spot = spot_of(nth);
  if (rules->registered[spot.piece] == NULL) {
    rules->registered[spot.piece] = weir__zalloc_array(
        rules->environment->allocator, (size_t)WEIR__RULES_FIRST_PIECE << spot.piece,
        sizeof rules->registered[spot.piece][0]);
  }
  return rules->registered[spot.piece] != NULL ? WEIR_OK : WEIR_ERROR_NO_MEMORY;
}

/* --- life --- */

void weir__rules_end(struct weir__rules *rules) {
  struct weir__environment *environment = rules->environment;
  weir__stack_fini(&rules->stack);
  for (size_t i = 0; i < WEIR__RULES_PIECES; i++) {
    weir__free(environment->allocator, rules->registered[i]);
  }
  weir_policy_unref(rules->policy);
  weir__free(environment->allocator, rules->block);
  weir__environment_unref(environment);
}

/* NULL: there is no memory, or none that an address fits into the word of. */
static struct weir__rules *rules_allocate(const struct weir_allocator *allocator) {
  void *block = weir__zalloc(allocator, sizeof(struct weir__rules) + WEIR__RULES_ALIGNMENT - 1);
  if (block == NULL) {
    return NULL;
  }
  uintptr_t address = (uintptr_t)block;
  uintptr_t padding = -address % WEIR__RULES_ALIGNMENT;
  struct weir__rules *rules = (struct weir__rules *)(void *)((char *)block + padding);
  if (weir__rules_of_word(word_of(rules)) != rules) {
    weir__free(allocator, block);
    return NULL;
  }
  rules->block = block;
  return rules;
}

enum weir_error weir__rules_new(struct weir__environment *environment, weir_policy *policy,
                                const struct weir__stack_parts *parts,
                                struct weir__rules **rules_out) {
  *rules_out = NULL;
  struct weir__rules *rules = rules_allocate(environment->allocator);
  if (rules == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  enum weir_error error = weir__stack_init(&rules->stack, policy, parts, environment->allocator);
  if (error != WEIR_OK) {
    weir__free(environment->allocator, rules->block);
    return error;
  }
  assert(rules->stack.states_bytes <= WEIR__CALL_STATES_BYTES);
  atomic_init(&rules->n_shares, IN_FORCE);
  rules->policy = weir_policy_ref(policy);
  rules->environment = environment;
  weir__environment_ref(environment);
  *rules_out = rules;
  return WEIR_OK;
}
