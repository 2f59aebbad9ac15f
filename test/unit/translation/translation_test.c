/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <weir/clock.h>
#include <weir/interceptor.h>
#include <weir/policy.h>

#include <cmocka.h>

#include "interceptors/translation/translation.h"
#include "test/support/counting_allocator.h"

struct fixture {
  struct counting_allocator counting;
  weir_interceptor *layer;
  struct weir_translation_options options;
  struct weir_method_policy method;
  struct weir_inbound_facts inbound;
  struct weir_plan plan;
};

static int setup(void **state) {
  static struct fixture fixture;
  struct fixture *f = &fixture;
  memset(f, 0, sizeof *f);
  counting_allocator_init(&f->counting);
  assert_int_equal(weir__translation_layer_new(&f->counting.base, &f->layer), WEIR_OK);
  f->options = (struct weir_translation_options)WEIR_TRANSLATION_OPTIONS_INIT;
  f->method.translation = &f->options;
  f->plan.method = &f->method;
  *state = f;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  f->layer->vtable->destroy(f->layer);
  assert_int_equal(f->counting.n_outstanding, 0);
  return 0;
}

static void present(struct fixture *f, grpc_status_code code, enum weir_origin origin,
                    enum weir_deadline_bound bound) {
  const struct weir_outcome outcome = {.code = code, .origin = origin, .deadline_bound = bound};
  f->plan.visible_code = code;
  f->plan.scrubbed = false;
  f->plan.do_not_retry = false;
  f->layer->vtable->present(f->layer, &outcome, &f->plan);
}

/* The peer's codes; DEADLINE_EXCEEDED has a table of its own. */
static const struct {
  grpc_status_code raw;
  grpc_status_code visible;
} rows[] = {
    {GRPC_STATUS_CANCELLED, GRPC_STATUS_INTERNAL},
    {GRPC_STATUS_UNKNOWN, GRPC_STATUS_UNKNOWN},
    {GRPC_STATUS_INVALID_ARGUMENT, GRPC_STATUS_INTERNAL},
    {GRPC_STATUS_NOT_FOUND, GRPC_STATUS_NOT_FOUND},
    {GRPC_STATUS_ALREADY_EXISTS, GRPC_STATUS_ALREADY_EXISTS},
    {GRPC_STATUS_PERMISSION_DENIED, GRPC_STATUS_INTERNAL},
    {GRPC_STATUS_RESOURCE_EXHAUSTED, GRPC_STATUS_RESOURCE_EXHAUSTED},
    {GRPC_STATUS_FAILED_PRECONDITION, GRPC_STATUS_INTERNAL},
    {GRPC_STATUS_ABORTED, GRPC_STATUS_ABORTED},
    {GRPC_STATUS_OUT_OF_RANGE, GRPC_STATUS_INTERNAL},
    {GRPC_STATUS_UNIMPLEMENTED, GRPC_STATUS_INTERNAL},
    {GRPC_STATUS_INTERNAL, GRPC_STATUS_INTERNAL},
    {GRPC_STATUS_UNAVAILABLE, GRPC_STATUS_UNAVAILABLE},
    {GRPC_STATUS_DATA_LOSS, GRPC_STATUS_DATA_LOSS},
    {GRPC_STATUS_UNAUTHENTICATED, GRPC_STATUS_INTERNAL},
};

static void codes_that_blame_the_client_fold_to_internal(void **state) {
  struct fixture *f = *state;
  assert_int_equal(sizeof rows / sizeof rows[0],
                   WEIR_N_STATUS_CODES - 2); /* without OK and DEADLINE_EXCEEDED */
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    present(f, rows[i].raw, WEIR_ORIGIN_PEER, WEIR_DEADLINE_BOUND_NONE);

    if (f->plan.visible_code != rows[i].visible) {
      fail_msg("%s became %s", weir_status_code_name(rows[i].raw),
               weir_status_code_name(f->plan.visible_code));
    }
    assert_true(f->plan.scrubbed);
    assert_false(f->plan.do_not_retry);
  }
}

