/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/odd_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/e2e/fixture.h"
#include "test/e2e/seen.h"
#include "test/e2e/shaped_call.h"

#define RETRIES METHODS(RETRY("3", "0.001s", CODES_ALL))

enum way_flag { AT_BOUNDARY = 1, WITH_RETRIES = 2, N_WAYS = 4 };

static const char *const policies[N_WAYS] = {
    [0] = "{" NO_BOUNDARY "}",
    [AT_BOUNDARY] = "{}",
    [WITH_RETRIES] = "{" NO_BOUNDARY "," RETRIES "}",
    [AT_BOUNDARY | WITH_RETRIES] = "{" RETRIES "}",
};

/* One try of a case. */
struct trial {
  const struct odd_case *known;
  enum shape shape;
  unsigned way;
  struct odd_peer *peer;
  weir_channel *channel;
  struct shaped_call call;
};

static void try_fail(struct trial *trial, const char *what) {
  const struct weir_call_report *report = &trial->call.unary.report;
  fail_msg("%s (%s, %s, %s): %s; %s came, seen as %s, from %s, %zu requests, %u attempts, %s",
           trial->known->why, shape_name(trial->shape),
           (trial->way & AT_BOUNDARY) != 0 ? "at a boundary" : "no boundary",
           (trial->way & WITH_RETRIES) != 0 ? "retries" : "no retries", what,
           weir_status_code_name(report->raw_code), weir_status_code_name(trial->call.unary.code),
           weir_origin_name(report->origin), odd_peer_count(trial->peer, ODD_REQUESTS),
           report->n_attempts, weir_reason_name(report->reason));
}

/* What the call ends with: a later attempt may find nothing but a lost connection. */
static grpc_status_code wanted_code(const struct trial *trial) {
  const struct weir_call_report *report = &trial->call.unary.report;
  bool may_be_lost = trial->known->closes && report->n_attempts > 1;
  return may_be_lost && report->raw_code == GRPC_STATUS_UNAVAILABLE ? GRPC_STATUS_UNAVAILABLE
                                                                    : trial->known->code;
}

static grpc_status_code visible_code(const struct trial *trial) {
  bool is_own = trial->known->origin == WEIR_ORIGIN_LOCAL_DEADLINE;
  grpc_status_code code = wanted_code(trial);
  return (trial->way & AT_BOUNDARY) == 0 || is_own ? code : boundary_codes[code];
}

static void check_status(struct trial *trial) {
  const struct weir_call_report *report = &trial->call.unary.report;
  if (report->attempts[0].code != trial->known->code ||
      report->attempts[0].origin != trial->known->origin) {
    try_fail(trial, "first attempt");
  }
  if (report->raw_code != wanted_code(trial)) {
    try_fail(trial, "raw code");
  }
  if (report->origin != trial->known->origin && !trial->known->closes) {
    try_fail(trial, "origin");
  }
  if (trial->call.unary.code != visible_code(trial) || report->code != visible_code(trial)) {
    try_fail(trial, "code");
  }
}

static size_t wanted_requests(const struct trial *trial) {
  if ((trial->way & WITH_RETRIES) != 0) {
    return trial->known->n_requests;
  }
  return trial->known->replayed ? 2 : 1;
}

/* Of an attempt that finds a connection as it is lost the core may publish no sign of headers, nor of
 * their absence: it counts as committed. */
static bool may_be_committed(const struct trial *trial) {
  const struct weir_call_report *report = &trial->call.unary.report;
  return trial->known->closes && report->n_attempts > 1 &&
         report->raw_code == GRPC_STATUS_UNAVAILABLE && report->reason == WEIR_REASON_COMMITTED;
}

static void check_requests(struct trial *trial) {
  size_t wanted = wanted_requests(trial);
  size_t n_requests = odd_peer_count(trial->peer, ODD_REQUESTS);
  uint32_t n_attempts = trial->call.unary.report.n_attempts;
  /* One that found a lost connection is replayed, or counts, or is the last. */
  bool fine = trial->known->closes
                  ? n_requests <= wanted && (n_attempts >= wanted || may_be_committed(trial))
                  : n_requests == wanted && n_attempts == wanted;
  if (!fine) {
    try_fail(trial, "requests");
  }
}

