/* An organisation's policy over a channel's: what is refused, clamped, and what holds.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <weir/policy.h>

#include "src/policy/policy.h"
#include "src/policy/policy_source.h"
#include "test/support/counting_allocator.h"
#include "test/unit/policy/loaded.h"

/* Two documents and what came of laying them. */
struct laid {
  struct loaded organisation;
  struct loaded channel;
  struct loaded both;
};

static void on_problem(void *context, enum weir_policy_severity severity,
                       const struct weir_diagnostic *problem) {
  struct loaded *loaded = context;
  loaded->n_refused += severity == WEIR_POLICY_REFUSED ? 1 : 0;
  loaded->n_warnings += severity == WEIR_POLICY_WARNING ? 1 : 0;
  if (loaded->n_told < LOADED_TOLD_MAX) {
    loaded->told[loaded->n_told++] = (struct told){.severity = severity, .problem = *problem};
  }
}

static void lay(struct loaded *both, const weir_policy *organisation, const weir_policy *channel) {
  struct weir_policy_load_options options = WEIR_POLICY_LOAD_OPTIONS_INIT;
  memset(both, 0, sizeof *both);
  counting_allocator_init(&both->allocator);
  options.on_problem = on_problem;
  options.context = both;
  both->error = weir_policy_layer(organisation, channel, &options, &both->allocator.base,
                                  &both->policy, &both->diagnostic);
}

static void must_load(struct loaded *loaded, const char *text, enum load_mode mode) {
  loaded_from_text(loaded, text, mode);
  if (loaded->error != WEIR_OK) {
    loaded_print(loaded);
    fail_msg("refused: %s", text);
  }
}

static void lay_texts(struct laid *laid, const char *organisation, const char *channel) {
  must_load(&laid->organisation, organisation, LOAD_STRICT);
  must_load(&laid->channel, channel, LOAD_STRICT);
  lay(&laid->both, laid->organisation.policy, laid->channel.policy);
}

static void laid_fini(struct laid *laid) {
  loaded_fini(&laid->both);
  loaded_fini(&laid->organisation);
  loaded_fini(&laid->channel);
}

static const struct weir_method_policy *method_of(const struct laid *laid, const char *path) {
  assert_non_null(laid->both.policy);
  return loaded_method(&laid->both, path);
}

/* ---- what is refused ---- */

#define RETRIES                                                                           \
  "\"retryPolicy\":{\"maxAttempts\":3,\"initialBackoff\":\"0.1s\",\"maxBackoff\":\"1s\"," \
  "\"backoffMultiplier\":2,\"retryableStatusCodes\":[\"UNAVAILABLE\",\"ABORTED\"]}"
#define SLOW_RETRIES                                                                    \
  "\"retryPolicy\":{\"maxAttempts\":3,\"initialBackoff\":\"2s\",\"maxBackoff\":\"1s\"," \
  "\"backoffMultiplier\":2,\"retryableStatusCodes\":[\"UNAVAILABLE\"]}"
#define METHODS(entry) "{\"methodConfig\":[{" entry "}]}"
#define ENFORCE(what) "{\"enforce\":" what "}"
#define PAY "\"name\":[{\"service\":\"a.Pay\",\"method\":\"Charge\"}]"
#define SERVICE "\"name\":[{\"service\":\"a.Pay\"}]"
#define ALL "\"name\":[{}]"

