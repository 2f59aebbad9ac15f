/* simulate – what the layers of a policy do with a supposed end of an attempt.
 *
 * No rule is told a second time here: the layers are made as a channel makes them, and asked as the
 * engine asks them. What they answer is read off the call's plan, the throttle and the breaker.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_WEIRCTL_SIMULATE_H
#define WEIR_CMD_WEIRCTL_SIMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/status.h>

#include <weir/error.h>
#include <weir/interceptor.h>
#include <weir/outcome.h>
#include <weir/policy.h>
#include <weir/reason.h>

enum simulation_caller {
  SIMULATION_CALLER_ROOT = 0, /* nobody is served: the root of a chain */
  SIMULATION_CALLER_SERVING,  /* the call is made while a request is served */
  SIMULATION_CALLER_RETRYING  /* likewise, and that request carries an outer layer's marker */
};

/* What is supposed. */
struct simulation_question {
  const weir_policy *policy;
  const char *path; /* "/pkg.Service/Method" */
  size_t path_size;
  grpc_status_code code;
  enum weir_origin origin;
  /* the tightest bound of the call's time; NONE = the parent's, else the policy's, else its own */
  enum weir_deadline_bound bound;
  enum weir_call_shape shape;
  enum simulation_caller caller;
  uint32_t attempt;     /* which one ended so; 0 = before the first */
  bool after_headers;   /* response headers had come */
  bool unprocessed;     /* the server provably never saw it */
  const char *pushback; /* the peer's grpc-retry-pushback-ms; NULL = none */
};

enum simulation_next {
  SIMULATION_NEXT_END = 0, /* the call ends with it */
  SIMULATION_NEXT_RETRY,   /* another attempt is made */
  SIMULATION_NEXT_REPLAY   /* likewise, at once, and it does not count as one */
};

struct simulation_retry {
  bool asked; /* the layer had let the call through */
  enum simulation_next next;
  enum weir_reason reason; /* why there is no further attempt */
  uint32_t max_attempts;   /* 1 = the method has no retries */
  int64_t least_wait_ns;   /* before the next attempt, by chance between these */
  int64_t most_wait_ns;
  bool throttled;            /* the channel has a throttle: then these are set */
  int32_t tokens_milli;      /* what became of its level */
  uint32_t max_tokens_milli; /* a full one */
};

struct simulation_breaker {
  bool enabled;
  bool asked;   /* the layer was told of the end */
  bool refuses; /* the call was its refusal */
  enum weir_breaker_verdict verdict;
  bool opens; /* this one is enough for it to open */
  enum weir_breaker_mode mode;
};

/* The longest message that weir writes itself. */
#define SIMULATION_MESSAGE_SIZE 64

struct simulation_translation {
  bool boundary;
  grpc_status_code visible; /* the code that the caller sees */
  bool scrubbed;
  bool do_not_retry;
  char message[SIMULATION_MESSAGE_SIZE]; /* when scrubbed */
};

struct simulation_deadline {
  enum weir_deadline_bound bound; /* the one that was supposed to be the tightest */
  bool refuses;                   /* the call was past its deadline before it began */
  bool asked;                     /* whether another attempt fits: only if there is to be one */
  bool fits;
  int64_t limit_ns; /* what the policy leaves such a call at most; WEIR_NO_LIMIT_NS = no bound */
};

/* What is not asked is zero. */
struct simulation_answer {
  struct weir_outcome outcome;
  struct simulation_retry retry;
  /* When another attempt is made, these are what they would be if none was. */
  struct simulation_breaker breaker;
  struct simulation_translation translation;
  struct simulation_deadline deadline;
  char why_not[160]; /* with WEIR_ERROR_INVALID_ARGUMENT: a sentence */
};

/* WEIR_ERROR_INVALID_ARGUMENT: no call of the method can end so. WEIR_ERROR_NO_MEMORY. The throttles
 * of the process are not for others meanwhile. */
WEIR_MUST_CHECK enum weir_error simulation_run(const struct simulation_question *question,
                                               struct simulation_answer *answer_out);

/* What the caller sees of a peer's code. Ends weirctl when there is no memory. */
grpc_status_code simulation_visible(const struct weir_method_policy *method, grpc_status_code code);

/* What deadline a call brings. */
enum simulation_own {
  SIMULATION_OWN_NONE = 0,
  SIMULATION_OWN_FAR /* farther away than any bound of the policy's */
};

/* What the policy leaves such a call; WEIR_NO_LIMIT_NS = it does not bound it. Ends weirctl when
 * there is no memory. */
int64_t simulation_limit_ns(const struct weir_method_policy *method, enum weir_call_shape shape,
                            enum simulation_own own);

#endif /* WEIR_CMD_WEIRCTL_SIMULATE_H */
