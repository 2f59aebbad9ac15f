/* What an organisation enforces beside translation is never weakened: over a great many pairs of
 * documents, the same ones in each run, either the pair is refused, or what the policy holds for
 * each method is what is enforced, or stricter. And no more is refused than what is weaker.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <weir/policy.h>

#include "src/policy/policy.h"
#include "test/support/counting_allocator.h"
#include "test/support/seeded_random.h"
#include "test/unit/policy/document_writer.h"

/* A sanitizer takes five times as long for each. */
#if defined(__SANITIZE_ADDRESS__)
#define N_PAIRS 600
#else
#define N_PAIRS 3000
#endif
#define N_VALUES 4
#define SILENT (-1)

/* Which of two numbers is the weaker one. */
enum direction { LESS, MORE, SAME };

/* A key, the values that documents give it, and what they come to. */
struct limit {
  const char *object; /* "" = the entry's own */
  const char *key;
  enum direction stricter;
  const char *texts[N_VALUES];
  double (*read)(const weir_policy *policy, const struct weir_method_policy *method);
  double numbers[N_VALUES];
};

#define READER(name, expression)                                                           \
  static double name(const weir_policy *policy, const struct weir_method_policy *method) { \
    (void)policy;                                                                          \
    (void)method;                                                                          \
    return (double)(expression);                                                           \
  }

READER(max_timeout, method->deadline->max_timeout_ns)
READER(default_timeout, method->deadline->default_timeout_ns)
READER(stream_timeout, method->deadline->max_stream_timeout_ns)
READER(margin, method->deadline->margin_ns)
READER(inherits, method->deadline->inherits_parent)
READER(ratio, weir__policy_breaker(policy)->failure_ratio)
READER(min_requests, weir__policy_breaker(policy)->min_requests)
READER(open_for, weir__policy_breaker(policy)->open_for_ns)
READER(scope, weir__policy_breaker(policy)->scope)
READER(probes, weir__policy_breaker(policy)->probes)
READER(ignores_resets, weir__policy_breaker(policy)->ignore_resets)
READER(min_attempt, method->retry_options->min_attempt_time_ns)
READER(replay, method->retry_options->replay_bytes)
READER(after_headers, method->retry_options->retry_after_headers)
READER(on_refusal, method->fallback->on_refusal)
READER(on_failure, method->fallback->on_failure)
READER(fallback_timeout, method->fallback->timeout_ns)
READER(concurrent, method->fallback->max_concurrent)
READER(timeout, method->timeout_ns)
READER(attempt_timeout, method->per_attempt_timeout_ns)
READER(request_bytes, method->max_request_bytes)
READER(response_bytes, method->max_response_bytes)
READER(waits, method->wait_for_ready == WEIR_WAIT_FOR_READY_TRUE)

#define TIMES \
  { "\"1s\"", "\"2s\"", "\"5s\"", "\"9s\"" }
#define TIME_NUMBERS \
  { 1e9, 2e9, 5e9, 9e9 }
#define SWITCH \
  { "true", "false", "true", "false" }
#define SWITCH_NUMBERS \
  { 1, 0, 1, 0 }

