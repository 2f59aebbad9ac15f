/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <weir/breaker.h>

static void states_have_names(void **state) {
  (void)state;
  assert_string_equal(weir_breaker_state_name(WEIR_BREAKER_CLOSED), "CLOSED");
  assert_string_equal(weir_breaker_state_name(WEIR_BREAKER_OPEN), "OPEN");
  assert_string_equal(weir_breaker_state_name(WEIR_BREAKER_HALF_OPEN), "HALF_OPEN");
  assert_string_equal(weir_breaker_state_name((enum weir_breaker_state)9), "UNKNOWN");
}

static void refusals_have_names(void **state) {
  (void)state;
  assert_string_equal(weir_breaker_refusal_name(WEIR_BREAKER_REFUSAL_NONE), "NONE");
  assert_string_equal(weir_breaker_refusal_name(WEIR_BREAKER_REFUSAL_OPEN), "OPEN");
  assert_string_equal(weir_breaker_refusal_name(WEIR_BREAKER_REFUSAL_PROBES_TAKEN), "PROBES_TAKEN");
  assert_string_equal(weir_breaker_refusal_name(WEIR_BREAKER_REFUSAL_RAMP), "RAMP");
  assert_string_equal(weir_breaker_refusal_name(WEIR_BREAKER_REFUSAL_FORCED_OPEN), "FORCED_OPEN");
  assert_string_equal(weir_breaker_refusal_name((enum weir_breaker_refusal)9), "UNKNOWN");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(states_have_names),
      cmocka_unit_test(refusals_have_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
