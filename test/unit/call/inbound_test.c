/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/grpc.h>
#include <grpc/slice.h>

#include "src/call/headers.h"
#include "src/call/inbound.h"
#include "src/time/clock.h"
#include "test/support/counting_allocator.h"

#define NS_PER_MS INT64_C(1000000)
#define MAX_METADATA 4

static int setup(void **state) {
  (void)state;
  grpc_init();
  return 0;
}

static int teardown(void **state) {
  (void)state;
  grpc_shutdown();
  return 0;
}

static int64_t now_ns(void) {
  return weir__clock_now_ns(weir__clock_or_default(NULL));
}

struct header {
  const char *key;
  const char *value;
  size_t size; /* of a value that holds a NUL; 0 = it ends at the first */
};

/* What a server has in hand: a deadline on the core's clock, and headers up to one without a
 * key. */
static weir_inbound *inbound_of(gpr_timespec deadline, const struct header *headers) {
  grpc_metadata metadata[MAX_METADATA];
  grpc_metadata_array array = {.count = 0, .capacity = MAX_METADATA, .metadata = metadata};
  grpc_call_details details;
  memset(&details, 0, sizeof details);
  memset(metadata, 0, sizeof metadata);
  details.deadline = deadline;
  for (; headers[array.count].key != NULL; array.count++) {
    const struct header *header = &headers[array.count];
    metadata[array.count].key = grpc_slice_from_static_string(header->key);
    metadata[array.count].value = grpc_slice_from_static_buffer(
        header->value, header->size != 0 ? header->size : strlen(header->value));
  }
  weir_inbound *inbound = NULL;
  assert_int_equal(weir_inbound_new(&details, &array, NULL, NULL, &inbound), WEIR_OK);
  return inbound;
}

static void the_nearer_of_deadline_and_budget_counts(void **state) {
  (void)state;
  static const struct {
    const char *why;
    int64_t deadline_ms; /* from now; -1 = none */
    const char *budget;  /* NULL = none */
    int64_t ends_ms;     /* -1 = never */
  } rows[] = {
      {"neither", -1, NULL, -1},
      {"a deadline", 5000, NULL, 5000},
      {"a budget", -1, "3000000", 3000},
      {"a nearer budget", 5000, "3000000", 3000},
      {"a nearer deadline", 2000, "3000000", 2000},
      {"a budget that is used up", 5000, "0", 0},
      {"leading zeroes", 5000, "000001000000", 1000},
      {"as large as nanoseconds can say", 5000, "9223372036854775", 5000},
      {"larger", 5000, "9223372036854776", 5000},
      {"larger, and alone", -1, "9223372036854776", -1},
      {"as large as 64 bits can say", -1, "18446744073709551615", -1},
      {"larger still", -1, "18446744073709551616", -1},
      {"of fifty digits", -1, "99999999999999999999999999999999999999999999999999", -1},
      {"empty", 5000, "", 5000},
      {"negative", 5000, "-1", 5000},
      {"signed", 5000, "+1", 5000},
      {"a power of two that 63 bits can't hold", 5000, "9223372036854775808", 5000},
      {"of thirty digits", 5000, "1000000000000000000000000000000", 5000},
      {"not ASCII", 5000, "\xef\xbc\x91", 5000},
      {"with a space", 5000, " 1", 5000},
      {"with a unit", 5000, "1u", 5000},
      {"a fraction", 5000, "1.5", 5000},
      {"hexadecimal", 5000, "0x10", 5000},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct header headers[] = {
        {rows[i].budget != NULL ? WEIR__HEADER_BUDGET : NULL, rows[i].budget, 0}, {NULL, NULL, 0}};
    int64_t before_ns = now_ns();
    gpr_timespec deadline =
        rows[i].deadline_ms < 0
            ? gpr_inf_future(GPR_CLOCK_REALTIME)
            : gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                           gpr_time_from_millis(rows[i].deadline_ms, GPR_TIMESPAN));
    weir_inbound *inbound = inbound_of(deadline, headers);
    int64_t after_ns = now_ns();
    int64_t at_ns = inbound->facts.deadline_at_ns;
    bool right = rows[i].ends_ms < 0 ? at_ns == WEIR_NO_DEADLINE
                                     : at_ns >= before_ns + rows[i].ends_ms * NS_PER_MS &&
                                           at_ns <= after_ns + rows[i].ends_ms * NS_PER_MS;
    if (!right) {
      fail_msg("%s: %lld ns from now", rows[i].why, (long long)(at_ns - after_ns));
    }
    assert_false(inbound->has_retry_owner);
    weir_inbound_release(inbound);
  }
}