static const struct limit limits[] = {
    {"deadline", "maxTimeout", LESS, TIMES, max_timeout, TIME_NUMBERS},
    {"deadline", "defaultTimeout", LESS, TIMES, default_timeout, TIME_NUMBERS},
    {"deadline", "maxStreamTimeout", LESS, TIMES, stream_timeout, TIME_NUMBERS},
    {"deadline", "deadlineMargin", MORE, TIMES, margin, TIME_NUMBERS},
    {"deadline", "inheritsParent", MORE, SWITCH, inherits, SWITCH_NUMBERS},
    {"breaker", "failureRatio", LESS, {"0.2", "0.5", "0.7", "1"}, ratio, {0.2, 0.5, 0.7, 1}},
    {"breaker", "minRequests", LESS, {"1", "4", "6", "50"}, min_requests, {1, 4, 6, 50}},
    {"breaker", "openFor", MORE, TIMES, open_for, TIME_NUMBERS},
    {"breaker", "scope", SAME, {"0", "1", "2", "1"}, scope, {0, 1, 2, 1}},
    {"breaker", "probes", SAME, {"1", "2", "3", "4"}, probes, {1, 2, 3, 4}},
    {"breaker", "ignoreResets", LESS, SWITCH, ignores_resets, SWITCH_NUMBERS},
    {"retry", "minAttemptTime", MORE, TIMES, min_attempt, TIME_NUMBERS},
    {"retry", "replayBytes", LESS, {"0", "9", "99", "999999"}, replay, {0, 9, 99, 999999}},
    {"retry", "retryAfterHeaders", LESS, SWITCH, after_headers, SWITCH_NUMBERS},
    {"fallback", "onRefusal", LESS, SWITCH, on_refusal, SWITCH_NUMBERS},
    {"fallback", "onFailure", LESS, SWITCH, on_failure, SWITCH_NUMBERS},
    {"fallback", "timeout", LESS, TIMES, fallback_timeout, TIME_NUMBERS},
    {"fallback", "maxConcurrent", LESS, {"1", "31", "40", "99"}, concurrent, {1, 31, 40, 99}},
    {"", "timeout", LESS, TIMES, timeout, TIME_NUMBERS},
    {"", "perAttemptTimeout", LESS, TIMES, attempt_timeout, TIME_NUMBERS},
    {"", "maxRequestMessageBytes", LESS, {"0", "7", "70", "700"}, request_bytes, {0, 7, 70, 700}},
    {"", "maxResponseMessageBytes", LESS, {"0", "7", "70", "700"}, response_bytes, {0, 7, 70, 700}},
    {"", "waitForReady", SAME, SWITCH, waits, SWITCH_NUMBERS},
};

#define N_LIMITS (sizeof limits / sizeof limits[0])

/* What retries have: attempts (1 is a ban), codes as a set of two, a first backoff. */
struct retries {
  int attempts; /* SILENT: no retryPolicy, as the others under `enforce` */
  int codes;    /* 1 UNAVAILABLE, 2 ABORTED */
  int backoff_s;
};

#define N_NAMES 4
static const char *const names[N_NAMES] = {"{}", "{\"service\":\"a.S\"}",
                                           "{\"service\":\"a.S\",\"method\":\"M\"}",
                                           "{\"service\":\"a.T\"}"};
static const char *const prefixes[N_NAMES] = {"", "/a.S/", "/a.S/M", "/a.T/"};
#define N_METHODS 4
static const char *const methods[N_METHODS] = {"/a.S/M", "/a.S/N", "/a.T/M", "/a.U/M"};

struct entry {
  bool exists;
  int values[N_LIMITS]; /* an index of the texts, or SILENT; of what methods have */
  struct retries retries;
};

/* One entry for each name at most. */
struct part {
  int values[N_LIMITS];
  struct entry entries[N_NAMES];
};

/* ---- making ---- */

static unsigned below(struct seeded_random *random, unsigned n) {
  return (unsigned)(seeded_random_next(random) >> 33) % n;
}

static bool is_methods_own(const struct limit *limit) {
  return limit->object[0] == '\0';
}

static bool methods_have(const struct limit *limit) {
  return is_methods_own(limit) || strcmp(limit->object, "fallback") == 0;
}

static int choose(struct seeded_random *random, unsigned rarity, unsigned n) {
  return below(random, rarity) == 0 ? (int)below(random, n) : SILENT;
}

