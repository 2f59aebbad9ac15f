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

#include "interceptors/deadline/deadline.h"
#include "test/support/counting_allocator.h"

#define MS(n) ((n)*WEIR_MS_NS)
#define NONE WEIR_NO_DEADLINE
#define NO_LIMIT WEIR_NO_LIMIT_NS
#define NOW_NS MS(100000)
/* 315576000000 s, the longest that a policy can write, are more nanoseconds than there are. */
#define LONGEST_TIMEOUT_NS (NO_LIMIT - 1)

struct fixture {
  struct counting_allocator counting;
  weir_interceptor *layer;
};

static int setup(void **state) {
  static struct fixture fixture;
  counting_allocator_init(&fixture.counting);
  assert_int_equal(weir__deadline_layer_new(&fixture.counting.base, &fixture.layer), WEIR_OK);
  *state = &fixture;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  f->layer->vtable->destroy(f->layer);
  assert_int_equal(f->counting.n_outstanding, 0);
  return 0;
}

/* Deadlines are told relative to NOW_NS; NONE and NO_LIMIT as they are. */
struct row {
  const char *why;
  int64_t call_in_ns;
  int64_t parent_in_ns;
  int64_t timeout_ns;
  int64_t default_ns; /* for unary calls and streams alike */
  int64_t max_ns;
  int64_t margin_ns;
  int64_t expected_in_ns;
  enum weir_deadline_bound bound;
};

#define UNARY WEIR_CALL_SHAPE_ONE_BATCH
#define CALL WEIR_DEADLINE_BOUND_CALL
#define PARENT WEIR_DEADLINE_BOUND_PARENT
#define POLICY WEIR_DEADLINE_BOUND_POLICY

static const struct row rows[] = {
    {"nothing set: the default", NONE, NONE, NO_LIMIT, MS(10000), MS(60000), 0, MS(10000), POLICY},
    {"nothing at all", NONE, NONE, NO_LIMIT, NO_LIMIT, NO_LIMIT, 0, NONE, WEIR_DEADLINE_BOUND_NONE},
    {"a default is never needed beside the call's own", MS(20000), NONE, NO_LIMIT, MS(10000),
     MS(60000), 0, MS(20000), CALL},
    {"nor beside the parent's", NONE, MS(20000), NO_LIMIT, MS(10000), MS(60000), 0, MS(20000),
     PARENT},
    {"nor beside the method's", NONE, NONE, MS(20000), MS(10000), MS(60000), 0, MS(20000), POLICY},
    {"the default is under the ceiling too", NONE, NONE, NO_LIMIT, MS(90000), MS(60000), 0,
     MS(60000), POLICY},
    {"the ceiling binds the call's own", MS(36000000), NONE, NO_LIMIT, MS(10000), MS(60000), 0,
     MS(60000), POLICY},
    {"the ceiling binds a mistyped timeout", NONE, NONE, MS(36000000), MS(10000), MS(60000), 0,
     MS(60000), POLICY},
    {"the ceiling binds the parent's", NONE, MS(70000), NO_LIMIT, MS(10000), MS(60000), 0,
     MS(60000), POLICY},
    {"the nearest: the call's", MS(1), MS(2), MS(3), MS(10000), MS(4), 0, MS(1), CALL},
    {"the nearest: the parent's", MS(2), MS(1), MS(3), MS(10000), MS(4), 0, MS(1), PARENT},
    {"the nearest: the method's", MS(3), MS(2), MS(1), MS(10000), MS(4), 0, MS(1), POLICY},
    {"the nearest: the ceiling", MS(4), MS(3), MS(2), MS(10000), MS(1), 0, MS(1), POLICY},
    {"a tie of call and parent is the parent's", MS(5), MS(5), NO_LIMIT, MS(10000), MS(60000), 0,
     MS(5), PARENT},
    {"a tie of call and policy is the call's", MS(5), NONE, MS(5), MS(10000), MS(60000), 0, MS(5),
     CALL},
    {"a tie of parent and policy is the parent's", NONE, MS(5), MS(5), MS(10000), MS(5), 0, MS(5),
     PARENT},
    {"the margin is kept back from the parent's", MS(50), MS(50), NO_LIMIT, MS(10000), MS(60000),
     MS(20), MS(30), PARENT},
    {"the margin is not kept back from the call's", MS(50), NONE, NO_LIMIT, MS(10000), MS(60000),
     MS(20), MS(50), CALL},
    {"a parent without a deadline is none, margin or not", NONE, NONE, NO_LIMIT, MS(10000),
     MS(60000), MS(20), MS(10000), POLICY},
    {"a timeout that saturates", NONE, NONE, INT64_MAX - 1, NO_LIMIT, NO_LIMIT, 0, NONE,
     WEIR_DEADLINE_BOUND_NONE},
    {"a timeout that saturates is one, so the default is not needed", NONE, NONE, INT64_MAX - 1,
     MS(10000), MS(60000), 0, MS(60000), POLICY},
    {"a timeout of 315576000000 s under the ceiling", NONE, NONE, LONGEST_TIMEOUT_NS, MS(10000),
     MS(60000), 0, MS(60000), POLICY},
    {"a ceiling that saturates", MS(5), NONE, NO_LIMIT, NO_LIMIT, INT64_MAX - 1, 0, MS(5), CALL},
    {"one nanosecond is time", NONE, NONE, 1, MS(10000), MS(60000), 0, 1, POLICY},
};

