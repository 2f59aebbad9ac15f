/* The vectors of the files that are named as arguments (test/vectors), each a test function, on the
 * policy loader, the throttle and the layers that a channel has.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <jansson.h>

#include <weir/clock.h>
#include <weir/interceptor.h>
#include <weir/outcome.h>
#include <weir/policy.h>
#include <weir/throttle.h>

#include <cmocka.h>

#include "interceptors/deadline/deadline.h"
#include "interceptors/retry/retry.h"
#include "src/outcome/outcome.h"
#include "src/policy/policy.h"
#include "src/stack/stack.h"

#define T0 (1000 * WEIR_SECOND_NS)
#define MAX_CHANNELS 4
#define MAX_STATES_BYTES 128
#define MAX_VECTORS 1024
#define MAX_FILES 64

/* What weir calls the reasons of the vectors. */
static const struct {
  const char *reason;
  enum weir_reason weirs;
} stop_reasons[] = {
    {"success", WEIR_REASON_NONE},
    {"not-retryable", WEIR_REASON_NOT_RETRYABLE},
    {"no-policy", WEIR_REASON_NO_RETRY_POLICY},
    {"throttled", WEIR_REASON_THROTTLED},
    {"committed-by-response", WEIR_REASON_COMMITTED},
    {"committed-by-buffer", WEIR_REASON_NOT_REPLAYABLE},
    {"attempts-exhausted", WEIR_REASON_ATTEMPTS_EXHAUSTED},
    {"pushback", WEIR_REASON_PUSHBACK},
    {"no-time-left", WEIR_REASON_BUDGET},
    {"client-deadline", WEIR_REASON_DEADLINE},
    {"client-cancelled", WEIR_REASON_CANCELLED},
};

struct channel {
  const char *name; /* NULL = none */
  weir_policy *policy;
  weir_throttle *throttle; /* NULL = none */
  struct weir__stack stack;
};

struct world {
  const char *vector;
  struct channel channels[MAX_CHANNELS];
  double unit; /* of chance */
  struct weir_random random;
};

/* One attempt of a call, and what is expected of it. */
struct attempt {
  const json_t *given;
  const json_t *expect;
  size_t nth;
};

static uint64_t unit_next(void *context) {
  return (uint64_t)(((const struct world *)context)->unit * 0x1p53) << 11;
}

static const char *text_of(const json_t *object, const char *key, const char *otherwise) {
  const char *text = json_string_value(json_object_get(object, key));
  return text != NULL ? text : otherwise;
}

static int64_t integer_of(const json_t *object, const char *key, int64_t otherwise) {
  const json_t *value = json_object_get(object, key);
  return value != NULL ? json_integer_value(value) : otherwise;
}

/* ---- policies ---- */

static enum weir_error load(const json_t *policy, weir_policy **policy_out,
                            struct weir_diagnostic *diagnostic) {
  /* As many digits as a double keeps: 0.29 is "0.29" again. */
  char *text = json_dumps(policy, JSON_REAL_PRECISION(15));
  assert_non_null(text);
  enum weir_error error =
      weir_policy_from_json(text, strlen(text), NULL, NULL, policy_out, diagnostic);
  free(text);
  return error;
}

static void expect_integer(const json_t *expect, const char *key, int64_t actual) {
  if (integer_of(expect, key, 0) != actual) {
    fail_msg("%s is %lld, not %lld", key, (long long)actual, (long long)integer_of(expect, key, 0));
  }
}

static uint32_t codes_of(const json_t *list) {
  uint32_t codes = 0;
  size_t i = 0;
  const json_t *code = NULL;
  json_array_foreach(list, i, code) {
    codes |= 1u << (uint32_t)json_integer_value(code);
  }
  return codes;
}

static void expect_retry_policy(const json_t *expect, const struct weir_retry_policy *retry) {
  expect_integer(expect, "maxAttempts", retry->max_attempts);
  expect_integer(expect, "initialBackoffNs", retry->initial_backoff_ns);
  expect_integer(expect, "maxBackoffNs", retry->max_backoff_ns);
  assert_true(json_number_value(json_object_get(expect, "backoffMultiplier")) ==
              retry->backoff_multiplier);
  assert_int_equal(codes_of(json_object_get(expect, "retryableStatusCodes")),
                   retry->retryable_codes);
}