static struct part make_part(struct seeded_random *random, unsigned rarity, bool enforced) {
  struct part part;
  memset(&part, 0, sizeof part);
  for (size_t i = 0; i < N_LIMITS; i++) {
    part.values[i] = is_methods_own(&limits[i]) ? SILENT : choose(random, rarity, N_VALUES);
  }
  for (size_t j = 0; j < N_NAMES; j++) {
    struct entry *entry = &part.entries[j];
    entry->exists = below(random, 3) == 0;
    for (size_t i = 0; i < N_LIMITS; i++) {
      entry->values[i] = methods_have(&limits[i]) ? choose(random, rarity, N_VALUES) : SILENT;
    }
    const bool retries = below(random, 2) == 0;
    entry->retries = (struct retries){SILENT, SILENT, SILENT};
    if (retries && enforced) {
      entry->retries.attempts = choose(random, 2, 4);
      entry->retries.attempts += entry->retries.attempts >= 0 ? 1 : 0;
      entry->retries.codes = choose(random, 2, 3);
      entry->retries.codes += entry->retries.codes >= 0 ? 1 : 0;
      entry->retries.backoff_s = choose(random, 3, 3);
      entry->retries.backoff_s += entry->retries.backoff_s >= 0 ? 1 : 0;
    } else if (retries) {
      entry->retries = (struct retries){2 + (int)below(random, 3), 1 + (int)below(random, 3),
                                        1 + (int)below(random, 3)};
    }
  }
  return part;
}

/* ---- writing ---- */

static void write_values(struct document_writer *writer, const int *values, const char *object) {
  for (size_t i = 0; i < N_LIMITS; i++) {
    if (strcmp(limits[i].object, object) == 0 && values[i] != SILENT) {
      document_writer_key(writer, limits[i].key);
      document_writer_put(writer, "%s", limits[i].texts[values[i]]);
    }
  }
}

static void write_object(struct document_writer *writer, const int *values, const char *object) {
  document_writer_key(writer, object);
  document_writer_put(writer, "{");
  write_values(writer, values, object);
  document_writer_put(writer, "}");
}

static void write_retries(struct document_writer *writer, const struct retries *retries,
                          bool enforced) {
  if (retries->attempts == SILENT && retries->codes == SILENT && retries->backoff_s == SILENT) {
    return;
  }
  document_writer_key(writer, "retryPolicy");
  document_writer_put(writer, "{");
  if (retries->attempts != SILENT) {
    document_writer_key(writer, "maxAttempts");
    document_writer_put(writer, "%d", retries->attempts);
  }
  if (retries->codes != SILENT) {
    document_writer_key(writer, "retryableStatusCodes");
    document_writer_put(writer, "[%s%s%s]", (retries->codes & 1) != 0 ? "14" : "",
                        retries->codes == 3 ? "," : "", (retries->codes & 2) != 0 ? "10" : "");
  }
  if (retries->backoff_s != SILENT) {
    document_writer_key(writer, "initialBackoff");
    document_writer_put(writer, "\"%ds\"", retries->backoff_s);
  }
  if (!enforced) {
    document_writer_put(writer, ",\"maxBackoff\":\"9s\",\"backoffMultiplier\":2");
  }
  document_writer_put(writer, "}");
}

static void write_part(struct document_writer *writer, const struct part *part, bool enforced) {
  static const char *const objects[] = {"deadline", "breaker", "retry", "fallback"};
  for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++) {
    write_object(writer, part->values, objects[i]);
  }
  document_writer_key(writer, "methodConfig");
  document_writer_put(writer, "[");
  for (size_t j = 0; j < N_NAMES; j++) {
    if (part->entries[j].exists) {
      document_writer_next(writer);
      document_writer_put(writer, "{\"name\":[%s]", names[j]);
      write_values(writer, part->entries[j].values, "");
      write_object(writer, part->entries[j].values, "fallback");
      write_retries(writer, &part->entries[j].retries, enforced);
      document_writer_put(writer, "}");
    }
  }
  document_writer_put(writer, "]");
}

/* ---- what is weaker ---- */

static bool number_is_weaker(enum direction stricter, double number, double bound) {
  switch (stricter) {
  case LESS:
    return number > bound;
  case MORE:
    return number < bound;
  case SAME:
    return number != bound;
  }
  return true;
}

static bool values_are_weaker(const int *stated, const int *enforced) {
  for (size_t i = 0; i < N_LIMITS; i++) {
    if (stated[i] != SILENT && enforced[i] != SILENT &&
        number_is_weaker(limits[i].stricter, limits[i].numbers[stated[i]],
                         limits[i].numbers[enforced[i]])) {
      return true;
    }
  }
  return false;
}