static void whoever_owns_the_retries_is_passed_on(void **state) {
  (void)state;
  static const char longest[] = "abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456.7";
  static const char longer[] = "abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456.78";
  static char huge[10 * 1024 + 1];
  memset(huge, 'a', sizeof huge - 1);
  assert_int_equal(strlen(longest), WEIR__RETRY_OWNER_BYTES - 1);
  static const struct {
    const char *why;
    struct header headers[3];
    const char *owner;
  } rows[] = {
      {"none", {{NULL, NULL, 0}}, NULL},
      {"other headers", {{"user-agent", "x", 0}, {"weir-retry-ownerz", "x", 0}}, NULL},
      {"an owner", {{WEIR__HEADER_RETRY_OWNER, "orders", 0}}, "orders"},
      {"of the longest name", {{WEIR__HEADER_RETRY_OWNER, longest, 0}}, longest},
      {"of a longer one", {{WEIR__HEADER_RETRY_OWNER, longer, 0}}, WEIR__UNKNOWN_RETRY_OWNER},
      {"without a name", {{WEIR__HEADER_RETRY_OWNER, "", 0}}, WEIR__UNKNOWN_RETRY_OWNER},
      {"with a NUL", {{WEIR__HEADER_RETRY_OWNER, "a\0b", 3}}, WEIR__UNKNOWN_RETRY_OWNER},
      {"of NULs", {{WEIR__HEADER_RETRY_OWNER, "\0\0", 2}}, WEIR__UNKNOWN_RETRY_OWNER},
      {"with a space", {{WEIR__HEADER_RETRY_OWNER, "a b", 0}}, WEIR__UNKNOWN_RETRY_OWNER},
      {"with a line end", {{WEIR__HEADER_RETRY_OWNER, "a\r\nb", 0}}, WEIR__UNKNOWN_RETRY_OWNER},
      {"not ASCII", {{WEIR__HEADER_RETRY_OWNER, "\xc3\xa9", 0}}, WEIR__UNKNOWN_RETRY_OWNER},
      {"of ten kilobytes", {{WEIR__HEADER_RETRY_OWNER, huge, 0}}, WEIR__UNKNOWN_RETRY_OWNER},
      {"twice",
       {{WEIR__HEADER_RETRY_OWNER, "orders", 0}, {WEIR__HEADER_RETRY_OWNER, "cart", 0}},
       "orders"},
      {"twice, and the first is no name",
       {{WEIR__HEADER_RETRY_OWNER, "", 0}, {WEIR__HEADER_RETRY_OWNER, "cart", 0}},
       "cart"},
      {"one that retries without weir",
       {{WEIR__HEADER_PREVIOUS_ATTEMPTS, "2", 0}},
       WEIR__UNKNOWN_RETRY_OWNER},
      {"so, malformed", {{WEIR__HEADER_PREVIOUS_ATTEMPTS, "x", 0}}, WEIR__UNKNOWN_RETRY_OWNER},
      {"both",
       {{WEIR__HEADER_PREVIOUS_ATTEMPTS, "2", 0}, {WEIR__HEADER_RETRY_OWNER, "orders", 0}},
       "orders"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    weir_inbound *inbound = inbound_of(gpr_inf_future(GPR_CLOCK_REALTIME), rows[i].headers);
    const char *owner = inbound->has_retry_owner ? inbound->retry_owner : NULL;
    bool same = owner == NULL || rows[i].owner == NULL ? owner == rows[i].owner
                                                       : strcmp(owner, rows[i].owner) == 0;
    if (!same) {
      fail_msg("%s: %s", rows[i].why, owner != NULL ? owner : "none");
    }
    weir_inbound_release(inbound);
  }
}

static int64_t deadline_of(gpr_timespec deadline) {
  static const struct header none[] = {{NULL, NULL, 0}};
  weir_inbound *inbound = inbound_of(deadline, none);
  int64_t at_ns = inbound->facts.deadline_at_ns;
  assert_true(inbound->detached_facts.deadline_at_ns == WEIR_NO_DEADLINE);
  weir_inbound_release(inbound);
  return at_ns;
}

static void a_deadline_of_any_clock_is_read(void **state) {
  (void)state;
  static const gpr_clock_type clocks[] = {GPR_CLOCK_MONOTONIC, GPR_CLOCK_REALTIME,
                                          GPR_CLOCK_PRECISE};
  for (size_t i = 0; i < sizeof clocks / sizeof clocks[0]; i++) {
    for (int ahead_s = -60; ahead_s <= 60; ahead_s += 60) {
      int64_t before_ns = now_ns();
      int64_t ahead_ns = deadline_of(gpr_time_add(gpr_now(clocks[i]),
                                                  gpr_time_from_seconds(ahead_s, GPR_TIMESPAN))) -
                         before_ns;
      assert_true(ahead_ns > (ahead_s - 10) * 1000 * NS_PER_MS);
      assert_true(ahead_ns < (ahead_s + 10) * 1000 * NS_PER_MS);
    }
    assert_true(deadline_of(gpr_inf_future(clocks[i])) == WEIR_NO_DEADLINE);
    assert_true(deadline_of(gpr_inf_past(clocks[i])) <= now_ns());
  }
  int64_t before_ns = now_ns();
  int64_t ahead_ns = deadline_of(gpr_time_from_seconds(60, GPR_TIMESPAN)) - before_ns;
  assert_true(ahead_ns >= 60000 * NS_PER_MS && ahead_ns < 70000 * NS_PER_MS);
}

/* What no core gives, but a program may. */
static void an_absurd_time_is_a_bound_or_none(void **state) {
  (void)state;
  static const int64_t seconds[] = {INT64_MIN,     INT64_MIN + 1, -1, 0, 1, INT64_MAX / 1000000000,
                                    INT64_MAX - 1, INT64_MAX};
  static const int32_t nanoseconds[] = {INT32_MIN, -1, 0, 999999999, 1000000000, INT32_MAX};
  for (int clock = -1; clock <= GPR_TIMESPAN + 1; clock++) {
    for (size_t i = 0; i < sizeof seconds / sizeof seconds[0]; i++) {
      for (size_t j = 0; j < sizeof nanoseconds / sizeof nanoseconds[0]; j++) {
        gpr_timespec time = {.tv_sec = seconds[i], .tv_nsec = nanoseconds[j]};
        memcpy(&time.clock_type, &clock, sizeof clock);
        int64_t at_ns = deadline_of(time);
        if (clock < 0 || clock > GPR_TIMESPAN) {
          assert_true(at_ns == WEIR_NO_DEADLINE || at_ns == INT64_MIN);
        } else if (seconds[i] >= INT64_MAX - 1) {
          assert_true(at_ns == WEIR_NO_DEADLINE);
        } else if (seconds[i] < -1) {
          assert_true(at_ns <= now_ns());
        }
      }
    }
  }
}

/* The core's clocks go by this. */
extern gpr_timespec (*gpr_now_impl)(gpr_clock_type clock_type);

static gpr_timespec (*real_now)(gpr_clock_type clock_type);
static int64_t wall_step_s;

static gpr_timespec stepped_now(gpr_clock_type clock_type) {
  gpr_timespec now = real_now(clock_type);
  now.tv_sec += clock_type == GPR_CLOCK_REALTIME ? wall_step_s : 0;
  return now;
}

static void a_step_of_the_wall_clock_changes_nothing_afterwards(void **state) {
  (void)state;
  static const struct header none[] = {{NULL, NULL, 0}};
  gpr_timespec in_a_minute =
      gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_seconds(60, GPR_TIMESPAN));
  int64_t before_ns = now_ns();
  weir_inbound *inbound = inbound_of(in_a_minute, none);
  int64_t at_ns = inbound->facts.deadline_at_ns;
  real_now = gpr_now_impl;
  gpr_now_impl = stepped_now;
  for (wall_step_s = -3600; wall_step_s <= 3600; wall_step_s += 7200) {
    assert_true(inbound->facts.deadline_at_ns == at_ns);
    /* One that comes in now is on the clock as it is now. */
    int64_t ahead_ns = deadline_of(gpr_time_add(gpr_now(GPR_CLOCK_REALTIME),
                                                gpr_time_from_seconds(60, GPR_TIMESPAN))) -
                       before_ns;
    assert_true(ahead_ns > 50000 * NS_PER_MS && ahead_ns < 70000 * NS_PER_MS);
  }
  gpr_now_impl = real_now;
  assert_true(at_ns - before_ns > 50000 * NS_PER_MS && at_ns - before_ns < 70000 * NS_PER_MS);
  weir_inbound_release(inbound);
}

