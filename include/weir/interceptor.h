/* weir/interceptor.h – one layer of the stack that a call goes through.
 *
 * A layer decides, the engine acts: a hook is given facts and the time, and returns a decision. It
 * never reads a clock, arms a timer, starts a batch or allocates, and it never calls another layer:
 * the engine walks the stack. The built-in layers (interceptors/) use exactly this table.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_INTERCEPTOR_H
#define WEIR_INTERCEPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/admission.h>
#include <weir/breaker.h>
#include <weir/clock.h>
#include <weir/export.h>
#include <weir/outcome.h>
#include <weir/policy.h>
#include <weir/reason.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An instance of a layer; it begins with a struct weir_interceptor. */
typedef struct weir_interceptor weir_interceptor;

/* What happened outside, read once for all hooks that are asked about it. */
struct weir_event {
  int64_t now_ns;                   /* on the monotonic clock */
  const struct weir_random *random; /* for jitter and references; borrowed for the hook */
};

/* How a call is made, which is known when its first batch is started. */
enum weir_call_shape {
  WEIR_CALL_SHAPE_STREAM = 0, /* several batches, or one that is not a whole unary call */
  WEIR_CALL_SHAPE_ONE_BATCH   /* one batch with all operations of a unary call */
};

/* What is known of the request that this process serves while it makes the call. */
struct weir_inbound_facts {
  int64_t deadline_at_ns; /* WEIR_NO_DEADLINE = it has none, or it does not bind this call */
};

/* A call's plan: what the layers agree on. The engine fills the facts, layers tighten and
 * decide. It is part of each call under way: the order of the fields leaves no holes. */
struct weir_plan {
  /* Facts of the call; layers only read them. */

  const struct weir_method_policy *method;
  const struct weir_inbound_facts *inbound; /* NULL: the root of a chain */
  const char *path;                         /* "/pkg.Service/Method", not terminated */
  size_t path_size;
  int64_t started_at_ns;   /* when the first batch was started */
  int64_t attempted_at_ns; /* when the current attempt was */
  enum weir_call_shape shape;
  /* attempts that count (A6); a replay of what the server never saw does not */
  uint32_t n_attempts;
  bool replayable; /* the request can be sent again */
  /* a layer further out retries: the request being served carries its marker, or the call's own
   * metadata does; a stream may learn of the latter late, and its settle is then the first to see */
  bool outer_owns_retries;

  /* The budget. Layers may only bring it nearer. */

  bool deadline_clamped; /* a ceiling cut a deadline that was given, not a mere default */
  enum weir_deadline_bound deadline_bound;
  int64_t deadline_at_ns; /* WEIR_NO_DEADLINE = there is none */

  /* The next attempt. */

  int64_t resume_at_ns;   /* set by the layer that answers RETRY */
  int64_t min_attempt_ns; /* the least time that an attempt needs */
  /* this layer's name, sent as weir-retry-owner with each attempt; NULL = an outer layer's marker is
   * passed on, if there is one */
  const char *retry_owner;
  bool uncounted;      /* the next attempt is not one for A6: no header, no count */
  bool single_attempt; /* no further attempt, whatever happens (a half-open probe) */

  /* The answer. */

  bool scrubbed;     /* the caller sees weir's words only, never the peer's */
  bool do_not_retry; /* the caller's own caller should not try again */
  /* the hook that has just returned changed the breaker's state, to `breaker_state`; the engine
   * tells of it, and takes it back */
  bool breaker_changed;
  enum weir_origin refused_as; /* with REFUSE from admit: what the call's outcome is made of */
  enum weir_reason reason;
  grpc_status_code visible_code; /* what the caller sees; the engine starts it as the raw code */

  /* The breaker, as the call last saw it. */

  enum weir_breaker_state breaker_state;
  enum weir_breaker_refusal breaker_refusal; /* NONE, unless the call was refused, or in shadow mode
                                                would have been */
  enum weir_breaker_state breaker_changed_from;
  int64_t next_probe_in_ns;    /* 0 while it is CLOSED */
  uint64_t breaker_generation; /* from 0 on */
  /* The breaker's layer's own. The engine sets what that layer has found out about a registered
   * method; NULL = it looks. */
  void *breaker_entry;
};

/* What a layer answers to the end of an attempt. */
enum weir_disposition { WEIR_DISPOSITION_FINISH = 0, WEIR_DISPOSITION_RETRY };

/* One layer. Static and const; one table a kind, any number of instances. A hook left NULL passes
 * through. Hooks of one call never run at once; hooks of different calls do, so what an instance
 * holds is atomic or guarded. */
struct weir_interceptor_vtable {
  size_t size;            /* sizeof(struct weir_interceptor_vtable); later versions append */
  const char *name;       /* static; unique in a stack */
  size_t call_state_size; /* bytes of zeroed memory for each call */

  /* Once a call, outermost first. May tighten the plan's deadline; may refuse: the call then ends
   * here, with plan->refused_as and plan->reason. A layer that refuses is not released. */
  enum weir_admission (*admit)(weir_interceptor *self, void *call_state,
                               const struct weir_event *event, struct weir_plan *plan);

  /* Whether a further attempt may start at plan->resume_at_ns: asked before the wait for it and
   * again when it is over (resume_at_ns is then `now`), outermost first. A refusal ends the call
   * with its last outcome; it sets the reason. */
  enum weir_admission (*resume)(weir_interceptor *self, void *call_state,
                                const struct weir_event *event, struct weir_plan *plan);

  /* When a stream's first response message arrives; at most once a call. */
  void (*progress)(weir_interceptor *self, void *call_state, const struct weir_event *event,
                   struct weir_plan *plan);

  /* When an attempt has ended (a layer inside the retrying one) or the call has (that layer and
   * those outside it), innermost first. The answer of a layer that does not retry is FINISH. */
  enum weir_disposition (*settle)(weir_interceptor *self, void *call_state,
                                  const struct weir_event *event,
                                  const struct weir_outcome *outcome, struct weir_plan *plan);

  /* Exactly once for every call that this layer admitted, settled or not; gives back what admit
   * took. */
  void (*release)(weir_interceptor *self, void *call_state, const struct weir_event *event,
                  const struct weir_plan *plan);

  /* Once, when the stack goes away. */
  void (*destroy)(weir_interceptor *self);

  /* What the caller is to see of a failure: once for every call that did not end with OK, after all
   * layers have settled, innermost first. Also of a call that was refused before this layer was
   * asked. Sets visible_code, scrubbed and do_not_retry of the plan, no more. */
  void (*present)(weir_interceptor *self, const struct weir_outcome *outcome,
                  struct weir_plan *plan);
};

/* What every layer begins with. */
struct weir_interceptor {
  const struct weir_interceptor_vtable *vtable; /* of its kind */
};

#ifdef __cplusplus
}
#endif

#endif /* WEIR_INTERCEPTOR_H */