/* A margin of a deadline that is not looked at. */
static bool takes_the_ground(const struct part *stated, const struct part *enforced) {
  bool kept = false;
  bool ignored = false;
  for (size_t i = 0; i < N_LIMITS; i++) {
    kept = kept || (limits[i].read == margin && enforced->values[i] != SILENT);
    ignored = ignored || (limits[i].read == inherits && stated->values[i] != SILENT &&
                          limits[i].numbers[stated->values[i]] == 0);
  }
  return kept && ignored;
}

static bool retries_are_weaker(const struct retries *stated, const struct retries *enforced) {
  return stated->attempts != SILENT &&
         ((enforced->attempts != SILENT && stated->attempts > enforced->attempts) ||
          (enforced->codes != SILENT && (stated->codes & ~enforced->codes) != 0) ||
          (enforced->backoff_s != SILENT && stated->backoff_s < enforced->backoff_s));
}

static bool covers(size_t enforced, const char *prefix) {
  return strncmp(prefixes[enforced], prefix, strlen(prefixes[enforced])) == 0;
}

static bool part_is_weaker(const struct part *stated, const struct part *enforced) {
  bool weaker =
      values_are_weaker(stated->values, enforced->values) || takes_the_ground(stated, enforced);
  /* the fallback of everything's entry is that of the channel */
  weaker = weaker || (enforced->entries[0].exists &&
                      values_are_weaker(stated->values, enforced->entries[0].values));
  for (size_t j = 0; j < N_NAMES; j++) {
    const struct entry *entry = &stated->entries[j];
    weaker = weaker || (entry->exists && values_are_weaker(entry->values, enforced->values));
    for (size_t k = 0; k < N_NAMES && entry->exists; k++) {
      const struct entry *demand = &enforced->entries[k];
      weaker = weaker || (demand->exists && covers(k, prefixes[j]) &&
                          (values_are_weaker(entry->values, demand->values) ||
                           retries_are_weaker(&entry->retries, &demand->retries)));
    }
  }
  return weaker;
}

/* ---- what holds ---- */

static bool values_hold(const weir_policy *policy, const struct weir_method_policy *method,
                        const int *enforced) {
  for (size_t i = 0; i < N_LIMITS; i++) {
    if (enforced[i] != SILENT &&
        number_is_weaker(limits[i].stricter, limits[i].read(policy, method),
                         limits[i].numbers[enforced[i]])) {
      print_message("%s.%s\n", limits[i].object, limits[i].key);
      return false;
    }
  }
  return true;
}

static bool retries_hold(const struct weir_retry_policy *retry, const struct retries *enforced) {
  const uint32_t allowed = enforced->codes == SILENT
                               ? UINT32_MAX
                               : ((enforced->codes & 1) != 0 ? UINT32_C(1) << 14 : 0) |
                                     ((enforced->codes & 2) != 0 ? UINT32_C(1) << 10 : 0);
  return retry->max_attempts == 1 ||
         ((enforced->attempts == SILENT || retry->max_attempts <= (uint32_t)enforced->attempts) &&
          (retry->retryable_codes & ~allowed) == 0 && retry->retryable_codes != 0 &&
          (enforced->backoff_s == SILENT ||
           retry->initial_backoff_ns >= enforced->backoff_s * WEIR_SECOND_NS));
}

static bool policy_holds(const weir_policy *policy, const struct part *enforced) {
  bool holds = true;
  for (size_t m = 0; m < N_METHODS; m++) {
    const struct weir_method_policy *method =
        weir_policy_method(policy, methods[m], strlen(methods[m]));
    holds = holds && values_hold(policy, method, enforced->values);
    for (size_t k = 0; k < N_NAMES; k++) {
      const struct entry *demand = &enforced->entries[k];
      if (demand->exists && covers(k, methods[m])) {
        holds = holds && values_hold(policy, method, demand->values) &&
                retries_hold(&method->retry, &demand->retries);
      }
    }
  }
  return holds;
}

