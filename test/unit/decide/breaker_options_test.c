/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <weir/breaker.h>

#include "src/decide/breaker_options.h"

/* What a row changes of the defaults. */
typedef void change_fn(struct weir_breaker_options *options);

#define CHANGE(name, statement)                            \
  static void name(struct weir_breaker_options *options) { \
    statement;                                             \
  }

CHANGE(nothing, (void)options)
CHANGE(one_sample_is_enough, options->min_requests = 1)
CHANGE(every_call_must_fail, options->failure_ratio = 1.0)
CHANGE(narrowest_buckets, options->window_ns = 10 * WEIR_MS_NS)
CHANGE(one_bucket, options->window_buckets = 1)
CHANGE(most_buckets, options->window_buckets = WEIR__BREAKER_MAX_BUCKETS)
CHANGE(no_jitter, options->open_jitter = 0.0)
CHANGE(most_jitter, options->open_jitter = nextafter(1.0, 0.0))
CHANGE(no_room_to_grow, options->max_open_for_ns = options->open_for_ns)
CHANGE(one_probe, options->probes = 1)
CHANGE(one_breaker, options->max_breakers = 1)
CHANGE(endless_lease, options->probe_lease_ns = WEIR_NO_LIMIT_NS)
CHANGE(by_method, options->scope = WEIR_BREAKER_SCOPE_METHOD)
CHANGE(shadow, options->mode = WEIR_BREAKER_MODE_SHADOW)
CHANGE(one_in_a_row, options->consecutive_failures = 1)
CHANGE(most_in_a_row, options->consecutive_failures = UINT32_MAX)
CHANGE(ramp, options->ramp_for_ns = 1)
CHANGE(endless_ramp, options->ramp_for_ns = WEIR_NO_LIMIT_NS)

CHANGE(no_min_requests, options->min_requests = 0)
CHANGE(no_ratio, options->failure_ratio = 0.0)
CHANGE(negative_ratio, options->failure_ratio = -0.5)
CHANGE(ratio_above_one, options->failure_ratio = nextafter(1.0, 2.0))
CHANGE(ratio_nan, options->failure_ratio = NAN)
CHANGE(no_buckets, options->window_buckets = 0)
CHANGE(too_many_buckets, options->window_buckets = WEIR__BREAKER_MAX_BUCKETS + 1)
CHANGE(no_window, options->window_ns = 0)
CHANGE(negative_window, options->window_ns = -1)
CHANGE(window_too_narrow, options->window_ns = 10 * WEIR_MS_NS - 1)
CHANGE(no_open_time, options->open_for_ns = 0)
CHANGE(negative_open_time, options->open_for_ns = -1)
CHANGE(full_jitter, options->open_jitter = 1.0)
CHANGE(negative_jitter, options->open_jitter = -0.1)
CHANGE(jitter_nan, options->open_jitter = NAN)
CHANGE(shrinking_open_time, options->open_backoff = 0.99)
CHANGE(backoff_infinite, options->open_backoff = INFINITY)
CHANGE(backoff_nan, options->open_backoff = NAN)
CHANGE(cap_below_open_time, options->max_open_for_ns = options->open_for_ns - 1)
CHANGE(no_probes, options->probes = 0)
CHANGE(too_many_probes, options->probes = WEIR__BREAKER_MAX_PROBES + 1)
CHANGE(no_lease, options->probe_lease_ns = 0)
CHANGE(negative_lease, options->probe_lease_ns = -1)
CHANGE(no_breakers, options->max_breakers = 0)
CHANGE(negative_floor, options->deadline_floor_ns = -1)
CHANGE(unknown_scope, options->scope = (enum weir_breaker_scope)3)
CHANGE(unknown_mode, options->mode = (enum weir_breaker_mode)2)
CHANGE(negative_ramp, options->ramp_for_ns = -1)

