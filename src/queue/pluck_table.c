/* SPDX-License-Identifier: Apache-2.0 */
#include "src/queue/pluck_table.h"

#include <assert.h>
#include <string.h>

#include "src/base/allocator.h"

/* A word is a state, and the count of changes of hands from STATE_BITS on. */
#define STATE_BITS 8
#define STATE_MASK ((UINT64_C(1) << STATE_BITS) - 1)

static unsigned state_of(uint64_t word) {
  return (unsigned)(word & STATE_MASK);
}

static uint64_t with_state(uint64_t word, unsigned state) {
  return (word & ~STATE_MASK) | state;
}

static uint64_t next_hand(uint64_t word, unsigned state) {
  return with_state(word + (UINT64_C(1) << STATE_BITS), state);
}

void weir__pluck_table_init(struct weir__pluck_table *table,
                            const struct weir_allocator *allocator) {
  memset(table, 0, sizeof *table);
  table->allocator = allocator;
}

void weir__pluck_table_fini(struct weir__pluck_table *table) {
  /* relaxed: no other thread is left */
  struct weir__pluck_chunk *chunk = atomic_load_explicit(&table->first.next, memory_order_relaxed);
  while (chunk != NULL) {
    struct weir__pluck_chunk *next = atomic_load_explicit(&chunk->next, memory_order_relaxed);
    weir__free(table->allocator, chunk);
    chunk = next;
  }
}

/* --- batches --- */

static bool chunk_try_add(struct weir__pluck_chunk *chunk, struct weir__completion *completion) {
  for (size_t i = 0; i < WEIR__PLUCK_CHUNK_LENGTH; i++) {
    struct weir__pluck_slot *slot = &chunk->slots[i];
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed); /* a guess */
    uint64_t filling = next_hand(word, WEIR__PLUCK_FILLING);
    if (state_of(word) != WEIR__PLUCK_FREE ||
        !atomic_compare_exchange_strong(&slot->word, &word, filling)) {
      continue;
    }
    completion->in_queue.pluck_slot = slot;
    slot->completion = completion;
    /* relaxed: published with the state */
    atomic_store_explicit(&slot->app_tag, completion->app_tag, memory_order_relaxed);
    atomic_store(&slot->word, with_state(filling, WEIR__PLUCK_IDLE));
    return true;
  }
  return false;
}

bool weir__pluck_table_add(struct weir__pluck_table *table, struct weir__completion *completion) {
  struct weir__pluck_chunk *chunk = &table->first;
  while (!chunk_try_add(chunk, completion)) {
    struct weir__pluck_chunk *next = atomic_load_explicit(&chunk->next, memory_order_acquire);
    if (next == NULL) {
      struct weir__pluck_chunk *fresh = weir__zalloc(table->allocator, sizeof *fresh);
      if (fresh == NULL) {
        return false;
      }
      /* Sequentially consistent as the slots are: who is to see a batch in it must see the
       * chunk. */
      if (atomic_compare_exchange_strong(&chunk->next, &next, fresh)) {
        next = fresh;
      } else {
        weir__free(table->allocator, fresh);
      }
    }
    chunk = next;
  }
  return true;
}

/* The slot of a batch with this tag that nobody plucks, and its word; NULL when there is none. The
 * search begins at `*chunk`, `*i`, and leaves them behind what it found. */
static struct weir__pluck_slot *find_unclaimed(struct weir__pluck_chunk **chunk, size_t *i,
                                               const void *app_tag, uint64_t *word_out) {
  for (; *chunk != NULL; *chunk = atomic_load(&(*chunk)->next), *i = 0) {
    while (*i < WEIR__PLUCK_CHUNK_LENGTH) {
      struct weir__pluck_slot *slot = &(*chunk)->slots[(*i)++];
      *word_out = atomic_load(&slot->word);
      if ((state_of(*word_out) == WEIR__PLUCK_IDLE || state_of(*word_out) == WEIR__PLUCK_READY) &&
          atomic_load_explicit(&slot->app_tag, memory_order_relaxed) == app_tag) {
        return slot;
      }
    }
  }
  return NULL;
}

/* Claims the batch that was in the slot when its word was `word`: had another come since, the tag
 * that was read might be that one's, but then the word has changed too. */
static bool slot_try_claim(struct weir__pluck_slot *slot, uint64_t word) {
  uint64_t hand = with_state(word, 0);
  while (with_state(word, 0) == hand) {
    uint64_t claimed = 0;
    if (state_of(word) == WEIR__PLUCK_IDLE) {
      claimed = with_state(word, WEIR__PLUCK_WAITING);
    } else if (state_of(word) == WEIR__PLUCK_READY) {
      claimed = with_state(word, WEIR__PLUCK_READY_CLAIMED);
    } else {
      return false;
    }
    if (atomic_compare_exchange_weak(&slot->word, &word, claimed)) {
      return true;
    }
  }
  return false;
}

struct weir__pluck_slot *weir__pluck_table_claim(struct weir__pluck_table *table,
                                                 const void *app_tag) {
  struct weir__pluck_chunk *chunk = &table->first;
  size_t i = 0;
  uint64_t word = 0;
  struct weir__pluck_slot *slot = NULL;
  do {
    slot = find_unclaimed(&chunk, &i, app_tag, &word);
  } while (slot != NULL && !slot_try_claim(slot, word));
  return slot;
}

