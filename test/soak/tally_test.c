/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <grpc/slice.h>

#include "test/soak/tally.h"

/* How late calls may end, in times that nothing has to wait for. */

#define T0 (WEIR_SECOND_NS * 5000)
#define TIMEOUT WEIR_SECOND_NS
#define STALLED (WEIR_MS_NS * 250)
#define N_CALLS 4

struct judgement {
  struct ledger *ledger;
  struct tally tally;
};

static int setup(void **state) {
  static struct judgement judgement;
  judgement.ledger = ledger_new(N_CALLS);
  tally_init(&judgement.tally, judgement.ledger, N_CALLS);
  *state = &judgement;
  return 0;
}

static int teardown(void **state) {
  struct judgement *judgement = *state;
  tally_fini(&judgement->tally);
  ledger_release(judgement->ledger);
  return 0;
}

/* How much is broken then, so far. */
static uint32_t n_blames_of(struct judgement *judgement, int64_t id, int64_t late_ns) {
  const struct tally_call call = {.id = id,
                                  .plan = {.timeout_ns = TIMEOUT},
                                  .began_at_ns = T0,
                                  .ended_at_ns = T0 + TIMEOUT + late_ns};
  tally_begin(&judgement->tally, &call);
  tally_end(&judgement->tally, &call, NULL, GRPC_STATUS_DEADLINE_EXCEEDED, grpc_empty_slice());
  return ledger_n_blames(judgement->ledger);
}

static void a_call_is_late_beyond_the_limit_only(void **state) {
  struct judgement *judgement = *state;
  assert_int_equal(n_blames_of(judgement, 1, -TIMEOUT), 0);
  assert_int_equal(n_blames_of(judgement, 2, 0), 0);
  assert_int_equal(n_blames_of(judgement, 3, TALLY_LATE_LIMIT_NS), 0);
  assert_int_equal(n_blames_of(judgement, 4, TALLY_LATE_LIMIT_NS + 1), 1);
}

static void a_machine_that_had_threads_wait_is_given_more(void **state) {
  struct judgement *judgement = *state;
  const int64_t limit_ns = TALLY_LATE_LIMIT_NS + TALLY_LATE_THREADS * STALLED;
  const int64_t ends_at_ns = T0 + TIMEOUT + limit_ns;
  tally_turn(&judgement->tally, ends_at_ns - STALLED);
  tally_turn(&judgement->tally, ends_at_ns);
  assert_int_equal(n_blames_of(judgement, 1, limit_ns), 0);
  assert_int_equal(n_blames_of(judgement, 2, limit_ns + 1), 1);
}

/* The thread that takes turns has not come back yet. */
static void a_wait_that_goes_on_counts(void **state) {
  struct judgement *judgement = *state;
  const int64_t limit_ns = TALLY_LATE_LIMIT_NS + TALLY_LATE_THREADS * STALLED;
  tally_turn(&judgement->tally, T0 + TIMEOUT + limit_ns - STALLED);
  assert_int_equal(n_blames_of(judgement, 1, limit_ns), 0);
  assert_int_equal(n_blames_of(judgement, 2, limit_ns - WEIR_MS_NS), 1);
}

static void what_was_late_is_told_by_rank(void **state) {
  struct judgement *judgement = *state;
  (void)n_blames_of(judgement, 1, WEIR_MS_NS * 3);
  (void)n_blames_of(judgement, 2, -1);
  (void)n_blames_of(judgement, 3, WEIR_MS_NS);
  (void)n_blames_of(judgement, 4, WEIR_MS_NS * 2);
  assert_int_equal(tally_late_us(&judgement->tally, 0), 1000);
  assert_int_equal(tally_late_us(&judgement->tally, 500), 2000);
  assert_int_equal(tally_late_us(&judgement->tally, 1000), 3000);
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      CLAIM(a_call_is_late_beyond_the_limit_only),
      CLAIM(a_machine_that_had_threads_wait_is_given_more),
      CLAIM(a_wait_that_goes_on_counts),
      CLAIM(what_was_late_is_told_by_rank),
  };
  return cmocka_run_group_tests_name("tally", tests, NULL, NULL);
}
