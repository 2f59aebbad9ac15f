/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "src/call/environment.h"
#include "src/channel/channel.h"
#include "test/stack/stack_fixture.h"

/* A look finds that two calls are over, one after the other, while another thread is about to start
 * the second: nothing comes of its batch, and it is started anew. What the look then does to it is
 * held back until a certain step of that. */

#define ATTEMPT MS(100)

enum step { WHEN_UNDONE = 0, WHEN_STARTED_ANEW, WHEN_REFUSED };

struct meeting {
  struct fixture *fixture;
  struct weir__transport real;
  enum step step;
  size_t n_starts;
  grpc_call *late;   /* the attempt of the first call */
  grpc_call *undone; /* the second's, that nothing came of */
  pthread_t looker;
  sem_t found;       /* the look is over, both are held */
  sem_t may_go_on;   /* with the second */
  atomic_bool is_on; /* the looker has done all that it does; relaxed: it orders nothing */
};

static struct meeting *meeting;

static bool is_looker(void) {
  return meeting->n_starts > 1 && pthread_equal(pthread_self(), meeting->looker) != 0;
}

static void *look(void *context) {
  struct fixture *f = context;
  grpc_event event = weir_completion_queue_next(f->queue, gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL);
  atomic_store_explicit(&meeting->is_on, true, memory_order_relaxed);
  return event.type == GRPC_QUEUE_TIMEOUT ? f : NULL;
}

static void let_it_go_on(void) {
  assert_int_equal(sem_post(&meeting->may_go_on), 0);
  while (!atomic_load_explicit(&meeting->is_on, memory_order_relaxed)) {
    (void)sched_yield();
  }
}

static void end_look(void) {
  void *looked = NULL;
  assert_int_equal(pthread_join(meeting->looker, &looked), 0);
  assert_non_null(looked);
}

static grpc_call_error hooked_start_batch(grpc_call *call, const grpc_op *ops, size_t n_ops,
                                          void *tag, void *context) {
  struct meeting *m = meeting;
  m->n_starts += n_ops > 0;
  if (n_ops > 0 && m->n_starts == 2) {
    m->undone = call;
    fake_clock_advance_to(&m->fixture->clock, T0 + ATTEMPT);
    assert_int_equal(pthread_create(&m->looker, NULL, look, m->fixture), 0);
    assert_int_equal(sem_wait(&m->found), 0);
    return GRPC_CALL_ERROR;
  }
  if (n_ops > 0 && m->n_starts == 3) {
    end_look();
    m->real.call_cancel(context, m->late, GRPC_STATUS_DEADLINE_EXCEEDED, "late");
  }
  return m->real.call_start_batch(call, ops, n_ops, tag, context);
}

static void hooked_cancel(void *context, grpc_call *call, grpc_status_code code,
                          const char *description) {
  struct meeting *m = meeting;
  if (is_looker()) {
    m->late = call;
    (void)sem_post(&m->found);
    (void)sem_wait(&m->may_go_on);
  } else {
    m->real.call_cancel(context, call, code, description);
  }
}

static void hooked_unref(void *context, grpc_call *call) {
  struct meeting *m = meeting;
  if (m->step == WHEN_UNDONE && call == m->undone) {
    let_it_go_on();
  }
  m->real.call_unref(context, call);
}

/* The last step before the attempt is the call's. */
static grpc_call *hooked_create(void *context, const struct weir__call_target *target) {
  struct meeting *m = meeting;
  grpc_call *call = m->real.call_create(context, target);
  if (m->step == WHEN_STARTED_ANEW && m->undone != NULL) {
    let_it_go_on();
  }
  return call;
}

/* The script is not for two threads. */
static grpc_event hooked_next(grpc_completion_queue *queue, gpr_timespec deadline, void *context) {
  return is_looker() && !atomic_load_explicit(&meeting->is_on, memory_order_relaxed)
             ? (grpc_event){.type = GRPC_QUEUE_TIMEOUT}
             : meeting->real.queue_next(queue, deadline, context);
}

