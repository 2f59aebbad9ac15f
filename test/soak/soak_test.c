/* A short soak: `make soak` has the long one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

#include "test/soak/message.h"
#include "test/soak/plan.h"
#include "test/soak/result.h"
#include "test/soak/soak.h"

/* Sanitizers make each of them many times as long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define N_CALLS 400
#else
#define N_CALLS 1000
#endif

#define SEED 7

/* --- what a soak can be told apart by --- */

static void plans_are_the_same_for_the_same_seed_only(void **state) {
  (void)state;
  const struct plans plans = {.seed = 1, .first_calm = 1000};
  const struct plans others = {.seed = 2, .first_calm = 1000};
  size_t n_same = 0;
  for (int64_t id = 1; id < 100; id++) {
    struct plan plan = plan_of(&plans, id);
    struct plan again = plan_of(&plans, id);
    struct plan other = plan_of(&others, id);
    assert_true(plan.timeout_ns == again.timeout_ns && plan.shape == again.shape &&
                plan.size == again.size && plan.answer == again.answer);
    n_same += plan.timeout_ns == other.timeout_ns;
  }
  assert_true(n_same < 10);
}

static void faults_are_the_same_for_the_same_seed_only(void **state) {
  (void)state;
  size_t n_same = 0;
  for (uint64_t number = 0; number < 100; number++) {
    struct proxy_plan plan;
    struct proxy_plan again;
    struct proxy_plan other;
    plan_fault(1, 0, number, true, &plan);
    plan_fault(1, 0, number, true, &again);
    plan_fault(1, 1, number, true, &other);
    assert_true(plan.fault == again.fault && plan.after_bytes == again.after_bytes &&
                plan.lasts_ns == again.lasts_ns);
    n_same += plan.lasts_ns == other.lasts_ns;
  }
  assert_true(n_same < 10);
}

static void all_faults_and_shapes_are_planned(void **state) {
  (void)state;
  const struct plans plans = {.seed = SEED, .first_calm = 2000};
  size_t n_faults[PROXY_N_FAULTS] = {0};
  size_t n_shapes[PLAN_N_SHAPES] = {0};
  for (int64_t i = 1; i < 1000; i++) {
    struct proxy_plan fault;
    plan_fault(SEED, 0, (uint64_t)i, true, &fault);
    n_faults[fault.fault]++;
    n_shapes[plan_of(&plans, i).shape]++;
  }
  for (size_t i = PROXY_FAULT_DELAY; i < PROXY_FAULT_REFUSAL; i++) { /* which is no plan's */
    assert_true(n_faults[i] > 0);
  }
  for (size_t i = 0; i < PLAN_N_SHAPES; i++) {
    assert_true(n_shapes[i] > 0);
  }
}

/* --- messages --- */

static void messages_are_read_as_they_were_made(void **state) {
  (void)state;
  const struct message made = {.kind = MESSAGE_REPLY, .id = 17, .number = 3, .size = 1234};
  struct message read;
  grpc_byte_buffer *buffer = message_new(&made);
  assert_true(message_read(buffer, &read));
  assert_true(read.kind == made.kind && read.id == made.id && read.number == made.number &&
              read.size == made.size);
  grpc_byte_buffer_destroy(buffer);
}

static void a_changed_byte_is_found_wherever_it_is(void **state) {
  (void)state;
  const struct message made = {.kind = MESSAGE_REPLY, .id = 17, .number = 3, .size = 50};
  grpc_byte_buffer *buffer = message_new(&made);
  grpc_slice bytes = buffer->data.raw.slice_buffer.slices[0];
  for (size_t i = 0; i < GRPC_SLICE_LENGTH(bytes); i++) {
    struct message read;
    GRPC_SLICE_START_PTR(bytes)[i] ^= 0x10;
    /* Of another call, number or kind, it would be another message, whose bytes are others. */
    assert_false(message_read(buffer, &read));
    GRPC_SLICE_START_PTR(bytes)[i] ^= 0x10;
  }
  grpc_byte_buffer_destroy(buffer);
}

/* --- the soak --- */

static void every_call_is_accounted_for(void **state) {
  (void)state;
  const struct soak_options options = {.seed = SEED, .n_calls = N_CALLS};
  struct soak_result result;
  (void)signal(SIGPIPE, SIG_IGN);
  bool fine = soak_run(&options, stderr, &result);
  if (!fine) {
    result_print(&result, stderr);
  }
  soak_result_fini(&result);
  assert_true(fine);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plans_are_the_same_for_the_same_seed_only),
      cmocka_unit_test(faults_are_the_same_for_the_same_seed_only),
      cmocka_unit_test(all_faults_and_shapes_are_planned),
      cmocka_unit_test(messages_are_read_as_they_were_made),
      cmocka_unit_test(a_changed_byte_is_found_wherever_it_is),
      cmocka_unit_test(every_call_is_accounted_for),
  };
  return cmocka_run_group_tests_name("soak", tests, NULL, NULL);
}
