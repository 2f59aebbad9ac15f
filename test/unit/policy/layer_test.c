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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tells_what_is_weaker_and_where),
      cmocka_unit_test(a_broader_entry_makes_way_for_the_methods_that_are_enforced),
  };
  return cmocka_run_group_tests_name("layer", tests, NULL, NULL);
}
