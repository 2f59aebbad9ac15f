/* tally – what the client of a soak has seen of its calls: each that ends is judged and counted
 * here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_TALLY_H
#define WEIR_TEST_SOAK_TALLY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

#include "test/soak/ledger.h"
#include "test/soak/message.h"
#include "test/soak/plan.h"
#include "test/soak/policies.h"
#include "test/soak/wire.h"

#define TALLY_CODES (GRPC_STATUS_UNAUTHENTICATED + 1)
#define TALLY_REASONS (WEIR_REASON_NO_MEMORY + 1)
#define TALLY_FALLBACKS (WEIR_FALLBACK_SHUTDOWN + 1)

/* How late a call may be told that its time is over: several threads, one after the other, have to
 * be given a core for that, each of which may wait as long as one of ours was seen to. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TALLY_LATE_LIMIT_NS (WEIR_SECOND_NS * 10)
#else
#define TALLY_LATE_LIMIT_NS (WEIR_SECOND_NS * 2)
#endif
#define TALLY_LATE_THREADS 8

/* Of the calls of one channel. */
struct tally_channel {
  _Atomic uint64_t n_fallbacks[TALLY_FALLBACKS];
  _Atomic uint64_t n_clamped;
  _Atomic uint64_t n_untold; /* calls that were let go, so that nobody knows */
};

struct tally {
  struct ledger *ledger;
  _Atomic uint64_t n_ended[PLAN_N_SHAPES][TALLY_CODES];
  _Atomic uint64_t n_let_go[PLAN_N_SHAPES];
  _Atomic uint64_t n_reasons[TALLY_REASONS];
  _Atomic uint64_t n_attempts;
  _Atomic uint64_t n_cancelled; /* by us */
  struct tally_channel channels[PLAN_CLIENT_CHANNELS];

  _Atomic int64_t turned_at_ns;
  _Atomic int64_t stalled_ns;

  /* How late calls ended whose deadline was past, in microseconds. */
  uint32_t n_late_max;
  _Atomic uint32_t n_late;
  _Atomic uint32_t *late_us;
};

/* `n_calls`: the most that there will be. Aborts without memory. */
void tally_init(struct tally *tally, struct ledger *ledger, uint32_t n_calls);
void tally_fini(struct tally *tally);

/* By a thread that does so every few milliseconds: when it does not, threads have to wait here. */
void tally_turn(struct tally *tally, int64_t now_ns);

/* A call under way, as far as both ways to make one have it in common. */
struct tally_call {
  int64_t id;
  struct plan plan;
  const struct policy_facts *policy; /* NULL = it can't be told */
  int64_t began_at_ns;
  int64_t ended_at_ns; /* once it is over */
  uint32_t n_received;
  bool cancelled;
  bool by_fallback; /* a blocking one: what it ended with is a fallback's */
};

void tally_begin(struct tally *tally, const struct tally_call *call);

/* A message has come: blames one that is not this call's next. */
void tally_receive(struct tally *tally, struct tally_call *call, grpc_byte_buffer *message);

/* It is over. `report` NULL = it was let go. */
void tally_end(struct tally *tally, const struct tally_call *call,
               const struct weir_call_report *report, grpc_status_code code, grpc_slice details);

/* --- in a quiet moment --- */

/* What was seen of calls first … last at all hops. */
void tally_judge_calls(struct tally *tally, int64_t first, int64_t last);

/* What the channels count. */
void tally_judge_channel(struct tally *tally, unsigned channel, struct wire *wire);

/* Of those that were late, the microseconds that `permille` of them were not later than. */
uint32_t tally_late_us(struct tally *tally, unsigned permille);

#endif /* WEIR_TEST_SOAK_TALLY_H */
