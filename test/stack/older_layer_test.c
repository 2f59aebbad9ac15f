/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "src/stack/stack.h"

/* Layers of a program that was built when a layer had fewer hooks. */

struct counts {
  unsigned n_settled;
  unsigned n_released;
  unsigned n_presented;
};

struct layer {
  weir_interceptor base;
  struct counts counts;
};

static struct counts *counts_of(weir_interceptor *self) {
  return &((struct layer *)(void *)self)->counts;
}

static enum weir_disposition count_settle(weir_interceptor *self, void *call_state,
                                          const struct weir_event *event,
                                          const struct weir_outcome *outcome,
                                          struct weir_plan *plan) {
  (void)call_state;
  (void)event;
  (void)outcome;
  (void)plan;
  counts_of(self)->n_settled++;
  return WEIR_DISPOSITION_FINISH;
}

static void count_release(weir_interceptor *self, void *call_state, const struct weir_event *event,
                          const struct weir_plan *plan) {
  (void)call_state;
  (void)event;
  (void)plan;
  counts_of(self)->n_released++;
}

static void count_present(weir_interceptor *self, const struct weir_outcome *outcome,
                          struct weir_plan *plan) {
  (void)outcome;
  (void)plan;
  counts_of(self)->n_presented++;
}

/* What lies behind the end of an older table is none of it. */
static struct weir_interceptor_vtable table_until(size_t size) {
  return (struct weir_interceptor_vtable){.size = size,
                                          .name = "older",
                                          .settle = count_settle,
                                          .release = count_release,
                                          .present = count_present};
}

/* Takes a call that all layers have let in through its end. */
static void end_a_call(const struct weir__stack *stack) {
  const struct weir_event event = {.now_ns = 1};
  struct weir_outcome outcome;
  struct weir_plan plan;
  uint8_t n_unsettled = (uint8_t)stack->n_layers;
  memset(&outcome, 0, sizeof outcome);
  memset(&plan, 0, sizeof plan);
  assert_int_equal(weir__stack_settle(stack, NULL, &event, &outcome, &plan, &n_unsettled),
                   WEIR_DISPOSITION_FINISH);
  assert_int_equal(n_unsettled, 0);
  weir__stack_release(stack, NULL, &event, &plan, (uint8_t)stack->n_layers);
  weir__stack_present(stack, &outcome, &plan);
}

static void check_counts(const struct layer *layer, unsigned n_settled, unsigned n_released,
                         unsigned n_presented) {
  assert_int_equal(layer->counts.n_settled, n_settled);
  assert_int_equal(layer->counts.n_released, n_released);
  assert_int_equal(layer->counts.n_presented, n_presented);
}

static void a_hook_beyond_the_end_of_a_table_is_none(void **state) {
  (void)state;
  const struct weir_interceptor_vtable tables[] = {
      table_until(offsetof(struct weir_interceptor_vtable, settle)),
      table_until(offsetof(struct weir_interceptor_vtable, release)),
      table_until(offsetof(struct weir_interceptor_vtable, present)),
      table_until(sizeof(struct weir_interceptor_vtable)),
  };
  struct layer layers[sizeof tables / sizeof tables[0]];
  struct weir__stack stack;
  memset(layers, 0, sizeof layers);
  memset(&stack, 0, sizeof stack);
  for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
    layers[i].base.vtable = &tables[i];
    weir__stack_add(&stack, &layers[i].base);
  }
  end_a_call(&stack);
  check_counts(&layers[0], 0, 0, 0);
  check_counts(&layers[1], 1, 0, 0);
  check_counts(&layers[2], 1, 1, 0);
  check_counts(&layers[3], 1, 1, 1);
  weir__stack_fini(&stack);
}

static void a_layer_in_the_place_of_another_has_its_own_hooks(void **state) {
  (void)state;
  const struct weir_interceptor_vtable full = table_until(sizeof(struct weir_interceptor_vtable));
  const struct weir_interceptor_vtable older =
      table_until(offsetof(struct weir_interceptor_vtable, settle));
  struct layer first = {.base = {.vtable = &full}};
  struct layer second = {.base = {.vtable = &older}};
  struct weir__stack stack;
  memset(&stack, 0, sizeof stack);
  weir__stack_add(&stack, &first.base);
  weir__stack_put(&stack, 0, &second.base);
  end_a_call(&stack);
  check_counts(&first, 0, 0, 0);
  check_counts(&second, 0, 0, 0);
  weir__stack_put(&stack, 0, &first.base);
  end_a_call(&stack);
  check_counts(&first, 1, 1, 1);
  weir__stack_fini(&stack);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_hook_beyond_the_end_of_a_table_is_none),
      cmocka_unit_test(a_layer_in_the_place_of_another_has_its_own_hooks),
  };
  return cmocka_run_group_tests_name("older_layer", tests, NULL, NULL);
}