static int64_t at_ns(int64_t in_ns) {
  return in_ns == NONE ? NONE : NOW_NS + in_ns;
}

struct call {
  struct weir_deadline_options options;
  struct weir_method_policy method;
  struct weir_inbound_facts inbound;
  struct weir_plan plan;
};

static struct call *call_init(struct call *call, enum weir_call_shape shape) {
  memset(call, 0, sizeof *call);
  call->options = (struct weir_deadline_options)WEIR_DEADLINE_OPTIONS_INIT;
  call->method.deadline = &call->options;
  call->method.timeout_ns = NO_LIMIT;
  call->inbound.deadline_at_ns = NONE;
  call->plan.method = &call->method;
  call->plan.shape = shape;
  call->plan.deadline_at_ns = NONE;
  return call;
}

static void call_set_deadline(struct call *call, int64_t deadline_at_ns) {
  call->plan.deadline_at_ns = deadline_at_ns;
  call->plan.deadline_bound = deadline_at_ns == NONE ? WEIR_DEADLINE_BOUND_NONE : CALL;
}

static void call_set_parent(struct call *call, int64_t deadline_at_ns) {
  call->inbound.deadline_at_ns = deadline_at_ns;
  call->plan.inbound = &call->inbound;
}

static enum weir_admission admit(const struct fixture *f, struct call *call, int64_t now_ns) {
  const struct weir_event event = {.now_ns = now_ns, .random = NULL};
  return f->layer->vtable->admit(f->layer, NULL, &event, &call->plan);
}

static void the_nearest_bound_is_the_calls_deadline(void **state) {
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct row *row = &rows[i];
    struct call call;
    call_init(&call, UNARY);
    call.options.default_timeout_ns = row->default_ns;
    call.options.max_timeout_ns = row->max_ns;
    call.options.margin_ns = row->margin_ns;
    call.method.timeout_ns = row->timeout_ns;
    call_set_deadline(&call, at_ns(row->call_in_ns));
    call_set_parent(&call, at_ns(row->parent_in_ns));

    enum weir_admission admission = admit(*state, &call, NOW_NS);

    if (admission != WEIR_ADMISSION_PROCEED ||
        call.plan.deadline_at_ns != at_ns(row->expected_in_ns) ||
        call.plan.deadline_bound != row->bound) {
      fail_msg("%s: %lld ns, %s", row->why, (long long)(call.plan.deadline_at_ns - NOW_NS),
               weir_deadline_bound_name(call.plan.deadline_bound));
    }
  }
}

