/* ledger – what all processes of a soak have seen of each call, in memory that they share; and the
 * promises that were found broken.
 *
 * It is made before the processes are, and written to without a lock by all of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_LEDGER_H
#define WEIR_TEST_SOAK_LEDGER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum ledger_who { LEDGER_CLIENT = 0, LEDGER_A, LEDGER_B, LEDGER_N_WHO };

/* What happens to a call, with the numbers that belong to it. */
enum ledger_what {
  LEDGER_MADE = 0,  /* shape, channel */
  LEDGER_STARTED,   /* a batch: its line, its operations */
  LEDGER_CAME,      /* a tag: its line, whether it succeeded */
  LEDGER_RECEIVED,  /* a message: its number, its kind */
  LEDGER_CANCELLED, /* by the client: how */
  LEDGER_LET_GO,
  LEDGER_ENDED,     /* code, attempts */
  LEDGER_EXPLAINED, /* reason, raw code; follows ENDED and ASKED */
  LEDGER_ARRIVED,   /* a request: how many have, grpc-previous-rpc-attempts */
  LEDGER_ASKS,      /* A asks B: shape, channel */
  LEDGER_ASKED,     /* and has got: code, attempts */
  LEDGER_ANSWERED,  /* code, whether the caller had gone */
  LEDGER_N_WHAT
};

/* Of one call. */
struct ledger_entry {
  _Atomic uint32_t n_made;
  _Atomic uint32_t n_ended;
  _Atomic uint32_t n_attempts;   /* of the client's call */
  _Atomic uint32_t max_attempts; /* that its policy allows */
  _Atomic uint32_t n_at_a;       /* requests that A has seen */
  _Atomic uint32_t n_asked;      /* calls that A has made for them */
  _Atomic uint32_t n_tried;      /* attempts of those */
  _Atomic uint32_t n_due;        /* requests that they may have made at B */
  _Atomic uint32_t n_at_b;
};

struct ledger;

/* For calls 1 … n_calls. Aborts without memory. */
struct ledger *ledger_new(uint32_t n_calls);
void ledger_release(struct ledger *ledger);

/* NULL = there is no such call. */
struct ledger_entry *ledger_entry_of(struct ledger *ledger, int64_t id);

void ledger_note(struct ledger *ledger, int64_t id, enum ledger_who who, enum ledger_what what,
                 int64_t one, int64_t other);

/* A promise is broken. `id` 0 = it is no call's. */
__attribute__((format(printf, 4, 5))) void
ledger_blame(struct ledger *ledger, int64_t id, enum ledger_who who, const char *format, ...);

uint32_t ledger_n_blames(const struct ledger *ledger);

/* Each of the first broken promises, with the last that happened to its call. */
void ledger_tell(const struct ledger *ledger, FILE *file);

int64_t ledger_now_ns(void);

#endif /* WEIR_TEST_SOAK_LEDGER_H */
