/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/tally.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/soak/judge.h"

/* A call that its own clock has ended ended no earlier, but for how coarse the core's is. */
#define EARLY_LIMIT_NS (WEIR_MS_NS * 20)

#define US_NS 1000
#define PERMILLE 1000

static void check(bool fine, const char *what) {
  if (!fine) {
    fprintf(stderr, "soak: tally: %s\n", what);
    abort();
  }
}

void tally_init(struct tally *tally, struct ledger *ledger, uint32_t n_calls) {
  memset(tally, 0, sizeof *tally);
  tally->ledger = ledger;
  tally->n_late_max = n_calls;
  tally->late_us = calloc(n_calls, sizeof tally->late_us[0]);
  check(tally->late_us != NULL, "no memory");
  for (uint32_t i = 0; i < n_calls; i++) { /* it is not to grow while calls are made */
    atomic_store_explicit(&tally->late_us[i], 1, memory_order_relaxed);
  }
}

void tally_fini(struct tally *tally) {
  free(tally->late_us);
}

void tally_begin(struct tally *tally, const struct tally_call *call) {
  struct ledger_entry *entry = ledger_entry_of(tally->ledger, call->id);
  if (atomic_fetch_add(&entry->n_made, 1) != 0) {
    ledger_blame(tally->ledger, call->id, LEDGER_CLIENT, "made twice");
  }
  ledger_note(tally->ledger, call->id, LEDGER_CLIENT, LEDGER_MADE, call->plan.shape,
              call->plan.channel);
}

/* --- messages --- */

void tally_receive(struct tally *tally, struct tally_call *call, grpc_byte_buffer *received) {
  struct message message;
  bool told = call->plan.shape == PLAN_CLIENT_STREAM; /* how many there were */
  uint32_t number = told ? call->plan.n_sent : call->n_received;
  bool fine = message_read(received, &message);
  ledger_note(tally->ledger, call->id, LEDGER_CLIENT, LEDGER_RECEIVED, message.number,
              message.kind);
  if (!fine) {
    ledger_blame(tally->ledger, call->id, LEDGER_CLIENT, "the bytes of message %u are wrong",
                 call->n_received);
  } else if (message.id != call->id || message.kind == MESSAGE_REQUEST ||
             message.size != call->plan.size ||
             (message.number != number && message.kind == MESSAGE_REPLY)) {
    ledger_blame(tally->ledger, call->id, LEDGER_CLIENT,
                 "message %u is another's: of call %u, number %u, kind %d", call->n_received,
                 message.id, message.number, (int)message.kind);
  }
  call->n_received++;
}

static uint32_t n_wanted(const struct plan *plan) {
  return plan->shape == PLAN_SERVER_STREAM || plan->shape == PLAN_BIDI ? plan->n_wanted : 1;
}

static bool can_succeed(enum plan_answer answer) {
  return answer != PLAN_FAILS && answer != PLAN_STOPS && answer != PLAN_SILENT &&
         answer != PLAN_FAILS_LATE;
}

static void judge_messages(struct tally *tally, const struct tally_call *call,
                           grpc_status_code code, bool hit) {
  if (code == GRPC_STATUS_OK && call->n_received != n_wanted(&call->plan)) {
    ledger_blame(tally->ledger, call->id, LEDGER_CLIENT, "OK with %u messages, and not %u",
                 call->n_received, n_wanted(&call->plan));
  }
  if (code == GRPC_STATUS_OK && !hit && !can_succeed(call->plan.answer)) {
    ledger_blame(tally->ledger, call->id, LEDGER_CLIENT, "a success that B never gave");
  }
  if (call->n_received > n_wanted(&call->plan)) {
    ledger_blame(tally->ledger, call->id, LEDGER_CLIENT, "%u messages, which is more than %u",
                 call->n_received, n_wanted(&call->plan));
  }
}

/* --- time --- */

void tally_turn(struct tally *tally, int64_t now_ns) {
  int64_t before_ns = atomic_exchange(&tally->turned_at_ns, now_ns);
  if (before_ns != 0 && now_ns - before_ns > atomic_load(&tally->stalled_ns)) {
    atomic_store(&tally->stalled_ns, now_ns - before_ns);
  }
}

/* The longest that a thread was kept waiting so far. */
static int64_t stalled_ns(struct tally *tally, int64_t now_ns) {
  int64_t turned_at_ns = atomic_load(&tally->turned_at_ns);
  int64_t stalled_ns = atomic_load(&tally->stalled_ns);
  int64_t stalls_ns = turned_at_ns != 0 ? now_ns - turned_at_ns : 0;
  return stalls_ns > stalled_ns ? stalls_ns : stalled_ns;
}