static const struct {
  const char *why;
  const char *organisation;
  const char *channel;
  const char *path;  /* NULL: it is accepted */
  const char *other; /* in the organisation's document */
} verdicts[] = {
    {"LESS: more is weaker", ENFORCE("{\"deadline\":{\"maxTimeout\":\"5s\"}}"),
     "{\"deadline\":{\"maxTimeout\":\"6s\"}}", "deadline.maxTimeout",
     "enforce.deadline.maxTimeout"},
    {"LESS: the same is accepted", ENFORCE("{\"deadline\":{\"maxTimeout\":\"5s\"}}"),
     "{\"deadline\":{\"maxTimeout\":\"5.0s\"}}", NULL, NULL},
    {"LESS: less is stricter", ENFORCE("{\"deadline\":{\"maxTimeout\":\"5s\"}}"),
     "{\"deadline\":{\"maxTimeout\":\"4s\"}}", NULL, NULL},
    {"nothing said is accepted", ENFORCE("{\"deadline\":{\"maxTimeout\":\"5s\"}}"), "{}", NULL,
     NULL},
    {"null says nothing", ENFORCE("{\"deadline\":{\"maxTimeout\":\"5s\"}}"),
     "{\"deadline\":{\"maxTimeout\":null}}", NULL, NULL},
    {"MORE: less is weaker", ENFORCE("{\"breaker\":{\"openFor\":\"60s\"}}"),
     "{\"breaker\":{\"openFor\":\"59s\"}}", "breaker.openFor", "enforce.breaker.openFor"},
    {"MORE: more is stricter", ENFORCE("{\"breaker\":{\"openFor\":\"60s\"}}"),
     "{\"breaker\":{\"openFor\":\"61s\"}}", NULL, NULL},
    {"TRUE", ENFORCE("{\"translation\":{\"boundary\":true}}"),
     "{\"translation\":{\"boundary\":false}}", "translation.boundary",
     "enforce.translation.boundary"},
    {"FALSE", ENFORCE("{\"fallback\":{\"onFailure\":false}}"),
     "{\"fallback\":{\"onFailure\":true}}", "fallback.onFailure", "enforce.fallback.onFailure"},
    {"SUBSET: another element", ENFORCE("{\"translation\":{\"keepMetadata\":[\"x-a\",\"x-b\"]}}"),
     "{\"translation\":{\"keepMetadata\":[\"x-b\",\"x-c\"]}}", "translation.keepMetadata[1]",
     "enforce.translation.keepMetadata"},
    {"SUBSET: fewer", ENFORCE("{\"translation\":{\"keepMetadata\":[\"x-a\",\"x-b\"]}}"),
     "{\"translation\":{\"keepMetadata\":[\"x-b\"]}}", NULL, NULL},
    {"SUBSET: an empty list allows none", ENFORCE("{\"translation\":{\"keepDetails\":[]}}"),
     "{\"translation\":{\"keepDetails\":[\"google.rpc.RetryInfo\"]}}", "translation.keepDetails[0]",
     "enforce.translation.keepDetails"},
    {"SUBSET: an empty list is within any", ENFORCE("{\"translation\":{\"keepDetails\":[]}}"),
     "{\"translation\":{\"keepDetails\":[]}}", NULL, NULL},
    {"EQUAL: of an enum", ENFORCE("{\"breaker\":{\"scope\":\"METHOD\"}}"),
     "{\"breaker\":{\"scope\":\"SERVICE\"}}", "breaker.scope", "enforce.breaker.scope"},
    {"EQUAL: of a text", ENFORCE("{\"name\":\"edge\"}"), "{\"name\":\"shop\"}", "name",
     "enforce.name"},
    {"EQUAL: of a switch", ENFORCE("{\"breaker\":{\"enabled\":false}}"),
     "{\"breaker\":{\"enabled\":true}}", "breaker.enabled", "enforce.breaker.enabled"},
    {"EACH: another code for one", ENFORCE("{\"translation\":{\"codes\":{\"NOT_FOUND\":13}}}"),
     "{\"translation\":{\"codes\":{\"ABORTED\":2,\"NOT_FOUND\":2}}}", "translation.codes.NOT_FOUND",
     "enforce.translation.codes.NOT_FOUND"},
    {"EACH: other codes are free", ENFORCE("{\"translation\":{\"codes\":{\"NOT_FOUND\":13}}}"),
     "{\"translation\":{\"codes\":{\"ABORTED\":2}}}", NULL, NULL},
    {"an order of its own: NEVER is stricter than OUTERMOST",
     ENFORCE("{\"retry\":{\"owner\":\"OUTERMOST\"}}"), "{\"retry\":{\"owner\":\"NEVER\"}}", NULL,
     NULL},
    {"an order of its own: ALWAYS is weaker", ENFORCE("{\"retry\":{\"owner\":\"OUTERMOST\"}}"),
     "{\"retry\":{\"owner\":\"ALWAYS\"}}", "retry.owner", "enforce.retry.owner"},
    {"0 consecutive failures are no rule", ENFORCE("{\"breaker\":{\"consecutiveFailures\":9}}"),
     "{\"breaker\":{\"consecutiveFailures\":0}}", "breaker.consecutiveFailures",
     "enforce.breaker.consecutiveFailures"},
    {"the throttle", ENFORCE("{\"retryThrottling\":{\"maxTokens\":10,\"tokenRatio\":0.1}}"),
     "{\"retryThrottling\":{\"maxTokens\":10,\"tokenRatio\":0.2}}", "retryThrottling.tokenRatio",
     "enforce.retryThrottling.tokenRatio"},
    {"passed on: but for blanks", ENFORCE("{\"loadBalancingConfig\":[{\"round_robin\":{}}]}"),
     "{\"loadBalancingConfig\": [ { \"round_robin\" : {} } ] }", NULL, NULL},
    {"passed on: escapes, and blanks within a text",
     ENFORCE("{\"loadBalancingConfig\":[{\"a \\\"b\\\\\":{}}]}"),
     "{\"loadBalancingConfig\":[{ \"a \\\"b\\\\\" :{}}]}", NULL, NULL},
    {"passed on: another escape", ENFORCE("{\"loadBalancingConfig\":[{\"a\\\"b\":{}}]}"),
     "{\"loadBalancingConfig\":[{\"a\\\\b\":{}}]}", "loadBalancingConfig",
     "enforce.loadBalancingConfig"},
    {"passed on: another blank within a text",
     ENFORCE("{\"loadBalancingConfig\":[{\"a\\\" b\":{}}]}"),
     "{\"loadBalancingConfig\":[{\"a\\\"b\":{}}]}", "loadBalancingConfig",
     "enforce.loadBalancingConfig"},
    {"passed on: another", ENFORCE("{\"loadBalancingConfig\":[{\"round_robin\":{}}]}"),
     "{\"loadBalancingConfig\":[{\"pick_first\":{}}]}", "loadBalancingConfig",
     "enforce.loadBalancingConfig"},

    /* what takes the ground away */
    {"no boundary under enforced codes",
     ENFORCE("{\"translation\":{\"codes\":{\"NOT_FOUND\":13}}}"),
     "{\"translation\":{\"boundary\":false}}", "translation.boundary", "enforce.translation.codes"},
    {"no boundary under an enforced list", ENFORCE("{\"translation\":{\"keepMetadata\":[]}}"),
     "{\"translation\":{\"boundary\":false}}", "translation.boundary",
     "enforce.translation.keepMetadata"},
    {"a method's boundary, too", ENFORCE("{\"translation\":{\"keepMetadata\":[]}}"),
     METHODS(PAY ",\"translation\":{\"boundary\":false}"), "methodConfig[0].translation.boundary",
     "enforce.translation.keepMetadata"},
    {"a message's length needs no boundary", ENFORCE("{\"translation\":{\"maxMessageBytes\":100}}"),
     "{\"translation\":{\"boundary\":false}}", NULL, NULL},
    {"deadlineExceededAs against an enforced code",
     ENFORCE("{\"translation\":{\"codes\":{\"DEADLINE_EXCEEDED\":\"INTERNAL\"}}}"),
     "{\"translation\":{\"deadlineExceededAs\":\"UNAVAILABLE\"}}", "translation.deadlineExceededAs",
     "enforce.translation.codes.DEADLINE_EXCEEDED"},
    {"deadlineExceededAs as enforced by a code",
     ENFORCE("{\"translation\":{\"codes\":{\"DEADLINE_EXCEEDED\":\"INTERNAL\"}}}"),
     "{\"translation\":{\"deadlineExceededAs\":\"INTERNAL\"}}", NULL, NULL},
    {"a code against an enforced deadlineExceededAs",
     ENFORCE("{\"translation\":{\"deadlineExceededAs\":\"INTERNAL\"}}"),
     METHODS(PAY ",\"translation\":{\"codes\":{\"DEADLINE_EXCEEDED\":\"UNKNOWN\"}}"),
     "methodConfig[0].translation.codes.DEADLINE_EXCEEDED",
     "enforce.translation.deadlineExceededAs"},
    {"a breaker that is off", ENFORCE("{\"breaker\":{\"failureRatio\":0.5}}"),
     "{\"breaker\":{\"enabled\":false}}", "breaker.enabled", "enforce.breaker.failureRatio"},
    {"a breaker that only counts", ENFORCE("{\"breaker\":{\"enabled\":true}}"),
     "{\"breaker\":{\"mode\":\"SHADOW\"}}", "breaker.mode", "enforce.breaker.enabled"},
    {"a breaker that only counts, as enforced", ENFORCE("{\"breaker\":{\"mode\":\"SHADOW\"}}"),
     "{\"breaker\":{\"mode\":\"SHADOW\"}}", NULL, NULL},
    {"a cap below the enforced open time", ENFORCE("{\"breaker\":{\"openFor\":\"60s\"}}"),
     "{\"breaker\":{\"maxOpenFor\":\"45s\"}}", "breaker.maxOpenFor", "enforce.breaker.openFor"},
    {"a margin of a deadline that is not looked at",
     ENFORCE("{\"deadline\":{\"deadlineMargin\":\"0.01s\"}}"),
     "{\"deadline\":{\"inheritsParent\":false}}", "deadline.inheritsParent",
     "enforce.deadline.deadlineMargin"},

    /* methods */
    {"a ban on a service's retries",
     ENFORCE(METHODS(SERVICE ",\"retryPolicy\":{\"maxAttempts\":1}")), METHODS(PAY "," RETRIES),
     "methodConfig[0].retryPolicy.maxAttempts", "enforce.methodConfig[0].retryPolicy.maxAttempts"},
    {"a ban, and no retries there",
     ENFORCE(METHODS(SERVICE ",\"retryPolicy\":{\"maxAttempts\":1}")),
     METHODS("\"name\":[{\"service\":\"a.Search\"}]," RETRIES), NULL, NULL},
    {"a ban, and a broader entry", ENFORCE(METHODS(PAY ",\"retryPolicy\":{\"maxAttempts\":1}")),
     METHODS(SERVICE "," RETRIES), NULL, NULL},
    {"a limit on all retries",
     ENFORCE(METHODS(
         ALL ",\"retryPolicy\":{\"maxAttempts\":3,\"retryableStatusCodes\":[\"UNAVAILABLE\"]}")),
     METHODS(PAY "," RETRIES), "methodConfig[0].retryPolicy.retryableStatusCodes[1]",
     "enforce.methodConfig[0].retryPolicy.retryableStatusCodes"},
    {"more attempts than there can be are as many as there can be",
     ENFORCE(METHODS(ALL ",\"retryPolicy\":{\"maxAttempts\":5}")),
     METHODS(PAY ",\"retryPolicy\":{\"maxAttempts\":9,\"initialBackoff\":\"0.1s\",\"maxBackoff\":"
                 "\"1s\",\"backoffMultiplier\":2,\"retryableStatusCodes\":[14]}"),
     NULL, NULL},
    {"a timeout on everything", ENFORCE(METHODS(ALL ",\"timeout\":\"2s\"")),
     METHODS(SERVICE ",\"timeout\":\"3s\""), "methodConfig[0].timeout",
     "enforce.methodConfig[0].timeout"},
    {"a timeout on a method, under a broader entry", ENFORCE(METHODS(PAY ",\"timeout\":\"2s\"")),
     METHODS(SERVICE ",\"timeout\":\"3s\""), NULL, NULL},
    {"an enforced ceiling clamps a timeout", ENFORCE("{\"deadline\":{\"maxTimeout\":\"2s\"}}"),
     METHODS(SERVICE ",\"timeout\":\"3s\""), NULL, NULL},
    {"the whole channel against everything's entry",
     ENFORCE(METHODS(ALL ",\"translation\":{\"boundary\":true}")),
     "{\"translation\":{\"boundary\":false}}", "translation.boundary",
     "enforce.methodConfig[0].translation.boundary"},
    {"a method's own fallback", ENFORCE("{\"fallback\":{\"onRefusal\":false}}"),
     METHODS(PAY ",\"fallback\":{\"onRefusal\":true}"), "methodConfig[0].fallback.onRefusal",
     "enforce.fallback.onRefusal"},
    {"what is called idempotent", ENFORCE(METHODS(PAY ",\"idempotent\":false")),
     METHODS(PAY ",\"idempotent\":true"), "methodConfig[0].idempotent",
     "enforce.methodConfig[0].idempotent"},
    {"an entry without a name holds for nothing", ENFORCE(METHODS(ALL ",\"timeout\":\"2s\"")),
     METHODS("\"timeout\":\"3s\""), NULL, NULL},

    {"a channel that enforces", "{}", ENFORCE("{}"), "enforce", ""},
    {"ground: a first backoff, and a ceiling below it",
     ENFORCE(METHODS(ALL ",\"retryPolicy\":{\"initialBackoff\":\"1.5s\"}")),
     METHODS(PAY "," SLOW_RETRIES), "methodConfig[0].retryPolicy.maxBackoff",
     "enforce.methodConfig[0].retryPolicy.initialBackoff"},
    {"ground: a balancer by its name, and a config that comes first",
     ENFORCE("{\"loadBalancingPolicy\":\"pick_first\"}"),
     "{\"loadBalancingConfig\":[{\"round_robin\":{}}]}", "loadBalancingConfig",
     "enforce.loadBalancingPolicy"},
    {"a balancer's name beside an enforced config means nothing",
     ENFORCE("{\"loadBalancingPolicy\":\"pick_first\",\"loadBalancingConfig\":[{\"x\":{}}]}"),
     "{\"loadBalancingConfig\":[{\"x\":{}}]}", NULL, NULL},
    {"a plain value is a default", "{\"translation\":{\"boundary\":true}}",
     "{\"translation\":{\"boundary\":false}}", NULL, NULL},
};