static void expect_policy(const json_t *expect, const weir_policy *policy) {
  static const char method[] = "/cart.Cart/Get";
  const struct weir_retry_policy *retry =
      &weir_policy_method(policy, method, sizeof method - 1)->retry;
  uint32_t max_tokens = 0;
  uint32_t ratio_milli = 0;
  (void)weir__policy_throttle(policy, &max_tokens, &ratio_milli);
  expect_integer(expect, "maxTokensMilli", (int64_t)max_tokens * 1000);
  expect_integer(expect, "tokenRatioMilli", ratio_milli);
  if (json_object_get(expect, "maxAttempts") != NULL) {
    expect_retry_policy(expect, retry);
  } else {
    assert_int_equal(retry->max_attempts, 1);
  }
}

static void run_policy(const json_t *vector) {
  struct weir_diagnostic diagnostic = {.path = "", .message = ""};
  weir_policy *policy = NULL;
  bool valid = json_is_true(json_object_get(vector, "valid"));
  enum weir_error error = load(json_object_get(vector, "policy"), &policy, &diagnostic);
  if (error != (valid ? WEIR_OK : WEIR_ERROR_INVALID_POLICY)) {
    fail_msg("%s %s %s", weir_error_name(error), diagnostic.path, diagnostic.message);
  }
  if (valid) {
    expect_policy(json_object_get(vector, "expect"), policy);
  }
  weir_policy_unref(policy);
}

/* ---- channels ---- */

static struct channel *channel_named(struct world *world, const char *name) {
  for (size_t i = 0; i < MAX_CHANNELS; i++) {
    struct channel *channel = &world->channels[i];
    if (channel->name != NULL && strcmp(channel->name, name) == 0) {
      return channel;
    }
  }
  for (size_t i = 0; i < MAX_CHANNELS; i++) {
    if (world->channels[i].name == NULL) {
      return &world->channels[i];
    }
  }
  fail_msg("more than %d channels", MAX_CHANNELS);
  return NULL;
}

static void channel_close(struct channel *channel) {
  if (channel->name != NULL) {
    weir__stack_fini(&channel->stack);
    weir_throttle_release(channel->throttle);
    weir_policy_unref(channel->policy);
    memset(channel, 0, sizeof *channel);
  }
}

/* The deadline's layer and the retrying one: what A6 speaks of. The others are weir's. */
static void channel_open(struct channel *channel, const char *name, const json_t *policy,
                         const char *target) {
  uint32_t max_tokens = 0;
  uint32_t ratio_milli = 0;
  weir_interceptor *layer = NULL;
  channel->name = name;
  assert_int_equal(load(policy, &channel->policy, NULL), WEIR_OK);
  if (weir__policy_throttle(channel->policy, &max_tokens, &ratio_milli)) {
    assert_int_equal(weir_throttle_acquire(target, max_tokens, ratio_milli, &channel->throttle),
                     WEIR_OK);
  }
  assert_int_equal(weir__deadline_layer_new(NULL, &layer), WEIR_OK);
  weir__stack_add(&channel->stack, layer);
  assert_int_equal(
      weir__retry_layer_new(channel->throttle, weir__policy_name(channel->policy), NULL, &layer),
      WEIR_OK);
  weir__stack_add(&channel->stack, layer);
  assert_true(channel->stack.states_bytes <= MAX_STATES_BYTES);
}

static void expect_tokens(const json_t *expect, const struct channel *channel) {
  assert_int_equal(json_object_get(expect, "tokensMilli") != NULL, channel->throttle != NULL);
  if (channel->throttle != NULL) {
    expect_integer(expect, "tokensMilli", weir_throttle_tokens_milli(channel->throttle));
  }
}

/* A channel that has a policy already gets the new one before it lets the old one go. */
static void run_policy_step(struct world *world, const json_t *step) {
  struct channel fresh = {.name = NULL};
  char target[200];
  const char *name = text_of(step, "channel", "one");
  struct channel *channel = channel_named(world, name);
  snprintf(target, sizeof target, "%s.%s:1", text_of(step, "server", "cart"), world->vector);
  channel_open(&fresh, name, json_object_get(step, "policy"), target);
  channel_close(channel);
  *channel = fresh;
  expect_tokens(json_object_get(step, "expect"), channel);
}