static void meet(struct fixture *f, struct meeting *m, enum step step) {
  *m = (struct meeting){.fixture = f, .real = f->transport.base, .step = step};
  assert_int_equal(sem_init(&m->found, 0, 0), 0);
  assert_int_equal(sem_init(&m->may_go_on, 0, 0), 0);
  meeting = m;
  f->transport.base.call_start_batch = hooked_start_batch;
  f->transport.base.call_cancel = hooked_cancel;
  f->transport.base.call_unref = hooked_unref;
  f->transport.base.call_create = hooked_create;
  f->transport.base.queue_next = hooked_next;
}

static void part(struct fixture *f, struct meeting *m) {
  f->transport.base = m->real;
  assert_int_equal(sem_destroy(&m->found), 0);
  assert_int_equal(sem_destroy(&m->may_go_on), 0);
}

struct two {
  struct meeting meeting;
  struct unary first;
  struct unary second;
};

/* Up to the second's start that nothing comes of. */
static void begin(struct fixture *f, struct two *two, enum step step) {
  f->channel->environment->keeps_time = true;
  unary_init_with(f, &two->first,
                  &(struct unary_options){.method = METHOD, .deadline_at_ns = T0 + ATTEMPT});
  unary_init(f, &two->second);
  meet(f, &two->meeting, step);
  unary_start(f, &two->first);
  assert_int_equal(unary_try_start(f, &two->second), GRPC_CALL_ERROR);
}

static void run_to_end(struct fixture *f, struct two *two) {
  run_until_idle(f);
  assert_int_equal(two->first.status, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(two->second.status, GRPC_STATUS_OK);
  assert_int_equal(two->second.n_done, 1);
}

static void end(struct two *two) {
  unary_fini(&two->first);
  unary_fini(&two->second);
}

/* The new attempt has a time of its own. */
static void assert_untouched(struct fixture *f, enum step step) {
  struct two two;
  f->method.per_attempt_timeout_ns = ATTEMPT;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(100), EXPECT_SEND}, {AT_MS(150), REPLY("bar")}));
  begin(f, &two, step);
  unary_start(f, &two.second);
  part(f, &two.meeting);
  run_to_end(f, &two);
  assert_false(sent(f, 2)->cancelled);
  assert_int_equal(two.second.done_at_ns, T0 + MS(150));
  end(&two);
}

static void what_was_found_does_not_end_a_call_that_is_being_undone(void **state) {
  assert_untouched(*state, WHEN_UNDONE);
}

/* Nor is the attempt that is being made looked at: ThreadSanitizer would say so. */
static void what_was_found_does_not_end_a_call_that_is_being_started_anew(void **state) {
  assert_untouched(*state, WHEN_STARTED_ANEW);
}

static void what_was_found_finds_no_attempt_of_a_call_that_was_refused(void **state) {
  struct fixture *f = *state;
  struct two two;
  f->has_fallback = true;
  f->method.per_attempt_timeout_ns = ATTEMPT;
  fixture_open(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  begin(f, &two, WHEN_REFUSED);
  assert_int_equal(weir_channel_set_breaker_override(f->channel, NULL, WEIR_BREAKER_OVERRIDE_OPEN),
                   WEIR_OK);
  unary_start(f, &two.second);
  let_it_go_on();
  end_look();
  part(f, &two.meeting);
  f->transport.base.call_cancel(&f->transport, two.meeting.late, GRPC_STATUS_DEADLINE_EXCEEDED,
                                "late");
  scripted_fallback_run_all(&f->fallback);
  run_to_end(f, &two);
  assert_true(unary_reply_is(&two.second, "cached"));
  end(&two);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(what_was_found_does_not_end_a_call_that_is_being_undone),
      TEST(what_was_found_does_not_end_a_call_that_is_being_started_anew),
      TEST(what_was_found_finds_no_attempt_of_a_call_that_was_refused),
  };
  return cmocka_run_group_tests_name("kept_time_restart", tests, NULL, NULL);
}