static void tells_what_is_weaker_and_where(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++) {
    struct laid laid;
    lay_texts(&laid, verdicts[i].organisation, verdicts[i].channel);
    const bool refused = verdicts[i].path != NULL;
    if (laid.both.error != (refused ? WEIR_ERROR_INVALID_POLICY : WEIR_OK) ||
        laid.both.n_refused != (refused ? 1 : 0)) {
      loaded_print(&laid.both);
      fail_msg("%s: %s", verdicts[i].why, weir_error_name(laid.both.error));
    }
    if (refused && (strcmp(laid.both.diagnostic.path, verdicts[i].path) != 0 ||
                    strcmp(laid.both.diagnostic.other_path, verdicts[i].other) != 0)) {
      fail_msg("%s: %s against %s", verdicts[i].why, laid.both.diagnostic.path,
               laid.both.diagnostic.other_path);
    }
    if (refused) {
      assert_int_equal(laid.both.diagnostic.line, 1);
      assert_int_equal(laid.both.diagnostic.other_line, verdicts[i].other[0] != '\0' ? 1 : 0);
    }
    laid_fini(&laid);
  }
}

/* ---- what holds ---- */

static void a_broader_entry_makes_way_for_the_methods_that_are_enforced(void **state) {
  (void)state;
  struct laid laid;
  lay_texts(&laid,
            ENFORCE("{\"methodConfig\":[{" PAY
                    ",\"retryPolicy\":{\"maxAttempts\":1},\"timeout\":\"2s\"},{" SERVICE
                    ",\"retryPolicy\":{\"retryableStatusCodes\":[\"ABORTED\"]}}]}"),
            METHODS(ALL ",\"timeout\":\"3s\"," RETRIES));
  assert_int_equal(laid.both.error, WEIR_OK);
  const struct weir_method_policy *charge = method_of(&laid, "/a.Pay/Charge");
  const struct weir_method_policy *refund = method_of(&laid, "/a.Pay/Refund");
  const struct weir_method_policy *search = method_of(&laid, "/a.Search/Find");
  assert_int_equal(charge->timeout_ns, 2 * WEIR_SECOND_NS);
  assert_int_equal(charge->retry.max_attempts, 1);
  assert_int_equal(refund->timeout_ns, 3 * WEIR_SECOND_NS);
  assert_int_equal(refund->retry.max_attempts, 3);
  assert_int_equal(refund->retry.retryable_codes, 1 << 10);
  assert_int_equal(search->retry.retryable_codes, 1 << 10 | 1 << 14);
  laid_fini(&laid);
}