/* ---- attempts ---- */

static int status_of(const json_t *given) {
  const json_t *status = json_object_get(given, "status");
  if (json_is_integer(status)) {
    return (int)json_integer_value(status);
  }
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    if (strcmp(weir_status_code_name((grpc_status_code)code), json_string_value(status)) == 0) {
      return code;
    }
  }
  fail_msg("no status is called %s", json_string_value(status));
  return 0;
}

/* As the core's arrays tell it (src/outcome/wire_signals.c). */
static struct weir__wire_signals signals_of(const json_t *given, int status, size_t n_published) {
  struct weir__wire_signals signals = {.initial_capacity = 1, /* Trailers-Only */
                                       .trailing_capacity = 2 + n_published,
                                       .trailing_count = n_published,
                                       .recv_message_done = true};
  bool has_headers =
      status == GRPC_STATUS_OK || strncmp(text_of(given, "committed", ""), "response-", 9) == 0;
  if (has_headers) {
    signals.initial_capacity = 2;
  }
  signals.failed_before_recv_message = has_headers || json_object_get(given, "unprocessed") != NULL;
  return signals;
}

static struct weir_outcome outcome_of(const json_t *given, int64_t started_at_ns,
                                      int64_t ended_at_ns) {
  struct weir_outcome outcome;
  const char *ended_by = json_string_value(json_object_get(given, "endedBy"));
  const char *pushback = json_string_value(json_object_get(given, "pushback"));
  if (ended_by != NULL) {
    const struct weir__local_end end = {.origin = strcmp(ended_by, "client-deadline") == 0
                                                      ? WEIR_ORIGIN_LOCAL_DEADLINE
                                                      : WEIR_ORIGIN_LOCAL_CANCEL,
                                        .attempted = true,
                                        .started_at_ns = started_at_ns,
                                        .ended_at_ns = ended_at_ns,
                                        .deadline_bound = WEIR_DEADLINE_BOUND_CALL};
    weir__outcome_local(&end, &outcome);
    return outcome;
  }
  grpc_metadata trailing = {.key = grpc_slice_from_static_string("grpc-retry-pushback-ms"),
                            .value = grpc_slice_from_static_string(pushback ? pushback : "")};
  int status = status_of(given);
  const struct weir__wire_result result = {
      .status = status,
      .signals = signals_of(given, status, pushback != NULL ? 1 : 0),
      .signals_trusted = true,
      .got_message = status == GRPC_STATUS_OK ||
                     strcmp(text_of(given, "committed", ""), "response-message") == 0,
      .trailing = &trailing,
      .details = json_object_get(given, "unprocessed") != NULL ? weir__wire_words_of_goaway()
                                                               : grpc_empty_slice(),
      .started_at_ns = started_at_ns,
      .ended_at_ns = ended_at_ns,
      .deadline_at_ns = WEIR_NO_DEADLINE};
  weir__outcome_classify(&result, &outcome);
  return outcome;
}

static const char *retry_reason(const struct weir_outcome *outcome, const struct weir_plan *plan) {
  if (plan->uncounted) {
    return "transparent";
  }
  return outcome->pushback == WEIR_PUSHBACK_DELAY ? "pushback" : "backoff";
}

static const char *stop_reason(enum weir_reason reason) {
  for (size_t i = 0; i < sizeof stop_reasons / sizeof stop_reasons[0]; i++) {
    if (stop_reasons[i].weirs == reason) {
      return stop_reasons[i].reason;
    }
  }
  return weir_reason_name(reason);
}

static void expect_text(const struct attempt *attempt, const char *key, const char *actual) {
  const char *expected = text_of(attempt->expect, key, "");
  if (strcmp(expected, actual) != 0) {
    fail_msg("attempt %zu: %s is %s, not %s", attempt->nth, key, actual, expected);
  }
}

/* To a nanosecond, or to what a double can say. */
static void expect_delay(const struct attempt *attempt, int64_t actual_ns) {
  const json_t *expected = json_object_get(attempt->expect, "delayNs");
  const json_t *at_least = json_object_get(expected, "atLeast");
  int64_t wanted_ns = json_integer_value(at_least != NULL ? at_least : expected);
  int64_t tolerance_ns = 1 + wanted_ns / WEIR_SECOND_NS / 1000;
  if (actual_ns < wanted_ns - (at_least != NULL ? 0 : tolerance_ns) ||
      (at_least == NULL && actual_ns > wanted_ns + tolerance_ns)) {
    fail_msg("attempt %zu: a delay of %lld ns, not %lld", attempt->nth, (long long)actual_ns,
             (long long)wanted_ns);
  }
}