static enum weir_reason wanted_reason(const struct trial *trial) {
  if (trial->known->code == GRPC_STATUS_OK) {
    return WEIR_REASON_NONE;
  }
  if (trial->known->origin == WEIR_ORIGIN_LOCAL_LIMIT) {
    return WEIR_REASON_LIMIT;
  }
  if ((trial->way & WITH_RETRIES) == 0) {
    return WEIR_REASON_NO_RETRY_POLICY;
  }
  return trial->known->n_requests == 1 ? WEIR_REASON_COMMITTED : WEIR_REASON_ATTEMPTS_EXHAUSTED;
}

static void check_reason(struct trial *trial) {
  if (trial->call.unary.report.reason != wanted_reason(trial) && !may_be_committed(trial)) {
    try_fail(trial, "reason");
  }
}

/* One sample a call, of its raw end; none of what is this process's own limit. A stream is one at
 * its first message, too. */
static void check_breaker(struct trial *trial) {
  struct weir_breaker_snapshot snapshot = {.size = sizeof snapshot};
  grpc_status_code code = wanted_code(trial);
  bool counts = trial->known->origin != WEIR_ORIGIN_LOCAL_LIMIT;
  bool fails = counts && (code == GRPC_STATUS_UNAVAILABLE || code == GRPC_STATUS_ABORTED ||
                          code == GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(weir_channel_breaker_snapshot(trial->channel, METHOD, &snapshot), WEIR_OK);
  bool may_be_two = trial->shape != SHAPE_ONE_BATCH && trial->call.n_messages > 0;
  uint64_t least = counts ? 1 : 0;
  if (snapshot.n_failures != (fails ? 1 : 0) || snapshot.n_requests < least ||
      snapshot.n_requests > least + (may_be_two ? 1 : 0)) {
    try_fail(trial, "breaker");
  }
}

static void check_secret(struct trial *trial) {
  static struct seen seen;
  bool failed = trial->call.unary.code != GRPC_STATUS_OK;
  if (!failed || (trial->way & AT_BOUNDARY) == 0) {
    return;
  }
  if (trial->shape == SHAPE_ONE_BATCH && trial->call.unary.message != NULL) {
    try_fail(trial, "message");
  }
  seen.size = 0;
  see_unary(&seen, &trial->call.unary);
  bool handed_out = trial->known->shown_early && trial->shape != SHAPE_ONE_BATCH;
  if (!handed_out && count_seen(&seen, SECRET) > 0) {
    try_fail(trial, "secret");
  }
  if (count_seen(&seen, "127.0.0.1") > 0) {
    try_fail(trial, "address");
  }
}

static void try_case(const struct odd_case *known, enum shape shape, unsigned way) {
  bool greets_oddly = known->greeting.steps[0].act != ODD_ACT_END;
  const struct odd_setup setup = {.greetings = &known->greeting,
                                  .n_greetings = greets_oddly ? 1 : 0,
                                  .answers = &known->script,
                                  .n_answers = 1};
  struct trial trial = {.known = known, .shape = shape, .way = way, .peer = odd_peer_new(&setup)};
  trial.channel = channel_to(odd_peer_port(trial.peer), policies[way]);
  shaped_run(&trial.call, shape, trial.channel, &(struct unary_setup){.timeout_ns = SECONDS(30)});
  check_status(&trial);
  check_requests(&trial);
  check_reason(&trial);
  check_breaker(&trial);
  check_secret(&trial);
  shaped_fini(&trial.call);
  weir_channel_destroy(trial.channel);
  odd_peer_release(trial.peer);
}

/* A call in one batch is tried in every way, the others plainly and with all there is. */
static bool is_worth_trying(enum shape shape, unsigned way) {
  return shape == SHAPE_ONE_BATCH || way == 0 || way == (AT_BOUNDARY | WITH_RETRIES);
}

void odd_cases_assert(const struct odd_case *cases, size_t n_cases) {
  for (size_t i = 0; i < n_cases; i++) {
    for (int shape = 0; shape < N_SHAPES; shape++) {
      for (unsigned way = 0; way < N_WAYS; way++) {
        if (is_worth_trying((enum shape)shape, way)) {
          try_case(&cases[i], (enum shape)shape, way);
        }
      }
    }
  }
}