static void an_enforced_first_backoff_is_not_cut(void **state) {
  (void)state;
  struct laid laid;
  lay_texts(&laid,
            ENFORCE("{\"methodConfig\":[{" PAY
                    ",\"retryPolicy\":{\"initialBackoff\":\"1.5s\"}},{" SERVICE
                    ",\"retryPolicy\":{\"maxBackoff\":\"0.5s\"}}]}"),
            METHODS(ALL "," SLOW_RETRIES));
  assert_int_equal(laid.both.error, WEIR_OK);
  const struct weir_method_policy *charge = method_of(&laid, "/a.Pay/Charge");
  assert_int_equal(charge->retry.initial_backoff_ns, 2 * WEIR_SECOND_NS);
  assert_int_equal(charge->retry.max_backoff_ns, 1500 * WEIR_MS_NS);
  assert_int_equal(method_of(&laid, "/a.Pay/Refund")->retry.max_backoff_ns, WEIR_SECOND_NS);
  laid_fini(&laid);
}

/* ---- ceilings ---- */

static const struct {
  const char *why;
  const char *organisation;
  const char *channel;
  const char *path; /* of the warning; NULL: there is none */
  uint32_t replay_bytes;
  uint32_t message_bytes;
  int64_t max_timeout_ns;
} ceilings[] = {
    {"the lower one is the organisation's",
     "{\"retry\":{\"replayBytes\":100},\"translation\":{\"maxMessageBytes\":100}}",
     "{\"retry\":{\"replayBytes\":200},\"translation\":{\"maxMessageBytes\":90}}",
     "retry.replayBytes", 100, 90, 60 * WEIR_SECOND_NS},
    {"the organisation's alone, above the default", "{\"deadline\":{\"maxTimeout\":\"90s\"}}", "{}",
     NULL, 262144, 1024, 90 * WEIR_SECOND_NS},
    {"the channel's alone", "{}", "{\"deadline\":{\"maxTimeout\":\"90s\"}}", NULL, 262144, 1024,
     90 * WEIR_SECOND_NS},
    {"a method's own", "{\"translation\":{\"maxMessageBytes\":100}}",
     METHODS(PAY ",\"translation\":{\"maxMessageBytes\":200}"),
     "methodConfig[0].translation.maxMessageBytes", 262144, 100, 60 * WEIR_SECOND_NS},
};

static void of_two_ceilings_the_lower_one_holds(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof ceilings / sizeof ceilings[0]; i++) {
    struct laid laid;
    lay_texts(&laid, ceilings[i].organisation, ceilings[i].channel);
    const struct weir_method_policy *charge = method_of(&laid, "/a.Pay/Charge");
    if (charge->retry_options->replay_bytes != ceilings[i].replay_bytes ||
        charge->translation->max_message_bytes != ceilings[i].message_bytes ||
        charge->deadline->max_timeout_ns != ceilings[i].max_timeout_ns ||
        laid.both.n_warnings != (ceilings[i].path != NULL ? 1 : 0)) {
      loaded_print(&laid.both);
      fail_msg("%s", ceilings[i].why);
    }
    if (ceilings[i].path != NULL) {
      assert_non_null(loaded_told(&laid.both, ceilings[i].path));
    }
    laid_fini(&laid);
  }
}

static void a_timeout_above_an_enforced_ceiling_is_warned_of(void **state) {
  (void)state;
  struct laid laid;
  lay_texts(&laid, ENFORCE("{\"deadline\":{\"maxTimeout\":\"2s\"}}"),
            METHODS(PAY ",\"timeout\":\"3s\""));
  const struct told *told = loaded_told(&laid.both, "methodConfig[0].timeout");
  assert_non_null(told);
  assert_int_equal(told->severity, WEIR_POLICY_WARNING);
  assert_string_equal(told->problem.other_path, "enforce.deadline.maxTimeout");
  assert_int_equal(method_of(&laid, "/a.Pay/Charge")->deadline->max_timeout_ns, 2 * WEIR_SECOND_NS);
  laid_fini(&laid);
}

/* ---- both lists of methods ---- */

static void of_two_entries_with_one_name_the_channels_stands_whole(void **state) {
  (void)state;
  struct laid laid;
  lay_texts(&laid, METHODS(PAY "," RETRIES "},{" SERVICE ",\"timeout\":\"4s\""),
            METHODS(PAY ",\"timeout\":\"3s\""));
  const struct weir_method_policy *charge = method_of(&laid, "/a.Pay/Charge");
  assert_int_equal(charge->timeout_ns, 3 * WEIR_SECOND_NS);
  assert_int_equal(charge->retry.max_attempts, 1);
  assert_int_equal(method_of(&laid, "/a.Pay/Refund")->timeout_ns, 4 * WEIR_SECOND_NS);
  laid_fini(&laid);
}