/* ---- calls ---- */

struct running_call {
  struct world *world;
  const struct channel *channel;
  struct weir_plan plan;
  uint8_t n_admitted;
  _Alignas(int64_t) char states[MAX_STATES_BYTES];
};

static void call_admit(struct running_call *call, const json_t *given) {
  const char *path = text_of(given, "method", NULL);
  const json_t *deadline_ms = json_object_get(given, "deadlineMs");
  const struct weir_event event = {.now_ns = T0, .random = &call->world->random};
  call->plan = (struct weir_plan){
      .method = weir_policy_method(call->channel->policy, path, strlen(path)),
      .path = path,
      .path_size = strlen(path),
      .shape = WEIR_CALL_SHAPE_STREAM, /* weir bounds no time of these by itself */
      .replayable = true,
      .started_at_ns = T0,
      .deadline_at_ns = deadline_ms != NULL ? T0 + json_integer_value(deadline_ms) * WEIR_MS_NS
                                            : WEIR_NO_DEADLINE,
      .deadline_bound = WEIR_DEADLINE_BOUND_CALL};
  assert_int_equal(weir__stack_admit(&call->channel->stack, call->states, &event, &call->plan,
                                     &call->n_admitted),
                   WEIR_ADMISSION_PROCEED);
}

/* As the engine does when it begins one. */
static void attempt_begin(struct running_call *call, const struct attempt *attempt,
                          int64_t now_ns) {
  call->plan.n_attempts += call->plan.uncounted ? 0 : 1;
  call->plan.uncounted = false;
  call->plan.attempted_at_ns = now_ns;
  if (strcmp(text_of(attempt->given, "committed", ""), "buffer-overflow") == 0) {
    call->plan.replayable = false;
  }
  expect_integer(attempt->expect, "startsAtNs", now_ns - T0);
  expect_integer(attempt->expect, "previousAttempts", call->plan.n_attempts - 1);
}

/* Answers when the next one starts, or WEIR_NO_DEADLINE. */
static int64_t attempt_end(struct running_call *call, const struct attempt *attempt,
                           int64_t now_ns) {
  const struct weir__stack *stack = &call->channel->stack;
  const struct weir_event event = {.now_ns = now_ns, .random = &call->world->random};
  const struct weir_outcome outcome =
      outcome_of(attempt->given, call->plan.attempted_at_ns, now_ns);
  uint8_t n_layers = call->n_admitted;
  const json_t *jitter = json_object_get(attempt->given, "jitter");
  call->world->unit = jitter != NULL ? json_number_value(jitter) : 0.5;

  bool goes_on =
      weir__stack_settle(stack, call->states, &event, &outcome, &call->plan, &n_layers) ==
          WEIR_DISPOSITION_RETRY &&
      weir__stack_resume(stack, call->states, &event, &call->plan) == WEIR_ADMISSION_PROCEED;

  expect_text(attempt, "decision", goes_on ? "retry" : "stop");
  expect_text(attempt, "reason",
              goes_on ? retry_reason(&outcome, &call->plan) : stop_reason(call->plan.reason));
  expect_tokens(attempt->expect, call->channel);
  if (!goes_on) {
    return WEIR_NO_DEADLINE;
  }
  expect_delay(attempt, call->plan.resume_at_ns - now_ns);
  return call->plan.resume_at_ns;
}

static void run_call(struct world *world, const struct channel *channel, const json_t *given) {
  struct running_call call = {.world = world, .channel = channel};
  struct attempt attempt = {.nth = 0};
  int64_t now_ns = T0;
  size_t i = 0;
  assert_non_null(channel->name);
  call_admit(&call, given);
  json_array_foreach(json_object_get(given, "attempts"), i, attempt.given) {
    assert_true(now_ns != WEIR_NO_DEADLINE);
    attempt.nth = i + 1;
    attempt.expect = json_object_get(attempt.given, "expect");
    attempt_begin(&call, &attempt, now_ns);
    now_ns += integer_of(attempt.given, "durationMs", 0) * WEIR_MS_NS;
    now_ns = attempt_end(&call, &attempt, now_ns);
  }
  const struct weir_event event = {.now_ns = T0, .random = &world->random};
  weir__stack_release(&channel->stack, call.states, &event, &call.plan, call.n_admitted);
}

