/* weir/breaker.h – the decisions of one circuit breaker, without a call, a clock or a lock.
 *
 *   CLOSED ── a rule trips ──▶ OPEN ── its time is over ──▶ HALF_OPEN ── all probes succeed ──▶
 *   CLOSED                     ▲                             │
 *                              └────── one probe fails ──────┘
 *
 * A channel has breakers of its own (weir/channel.h); this is for programs that guard something
 * else. Ask before each call (admit), and say how it ended (settle, or release). The time comes
 * from the caller: nanoseconds of one monotonic clock; should it be set back after all, that is
 * survived. Nothing is called back: what a call has changed stands in its view. doc/breaker.md
 * tells the rules, their numbers, and where those are from.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BREAKER_H
#define WEIR_BREAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/admission.h>
#include <weir/allocator.h>
#include <weir/clock.h>
#include <weir/error.h>
#include <weir/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One circuit breaker. Any number of threads may use it at once. */
typedef struct weir_breaker weir_breaker;

/* What the calls of a channel share a breaker by. */
enum weir_breaker_scope {
  WEIR_BREAKER_SCOPE_CHANNEL = 0, /* all of them */
  WEIR_BREAKER_SCOPE_SERVICE,     /* those of a service */
  WEIR_BREAKER_SCOPE_METHOD       /* those of a method */
};

/* What becomes of what a breaker decides. */
enum weir_breaker_mode {
  WEIR_BREAKER_MODE_ENFORCE = 0, /* it holds */
  /* Decides and counts as ever, and lets every call through. What is set by hand still holds. */
  WEIR_BREAKER_MODE_SHADOW
};

/* When a circuit breaker opens, and how it closes again. Start from WEIR_BREAKER_OPTIONS_INIT. */
struct weir_breaker_options {
  size_t size;
  bool enabled;       /* false: the channel has none */
  bool ignore_resets; /* a lost connection in flight is no failure */
  enum weir_breaker_scope scope;
  uint32_t max_breakers;   /* of one channel; calls beyond share one */
  int64_t window_ns;       /* how far back results count */
  uint32_t window_buckets; /* parts of the window, in which it moves on */
  uint32_t min_requests;   /* samples in the window before it can trip */
  double failure_ratio;    /* (0, 1]; reached = trips */
  int64_t open_for_ns;     /* before jitter */
  double open_jitter;      /* [0, 1): open_for_ns times 1 +- this */
  double open_backoff; /* >= 1: each reopening (in a ramp too) multiplies the open time by this */
  int64_t max_open_for_ns; /* cap of that growth; not below open_for_ns */
  uint32_t probes;         /* calls let through while HALF_OPEN */
  int64_t probe_lease_ns;  /* a probe that has not ended by then gives its place back */
  /* a DEADLINE_EXCEEDED counts only if the call had at least this long */
  int64_t deadline_floor_ns;
  enum weir_breaker_mode mode;
  /* this many failures with no success in between trip too, however far apart; 0 = no such rule */
  uint32_t consecutive_failures;
  /* After closing, the share of calls that is let through grows from a tenth to all of them, for so
   * long; 0 = at once. What trips meanwhile has been reopened (open_backoff). */
  int64_t ramp_for_ns;
};

#define WEIR_BREAKER_OPTIONS_INIT                                                                \
  {                                                                                              \
    .size = sizeof(struct weir_breaker_options), .enabled = true, .ignore_resets = false,        \
    .scope = WEIR_BREAKER_SCOPE_CHANNEL, .max_breakers = 1024, .window_ns = 60 * WEIR_SECOND_NS, \
    .window_buckets = 10, .min_requests = 5, .failure_ratio = 0.6,                               \
    .open_for_ns = 30 * WEIR_SECOND_NS, .open_jitter = 0.1, .open_backoff = 1.0,                 \
    .max_open_for_ns = 300 * WEIR_SECOND_NS, .probes = 3, .probe_lease_ns = 30 * WEIR_SECOND_NS, \
    .deadline_floor_ns = 0, .mode = WEIR_BREAKER_MODE_ENFORCE, .consecutive_failures = 0,        \
    .ramp_for_ns = 0                                                                             \
  }

/* What a breaker does with calls: lets them through; refuses them; lets a few through to see. */
enum weir_breaker_state { WEIR_BREAKER_CLOSED = 0, WEIR_BREAKER_OPEN, WEIR_BREAKER_HALF_OPEN };

/* Names a breaker's state, e.g. "HALF_OPEN".
 *
 * Ownership: the result is static.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API const char *weir_breaker_state_name(enum weir_breaker_state state);

/* What somebody has set by hand. */
enum weir_breaker_override {
  WEIR_BREAKER_OVERRIDE_NONE = 0, /* the breaker decides */
  WEIR_BREAKER_OVERRIDE_OPEN,     /* every call is refused until it is taken back; state OPEN */
  WEIR_BREAKER_OVERRIDE_DISABLED  /* every call is let through, none is counted; state CLOSED */
};