static void codes_of_both_make_one_table(void **state) {
  (void)state;
  struct laid laid;
  lay_texts(&laid, "{\"translation\":{\"codes\":{\"NOT_FOUND\":13,\"ABORTED\":13}}}",
            "{\"translation\":{\"codes\":{\"NOT_FOUND\":2}}}");
  const struct weir_translation_options *translation =
      method_of(&laid, "/a.Pay/Charge")->translation;
  assert_int_equal(translation->codes[5], 2);
  assert_int_equal(translation->codes[10], 13);
  laid_fini(&laid);
}

static void what_is_passed_on_is_the_channels_or_else_the_organisations(void **state) {
  (void)state;
  struct laid laid;
  lay_texts(
      &laid,
      "{\"loadBalancingPolicy\":\"round_robin\",\"healthCheckConfig\":{\"serviceName\":\"s\"}}",
      "{\"loadBalancingPolicy\":\"pick_first\"}");
  assert_string_equal(weir__policy_core_service_config(laid.both.policy),
                      "{\"loadBalancingPolicy\":\"pick_first\",\"healthCheckConfig\":{"
                      "\"serviceName\":\"s\"}}");
  laid_fini(&laid);
}

/* ---- one document that enforces ---- */

static const struct {
  const char *why;
  const char *text;
  const char *path; /* NULL: it is accepted */
  const char *other;
} alone[] = {
    {"weaker than what it enforces",
     "{\"deadline\":{\"maxTimeout\":\"9s\"},\"enforce\":{\"deadline\":{\"maxTimeout\":\"5s\"}}}",
     "deadline.maxTimeout", "enforce.deadline.maxTimeout"},
    {"stricter",
     "{\"deadline\":{\"maxTimeout\":\"4s\"},\"enforce\":{\"deadline\":{\"maxTimeout\":"
     "\"5s\"}}}",
     NULL, NULL},
    {"enforced twice, without an order",
     ENFORCE("{\"methodConfig\":[{" ALL ",\"waitForReady\":true},{" PAY
             ",\"waitForReady\":false}]}"),
     "enforce.methodConfig[1].waitForReady", "enforce.methodConfig[0].waitForReady"},
    {"enforced twice, the other way round",
     ENFORCE("{\"methodConfig\":[{" PAY ",\"waitForReady\":true},{" ALL
             ",\"waitForReady\":false}]}"),
     "enforce.methodConfig[0].waitForReady", "enforce.methodConfig[1].waitForReady"},
    {"enforced twice of one name",
     ENFORCE("{\"methodConfig\":[{" PAY ",\"waitForReady\":true},{" PAY
             ",\"waitForReady\":false}]}"),
     "enforce.methodConfig[1].waitForReady", "enforce.methodConfig[0].waitForReady"},
    {"enforced twice, the tighter one holds",
     ENFORCE("{\"methodConfig\":[{" ALL ",\"timeout\":\"5s\"},{" PAY ",\"timeout\":\"9s\"}]}"),
     NULL, NULL},
    {"codes enforced for all and for some",
     ENFORCE("{\"translation\":{\"codes\":{\"NOT_FOUND\":13}},\"methodConfig\":[{" PAY
             ",\"translation\":{\"codes\":{\"NOT_FOUND\":2}}}]}"),
     "enforce.methodConfig[0].translation.codes.NOT_FOUND", "enforce.translation.codes.NOT_FOUND"},
    {"a breaker that is off, and its numbers",
     ENFORCE("{\"breaker\":{\"enabled\":false,\"failureRatio\":0.5}}"), "enforce.breaker.enabled",
     "enforce.breaker.failureRatio"},
    {"codes without a boundary",
     ENFORCE("{\"translation\":{\"boundary\":false,\"keepDetails\":[]}}"),
     "enforce.translation.boundary", "enforce.translation.keepDetails"},
    {"enforce in enforce", ENFORCE(ENFORCE("{}")), "enforce.enforce", ""},
    {"an unknown key in there", ENFORCE("{\"deadlin\":{}}"), "enforce.deadlin", ""},
    {"a value out of range in there", ENFORCE("{\"fallback\":{\"maxConcurrent\":0}}"),
     "enforce.fallback.maxConcurrent", ""},
    {"no attempts at all", ENFORCE(METHODS(PAY ",\"retryPolicy\":{\"maxAttempts\":0}")),
     "enforce.methodConfig[0].retryPolicy.maxAttempts", ""},
    {"half a throttle", ENFORCE("{\"retryThrottling\":{\"maxTokens\":5}}"),
     "enforce.retryThrottling.tokenRatio", ""},
    {"a cap that is too low for the default", ENFORCE("{\"breaker\":{\"maxOpenFor\":\"1s\"}}"),
     NULL, NULL},
    {"names that the plain part has as well",
     "{\"methodConfig\":[{" PAY "}],\"enforce\":{\"methodConfig\":[{" PAY "},{" PAY "}]}}", NULL,
     NULL},
    {"null is nothing", "{\"enforce\":null}", NULL, NULL},
};

static void a_document_must_not_contradict_what_it_enforces(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof alone / sizeof alone[0]; i++) {
    struct loaded loaded;
    const bool refused = alone[i].path != NULL;
    loaded_from_text(&loaded, alone[i].text, LOAD_STRICT);
    if (loaded.error != (refused ? WEIR_ERROR_INVALID_POLICY : WEIR_OK) ||
        loaded.n_refused != (refused ? 1 : 0) ||
        (refused && (strcmp(loaded.diagnostic.path, alone[i].path) != 0 ||
                     strcmp(loaded.diagnostic.other_path, alone[i].other) != 0))) {
      loaded_print(&loaded);
      fail_msg("%s: %s", alone[i].why, weir_error_name(loaded.error));
    }
    loaded_fini(&loaded);
  }
}

/* With thousands of them a document would be looked at for minutes. */
static void a_name_stands_in_64_entries_that_enforce_at_most(void **state) {
  (void)state;
  for (size_t n = 64; n <= 66; n++) {
    char text[4096] = "{\"enforce\":{\"methodConfig\":[{\"name\":[{\"service\":\"a.S\"}]}";
    struct loaded loaded;
    for (size_t i = 0; i < n; i++) {
      strcat(text, ",{\"name\":[{\"service\":\"a.T\"},{}]}");
    }
    strcat(text, "]}}");
    loaded_from_text(&loaded, text, LOAD_STRICT);
    assert_int_equal(loaded.n_refused, n == 64 ? 0 : 2);
    if (n > 64) {
      assert_string_equal(loaded.diagnostic.path, "enforce.methodConfig[65].name[0]");
      assert_true(loaded.diagnostic.column > 0);
    }
    loaded_fini(&loaded);
  }
}