static const struct {
  const char *why;
  bool serving;
  enum weir_origin origin;
  enum weir_deadline_bound bound;
  grpc_status_code visible;
} deadline_rows[] = {
    {"serving, the parent's", true, WEIR_ORIGIN_LOCAL_DEADLINE, WEIR_DEADLINE_BOUND_PARENT,
     GRPC_STATUS_DEADLINE_EXCEEDED},
    {"serving, the call's own", true, WEIR_ORIGIN_LOCAL_DEADLINE, WEIR_DEADLINE_BOUND_CALL,
     GRPC_STATUS_UNAVAILABLE},
    {"serving, the policy's", true, WEIR_ORIGIN_LOCAL_DEADLINE, WEIR_DEADLINE_BOUND_POLICY,
     GRPC_STATUS_UNAVAILABLE},
    {"serving, the attempt's", true, WEIR_ORIGIN_LOCAL_DEADLINE, WEIR_DEADLINE_BOUND_ATTEMPT,
     GRPC_STATUS_UNAVAILABLE},
    {"serving, the peer's, while the parent's was the bound", true, WEIR_ORIGIN_PEER,
     WEIR_DEADLINE_BOUND_PARENT, GRPC_STATUS_UNAVAILABLE},
    {"root, the call's own", false, WEIR_ORIGIN_LOCAL_DEADLINE, WEIR_DEADLINE_BOUND_CALL,
     GRPC_STATUS_DEADLINE_EXCEEDED},
    {"root, the policy's", false, WEIR_ORIGIN_LOCAL_DEADLINE, WEIR_DEADLINE_BOUND_POLICY,
     GRPC_STATUS_DEADLINE_EXCEEDED},
    {"root, the attempt's", false, WEIR_ORIGIN_LOCAL_DEADLINE, WEIR_DEADLINE_BOUND_ATTEMPT,
     GRPC_STATUS_DEADLINE_EXCEEDED},
    {"root, the peer's", false, WEIR_ORIGIN_PEER, WEIR_DEADLINE_BOUND_CALL,
     GRPC_STATUS_UNAVAILABLE},
};

static void deadline_exceeded_means_the_callers_own(void **state) {
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof deadline_rows / sizeof deadline_rows[0]; i++) {
    f->plan.inbound = deadline_rows[i].serving ? &f->inbound : NULL;

    present(f, GRPC_STATUS_DEADLINE_EXCEEDED, deadline_rows[i].origin, deadline_rows[i].bound);

    if (f->plan.visible_code != deadline_rows[i].visible) {
      fail_msg("%s: %s", deadline_rows[i].why, weir_status_code_name(f->plan.visible_code));
    }
    /* a slow server must not be tried again because of the name that its slowness was given */
    assert_int_equal(f->plan.do_not_retry, deadline_rows[i].visible == GRPC_STATUS_UNAVAILABLE);
    assert_true(f->plan.scrubbed);
  }
}

static const struct {
  grpc_status_code raw;
  enum weir_origin origin;
  grpc_status_code visible;
} local_rows[] = {
    {GRPC_STATUS_CANCELLED, WEIR_ORIGIN_LOCAL_CANCEL, GRPC_STATUS_CANCELLED},
    {GRPC_STATUS_FAILED_PRECONDITION, WEIR_ORIGIN_LOCAL_CANCEL, GRPC_STATUS_FAILED_PRECONDITION},
    {GRPC_STATUS_DEADLINE_EXCEEDED, WEIR_ORIGIN_LOCAL_CANCEL, GRPC_STATUS_DEADLINE_EXCEEDED},
    {GRPC_STATUS_CANCELLED, WEIR_ORIGIN_LOCAL_SHUTDOWN, GRPC_STATUS_CANCELLED},
    {GRPC_STATUS_RESOURCE_EXHAUSTED, WEIR_ORIGIN_LOCAL_LIMIT, GRPC_STATUS_RESOURCE_EXHAUSTED},
    {GRPC_STATUS_CANCELLED, WEIR_ORIGIN_TRANSPORT_RESET, GRPC_STATUS_INTERNAL},
    {GRPC_STATUS_INVALID_ARGUMENT, WEIR_ORIGIN_TRANSPORT_CONNECT, GRPC_STATUS_INTERNAL},
};

static void what_the_application_did_keeps_its_code(void **state) {
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof local_rows / sizeof local_rows[0]; i++) {
    present(f, local_rows[i].raw, local_rows[i].origin, WEIR_DEADLINE_BOUND_CALL);
    if (f->plan.visible_code != local_rows[i].visible) {
      fail_msg("%s from %s: %s", weir_status_code_name(local_rows[i].raw),
               weir_origin_name(local_rows[i].origin), weir_status_code_name(f->plan.visible_code));
    }
  }
}

static void a_peer_that_forbids_retries_forbids_them_to_every_caller(void **state) {
  struct fixture *f = *state;
  const struct weir_outcome outcome = {
      .code = GRPC_STATUS_UNAVAILABLE, .origin = WEIR_ORIGIN_PEER, .pushback = WEIR_PUSHBACK_STOP};
  const struct weir_outcome later = {
      .code = GRPC_STATUS_UNAVAILABLE, .origin = WEIR_ORIGIN_PEER, .pushback = WEIR_PUSHBACK_DELAY};

  f->layer->vtable->present(f->layer, &outcome, &f->plan);
  assert_true(f->plan.do_not_retry);
  f->plan.do_not_retry = false;
  f->layer->vtable->present(f->layer, &later, &f->plan);
  assert_false(f->plan.do_not_retry);
}

static void do_not_retry_is_never_taken_back(void **state) {
  struct fixture *f = *state;
  const struct weir_outcome outcome = {.code = GRPC_STATUS_NOT_FOUND, .origin = WEIR_ORIGIN_PEER};
  f->plan.do_not_retry = true;

  f->layer->vtable->present(f->layer, &outcome, &f->plan);

  assert_true(f->plan.do_not_retry);
}