/* Why a call was turned away. */
enum weir_breaker_refusal {
  WEIR_BREAKER_REFUSAL_NONE = 0,
  WEIR_BREAKER_REFUSAL_OPEN,
  WEIR_BREAKER_REFUSAL_PROBES_TAKEN, /* HALF_OPEN, and others are finding out */
  WEIR_BREAKER_REFUSAL_RAMP,         /* CLOSED lately: not every call is let through yet */
  WEIR_BREAKER_REFUSAL_FORCED_OPEN   /* WEIR_BREAKER_OVERRIDE_OPEN */
};

/* Names a refusal, e.g. "PROBES_TAKEN".
 *
 * Ownership: the result is static.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API const char *weir_breaker_refusal_name(enum weir_breaker_refusal refusal);

/* What a breaker makes of a call's end. */
enum weir_breaker_verdict {
  WEIR_BREAKER_VERDICT_IGNORED = 0, /* no sample at all */
  WEIR_BREAKER_VERDICT_SUCCESS,     /* the transport worked, whatever the answer said */
  WEIR_BREAKER_VERDICT_FAILURE      /* UNAVAILABLE, DEADLINE_EXCEEDED or ABORTED */
};

/* In a ticket: no probe's. */
#define WEIR_BREAKER_NO_PLACE UINT32_MAX

/* How far a call with a ticket has come. */
enum weir_breaker_ticket_stage {
  WEIR_BREAKER_TICKET_SPENT = 0, /* nothing more will be said, or nothing was taken */
  WEIR_BREAKER_TICKET_PENDING,   /* admitted, no result yet */
  WEIR_BREAKER_TICKET_SUCCEEDED  /* a stream had its first message; only a failure can follow */
};

/* What an admitted call took, in the caller's memory. Zeroed = nothing. Programs only keep it; one
 * that has a place is a probe's. */
struct weir_breaker_ticket {
  uint64_t generation; /* that let the call through */
  uint32_t place;      /* a probe's; WEIR_BREAKER_NO_PLACE = admitted while CLOSED */
  uint32_t claim;      /* tells one probe of a place from the next */
  enum weir_breaker_ticket_stage stage;
};

/* How a breaker looked to one call. */
struct weir_breaker_view {
  enum weir_breaker_state state;
  /* Of weir_breaker_admit: why the call was turned away, or, with WEIR_BREAKER_MODE_SHADOW, would
   * have been; of weir_breaker_look: why the next one would be; else NONE. */
  enum weir_breaker_refusal refusal;
  /* One more with each change of state, and when an override is set or taken back. */
  uint64_t generation;
  /* Until a call may get through: never negative, 0 while CLOSED, WEIR_NO_LIMIT_NS under
   * WEIR_BREAKER_OVERRIDE_OPEN. */
  int64_t next_probe_in_ns;
  /* This very call started `generation`, and made `state` of `changed_from` (an override may find
   * it so already). Of all calls exactly one is told so of each generation. */
  bool changed;
  enum weir_breaker_state changed_from; /* the state before; with `changed` alone */
};

/* What a circuit breaker looks like from outside. Start from WEIR_BREAKER_SNAPSHOT_INIT. */
struct weir_breaker_snapshot {
  size_t size;
  enum weir_breaker_state state;
  uint64_t generation;      /* as in a view */
  uint64_t n_trips;         /* changes to OPEN that the breaker itself made */
  uint64_t n_refused;       /* calls that were turned away */
  uint64_t n_probes;        /* calls let through while HALF_OPEN */
  uint64_t n_requests;      /* samples in the window */
  uint64_t n_failures;      /* of them */
  int64_t next_probe_in_ns; /* 0 unless OPEN */
  uint64_t n_shadowed;      /* calls let through only because of WEIR_BREAKER_MODE_SHADOW */
  enum weir_breaker_override override;
  uint32_t admitted_share_milli; /* of 1000 calls: less in a ramp, 0 while OPEN or HALF_OPEN */
};

#define WEIR_BREAKER_SNAPSHOT_INIT \
  { .size = sizeof(struct weir_breaker_snapshot), .state = WEIR_BREAKER_CLOSED }

/* Makes a breaker, CLOSED. Of the options, `enabled`, `scope`, `max_breakers`, `deadline_floor_ns`
 * and `ignore_resets` are for channels.
 *
 * Ownership: `options` is copied, NULL = the defaults; `allocator`, NULL = malloc, is borrowed
 *            until the breaker is freed. `*breaker_out` is the caller's until weir_breaker_free;
 *            NULL on failure.
 * Threads:   any thread.
 * Errors:    WEIR_ERROR_INVALID_ARGUMENT a value is out of range; WEIR_ERROR_UNSUPPORTED `options`
 *            are a newer program's; WEIR_ERROR_NO_MEMORY. */
WEIR_API WEIR_MUST_CHECK enum weir_error
weir_breaker_new(const struct weir_breaker_options *options, const struct weir_allocator *allocator,
                 weir_breaker **breaker_out);