/* --- several headers of a kind --- */

static void of_several_budgets_the_nearest_counts(void **state) {
  (void)state;
  static const struct {
    const char *why;
    struct header headers[4];
    int64_t ends_ms;
  } rows[] = {
      {"the second",
       {{WEIR__HEADER_BUDGET, "9000000", 0}, {WEIR__HEADER_BUDGET, "2000000", 0}},
       2000},
      {"the first",
       {{WEIR__HEADER_BUDGET, "2000000", 0}, {WEIR__HEADER_BUDGET, "9000000", 0}},
       2000},
      {"the one that can be read",
       {{WEIR__HEADER_BUDGET, "", 0},
        {WEIR__HEADER_BUDGET, "3000000", 0},
        {WEIR__HEADER_BUDGET, "\xd9\xa3", 0}},
       3000},
      {"none is nearer than the deadline",
       {{WEIR__HEADER_BUDGET, "6000000", 0}, {WEIR__HEADER_BUDGET, "7000000", 0}},
       5000},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    int64_t before_ns = now_ns();
    weir_inbound *inbound = inbound_of(
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(5, GPR_TIMESPAN)),
        rows[i].headers);
    int64_t at_ns = inbound->facts.deadline_at_ns;
    if (at_ns < before_ns + rows[i].ends_ms * NS_PER_MS ||
        at_ns > now_ns() + rows[i].ends_ms * NS_PER_MS) {
      fail_msg("%s", rows[i].why);
    }
    weir_inbound_release(inbound);
  }
}

