/* rules – what holds for the calls of a channel: a policy, and the layers that are made of it.
 *
 * A call takes a share of the rules in force when it is made, and keeps it to its end, so it never
 * sees anything of the policy that comes after. Rules end with the last of their calls, in whatever
 * thread gives that share back.
 *
 * Taking a share needs no lock, though another thread may be replacing the rules and giving the last
 * share back meanwhile. Where the rules in force are found is one word: their address, and how many
 * shares were taken from there. Both are read by the very step that takes one, so a share is never
 * taken of what is gone. The shares that are given back are counted in the rules themselves, and the
 * two counts are put together once the rules are in force no more (rules.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_RULES_H
#define WEIR_SRC_CALL_RULES_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>
#include <weir/policy.h>

#include "src/call/environment.h"
#include "src/stack/stack.h"

struct weir__call_extras; /* src/call/extras.h */

/* What is known of registered methods: in pieces that never move, each twice as large as the one
 * before. Together they have room for 2^31. */
#define WEIR__RULES_FIRST_PIECE 8
#define WEIR__RULES_PIECES 28

struct weir__rules {
  _Atomic uint64_t n_shares; /* by itself on its line of the cache: every call writes to it */
  alignas(64) struct weir__environment *environment; /* a share */
  weir_policy *policy;                               /* a share */
  struct weir__stack stack;
  void *block; /* of memory, which these are in */
  struct weir__call_extras *registered[WEIR__RULES_PIECES];
};

/* Where the rules in force are found: an address in the upper bits, of which the lowest are 0 as
 * rules are aligned so; below it how many shares were taken. */
struct weir__rules_place {
  _Atomic uint64_t word;
};

#define WEIR__RULES_ADDRESS_BITS 48
#define WEIR__RULES_ALIGNMENT 256 /* 8 bits of an address that are 0 */
#define WEIR__RULES_COUNT_BITS 24 /* the others of the word, and these 8 */

/* The count is taken down when it gets there. It has room for as much again: more than there can be
 * threads on Linux (2^22) that have taken a share each and come to do that. */
#define WEIR__RULES_MANY (UINT64_C(1) << (WEIR__RULES_COUNT_BITS - 1))

static inline struct weir__rules *weir__rules_of_word(uint64_t word) {
  uint64_t address = word >> WEIR__RULES_COUNT_BITS
                                 << (WEIR__RULES_COUNT_BITS + WEIR__RULES_ADDRESS_BITS - 64);
  return (struct weir__rules *)(uintptr_t)address;
}

/* Makes rules of a policy, with all layers but what is added to the stack. No share has been taken;
 * the environment's and the policy's are the rules' own. WEIR_ERROR_NO_MEMORY: `*rules_out` is
 * NULL. */
WEIR_MUST_CHECK enum weir_error weir__rules_new(struct weir__environment *environment,
                                                weir_policy *policy,
                                                const struct weir__stack_parts *parts,
                                                struct weir__rules **rules_out);

/* Puts rules in force (NULL = none, there will be no further call), and the ones before, if any, out
 * of it: these end with the last share. One thread at a time for each place; others may take. */
void weir__rules_replace(struct weir__rules_place *place, struct weir__rules *rules);

/* The rules in force, without a share: for whoever keeps others from replacing them. NULL = none. */
static inline struct weir__rules *weir__rules_peek(const struct weir__rules_place *place) {
  /* acquire: pairs with weir__rules_replace */
  return weir__rules_of_word(atomic_load_explicit(&place->word, memory_order_acquire));
}

/* Takes the count of a place down; the caller has a share that was taken there. */
void weir__rules_take_down(struct weir__rules_place *place, struct weir__rules *rules);

/* A share of the rules in force, of which there have to be some. Any thread. */
static inline struct weir__rules *weir__rules_take(struct weir__rules_place *place) {
  /* acquire: pairs with weir__rules_replace; what the rules are was written before. release: it was
   * the last that the caller wanted of the place, which may be freed once they are replaced. */
  uint64_t word = atomic_fetch_add_explicit(&place->word, 1, memory_order_acq_rel);
  struct weir__rules *rules = weir__rules_of_word(word);
  if ((word & WEIR__RULES_MANY) != 0) {
    weir__rules_take_down(place, rules);
  }
  return rules;
}

/* The last share is gone, and the rules are in force no more; or they never were. */
void weir__rules_end(struct weir__rules *rules);

/* Gives a share back. Any thread. */
static inline void weir__rules_release(struct weir__rules *rules) {
  /* acq_rel: all that was done by these rules comes before their end */
  if (atomic_fetch_sub_explicit(&rules->n_shares, 1, memory_order_acq_rel) == 1) {
    weir__rules_end(rules);
  }
}

/* What is known of the nth registered method, from 0; there has to be room for it. */
struct weir__call_extras *weir__rules_registered(const struct weir__rules *rules, uint32_t nth);

/* Makes room for the nth, those before it have some. WEIR_ERROR_NO_MEMORY. */
WEIR_MUST_CHECK enum weir_error weir__rules_make_room(struct weir__rules *rules, uint32_t nth);

#endif /* WEIR_SRC_CALL_RULES_H */