static void judge_lateness(struct tally *tally, const struct tally_call *call) {
  int64_t late_ns = call->ended_at_ns - call->began_at_ns - call->plan.timeout_ns;
  if (late_ns < 0) {
    return;
  }
  uint32_t index = atomic_fetch_add(&tally->n_late, 1);
  if (index < tally->n_late_max) {
    atomic_store_explicit(&tally->late_us[index], (uint32_t)(late_ns / US_NS),
                          memory_order_relaxed);
  }
  if (late_ns > TALLY_LATE_LIMIT_NS + TALLY_LATE_THREADS * stalled_ns(tally, call->ended_at_ns)) {
    ledger_blame(tally->ledger, call->id, LEDGER_CLIENT, "ended %" PRId64 " ms after its deadline",
                 late_ns / WEIR_MS_NS);
  }
}

static void judge_earliness(struct tally *tally, const struct tally_call *call,
                            const struct weir_call_report *report, int64_t took_ns) {
  if (report->origin == WEIR_ORIGIN_LOCAL_DEADLINE &&
      report->deadline_bound == WEIR_DEADLINE_BOUND_CALL &&
      took_ns < call->plan.timeout_ns - EARLY_LIMIT_NS) {
    ledger_blame(tally->ledger, call->id, LEDGER_CLIENT,
                 "its time was over after %" PRId64 " us of %" PRId64, took_ns / US_NS,
                 call->plan.timeout_ns / US_NS);
  }
}

/* --- the end --- */

static void count_report(struct tally *tally, const struct tally_call *call,
                         const struct weir_call_report *report) {
  struct tally_channel *channel = &tally->channels[call->plan.channel];
  struct ledger_entry *entry = ledger_entry_of(tally->ledger, call->id);
  atomic_store(&entry->n_attempts, report->n_attempts);
  atomic_fetch_add(&tally->n_attempts, report->n_attempts);
  atomic_fetch_add(&tally->n_reasons[report->reason], 1);
  atomic_fetch_add(&channel->n_fallbacks[report->fallback_result], 1);
  atomic_fetch_add(&channel->n_clamped, report->deadline_clamped);
  ledger_note(tally->ledger, call->id, LEDGER_CLIENT, LEDGER_ENDED, report->code,
              report->n_attempts);
  ledger_note(tally->ledger, call->id, LEDGER_CLIENT, LEDGER_EXPLAINED, report->reason,
              report->raw_code);
}

static void judge_told(struct tally *tally, const struct tally_call *call,
                       const struct weir_call_report *report, grpc_status_code code,
                       grpc_slice details) {
  int64_t took_ns = call->ended_at_ns - call->began_at_ns;
  count_report(tally, call, report);
  judge_call(&(struct judged){.ledger = tally->ledger,
                              .id = call->id,
                              .who = LEDGER_CLIENT,
                              .policy = call->policy,
                              .report = report,
                              .code = code,
                              .details = details,
                              .took_ns = took_ns});
  judge_messages(tally, call, code, report->fallback_result == WEIR_FALLBACK_HIT);
  judge_earliness(tally, call, report, took_ns);
}

void tally_end(struct tally *tally, const struct tally_call *call,
               const struct weir_call_report *report, grpc_status_code code, grpc_slice details) {
  struct ledger_entry *entry = ledger_entry_of(tally->ledger, call->id);
  uint32_t max = call->policy != NULL ? call->policy->max_attempts : POLICIES_MAX_ATTEMPTS;
  atomic_store(&entry->max_attempts, max);
  judge_lateness(tally, call);
  if (code < GRPC_STATUS_OK || (int)code >= (int)TALLY_CODES) {
    ledger_blame(tally->ledger, call->id, LEDGER_CLIENT, "ended without a status (%d)", (int)code);
    code = GRPC_STATUS_UNKNOWN;
  }
  if (report != NULL) {
    judge_told(tally, call, report, code, details);
    atomic_fetch_add(&tally->n_ended[call->plan.shape][code], 1);
  } else {
    atomic_store(&entry->n_attempts, max + 1);
    atomic_fetch_add(&tally->channels[call->plan.channel].n_untold, 1);
    atomic_fetch_add(&tally->n_let_go[call->plan.shape], 1);
  }
  atomic_fetch_add(&tally->n_cancelled, call->cancelled);
  if (atomic_fetch_add(&entry->n_ended, 1) != 0) {
    ledger_blame(tally->ledger, call->id, LEDGER_CLIENT, "ended twice");
  }
}

/* --- in a quiet moment --- */