static void what_is_not_there_is_no_bound(void **state) {
  (void)state;
  weir_inbound *inbound = NULL;
  assert_int_equal(weir_inbound_new(NULL, NULL, NULL, NULL, &inbound), WEIR_OK);
  assert_true(inbound->facts.deadline_at_ns == WEIR_NO_DEADLINE);
  assert_false(inbound->has_retry_owner);
  assert_null(inbound->server_call);
  weir_inbound_release(inbound);
}

static enum weir_error inbound_with(struct counting_allocator *counting, weir_inbound **inbound) {
  struct weir_inbound_options options = WEIR_INBOUND_OPTIONS_INIT;
  options.allocator = &counting->base;
  return weir_inbound_new(NULL, NULL, NULL, &options, inbound);
}

static void an_inbound_lives_until_its_last_share_is_released(void **state) {
  (void)state;
  struct counting_allocator counting;
  counting_allocator_init(&counting);
  weir_inbound *inbound = NULL;
  assert_int_equal(inbound_with(&counting, &inbound), WEIR_OK);

  assert_ptr_equal(weir_inbound_ref(inbound), inbound);
  assert_ptr_equal(weir__inbound_hold(inbound), inbound); /* a call's */
  weir_inbound_release(inbound);
  assert_int_equal(counting.n_outstanding, 1);
  weir_inbound_release(inbound);
  assert_int_equal(counting.n_outstanding, 1);
  weir__inbound_let_go(inbound);
  assert_int_equal(counting.n_outstanding, 0);
  weir_inbound_release(NULL);
  assert_null(weir_inbound_ref(NULL));
}

static void without_memory_there_is_none(void **state) {
  (void)state;
  struct counting_allocator counting;
  counting_allocator_init(&counting);
  counting.n_allowed = 0;
  weir_inbound *inbound = (weir_inbound *)&counting;
  assert_int_equal(inbound_with(&counting, &inbound), WEIR_ERROR_NO_MEMORY);
  assert_null(inbound);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_nearer_of_deadline_and_budget_counts),
      cmocka_unit_test(whoever_owns_the_retries_is_passed_on),
      cmocka_unit_test(a_deadline_of_any_clock_is_read),
      cmocka_unit_test(an_absurd_time_is_a_bound_or_none),
      cmocka_unit_test(a_step_of_the_wall_clock_changes_nothing_afterwards),
      cmocka_unit_test(of_several_budgets_the_nearest_counts),
      cmocka_unit_test(what_is_not_there_is_no_bound),
      cmocka_unit_test(an_inbound_lives_until_its_last_share_is_released),
      cmocka_unit_test(without_memory_there_is_none),
  };
  return cmocka_run_group_tests_name("inbound", tests, setup, teardown);
}
