/* throttle – the tokens of a server name, all of them in one word, and what the registry of all
 * names knows of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_DECIDE_THROTTLE_H
#define WEIR_SRC_DECIDE_THROTTLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/throttle.h>

/* Every thread that makes calls writes to the word, so nothing else of the heap is on its line. */
#define WEIR__THROTTLE_ALIGNMENT 64

struct weir_throttle {
  _Atomic uint64_t state; /* tokens and parameters: they change together without a lock */

  /* The registry's, and guarded by it. */

  /* What the last change of parameters cut off the level, in 2^-24 thousandths of a token: the next
   * one goes on from there, so that channels with different ones don't wear the level down. */
  uint32_t cut_off;
  size_t n_shares; /* 0 = nobody has it, and its level is kept */
  uint64_t hash;
  weir_throttle *next;  /* of those whose hashes meet */
  weir_throttle *newer; /* of those that nobody has */
  weir_throttle *older;
  char name[];
};

/* ---- throttle.c ---- */

/* Fills the bucket. */
void weir__throttle_init(weir_throttle *throttle, uint32_t max_tokens, uint32_t token_ratio_milli);

/* Takes other parameters; as full as before in proportion. One thread at a time; others may record
 * meanwhile. */
void weir__throttle_reconfigure(weir_throttle *throttle, uint32_t max_tokens,
                                uint32_t token_ratio_milli);

/* Whether there is nothing to know of it that a new one would not know. */
bool weir__throttle_is_full(const weir_throttle *throttle);

/* ---- throttle_name.c ---- */

/* Of any name of the target, its end included. */
size_t weir__throttle_name_size(const char *target);

/* The server that a target names; `name_out` has room for the size above. */
void weir__throttle_name(const char *target, char *name_out);

/* ---- throttle_registry.c ---- */

struct weir__throttle_census {
  size_t n_shared; /* names that somebody has */
  size_t n_kept;   /* names whose level is kept, though nobody has them */
  size_t n_chains; /* of the table */
};

/* Counts the process's throttles. Any thread. */
void weir__throttle_registry_count(struct weir__throttle_census *census_out);

#endif /* WEIR_SRC_DECIDE_THROTTLE_H */
