/* pluck_table – which batch a tag that is being plucked belongs to, and who waits for a tag that no
 * batch has yet.
 *
 * Without a lock. A slot holds one batch at a time, in one word its state and how often it has
 * changed hands, so a thread that has looked at an earlier batch of the slot cannot claim a later
 * one. Slots live as long as the table.
 *
 * A batch and a thread that waits for its tag find each other because each says that it is there
 * before it looks for the other, in one order for all threads (memory_order_seq_cst, the default of
 * the operations here).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_QUEUE_PLUCK_TABLE_H
#define WEIR_SRC_QUEUE_PLUCK_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include <weir/allocator.h>

#include "src/queue/completion.h"

#define WEIR__PLUCK_CHUNK_LENGTH 32

/* The core's limit of threads in pluck at a time. */
#define WEIR__MAX_PLUCKERS GRPC_MAX_COMPLETION_QUEUE_PLUCKERS

/* How far the batch of a slot is, and whether a thread plucks it. */
enum weir__pluck_state {
  WEIR__PLUCK_FREE = 0,      /* no batch */
  WEIR__PLUCK_FILLING,       /* a batch is being put in */
  WEIR__PLUCK_IDLE,          /* under way, nobody plucks it */
  WEIR__PLUCK_WAITING,       /* under way, a thread plucks it */
  WEIR__PLUCK_READY,         /* ended without the core, nobody plucks it */
  WEIR__PLUCK_READY_CLAIMED, /* ended without the core before its thread came */
  /* ended without the core; a ring with its tag for the core wakes the thread */
  WEIR__PLUCK_READY_RUNG,
  WEIR__PLUCK_ABANDONED /* is not to be; a ring wakes the thread, which frees the slot */
};

struct weir__pluck_slot {
  _Atomic uint64_t word; /* an enum weir__pluck_state, and the count of changes of hands above it */
  _Atomic(void *) app_tag;
  struct weir__completion *completion; /* read by the thread that has claimed it */
};

struct weir__pluck_chunk {
  struct weir__pluck_slot slots[WEIR__PLUCK_CHUNK_LENGTH];
  _Atomic(struct weir__pluck_chunk *) next;
};

/* A thread that waits in the core for a tag which belonged to no batch when it looked. */
struct weir__pluck_waiter {
  _Atomic uint64_t word; /* as a slot's, with an enum weir__pluck_waiter_state */
  _Atomic(void *) tag;
};

enum weir__pluck_waiter_state {
  WEIR__PLUCK_WAITER_FREE = 0,
  WEIR__PLUCK_WAITER_TAKEN, /* its tag is being written */
  WEIR__PLUCK_WAITER_WAITING,
  /* there is a ring with its tag, which wakes it or another that waits for the tag */
  WEIR__PLUCK_WAITER_RUNG,
  WEIR__PLUCK_WAITER_OWED,   /* so there is, and the wait is over: the thread looks for it */
  WEIR__PLUCK_WAITER_SETTLED /* the ring of an owed one has been taken */
};

struct weir__pluck_table {
  const struct weir_allocator *allocator;
  struct weir__pluck_chunk first;
  struct weir__pluck_waiter waiters[WEIR__MAX_PLUCKERS];
};

void weir__pluck_table_init(struct weir__pluck_table *table,
                            const struct weir_allocator *allocator);
void weir__pluck_table_fini(struct weir__pluck_table *table);

/* Puts a batch into a slot; its app_tag is set. False when there is no memory. */
bool weir__pluck_table_add(struct weir__pluck_table *table, struct weir__completion *completion);

/* Makes the calling thread the one that plucks a batch with this tag. NULL: there is none that
 * nobody plucks. */
struct weir__pluck_slot *weir__pluck_table_claim(struct weir__pluck_table *table,
                                                 const void *app_tag);

/* Whether weir__pluck_table_claim would find one. */
bool weir__pluck_table_has(struct weir__pluck_table *table, const void *app_tag);

enum weir__pluck_state weir__pluck_slot_state(const struct weir__pluck_slot *slot);

/* The batch has ended without the core. True: a thread plucks it, ring. */
bool weir__pluck_slot_end(struct weir__pluck_slot *slot);

/* The batch is not to be. True: a thread plucks it; ring, then wait for the slot to change
 * hands. */
bool weir__pluck_slot_abandon(struct weir__pluck_slot *slot);

/* How often the slot has changed hands. */
uint64_t weir__pluck_slot_hands(const struct weir__pluck_slot *slot);

/* The thread that plucks it goes, and another may come. False: it has ended, or was abandoned,
 * meanwhile. */
bool weir__pluck_slot_leave(struct weir__pluck_slot *slot);

/* The thread that plucks it takes it out. */
void weir__pluck_slot_free(struct weir__pluck_slot *slot);

/* Says that the calling thread is about to wait for `tag` in the core. NULL when as many wait as
 * the core allows. */
struct weir__pluck_waiter *weir__pluck_table_wait(struct weir__pluck_table *table, void *tag);

/* Picks a thread that waits for `tag` and has not been picked. True: ring with the tag. */
bool weir__pluck_table_pick(struct weir__pluck_table *table, const void *tag);

/* An event with `tag` has come that succeeded, as rings do. True: it is taken for a ring, whose
 * ever, and the calling thread looks for a batch. As many rings are taken as there were. */
bool weir__pluck_table_settle(struct weir__pluck_table *table, const void *tag);

/* Ends the wait. False: there is a ring with the tag that has not been taken yet; take one, then
 * ask again. */
bool weir__pluck_waiter_end(struct weir__pluck_waiter *waiter);

#endif /* WEIR_SRC_QUEUE_PLUCK_TABLE_H */