/* A call that the channel does not retry is not retried because something is enforced. */
static bool makes_no_retries(const weir_policy *both, const weir_policy *channel,
                             const weir_policy *organisation) {
  for (size_t m = 0; m < N_METHODS; m++) {
    const size_t size = strlen(methods[m]);
    if (weir_policy_method(both, methods[m], size)->retry.max_attempts > 1 &&
        weir_policy_method(channel, methods[m], size)->retry.max_attempts == 1 &&
        weir_policy_method(organisation, methods[m], size)->retry.max_attempts == 1) {
      return false;
    }
  }
  return true;
}

/* ---- the property ---- */

struct counts {
  size_t n_accepted;
  size_t n_refused;
  size_t n_contradictions;
};

static weir_policy *load(const struct document_writer *writer,
                         const struct weir_allocator *allocator) {
  weir_policy *policy = NULL;
  const enum weir_error error =
      weir_policy_from_json(writer->text, writer->size, NULL, allocator, &policy, NULL);
  assert_true(error == WEIR_OK || error == WEIR_ERROR_INVALID_POLICY);
  return policy;
}

static void try_pair(struct seeded_random *random, struct counts *counts) {
  static struct document_writer over;
  static struct document_writer under;
  struct counting_allocator allocator;
  struct weir_diagnostic diagnostic = {.line = 0};
  weir_policy *both = NULL;
  const unsigned rarity = 4 + below(random, 12);
  const struct part enforced = make_part(random, rarity, true);
  const struct part plain = make_part(random, rarity * 8, false);
  const struct part stated = make_part(random, rarity, false);
  counting_allocator_init(&allocator);
  document_writer_init(&over);
  document_writer_put(&over, "{");
  write_part(&over, &plain, false);
  document_writer_key(&over, "enforce");
  document_writer_put(&over, "{");
  write_part(&over, &enforced, true);
  document_writer_put(&over, "}}");
  document_writer_init(&under);
  document_writer_put(&under, "{");
  write_part(&under, &stated, false);
  document_writer_put(&under, "}");
  weir_policy *organisation = load(&over, &allocator.base);
  weir_policy *channel = load(&under, &allocator.base);
  assert_non_null(channel);
  if (organisation == NULL) {
    counts->n_contradictions++;
  } else {
    const bool weaker = part_is_weaker(&stated, &enforced);
    const enum weir_error error =
        weir_policy_layer(organisation, channel, NULL, &allocator.base, &both, &diagnostic);
    if (part_is_weaker(&plain, &enforced) ||
        error != (weaker ? WEIR_ERROR_INVALID_POLICY : WEIR_OK) ||
        !policy_holds(organisation, &enforced) ||
        (both != NULL &&
         (!policy_holds(both, &enforced) || !makes_no_retries(both, channel, organisation)))) {
      fail_msg("%s (%s: %s)\n%s\n%s", weir_error_name(error), diagnostic.path, diagnostic.message,
               over.text, under.text);
    }
    counts->n_accepted += weaker ? 0 : 1;
    counts->n_refused += weaker ? 1 : 0;
  }
  weir_policy_unref(both);
  weir_policy_unref(organisation);
  weir_policy_unref(channel);
  assert_int_equal(allocator.n_outstanding, 0);
}

static void what_is_enforced_is_never_weakened(void **state) {
  (void)state;
  struct seeded_random random;
  struct counts counts = {.n_accepted = 0};
  seeded_random_init(&random, 6);
  for (size_t i = 0; i < N_PAIRS; i++) {
    try_pair(&random, &counts);
  }
  print_message("%zu accepted, %zu refused, %zu contradict themselves\n", counts.n_accepted,
                counts.n_refused, counts.n_contradictions);
  assert_true(counts.n_accepted > N_PAIRS / 10);
  assert_true(counts.n_refused > N_PAIRS / 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_enforced_is_never_weakened),
  };
  return cmocka_run_group_tests_name("layer_limits_property", tests, NULL, NULL);
}