static void a_document_alone_is_in_force_as_it_stands(void **state) {
  (void)state;
  struct loaded loaded;
  loaded_from_text(&loaded,
                   "{\"breaker\":{\"openFor\":\"700s\"},\"enforce\":{\"deadline\":{\"maxTimeout\":"
                   "\"5s\"},\"breaker\":{\"maxOpenFor\":\"600s\"},\"methodConfig\":[{" PAY
                   ",\"maxRequestMessageBytes\":7}]}}",
                   LOAD_STRICT);
  assert_int_equal(loaded.error, WEIR_OK);
  const struct weir_method_policy *charge = loaded_method(&loaded, "/a.Pay/Charge");
  assert_int_equal(charge->deadline->max_timeout_ns, 5 * WEIR_SECOND_NS);
  assert_int_equal(charge->max_request_bytes, 7);
  assert_int_equal(weir__policy_breaker(loaded.policy)->max_open_for_ns, 700 * WEIR_SECOND_NS);
  loaded_fini(&loaded);
}

static void what_enforces_nothing_is_warned_of(void **state) {
  (void)state;
  struct loaded loaded;
  loaded_from_text(
      &loaded,
      ENFORCE("{\"translation\":{\"boundary\":false},\"retry\":{\"owner\":\"ALWAYS\"},"
              "\"methodConfig\":[{" PAY
              ",\"idempotent\":true,\"fallback\":{\"onFailure\":true,\"onRefusal\":false}}]}"),
      LOAD_STRICT);
  assert_int_equal(loaded.error, WEIR_OK);
  assert_int_equal(loaded.n_warnings, 4);
  assert_non_null(loaded_told(&loaded, "enforce.methodConfig[0].idempotent"));
  assert_non_null(loaded_told(&loaded, "enforce.methodConfig[0].fallback.onFailure"));
  assert_non_null(loaded_told(&loaded, "enforce.translation.boundary"));
  loaded_fini(&loaded);
}

/* ---- all at once ---- */

static void every_problem_is_told(void **state) {
  (void)state;
  struct laid laid;
  lay_texts(&laid,
            ENFORCE("{\"deadline\":{\"maxTimeout\":\"5s\"},\"breaker\":{\"enabled\":true},"
                    "\"methodConfig\":[{" SERVICE ",\"retryPolicy\":{\"maxAttempts\":1}}]}"),
            "{\"deadline\":{\"maxTimeout\":\"6s\"},\"breaker\":{\"enabled\":false},"
            "\"methodConfig\":[{" PAY "," RETRIES "},{" SERVICE "," RETRIES "}]}");
  assert_int_equal(laid.both.error, WEIR_ERROR_INVALID_POLICY);
  assert_int_equal(laid.both.n_refused, 4);
  assert_non_null(loaded_told(&laid.both, "deadline.maxTimeout"));
  assert_non_null(loaded_told(&laid.both, "breaker.enabled"));
  assert_non_null(loaded_told(&laid.both, "methodConfig[0].retryPolicy.maxAttempts"));
  assert_non_null(loaded_told(&laid.both, "methodConfig[1].retryPolicy.maxAttempts"));
  laid_fini(&laid);
}

static void an_entry_with_many_names_is_told_of_once(void **state) {
  (void)state;
  struct laid laid;
  lay_texts(
      &laid, ENFORCE(METHODS(ALL ",\"timeout\":\"1s\"")),
      METHODS("\"name\":[{\"service\":\"a.A\"},{\"service\":\"a.B\"},{}],\"timeout\":\"2s\""));
  assert_int_equal(laid.both.n_refused, 1);
  laid_fini(&laid);
}

/* ---- sources ---- */

static void a_policy_keeps_what_it_was_read_from(void **state) {
  (void)state;
  struct laid laid;
  must_load(&laid.organisation, "{ }", LOAD_STRICT);
  loaded_from_file(&laid.channel, "several_names.json", LOAD_STRICT);
  lay(&laid.both, laid.organisation.policy, laid.channel.policy);
  const struct weir__policy_sources *own = weir__policy_sources_of(laid.channel.policy);
  const struct weir__policy_sources *both = weir__policy_sources_of(laid.both.policy);
  assert_string_equal(own->own->file_name, "test/unit/policy/testdata/several_names.json");
  assert_ptr_equal(both->own, own->own);
  assert_int_equal(both->organisation->size, 3);
  assert_memory_equal(both->organisation->text, "{ }", 3);
  assert_true(both->layered);
  assert_false(own->layered);
  laid_fini(&laid);
}

static void what_was_read_leniently_is_so_again(void **state) {
  (void)state;
  struct laid laid;
  must_load(&laid.organisation, "{}", LOAD_STRICT);
  must_load(&laid.channel, "{\"unknown\":1}", LOAD_LENIENT);
  lay(&laid.both, laid.organisation.policy, laid.channel.policy);
  assert_int_equal(laid.both.error, WEIR_OK);
  assert_int_equal(laid.both.n_warnings, 1);
  laid_fini(&laid);
}

static void a_layered_policy_is_layered_no_more(void **state) {
  (void)state;
  struct laid laid;
  struct loaded again;
  lay_texts(&laid, "{}", "{}");
  lay(&again, laid.organisation.policy, laid.both.policy);
  assert_int_equal(again.error, WEIR_ERROR_INVALID_ARGUMENT);
  lay(&again, laid.both.policy, laid.channel.policy);
  assert_int_equal(again.error, WEIR_ERROR_INVALID_ARGUMENT);
  lay(&again, NULL, laid.channel.policy);
  assert_int_equal(again.error, WEIR_ERROR_INVALID_ARGUMENT);
  laid_fini(&laid);
}

/* ---- made in code ---- */

static weir_policy *in_code(struct loaded *loaded, const struct weir_policy_options *options) {
  memset(loaded, 0, sizeof *loaded);
  counting_allocator_init(&loaded->allocator);
  assert_int_equal(
      weir_policy_new(options, &loaded->allocator.base, &loaded->policy, &loaded->diagnostic),
      WEIR_OK);
  return loaded->policy;
}

