/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/status.h>

#include <weir/fallback.h>
#include <weir/interceptor.h>
#include <weir/outcome.h>
#include <weir/policy.h>
#include <weir/reason.h>

#include <cmocka.h>

static void codes_have_the_names_of_the_specification(void **state) {
  (void)state;
  static const char *const names[WEIR_N_STATUS_CODES] = {"OK",
                                                         "CANCELLED",
                                                         "UNKNOWN",
                                                         "INVALID_ARGUMENT",
                                                         "DEADLINE_EXCEEDED",
                                                         "NOT_FOUND",
                                                         "ALREADY_EXISTS",
                                                         "PERMISSION_DENIED",
                                                         "RESOURCE_EXHAUSTED",
                                                         "FAILED_PRECONDITION",
                                                         "ABORTED",
                                                         "OUT_OF_RANGE",
                                                         "UNIMPLEMENTED",
                                                         "INTERNAL",
                                                         "UNAVAILABLE",
                                                         "DATA_LOSS",
                                                         "UNAUTHENTICATED"};
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    assert_string_equal(weir_status_code_name((grpc_status_code)code), names[code]);
  }
  assert_string_equal(weir_status_code_name((grpc_status_code)17), "UNKNOWN");
  assert_string_equal(weir_status_code_name((grpc_status_code)-1), "UNKNOWN");
}

static void origins_have_names(void **state) {
  (void)state;
  assert_string_equal(weir_origin_name(WEIR_ORIGIN_PEER), "PEER");
  assert_string_equal(weir_origin_name(WEIR_ORIGIN_TRANSPORT_CONNECT), "TRANSPORT_CONNECT");
  assert_string_equal(weir_origin_name(WEIR_ORIGIN_TRANSPORT_RESET), "TRANSPORT_RESET");
  assert_string_equal(weir_origin_name(WEIR_ORIGIN_LOCAL_DEADLINE), "LOCAL_DEADLINE");
  assert_string_equal(weir_origin_name(WEIR_ORIGIN_LOCAL_CANCEL), "LOCAL_CANCEL");
  assert_string_equal(weir_origin_name(WEIR_ORIGIN_LOCAL_BREAKER), "LOCAL_BREAKER");
  assert_string_equal(weir_origin_name(WEIR_ORIGIN_LOCAL_LIMIT), "LOCAL_LIMIT");
  assert_string_equal(weir_origin_name(WEIR_ORIGIN_LOCAL_SHUTDOWN), "LOCAL_SHUTDOWN");
  assert_string_equal(weir_origin_name((enum weir_origin)99), "UNKNOWN");
}

static void blames_and_bounds_have_names(void **state) {
  (void)state;
  assert_string_equal(weir_blame_name(WEIR_BLAME_NOBODY), "NOBODY");
  assert_string_equal(weir_blame_name(WEIR_BLAME_CLIENT), "CLIENT");
  assert_string_equal(weir_blame_name(WEIR_BLAME_SERVER), "SERVER");
  assert_string_equal(weir_blame_name(WEIR_BLAME_NETWORK), "NETWORK");
  assert_string_equal(weir_blame_name((enum weir_blame)99), "UNKNOWN");
  assert_string_equal(weir_deadline_bound_name(WEIR_DEADLINE_BOUND_NONE), "NONE");
  assert_string_equal(weir_deadline_bound_name(WEIR_DEADLINE_BOUND_CALL), "CALL");
  assert_string_equal(weir_deadline_bound_name(WEIR_DEADLINE_BOUND_PARENT), "PARENT");
  assert_string_equal(weir_deadline_bound_name(WEIR_DEADLINE_BOUND_POLICY), "POLICY");
  assert_string_equal(weir_deadline_bound_name(WEIR_DEADLINE_BOUND_ATTEMPT), "ATTEMPT");
  assert_string_equal(weir_deadline_bound_name((enum weir_deadline_bound)99), "UNKNOWN");
}

static void reasons_have_names_of_their_own(void **state) {
  (void)state;
  for (int a = WEIR_REASON_NONE; a <= WEIR_REASON_NO_MEMORY; a++) {
    const char *name = weir_reason_name((enum weir_reason)a);
    assert_string_not_equal(name, "UNKNOWN");
    for (int b = WEIR_REASON_NONE; b < a; b++) {
      assert_string_not_equal(name, weir_reason_name((enum weir_reason)b));
    }
  }
  assert_string_equal(weir_reason_name(WEIR_REASON_THROTTLED), "THROTTLED");
  assert_string_equal(weir_reason_name((enum weir_reason)99), "UNKNOWN");
}

static void results_of_a_fallback_have_names_of_their_own(void **state) {
  (void)state;
  for (int a = WEIR_FALLBACK_NOT_ASKED; a <= WEIR_FALLBACK_SHUTDOWN; a++) {
    const char *name = weir_fallback_result_name((enum weir_fallback_result)a);
    assert_string_not_equal(name, "UNKNOWN");
    for (int b = WEIR_FALLBACK_NOT_ASKED; b < a; b++) {
      assert_string_not_equal(name, weir_fallback_result_name((enum weir_fallback_result)b));
    }
  }
  assert_string_equal(weir_fallback_result_name(WEIR_FALLBACK_TIMED_OUT), "TIMED_OUT");
  assert_string_equal(weir_fallback_result_name((enum weir_fallback_result)99), "UNKNOWN");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(codes_have_the_names_of_the_specification),
      cmocka_unit_test(origins_have_names),
      cmocka_unit_test(blames_and_bounds_have_names),
      cmocka_unit_test(reasons_have_names_of_their_own),
      cmocka_unit_test(results_of_a_fallback_have_names_of_their_own),
  };
  return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
