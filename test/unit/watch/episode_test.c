/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/watch/episode.h"

#define N_EPISODES 200

static void whatever_happens_to_the_file_the_last_good_policy_stays(void **state) {
  (void)state;
  struct episode_tally tally;
  memset(&tally, 0, sizeof tally);
  for (uint64_t seed = 0; seed < N_EPISODES; seed++) {
    uint8_t bytes[EPISODE_MAX_BYTES];
    episode_run(bytes, episode_of_seed(seed, bytes), &tally);
  }
  /* They are worth something only if all of this is in them. */
  assert_true(tally.n_steps > N_EPISODES * 10);
  assert_true(tally.n_changes > N_EPISODES / 20);
  assert_true(tally.n_settled[WEIR_POLICY_FILE_IN_FORCE] > N_EPISODES / 10);
  assert_true(tally.n_settled[WEIR_POLICY_FILE_REFUSED] > N_EPISODES / 10);
  assert_true(tally.n_settled[WEIR_POLICY_FILE_MISSING] > N_EPISODES / 10);
  assert_true(tally.n_settled[WEIR_POLICY_FILE_UNREADABLE] > N_EPISODES / 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whatever_happens_to_the_file_the_last_good_policy_stays),
  };
  return cmocka_run_group_tests_name("episode", tests, NULL, NULL);
}