/* Has a breaker go by other options, whatever state it is in; it is no change of state. What the
 * same options are for is not touched. An open time, a lease and a ramp last from when they began
 * for as long as the options say now; with fewer probes, those that are under way have their
 * places, and none is let through until there are fewer of them; the window is empty if it or its
 * buckets are of another length, and else judged at the next failure. doc/breaker.md, "When the
 * policy changes".
 *
 * Ownership: `options` is copied, NULL = the defaults.
 * Threads:   any thread, one at a time; calls may be under way.
 * Errors:    as weir_breaker_new; nothing has changed then. */
WEIR_API WEIR_MUST_CHECK enum weir_error
weir_breaker_set_options(weir_breaker *breaker, const struct weir_breaker_options *options);

/* Ends a breaker. No thread may be using it; tickets need not be spent.
 *
 * Ownership: `breaker` is taken over; NULL is allowed.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API void weir_breaker_free(weir_breaker *breaker);

/* Lets a call through, or not. Takes no lock and allocates nothing. A call that is let through with
 * a spent ticket (WEIR_BREAKER_MODE_SHADOW, WEIR_BREAKER_OVERRIDE_DISABLED) counts nowhere.
 *
 * Ownership: both outputs are the caller's, and always written; a refusal's ticket is spent.
 *            `random` is borrowed for the call, and asked in a ramp only; NULL =
 *            weir_random_thread.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API enum weir_admission weir_breaker_admit(weir_breaker *breaker, int64_t now_ns,
                                                const struct weir_random *random,
                                                struct weir_breaker_ticket *ticket_out,
                                                struct weir_breaker_view *view_out);

/* Says that a stream's first message is here: its success counts now, and a probe's place is no
 * longer the call's.
 *
 * Ownership: `view_out` is the caller's, and written; NULL is allowed.
 * Threads:   any thread; one ticket on one at a time.
 * Errors:    none; a ticket that is not pending is left alone. */
WEIR_API void weir_breaker_progress(weir_breaker *breaker, struct weir_breaker_ticket *ticket,
                                    int64_t now_ns, struct weir_breaker_view *view_out);

/* Says how the call ended, and spends its ticket. A result of an earlier generation changes
 * nothing.
 *
 * Ownership: `view_out` is the caller's, and written; NULL is allowed. `random` is borrowed for the
 *            call, and asked for the jitter when this opens the breaker; NULL as in
 *            weir_breaker_admit.
 * Threads:   any thread; one ticket on one at a time.
 * Errors:    none; a spent ticket is left alone. */
WEIR_API void weir_breaker_settle(weir_breaker *breaker, struct weir_breaker_ticket *ticket,
                                  enum weir_breaker_verdict verdict, int64_t now_ns,
                                  const struct weir_random *random,
                                  struct weir_breaker_view *view_out);

/* Gives back the place of a probe that was never settled, and spends the ticket.
 *
 * Ownership: `ticket` stays the caller's.
 * Threads:   any thread; one ticket on one at a time.
 * Errors:    none; a spent ticket is left alone. */
WEIR_API void weir_breaker_release(weir_breaker *breaker, struct weir_breaker_ticket *ticket);

/* Says whether a call that was let through may make a further attempt: the breaker is CLOSED and,
 * if the ticket is not spent, has been since, or WEIR_BREAKER_OVERRIDE_DISABLED; or it only watches
 * (WEIR_BREAKER_MODE_SHADOW, WEIR_BREAKER_OVERRIDE_DISABLED).
 *
 * Ownership: nothing changes hands.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API bool weir_breaker_still_admits(const weir_breaker *breaker,
                                        const struct weir_breaker_ticket *ticket);

/* Sets an override, or takes it back: the breaker is then CLOSED, with an empty window and no ramp.
 * Each starts a generation, so what was let through before no longer counts.
 *
 * Ownership: `view_out` is the caller's, and written; NULL is allowed. Without a clock, its
 *            `next_probe_in_ns` is 0 but for WEIR_BREAKER_OVERRIDE_OPEN.
 * Threads:   any thread.
 * Errors:    none; the override that is set already changes nothing. */
WEIR_API void weir_breaker_set_override(weir_breaker *breaker, enum weir_breaker_override override,
                                        struct weir_breaker_view *view_out);

/* Looks, and changes nothing.
 *
 * Ownership: nothing changes hands.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API struct weir_breaker_view weir_breaker_look(const weir_breaker *breaker, int64_t now_ns);

/* Reads what there is to read. While calls are under way the numbers are each right, but not of one
 * instant.
 *
 * Ownership: `snapshot_out` is the caller's; its `size` is set before.
 * Threads:   any thread.
 * Errors:    WEIR_ERROR_INVALID_ARGUMENT `size` is too small. */
WEIR_API WEIR_MUST_CHECK enum weir_error
weir_breaker_snapshot(const weir_breaker *breaker, int64_t now_ns,
                      struct weir_breaker_snapshot *snapshot_out);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_BREAKER_H */