static const struct {
  const char *why;
  change_fn *change;
  const char *field; /* NULL: accepted */
} rows[] = {
    {"the defaults", nothing, NULL},
    {"a sample decides", one_sample_is_enough, NULL},
    {"ratio 1 is in its range", every_call_must_fail, NULL},
    {"1 ms a bucket", narrowest_buckets, NULL},
    {"a window in one piece", one_bucket, NULL},
    {"as many buckets as may be", most_buckets, NULL},
    {"jitter 0", no_jitter, NULL},
    {"jitter just below 1", most_jitter, NULL},
    {"a cap at the open time itself", no_room_to_grow, NULL},
    {"a single probe", one_probe, NULL},
    {"a single breaker", one_breaker, NULL},
    {"a lease without end", endless_lease, NULL},
    {"another scope", by_method, NULL},
    {"only watching", shadow, NULL},
    {"a single failure trips", one_in_a_row, NULL},
    {"a row that nobody lives to see", most_in_a_row, NULL},
    {"a ramp", ramp, NULL},
    {"a ramp without end", endless_ramp, NULL},
    {"0 samples would trip on nothing", no_min_requests, "minRequests"},
    {"ratio 0 would trip on success", no_ratio, "failureRatio"},
    {"a negative ratio", negative_ratio, "failureRatio"},
    {"a ratio that can't be reached", ratio_above_one, "failureRatio"},
    {"a ratio that is no number", ratio_nan, "failureRatio"},
    {"no buckets", no_buckets, "windowBuckets"},
    {"too many buckets", too_many_buckets, "windowBuckets"},
    {"no window", no_window, "window"},
    {"a negative window", negative_window, "window"},
    {"less than 1 ms a bucket", window_too_narrow, "window"},
    {"an open time of nothing", no_open_time, "openFor"},
    {"a negative open time", negative_open_time, "openFor"},
    {"jitter down to no open time", full_jitter, "openJitter"},
    {"a negative jitter", negative_jitter, "openJitter"},
    {"a jitter that is no number", jitter_nan, "openJitter"},
    {"an open time that shrinks", shrinking_open_time, "openBackoff"},
    {"infinite growth", backoff_infinite, "openBackoff"},
    {"growth that is no number", backoff_nan, "openBackoff"},
    {"a cap below what is capped", cap_below_open_time, "maxOpenFor"},
    {"never closes again", no_probes, "probes"},
    {"probes without end", too_many_probes, "probes"},
    {"a lease of nothing", no_lease, "probeLease"},
    {"a negative lease", negative_lease, "probeLease"},
    {"no breaker at all", no_breakers, "maxBreakers"},
    {"a negative floor", negative_floor, "deadlineFloor"},
    {"a scope of another version", unknown_scope, "scope"},
    {"a mode of another version", unknown_mode, "mode"},
    {"a negative ramp", negative_ramp, "rampFor"},
};

static void refuses_what_is_out_of_range_and_names_the_field(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct weir_breaker_options options = WEIR_BREAKER_OPTIONS_INIT;
    struct weir_diagnostic diagnostic;
    memset(&diagnostic, 'x', sizeof diagnostic);
    rows[i].change(&options);

    enum weir_error error = weir__breaker_options_check(&options, &diagnostic);

    if ((error == WEIR_OK) != (rows[i].field == NULL)) {
      fail_msg("%s: %s", rows[i].why, weir_error_name(error));
    }
    if (rows[i].field == NULL) {
      assert_int_equal(diagnostic.path[0], 'x');
      continue;
    }
    assert_int_equal(error, WEIR_ERROR_INVALID_ARGUMENT);
    if (strcmp(diagnostic.path, rows[i].field) != 0) {
      fail_msg("%s: named %s", rows[i].why, diagnostic.path);
    }
    assert_true(diagnostic.message[0] != '\0');
    assert_int_equal(diagnostic.line, 0);
  }
}

static void needs_no_diagnostic(void **state) {
  (void)state;
  struct weir_breaker_options options = WEIR_BREAKER_OPTIONS_INIT;
  assert_int_equal(weir__breaker_options_check(&options, NULL), WEIR_OK);
  options.probes = 0;
  assert_int_equal(weir__breaker_options_check(&options, NULL), WEIR_ERROR_INVALID_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refuses_what_is_out_of_range_and_names_the_field),
      cmocka_unit_test(needs_no_diagnostic),
  };
  return cmocka_run_group_tests_name("breaker options", tests, NULL, NULL);
}