/* ---- vectors ---- */

static void run_step(struct world *world, const json_t *step) {
  const char *closed = json_string_value(json_object_get(step, "close"));
  if (json_object_get(step, "policy") != NULL) {
    run_policy_step(world, step);
  } else if (closed != NULL) {
    channel_close(channel_named(world, closed));
  } else {
    for (int64_t n = integer_of(step, "times", 1); n > 0; n--) {
      run_call(world, channel_named(world, text_of(step, "channel", "one")),
               json_object_get(step, "call"));
    }
  }
}

static void run_steps(const json_t *vector, const json_t *steps) {
  struct world world = {.vector = text_of(vector, "name", NULL)};
  world.random = (struct weir_random){sizeof world.random, unit_next, &world};
  size_t i = 0;
  const json_t *step = NULL;
  json_array_foreach(steps, i, step) {
    run_step(&world, step);
  }
  for (i = 0; i < MAX_CHANNELS; i++) {
    channel_close(&world.channels[i]);
  }
}

static void run_vector(void **state) {
  const json_t *vector = *state;
  const json_t *steps = json_object_get(vector, "steps");
  if (steps != NULL) {
    run_steps(vector, steps);
  } else {
    run_policy(vector);
  }
}

/* ---- files ---- */

struct vectors {
  size_t n;
  struct CMUnitTest tests[MAX_VECTORS]; /* each with its vector as its state */
};

static json_t *read_file(const char *path) {
  json_error_t error;
  json_t *document = json_load_file(path, 0, &error);
  if (document == NULL) {
    fprintf(stderr, "%s:%d: %s\n", path, error.line, error.text);
  }
  return document;
}

static void vectors_add(struct vectors *vectors, json_t *document) {
  size_t i = 0;
  json_t *vector = NULL;
  json_array_foreach(json_object_get(document, "vectors"), i, vector) {
    if (vectors->n < MAX_VECTORS) {
      vectors->tests[vectors->n++] =
          (struct CMUnitTest){.name = json_string_value(json_object_get(vector, "name")),
                              .test_func = run_vector,
                              .initial_state = vector};
    }
  }
}

/* Puts what weir does on purpose in the place of what A6 says. */
static bool deviate(const struct vectors *vectors, json_t *deviations) {
  size_t i = 0;
  json_t *deviation = NULL;
  json_array_foreach(json_object_get(deviations, "deviations"), i, deviation) {
    const char *name = text_of(deviation, "vector", "");
    size_t nth = 0;
    while (nth < vectors->n && strcmp(vectors->tests[nth].name, name) != 0) {
      nth++;
    }
    if (nth == vectors->n) {
      fprintf(stderr, "no vector is called %s\n", name);
      return false;
    }
    (void)json_object_update(vectors->tests[nth].initial_state, deviation);
  }
  return true;
}

/* The vectors first, then what deviates from them: a file's key says which it is. */
static bool take(struct vectors *vectors, json_t *const *documents, size_t n) {
  bool taken = true;
  for (size_t i = 0; i < n; i++) {
    vectors_add(vectors, documents[i]);
  }
  for (size_t i = 0; i < n; i++) {
    taken = deviate(vectors, documents[i]) && taken;
  }
  return taken && vectors->n > 0 && vectors->n < MAX_VECTORS;
}

int main(int argc, char **argv) {
  static struct vectors vectors;
  json_t *documents[MAX_FILES];
  size_t n = 0;
  bool complete = argc - 1 <= MAX_FILES;
  for (int i = 1; complete && i < argc; i++) {
    documents[n] = read_file(argv[i]);
    complete = documents[n] != NULL;
    n += complete ? 1 : 0;
  }
  int status = EXIT_FAILURE;
  if (complete && take(&vectors, documents, n)) {
    status = _cmocka_run_group_tests("a6_vectors", vectors.tests, vectors.n, NULL, NULL);
  }
  while (n > 0) {
    json_decref(documents[--n]);
  }
  return status;
}
