/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/channel/channel.h"
#include "test/stack/stack_fixture.h"

/* --- counters --- */

static void a_channel_that_has_made_no_calls_has_counted_none(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  counters.n_clamped_deadlines = 7;
  counters.n_detached_calls = 7;
  assert_int_equal(weir_channel_get_counters(f->channel, &counters), WEIR_OK);
  assert_int_equal(counters.size, sizeof counters);
  assert_int_equal(counters.n_clamped_deadlines, 0);
  assert_int_equal(counters.n_detached_calls, 0);
}

static void an_older_program_gets_the_counters_that_it_knows(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  weir__call_counter_bump(&f->channel->environment->counters.n_clamped_deadlines);
  weir__call_counter_bump(&f->channel->environment->counters.n_detached_calls);
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  counters.size = offsetof(struct weir_channel_counters, n_detached_calls);
  counters.n_detached_calls = 7;
  assert_int_equal(weir_channel_get_counters(f->channel, &counters), WEIR_OK);
  assert_int_equal(counters.size, offsetof(struct weir_channel_counters, n_detached_calls));
  assert_int_equal(counters.n_clamped_deadlines, 1);
  assert_int_equal(counters.n_detached_calls, 7); /* behind what it knows */

  counters.size = sizeof counters.size - 1;
  assert_int_equal(weir_channel_get_counters(f->channel, &counters), WEIR_ERROR_INVALID_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_channel_that_has_made_no_calls_has_counted_none),
      TEST(an_older_program_gets_the_counters_that_it_knows),
  };
  return cmocka_run_group_tests_name("inbound over a script", tests, NULL, NULL);
}