static const struct {
  const char *why;
  int64_t call_in_ns;
  int64_t parent_in_ns;
  int64_t timeout_ns;
  int64_t default_ns;
  int64_t max_ns;
  bool ignores_parent;
  bool is_clamped;
} clamp_rows[] = {
    {"the call's own", MS(90), NONE, NO_LIMIT, MS(10), MS(60), false, true},
    {"the parent's", NONE, MS(90), NO_LIMIT, MS(10), MS(60), false, true},
    {"the method's", NONE, NONE, MS(90), MS(10), MS(60), false, true},
    {"the nearest of them", MS(90), MS(80), MS(70), MS(10), MS(60), false, true},
    {"a timeout that saturates", NONE, NONE, INT64_MAX - 1, MS(10), MS(60), false, true},
    {"a deadline next to the end of time", INT64_MAX - 1 - NOW_NS, NONE, NO_LIMIT, MS(10), MS(60),
     false, true},
    {"by a nanosecond", MS(60) + 1, NONE, NO_LIMIT, MS(10), MS(60), false, true},
    {"to nothing", MS(90), NONE, NO_LIMIT, MS(10), 0, false, true},
    {"a tie cuts nothing", MS(60), NONE, NO_LIMIT, MS(10), MS(60), false, false},
    {"one of them is under the ceiling", MS(90), MS(50), NO_LIMIT, MS(10), MS(60), false, false},
    {"and so is the method's", MS(90), NONE, MS(50), MS(10), MS(60), false, false},
    {"a mere default", NONE, NONE, NO_LIMIT, MS(90), MS(60), false, false},
    {"a parent's that is not inherited, and so a mere default", NONE, MS(90), NO_LIMIT, MS(90),
     MS(60), true, false},
    {"no ceiling", MS(90), NONE, MS(80), MS(10), NO_LIMIT, false, false},
    {"a ceiling that saturates", MS(90), NONE, NO_LIMIT, MS(10), INT64_MAX - 1, false, false},
    {"nothing at all", NONE, NONE, NO_LIMIT, NO_LIMIT, NO_LIMIT, false, false},
    {"a deadline that is past", MS(-5), NONE, NO_LIMIT, MS(10), MS(60), false, false},
};

/* For calls of either shape, each under its own ceiling. */
static void a_ceiling_that_cuts_what_was_given_is_noted(void **state) {
  static const enum weir_call_shape shapes[] = {UNARY, WEIR_CALL_SHAPE_STREAM};
  for (size_t i = 0; i < 2 * (sizeof clamp_rows / sizeof clamp_rows[0]); i++) {
    enum weir_call_shape shape = shapes[i % 2];
    struct call call;
    call_init(&call, shape);
    bool unary = shape == UNARY;
    call.options.default_timeout_ns = unary ? clamp_rows[i / 2].default_ns : NO_LIMIT;
    call.options.max_timeout_ns = unary ? clamp_rows[i / 2].max_ns : 1;
    call.options.default_stream_timeout_ns = unary ? NO_LIMIT : clamp_rows[i / 2].default_ns;
    call.options.max_stream_timeout_ns = unary ? 1 : clamp_rows[i / 2].max_ns;
    call.options.inherits_parent = !clamp_rows[i / 2].ignores_parent;
    call.method.timeout_ns = clamp_rows[i / 2].timeout_ns;
    call_set_deadline(&call, at_ns(clamp_rows[i / 2].call_in_ns));
    call_set_parent(&call, at_ns(clamp_rows[i / 2].parent_in_ns));

    (void)admit(*state, &call, NOW_NS);

    if (call.plan.deadline_clamped != clamp_rows[i / 2].is_clamped) {
      fail_msg("%s", clamp_rows[i / 2].why);
    }
  }
}

static void a_stream_has_no_bound_unless_the_policy_says_so(void **state) {
  struct call call;
  call_init(&call, WEIR_CALL_SHAPE_STREAM);

  assert_int_equal(admit(*state, &call, NOW_NS), WEIR_ADMISSION_PROCEED);

  assert_true(call.plan.deadline_at_ns == NONE);
  assert_int_equal(call.plan.deadline_bound, WEIR_DEADLINE_BOUND_NONE);
}