static void code_states_what_differs_from_the_defaults(void **state) {
  (void)state;
  struct laid laid;
  struct weir_policy_options options = WEIR_POLICY_OPTIONS_INIT;
  struct weir_breaker_options breaker = WEIR_BREAKER_OPTIONS_INIT;
  struct weir_translation_options own = WEIR_TRANSLATION_OPTIONS_INIT;
  struct weir_method_options method = WEIR_METHOD_OPTIONS_INIT;
  breaker.failure_ratio = 0.7;
  own.codes[10] = 2;
  method.service = "a.Pay";
  method.translation = &own;
  method.timeout_ns = 3 * WEIR_SECOND_NS;
  options.breaker = &breaker;
  options.methods = &method;
  options.n_methods = 1;
  options.core_service_config = "{\"loadBalancingPolicy\":\"pick_first\",\"other\":{\"a\":1}}";
  must_load(&laid.organisation,
            "{\"loadBalancingPolicy\":\"round_robin\",\"healthCheckConfig\":{},"
            "\"enforce\":{\"translation\":{\"maxMessageBytes\":512},"
            "\"breaker\":{\"failureRatio\":0.8,\"minRequests\":4},"
            "\"deadline\":{\"maxTimeout\":\"5s\"}}}",
            LOAD_STRICT);
  lay(&laid.both, laid.organisation.policy, in_code(&laid.channel, &options));
  if (laid.both.error != WEIR_OK) {
    loaded_print(&laid.both);
  }
  const struct weir_method_policy *charge = method_of(&laid, "/a.Pay/Charge");
  assert_int_equal(charge->timeout_ns, 3 * WEIR_SECOND_NS);
  assert_int_equal(charge->translation->codes[10], 2);
  assert_int_equal(charge->translation->max_message_bytes, 512);
  assert_int_equal(charge->deadline->max_timeout_ns, 5 * WEIR_SECOND_NS);
  assert_true(weir__policy_breaker(laid.both.policy)->failure_ratio == 0.7);
  assert_int_equal(weir__policy_breaker(laid.both.policy)->min_requests, 4);
  assert_string_equal(weir__policy_core_service_config(laid.both.policy),
                      "{\"loadBalancingPolicy\":\"pick_first\",\"healthCheckConfig\":{},"
                      "\"other\":{\"a\":1}}");
  laid_fini(&laid);
}

static void code_that_is_weaker_is_refused_without_a_line(void **state) {
  (void)state;
  struct laid laid;
  struct weir_policy_options options = WEIR_POLICY_OPTIONS_INIT;
  struct weir_deadline_options deadline = WEIR_DEADLINE_OPTIONS_INIT;
  deadline.max_timeout_ns = 9 * WEIR_SECOND_NS;
  options.deadline = &deadline;
  must_load(&laid.organisation, ENFORCE("{\"deadline\":{\"maxTimeout\":\"5s\"}}"), LOAD_STRICT);
  lay(&laid.both, laid.organisation.policy, in_code(&laid.channel, &options));
  assert_int_equal(laid.both.error, WEIR_ERROR_INVALID_POLICY);
  assert_string_equal(laid.both.diagnostic.path, "deadline.maxTimeout");
  assert_int_equal(laid.both.diagnostic.line, 0);
  assert_int_equal(laid.both.diagnostic.other_line, 1);
  laid_fini(&laid);
}

static void what_code_gives_the_core_is_told_apart_by_its_keys(void **state) {
  (void)state;
  struct laid laid;
  struct weir_policy_options options = WEIR_POLICY_OPTIONS_INIT;
  options.core_service_config = "{\"one\":1,\"loadBalancingPolicy\":\"pick_first\",\"two\":[2]}";
  must_load(&laid.organisation, "{\"healthCheckConfig\":{}}", LOAD_STRICT);
  lay(&laid.both, laid.organisation.policy, in_code(&laid.channel, &options));
  assert_int_equal(laid.both.error, WEIR_OK);
  assert_string_equal(weir__policy_core_service_config(laid.both.policy),
                      "{\"loadBalancingPolicy\":\"pick_first\",\"healthCheckConfig\":{},"
                      "\"one\":1,\"two\":[2]}");
  laid_fini(&laid);
}

/* Whose problem it is, the message says where it is the organisation's. */
static void what_code_gives_the_core_must_be_an_object(void **state) {
  (void)state;
  struct laid laid;
  struct loaded other;
  struct weir_policy_options options = WEIR_POLICY_OPTIONS_INIT;
  options.core_service_config = "[1]";
  must_load(&laid.organisation, "{}", LOAD_STRICT);
  lay(&laid.both, laid.organisation.policy, in_code(&laid.channel, &options));
  assert_int_equal(laid.both.error, WEIR_ERROR_INVALID_POLICY);
  assert_string_equal(laid.both.diagnostic.path, "core_service_config");
  assert_string_equal(laid.both.diagnostic.message,
                      "must be a JSON object, to be laid over another");

  lay(&other, laid.channel.policy, laid.organisation.policy);
  assert_int_equal(other.error, WEIR_ERROR_INVALID_POLICY);
  assert_string_equal(other.diagnostic.message,
                      "in the organisation's document: must be a JSON object, to be laid over "
                      "another");
  loaded_fini(&other);
  laid_fini(&laid);
}

/* As many keys as the channel's, or the very same. */
static void a_method_in_code_may_keep_other_metadata(void **state) {
  (void)state;
  static const char *const of_channel[] = {"a", "b"};
  static const char *const of_method[] = {"b", "c"};
  static const char *const in_other_order[] = {"b", "a"};
  struct laid laid;
  struct weir_policy_options options = WEIR_POLICY_OPTIONS_INIT;
  struct weir_translation_options whole = WEIR_TRANSLATION_OPTIONS_INIT;
  struct weir_translation_options own = WEIR_TRANSLATION_OPTIONS_INIT;
  struct weir_translation_options same = WEIR_TRANSLATION_OPTIONS_INIT;
  struct weir_method_options methods[] = {WEIR_METHOD_OPTIONS_INIT, WEIR_METHOD_OPTIONS_INIT};
  whole.keep_metadata = of_channel;
  own.keep_metadata = of_method;
  same.keep_metadata = in_other_order;
  whole.n_keep_metadata = own.n_keep_metadata = same.n_keep_metadata = 2;
  methods[0].service = "a.Pay";
  methods[0].translation = &own;
  methods[1].service = "a.Ship";
  methods[1].translation = &same;
  options.translation = &whole;
  options.methods = methods;
  options.n_methods = 2;
  must_load(&laid.organisation, "{}", LOAD_STRICT);
  lay(&laid.both, laid.organisation.policy, in_code(&laid.channel, &options));
  assert_int_equal(laid.both.error, WEIR_OK);
  const struct weir_translation_options *pay = method_of(&laid, "/a.Pay/Charge")->translation;
  assert_int_equal(pay->n_keep_metadata, 2);
  assert_string_equal(pay->keep_metadata[1], "c");
  assert_int_equal(method_of(&laid, "/a.Ship/Send")->translation->n_keep_metadata, 2);
  laid_fini(&laid);
}