static void judge_entry(struct ledger *ledger, int64_t id) {
  const struct ledger_entry *entry = ledger_entry_of(ledger, id);
  uint32_t n_attempts = atomic_load(&entry->n_attempts);
  uint32_t n_at_a = atomic_load(&entry->n_at_a);
  uint32_t n_asked = atomic_load(&entry->n_asked);
  uint32_t n_tried = atomic_load(&entry->n_tried);
  uint32_t n_at_b = atomic_load(&entry->n_at_b);
  if (atomic_load(&entry->n_made) != 1 || atomic_load(&entry->n_ended) != 1) {
    ledger_blame(ledger, id, LEDGER_CLIENT, "made %u times, ended %u times",
                 atomic_load(&entry->n_made), atomic_load(&entry->n_ended));
  }
  if (n_at_a > n_attempts || n_at_a > atomic_load(&entry->max_attempts)) {
    ledger_blame(ledger, id, LEDGER_A, "%u requests of a call of %u attempts, of at most %u",
                 n_at_a, n_attempts, atomic_load(&entry->max_attempts));
  }
  if (n_asked > n_at_a || n_at_b > n_tried || n_at_b > atomic_load(&entry->n_due) ||
      n_tried > n_asked * (POLICIES_MAX_ATTEMPTS + 1)) {
    ledger_blame(ledger, id, LEDGER_B,
                 "%u requests, of at most %u, of %u attempts of %u calls that A has made for %u "
                 "requests",
                 n_at_b, atomic_load(&entry->n_due), n_tried, n_asked, n_at_a);
  }
}

void tally_judge_calls(struct tally *tally, int64_t first, int64_t last) {
  for (int64_t id = first; id <= last; id++) {
    judge_entry(tally->ledger, id);
  }
}

/* What `n_untold` calls did can't be told, so a counter may be ahead by that many. */
static void judge_counter(struct tally *tally, unsigned channel, const char *what, uint64_t counted,
                          uint64_t seen) {
  uint64_t n_untold = atomic_load(&tally->channels[channel].n_untold);
  if (counted < seen || counted > seen + n_untold) {
    ledger_blame(tally->ledger, 0, LEDGER_CLIENT,
                 "channel %u counts %" PRIu64 " %s; %" PRIu64 " were seen, and %" PRIu64
                 " calls let go",
                 channel, counted, what, seen, n_untold);
  }
}

static uint64_t n_fallbacks(const struct tally_channel *channel, enum weir_fallback_result result) {
  return atomic_load(&channel->n_fallbacks[result]);
}

void tally_judge_channel(struct tally *tally, unsigned number, struct wire *wire) {
  const struct tally_channel *channel = &tally->channels[number];
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  struct weir_replay_snapshot replay = WEIR_REPLAY_SNAPSHOT_INIT;
  check(weir_channel_get_counters(wire->channel, &counters) == WEIR_OK, "no counters");
  check(weir_channel_replay_snapshot(wire->channel, &replay) == WEIR_OK, "no replay snapshot");
  const struct {
    const char *what;
    uint64_t counted;
    uint64_t seen;
  } rows[] = {
      {"clamped deadlines", counters.n_clamped_deadlines, atomic_load(&channel->n_clamped)},
      {"hits", counters.n_fallback_hits, n_fallbacks(channel, WEIR_FALLBACK_HIT)},
      {"misses", counters.n_fallback_misses, n_fallbacks(channel, WEIR_FALLBACK_MISS)},
      {"broken answers", counters.n_fallback_broken, n_fallbacks(channel, WEIR_FALLBACK_BROKEN)},
      {"timeouts", counters.n_fallback_timeouts, n_fallbacks(channel, WEIR_FALLBACK_TIMED_OUT)},
      {"busy", counters.n_fallback_busy, n_fallbacks(channel, WEIR_FALLBACK_BUSY)},
      {"without resources", counters.n_fallback_no_resources,
       n_fallbacks(channel, WEIR_FALLBACK_NO_RESOURCES)},
      {"abandoned", counters.n_fallback_abandoned,
       n_fallbacks(channel, WEIR_FALLBACK_CANCELLED) +
           n_fallbacks(channel, WEIR_FALLBACK_SHUTDOWN)},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    judge_counter(tally, number, rows[i].what, rows[i].counted, rows[i].seen);
  }
  if (counters.n_policy_swaps != atomic_load(&wire->n_swapped) || counters.n_policy_refusals != 0 ||
      replay.n_bytes != 0) {
    ledger_blame(tally->ledger, 0, LEDGER_CLIENT,
                 "channel %u counts %" PRIu64 " swaps of %" PRIu64 ", keeps %" PRIu64 " bytes",
                 number, counters.n_policy_swaps, atomic_load(&wire->n_swapped), replay.n_bytes);
  }
}

static int by_size(const void *one, const void *other) {
  uint32_t a = *(const uint32_t *)one;
  uint32_t b = *(const uint32_t *)other;
  return (a > b) - (a < b);
}

uint32_t tally_late_us(struct tally *tally, unsigned permille) {
  uint32_t n_late = atomic_load(&tally->n_late);
  n_late = n_late < tally->n_late_max ? n_late : tally->n_late_max;
  if (n_late == 0) {
    return 0;
  }
  uint32_t *sorted = calloc(n_late, sizeof sorted[0]);
  check(sorted != NULL, "no memory");
  for (uint32_t i = 0; i < n_late; i++) {
    sorted[i] = atomic_load_explicit(&tally->late_us[i], memory_order_relaxed);
  }
  qsort(sorted, n_late, sizeof sorted[0], by_size);
  uint32_t late_us = sorted[(uint64_t)(n_late - 1) * permille / PERMILLE];
  free(sorted);
  return late_us;
}