static void a_stream_has_its_own_default_and_ceiling(void **state) {
  struct call call;
  call_init(&call, WEIR_CALL_SHAPE_STREAM);
  call.options.default_stream_timeout_ns = MS(3000);
  call.options.max_stream_timeout_ns = MS(5000);
  struct call bounded;
  call_init(&bounded, WEIR_CALL_SHAPE_STREAM);
  bounded.options.max_stream_timeout_ns = MS(5000);
  call_set_deadline(&bounded, NOW_NS + MS(90000));

  assert_int_equal(admit(*state, &call, NOW_NS), WEIR_ADMISSION_PROCEED);
  assert_int_equal(admit(*state, &bounded, NOW_NS), WEIR_ADMISSION_PROCEED);

  assert_int_equal(call.plan.deadline_at_ns, NOW_NS + MS(3000));
  assert_int_equal(bounded.plan.deadline_at_ns, NOW_NS + MS(5000));
}

static void a_methods_timeout_bounds_a_stream_too(void **state) {
  struct call call;
  call_init(&call, WEIR_CALL_SHAPE_STREAM);
  call.method.timeout_ns = MS(700);

  assert_int_equal(admit(*state, &call, NOW_NS), WEIR_ADMISSION_PROCEED);

  assert_int_equal(call.plan.deadline_at_ns, NOW_NS + MS(700));
}

static void a_parent_that_is_not_to_be_inherited_is_not_looked_at(void **state) {
  struct call call;
  call_init(&call, UNARY);
  call.options.inherits_parent = false;
  call_set_parent(&call, NOW_NS + MS(5));

  assert_int_equal(admit(*state, &call, NOW_NS), WEIR_ADMISSION_PROCEED);

  assert_int_equal(call.plan.deadline_at_ns, NOW_NS + MS(10000)); /* the default */
  assert_int_equal(call.plan.deadline_bound, POLICY);
}

static const struct {
  const char *why;
  int64_t now_ns;
  int64_t call_at_ns;
  int64_t parent_at_ns;
  int64_t timeout_ns;
  int64_t margin_ns;
} past_rows[] = {
    {"the call's, long ago", NOW_NS, NOW_NS - MS(5000), NONE, NO_LIMIT, 0},
    {"the call's, just now", NOW_NS, NOW_NS, NONE, NO_LIMIT, 0},
    {"the call's, the infinite past", NOW_NS, INT64_MIN, NONE, NO_LIMIT, 0},
    {"the parent's, just now", NOW_NS, NONE, NOW_NS, NO_LIMIT, 0},
    {"the parent's, the infinite past less a margin", NOW_NS, NONE, INT64_MIN, NO_LIMIT, MS(20)},
    {"the parent's less its margin", NOW_NS, NONE, NOW_NS + MS(20), NO_LIMIT, MS(20)},
    {"a margin larger than what is left", NOW_NS, NONE, NOW_NS + MS(20), NO_LIMIT, MS(5000)},
    {"a margin of all the time there is", NOW_NS, NONE, NOW_NS + MS(20), NO_LIMIT, NO_LIMIT - 1},
    {"a clock before its zero", MS(-100), MS(-200), NONE, NO_LIMIT, 0},
    {"a timeout of nothing", NOW_NS, NONE, NONE, 0, 0},
    {"the end of time", INT64_MAX - 1, INT64_MAX - 2, NONE, NO_LIMIT, 0},
};

static void a_call_without_time_is_refused(void **state) {
  for (size_t i = 0; i < sizeof past_rows / sizeof past_rows[0]; i++) {
    struct call call;
    call_init(&call, UNARY);
    call.options.margin_ns = past_rows[i].margin_ns;
    call.method.timeout_ns = past_rows[i].timeout_ns;
    call_set_deadline(&call, past_rows[i].call_at_ns);
    call_set_parent(&call, past_rows[i].parent_at_ns);

    if (admit(*state, &call, past_rows[i].now_ns) != WEIR_ADMISSION_REFUSE) {
      fail_msg("%s", past_rows[i].why);
    }
    assert_int_equal(call.plan.refused_as, WEIR_ORIGIN_LOCAL_DEADLINE);
    assert_int_equal(call.plan.reason, WEIR_REASON_DEADLINE);
  }
}