bool weir__pluck_table_has(struct weir__pluck_table *table, const void *app_tag) {
  struct weir__pluck_chunk *chunk = &table->first;
  size_t i = 0;
  uint64_t word = 0;
  return find_unclaimed(&chunk, &i, app_tag, &word) != NULL;
}

enum weir__pluck_state weir__pluck_slot_state(const struct weir__pluck_slot *slot) {
  return (enum weir__pluck_state)state_of(atomic_load(&slot->word));
}

uint64_t weir__pluck_slot_hands(const struct weir__pluck_slot *slot) {
  return atomic_load(&slot->word) >> STATE_BITS;
}

bool weir__pluck_slot_end(struct weir__pluck_slot *slot) {
  uint64_t word = atomic_load(&slot->word);
  for (;;) {
    bool plucked = state_of(word) == WEIR__PLUCK_WAITING;
    assert(plucked || state_of(word) == WEIR__PLUCK_IDLE);
    uint64_t ended = with_state(word, plucked ? WEIR__PLUCK_READY_RUNG : WEIR__PLUCK_READY);
    if (atomic_compare_exchange_weak(&slot->word, &word, ended)) {
      return plucked;
    }
  }
}

bool weir__pluck_slot_abandon(struct weir__pluck_slot *slot) {
  uint64_t word = atomic_load(&slot->word);
  for (;;) {
    bool plucked = state_of(word) == WEIR__PLUCK_WAITING;
    assert(plucked || state_of(word) == WEIR__PLUCK_IDLE);
    uint64_t over =
        plucked ? with_state(word, WEIR__PLUCK_ABANDONED) : next_hand(word, WEIR__PLUCK_FREE);
    if (atomic_compare_exchange_weak(&slot->word, &word, over)) {
      return plucked;
    }
  }
}

bool weir__pluck_slot_leave(struct weir__pluck_slot *slot) {
  uint64_t word = atomic_load(&slot->word);
  return state_of(word) == WEIR__PLUCK_WAITING &&
         atomic_compare_exchange_strong(&slot->word, &word, with_state(word, WEIR__PLUCK_IDLE));
}

void weir__pluck_slot_free(struct weir__pluck_slot *slot) {
  /* No other thread changes a slot that is claimed and over. */
  atomic_store(&slot->word, next_hand(atomic_load(&slot->word), WEIR__PLUCK_FREE));
}

/* --- waiters --- */

struct weir__pluck_waiter *weir__pluck_table_wait(struct weir__pluck_table *table, void *tag) {
  for (size_t i = 0; i < WEIR__MAX_PLUCKERS; i++) {
    struct weir__pluck_waiter *waiter = &table->waiters[i];
    uint64_t word = atomic_load_explicit(&waiter->word, memory_order_relaxed); /* a guess */
    uint64_t taken = next_hand(word, WEIR__PLUCK_WAITER_TAKEN);
    if (state_of(word) == WEIR__PLUCK_WAITER_FREE &&
        atomic_compare_exchange_strong(&waiter->word, &word, taken)) {
      /* relaxed: published with the state */
      atomic_store_explicit(&waiter->tag, tag, memory_order_relaxed);
      atomic_store(&waiter->word, with_state(taken, WEIR__PLUCK_WAITER_WAITING));
      return waiter;
    }
  }
  return NULL;
}

/* Moves a waiter for `tag` from one state to another. */
static bool waiter_try_move(struct weir__pluck_waiter *waiter, const void *tag,
                            enum weir__pluck_waiter_state from, enum weir__pluck_waiter_state to) {
  uint64_t word = atomic_load(&waiter->word);
  return state_of(word) == from &&
         atomic_load_explicit(&waiter->tag, memory_order_relaxed) == tag &&
         atomic_compare_exchange_strong(&waiter->word, &word, with_state(word, to));
}

bool weir__pluck_table_pick(struct weir__pluck_table *table, const void *tag) {
  for (size_t i = 0; i < WEIR__MAX_PLUCKERS; i++) {
    if (waiter_try_move(&table->waiters[i], tag, WEIR__PLUCK_WAITER_WAITING,
                        WEIR__PLUCK_WAITER_RUNG)) {
      return true;
    }
  }
  return false;
}

bool weir__pluck_table_settle(struct weir__pluck_table *table, const void *tag) {
  for (size_t i = 0; i < WEIR__MAX_PLUCKERS; i++) {
    struct weir__pluck_waiter *waiter = &table->waiters[i];
    /* In this order: the waiter itself may go from the one to the other in between. */
    if (waiter_try_move(waiter, tag, WEIR__PLUCK_WAITER_RUNG, WEIR__PLUCK_WAITER_WAITING) ||
        waiter_try_move(waiter, tag, WEIR__PLUCK_WAITER_OWED, WEIR__PLUCK_WAITER_SETTLED)) {
      return true;
    }
  }
  return false;
}

bool weir__pluck_waiter_end(struct weir__pluck_waiter *waiter) {
  uint64_t word = atomic_load(&waiter->word);
  for (;;) {
    unsigned state = state_of(word);
    if (state == WEIR__PLUCK_WAITER_OWED) {
      return false;
    }
    bool owed = state == WEIR__PLUCK_WAITER_RUNG;
    uint64_t ended = with_state(word, owed ? WEIR__PLUCK_WAITER_OWED : WEIR__PLUCK_WAITER_FREE);
    if (atomic_compare_exchange_weak(&waiter->word, &word, ended)) {
      return !owed;
    }
  }
}