static void inside_the_boundary_everything_passes(void **state) {
  struct fixture *f = *state;
  f->options.boundary = false;
  f->options.codes[GRPC_STATUS_INVALID_ARGUMENT] = GRPC_STATUS_UNKNOWN;

  present(f, GRPC_STATUS_INVALID_ARGUMENT, WEIR_ORIGIN_PEER, WEIR_DEADLINE_BOUND_NONE);
  assert_int_equal(f->plan.visible_code, GRPC_STATUS_INVALID_ARGUMENT);
  assert_false(f->plan.scrubbed);

  present(f, GRPC_STATUS_DEADLINE_EXCEEDED, WEIR_ORIGIN_PEER, WEIR_DEADLINE_BOUND_NONE);
  assert_int_equal(f->plan.visible_code, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_false(f->plan.do_not_retry);
}

static void the_policys_table_overrides_once(void **state) {
  struct fixture *f = *state;
  f->options.codes[GRPC_STATUS_UNAVAILABLE] = GRPC_STATUS_INTERNAL;
  f->options.codes[GRPC_STATUS_INTERNAL] = GRPC_STATUS_UNKNOWN;
  f->options.codes[GRPC_STATUS_INVALID_ARGUMENT] = GRPC_STATUS_INVALID_ARGUMENT;
  f->options.codes[GRPC_STATUS_CANCELLED] = GRPC_STATUS_ABORTED;

  present(f, GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_PEER, WEIR_DEADLINE_BOUND_NONE);
  assert_int_equal(f->plan.visible_code, GRPC_STATUS_INTERNAL); /* and not on to UNKNOWN */
  present(f, GRPC_STATUS_INVALID_ARGUMENT, WEIR_ORIGIN_PEER, WEIR_DEADLINE_BOUND_NONE);
  assert_int_equal(f->plan.visible_code, GRPC_STATUS_INVALID_ARGUMENT);
  assert_true(f->plan.scrubbed);
  present(f, GRPC_STATUS_CANCELLED, WEIR_ORIGIN_PEER, WEIR_DEADLINE_BOUND_NONE);
  assert_int_equal(f->plan.visible_code, GRPC_STATUS_ABORTED);
  present(f, GRPC_STATUS_CANCELLED, WEIR_ORIGIN_LOCAL_CANCEL, WEIR_DEADLINE_BOUND_NONE);
  assert_int_equal(f->plan.visible_code, GRPC_STATUS_CANCELLED);
}

static void deadline_exceeded_as_overrides_the_rule_and_the_table(void **state) {
  struct fixture *f = *state;
  f->options.codes[GRPC_STATUS_DEADLINE_EXCEEDED] = GRPC_STATUS_INTERNAL;

  present(f, GRPC_STATUS_DEADLINE_EXCEEDED, WEIR_ORIGIN_LOCAL_DEADLINE, WEIR_DEADLINE_BOUND_CALL);
  assert_int_equal(f->plan.visible_code, GRPC_STATUS_INTERNAL);
  assert_false(f->plan.do_not_retry);

  f->options.deadline_exceeded_as = GRPC_STATUS_DEADLINE_EXCEEDED;
  present(f, GRPC_STATUS_DEADLINE_EXCEEDED, WEIR_ORIGIN_PEER, WEIR_DEADLINE_BOUND_CALL);
  assert_int_equal(f->plan.visible_code, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_false(f->plan.do_not_retry);

  f->options.deadline_exceeded_as = GRPC_STATUS_UNAVAILABLE;
  present(f, GRPC_STATUS_DEADLINE_EXCEEDED, WEIR_ORIGIN_LOCAL_DEADLINE, WEIR_DEADLINE_BOUND_CALL);
  assert_int_equal(f->plan.visible_code, GRPC_STATUS_UNAVAILABLE);
  assert_true(f->plan.do_not_retry);
}

static void running_out_of_memory_is_told(void **state) {
  (void)state;
  struct counting_allocator counting;
  counting_allocator_init(&counting);
  counting.n_allowed = 0;
  weir_interceptor *layer = (weir_interceptor *)&counting;

  assert_int_equal(weir__translation_layer_new(&counting.base, &layer), WEIR_ERROR_NO_MEMORY);
  assert_null(layer);
}

int main(void) {
#define WITH_LAYER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
  const struct CMUnitTest tests[] = {
      WITH_LAYER(codes_that_blame_the_client_fold_to_internal),
      WITH_LAYER(deadline_exceeded_means_the_callers_own),
      WITH_LAYER(what_the_application_did_keeps_its_code),
      WITH_LAYER(a_peer_that_forbids_retries_forbids_them_to_every_caller),
      WITH_LAYER(do_not_retry_is_never_taken_back),
      WITH_LAYER(inside_the_boundary_everything_passes),
      WITH_LAYER(the_policys_table_overrides_once),
      WITH_LAYER(deadline_exceeded_as_overrides_the_rule_and_the_table),
      cmocka_unit_test(running_out_of_memory_is_told),
  };
  return cmocka_run_group_tests_name("translation", tests, NULL, NULL);
}