static const struct {
  const char *why;
  int64_t resume_in_ns;
  int64_t min_attempt_ns;
  int64_t deadline_in_ns;
  enum weir_admission admission;
} resume_rows[] = {
    {"time enough", MS(100), MS(1), MS(300), WEIR_ADMISSION_PROCEED},
    {"just enough", MS(299) - 1, MS(1), MS(300), WEIR_ADMISSION_PROCEED},
    {"equal does not fit", MS(299), MS(1), MS(300), WEIR_ADMISSION_REFUSE},
    {"equal without a least time does not fit", MS(300), 0, MS(300), WEIR_ADMISSION_REFUSE},
    {"longer than what is left", MS(1000), MS(1), MS(300), WEIR_ADMISSION_REFUSE},
    {"a pushback of 24 days", MS(INT64_C(2147483647)), MS(1), MS(300), WEIR_ADMISSION_REFUSE},
    {"a backoff that never ends", NONE, MS(1), MS(300), WEIR_ADMISSION_REFUSE},
    {"a least time that never ends", MS(1), NO_LIMIT, MS(300), WEIR_ADMISSION_REFUSE},
    {"at once, after the deadline", 0, MS(1), MS(-1), WEIR_ADMISSION_REFUSE},
    {"no deadline", MS(1000), MS(1), NONE, WEIR_ADMISSION_PROCEED},
};

static void another_attempt_has_to_fit_the_budget(void **state) {
  const struct fixture *f = *state;
  for (size_t i = 0; i < sizeof resume_rows / sizeof resume_rows[0]; i++) {
    struct call call;
    call_init(&call, UNARY);
    call_set_deadline(&call, at_ns(resume_rows[i].deadline_in_ns));
    call.plan.resume_at_ns = at_ns(resume_rows[i].resume_in_ns);
    call.plan.min_attempt_ns = resume_rows[i].min_attempt_ns;
    const struct weir_event event = {.now_ns = NOW_NS, .random = NULL};

    enum weir_admission admission = f->layer->vtable->resume(f->layer, NULL, &event, &call.plan);

    if (admission != resume_rows[i].admission) {
      fail_msg("%s", resume_rows[i].why);
    }
    assert_int_equal(call.plan.reason,
                     admission == WEIR_ADMISSION_REFUSE ? WEIR_REASON_BUDGET : WEIR_REASON_NONE);
  }
}

static void running_out_of_memory_is_told(void **state) {
  (void)state;
  struct counting_allocator counting;
  counting_allocator_init(&counting);
  counting.n_allowed = 0;
  weir_interceptor *layer = (weir_interceptor *)&counting;

  assert_int_equal(weir__deadline_layer_new(&counting.base, &layer), WEIR_ERROR_NO_MEMORY);
  assert_null(layer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_nearest_bound_is_the_calls_deadline, setup, teardown),
      cmocka_unit_test_setup_teardown(a_ceiling_that_cuts_what_was_given_is_noted, setup, teardown),
      cmocka_unit_test_setup_teardown(a_stream_has_no_bound_unless_the_policy_says_so, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(a_stream_has_its_own_default_and_ceiling, setup, teardown),
      cmocka_unit_test_setup_teardown(a_methods_timeout_bounds_a_stream_too, setup, teardown),
      cmocka_unit_test_setup_teardown(a_parent_that_is_not_to_be_inherited_is_not_looked_at, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(a_call_without_time_is_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(another_attempt_has_to_fit_the_budget, setup, teardown),
      cmocka_unit_test(running_out_of_memory_is_told),
  };
  return cmocka_run_group_tests_name("deadline", tests, NULL, NULL);
}
