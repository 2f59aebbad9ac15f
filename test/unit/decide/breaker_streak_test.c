/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/decide/breaker_fixture.h"

#define GOOD WEIR_BREAKER_VERDICT_SUCCESS
#define BAD WEIR_BREAKER_VERDICT_FAILURE
#define NEUTRAL WEIR_BREAKER_VERDICT_IGNORED

/* Calls with five seconds between them: b failed, g succeeded, i ignored, p began to stream, f
 * began to stream and failed, h an hour in which nothing was called. */
static const struct {
  const char *why;
  const char *calls;
  uint32_t limit;
  size_t trips_at; /* which call; 0 = none */
} rows[] = {
    {"the fifth trips", "bbbbb", 5, 5},
    {"four do not", "bbbb", 5, 0},
    {"however far apart", "bhbhbhbhb", 5, 9},
    {"a success ends the row", "bbbbgbbbb", 5, 0},
    {"and the next one begins", "bbbbgbbbbb", 5, 10},
    {"a success after hours ends it too", "bbhhbbghbbbb", 5, 0},
    {"ignored calls neither end nor lengthen it", "bibibibib", 5, 9},
    {"one failure is enough if one is set", "gb", 1, 2},
    {"a stream's first message is a success", "bbbbpb", 5, 0},
    {"a stream that fails after it begins a row", "bbbbfbbbb", 5, 9},
    {"a long row of successes", "gggggggggggggggggggbbbbb", 5, 24},
    {"0 is no rule", "bhbhbhbhbhbhbhbhb", 0, 0},
};

static void one_call(struct fixture *f, char kind, int64_t now_ns) {
  struct weir_breaker_ticket stream;
  switch (kind) {
  case 'b':
    fixture_calls(f, 1, BAD, now_ns);
    break;
  case 'g':
    fixture_calls(f, 1, GOOD, now_ns);
    break;
  case 'i':
    fixture_calls(f, 1, NEUTRAL, now_ns);
    break;
  case 'p':
  case 'f':
    stream = fixture_admit(f, now_ns);
    weir_breaker_progress(f->breaker, &stream, now_ns, NULL);
    fixture_settle(f, &stream, kind == 'f' ? BAD : GOOD, now_ns);
    break;
  case 'h':
    break;
  }
}

static void trips_after_so_many_failures_in_a_row(void **state) {
  struct fixture *f = *state;
  f->options.min_requests = 1000;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    int64_t now_ns = T0;
    size_t trips_at = 0;
    f->options.consecutive_failures = rows[i].limit;
    fixture_breaker(f);
    for (size_t j = 0; rows[i].calls[j] != '\0' && trips_at == 0; j++) {
      one_call(f, rows[i].calls[j], now_ns);
      now_ns += rows[i].calls[j] == 'h' ? SECONDS(3600) : SECONDS(5);
      if (fixture_snapshot(f, now_ns).state != WEIR_BREAKER_CLOSED) {
        trips_at = j + 1;
      }
    }
    if (trips_at != rows[i].trips_at) {
      fail_msg("%s: tripped at call %zu instead of %zu", rows[i].why, trips_at, rows[i].trips_at);
    }
    fixture_breaker_end(f);
  }
}

/* With the window's rule alone such an outage is never seen. */
static void outage_of_rare_calls_is_seen(void **state) {
  struct fixture *f = *state;
  f->options.consecutive_failures = 10;
  fixture_breaker(f);
  int n_calls = 0;
  for (int64_t at_s = 0; at_s < 3600; at_s += 19) {
    if (fixture_snapshot(f, T0 + SECONDS(at_s)).state == WEIR_BREAKER_CLOSED) {
      fixture_calls(f, 1, BAD, T0 + SECONDS(at_s));
      n_calls++;
    } else {
      break;
    }
  }
  assert_int_equal(n_calls, 10);
  fixture_breaker_end(f);
}

static void window_trips_before_the_row_is_long_enough(void **state) {
  struct fixture *f = *state;
  f->options.consecutive_failures = 100;
  fixture_breaker(f);
  fixture_trip(f, T0);
  fixture_breaker_end(f);
}

static void row_belongs_to_its_generation(void **state) {
  struct fixture *f = *state;
  f->options.min_requests = 1000;
  f->options.consecutive_failures = 5;
  f->options.probes = 1;
  fixture_breaker(f);
  fixture_calls(f, 4, BAD, T0);
  struct weir_breaker_ticket late_good = fixture_admit(f, T0);
  struct weir_breaker_ticket late_bad = fixture_admit(f, T0);
  fixture_calls(f, 1, BAD, T0);
  fixture_calls(f, 1, GOOD, T0 + SECONDS(40));
  assert_int_equal(fixture_snapshot(f, T0 + SECONDS(40)).state, WEIR_BREAKER_CLOSED);

  fixture_calls(f, 4, BAD, T0 + SECONDS(41));
  fixture_settle(f, &late_bad, BAD, T0 + SECONDS(41));
  assert_int_equal(fixture_snapshot(f, T0 + SECONDS(41)).state, WEIR_BREAKER_CLOSED);
  fixture_settle(f, &late_good, GOOD, T0 + SECONDS(41));
  fixture_calls(f, 1, BAD, T0 + SECONDS(41));
  assert_int_equal(fixture_snapshot(f, T0 + SECONDS(41)).state, WEIR_BREAKER_OPEN);
  fixture_breaker_end(f);
}

static void override_ends_the_row(void **state) {
  struct fixture *f = *state;
  f->options.min_requests = 1000;
  f->options.consecutive_failures = 5;
  fixture_breaker(f);
  fixture_calls(f, 4, BAD, T0);
  weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_DISABLED, NULL);
  weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_NONE, NULL);
  fixture_calls(f, 4, BAD, T0);
  assert_int_equal(fixture_snapshot(f, T0).state, WEIR_BREAKER_CLOSED);
  fixture_calls(f, 1, BAD, T0);
  assert_int_equal(fixture_snapshot(f, T0).state, WEIR_BREAKER_OPEN);
  fixture_breaker_end(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(trips_after_so_many_failures_in_a_row),
      TEST(outage_of_rare_calls_is_seen),
      TEST(window_trips_before_the_row_is_long_enough),
      TEST(row_belongs_to_its_generation),
      TEST(override_ends_the_row),
  };
  return cmocka_run_group_tests_name("breaker streak", tests, NULL, NULL);
}