/* What is built in can be a method's own where the channel has something else. */
static void a_method_in_code_may_undo_the_channels_codes(void **state) {
  (void)state;
  struct laid laid;
  struct weir_policy_options options = WEIR_POLICY_OPTIONS_INIT;
  struct weir_translation_options whole = WEIR_TRANSLATION_OPTIONS_INIT;
  struct weir_translation_options own = WEIR_TRANSLATION_OPTIONS_INIT;
  struct weir_method_options method = WEIR_METHOD_OPTIONS_INIT;
  whole.codes[10] = 2;
  whole.deadline_exceeded_as = 13;
  method.translation = &own;
  options.translation = &whole;
  options.methods = &method;
  options.n_methods = 1;
  must_load(&laid.organisation, "{}", LOAD_STRICT);
  lay(&laid.both, laid.organisation.policy, in_code(&laid.channel, &options));
  const struct weir_method_policy *charge = method_of(&laid, "/a.Pay/Charge");
  assert_int_equal(charge->translation->codes[10], WEIR_TRANSLATION_DEFAULT);
  assert_int_equal(charge->translation->deadline_exceeded_as, WEIR_TRANSLATION_DEFAULT);
  laid_fini(&laid);
}

static void no_channel_is_one_that_says_nothing(void **state) {
  (void)state;
  struct laid laid;
  must_load(&laid.organisation, "{\"name\":\"edge\",\"enforce\":{\"breaker\":{\"probes\":1}}}",
            LOAD_STRICT);
  lay(&laid.both, laid.organisation.policy, NULL);
  assert_int_equal(laid.both.error, WEIR_OK);
  assert_string_equal(weir__policy_name(laid.both.policy), "edge");
  assert_int_equal(weir__policy_breaker(laid.both.policy)->probes, 1);
  assert_null(weir__policy_sources_of(laid.both.policy)->own);
  loaded_fini(&laid.both);
  loaded_fini(&laid.organisation);
}

static void parts_that_do_not_fit_each_other_are_refused(void **state) {
  (void)state;
  struct laid laid;
  lay_texts(&laid, "{\"breaker\":{\"windowBuckets\":60}}", "{\"breaker\":{\"window\":\"0.02s\"}}");
  assert_int_equal(laid.both.error, WEIR_ERROR_INVALID_POLICY);
  assert_string_equal(laid.both.diagnostic.path, "breaker.window");
  assert_string_equal(laid.both.diagnostic.other_path, "breaker.windowBuckets");
  laid_fini(&laid);
  lay_texts(&laid, "{\n\"enforce\":{\"breaker\":{\"window\":\"0.02s\"}}}",
            "{\"breaker\":\n\n{\"windowBuckets\":60}}");
  assert_int_equal(laid.both.error, WEIR_ERROR_INVALID_POLICY);
  assert_string_equal(laid.both.diagnostic.path, "breaker.windowBuckets");
  assert_int_equal(laid.both.diagnostic.line, 3);
  assert_string_equal(laid.both.diagnostic.other_path, "enforce.breaker.window");
  assert_int_equal(laid.both.diagnostic.other_line, 2);
  laid_fini(&laid);
  lay_texts(&laid, "{\"breaker\":{\"openFor\":\"60s\"}}", "{\"breaker\":{\"maxOpenFor\":\"40s\"}}");
  assert_int_equal(laid.both.error, WEIR_ERROR_INVALID_POLICY);
  assert_string_equal(laid.both.diagnostic.path, "breaker.maxOpenFor");
  assert_string_equal(laid.both.diagnostic.other_path, "breaker.openFor");
  laid_fini(&laid);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tells_what_is_weaker_and_where),
      cmocka_unit_test(a_broader_entry_makes_way_for_the_methods_that_are_enforced),
      cmocka_unit_test(an_enforced_first_backoff_is_not_cut),
      cmocka_unit_test(of_two_ceilings_the_lower_one_holds),
      cmocka_unit_test(a_timeout_above_an_enforced_ceiling_is_warned_of),
      cmocka_unit_test(of_two_entries_with_one_name_the_channels_stands_whole),
      cmocka_unit_test(codes_of_both_make_one_table),
      cmocka_unit_test(what_is_passed_on_is_the_channels_or_else_the_organisations),
      cmocka_unit_test(a_document_must_not_contradict_what_it_enforces),
      cmocka_unit_test(a_name_stands_in_64_entries_that_enforce_at_most),
      cmocka_unit_test(a_document_alone_is_in_force_as_it_stands),
      cmocka_unit_test(what_enforces_nothing_is_warned_of),
      cmocka_unit_test(every_problem_is_told),
      cmocka_unit_test(an_entry_with_many_names_is_told_of_once),
      cmocka_unit_test(a_policy_keeps_what_it_was_read_from),
      cmocka_unit_test(what_was_read_leniently_is_so_again),
      cmocka_unit_test(a_layered_policy_is_layered_no_more),
      cmocka_unit_test(code_states_what_differs_from_the_defaults),
      cmocka_unit_test(code_that_is_weaker_is_refused_without_a_line),
      cmocka_unit_test(what_code_gives_the_core_is_told_apart_by_its_keys),
      cmocka_unit_test(what_code_gives_the_core_must_be_an_object),
      cmocka_unit_test(a_method_in_code_may_keep_other_metadata),
      cmocka_unit_test(a_method_in_code_may_undo_the_channels_codes),
      cmocka_unit_test(no_channel_is_one_that_says_nothing),
      cmocka_unit_test(parts_that_do_not_fit_each_other_are_refused),
  };
  return cmocka_run_group_tests_name("layer", tests, NULL, NULL);
}
