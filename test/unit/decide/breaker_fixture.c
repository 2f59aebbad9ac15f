/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/decide/breaker_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/decide/breaker_window.h"

static void *counting_allocate(void *context, size_t n_bytes) {
  struct fixture *f = context;
  f->n_allocations++;
  if (f->fails_at != 0 && f->n_allocations >= f->fails_at) {
    return NULL;
  }
  void *memory = malloc(n_bytes);
  if (memory != NULL) {
    atomic_fetch_add(&f->n_outstanding, 1);
  }
  return memory;
}

static void counting_release(void *context, void *memory) {
  struct fixture *f = context;
  atomic_fetch_sub(&f->n_outstanding, 1);
  free(memory);
}

static uint64_t set_chance(void *context) {
  const struct fixture *f = context;
  return f->chance;
}

int fixture_setup(void **state) {
  struct fixture *f = calloc(1, sizeof *f);
  if (f == NULL) {
    return -1;
  }
  f->allocator = (struct weir_allocator){
      .size = sizeof f->allocator,
      .allocate = counting_allocate,
      .release = counting_release,
      .context = f,
  };
  f->random = (struct weir_random){.size = sizeof f->random, .next = set_chance, .context = f};
  f->chance = CHANCE_MIDDLE;
  f->stripe_mask = 3;
  f->options = (struct weir_breaker_options)WEIR_BREAKER_OPTIONS_INIT;
  *state = f;
  return 0;
}

int fixture_teardown(void **state) {
  struct fixture *f = *state;
  size_t n_outstanding = atomic_load(&f->n_outstanding);
  free(f);
  return n_outstanding == 0 ? 0 : -1;
}

void fixture_breaker(struct fixture *f) {
  weir__breaker_rules_init(&f->rules, &f->options, &f->allocator);
  f->rules.stripe_mask = f->stripe_mask;
  f->breaker = f->allocator.allocate(f, weir__breaker_bytes(&f->rules));
  assert_non_null(f->breaker);
  weir__breaker_init(f->breaker, &f->rules);
  assert_true(weir__breaker_spread(f->breaker));
}

void fixture_breaker_end(struct fixture *f) {
  weir__breaker_fini(f->breaker);
  f->allocator.release(f, f->breaker);
  f->breaker = NULL;
}

void fixture_set_options(struct fixture *f, const struct weir_breaker_options *options) {
  assert_true(weir__breaker_reserve(f->breaker, options));
  if (weir__breaker_rules_recut(&f->rules, options)) {
    weir__breaker_window_clear(f->breaker);
  }
  weir__breaker_rules_set(&f->rules, options);
}

struct weir_breaker_ticket fixture_admit(struct fixture *f, int64_t now_ns) {
  struct weir_breaker_ticket ticket;
  struct weir_breaker_view view;
  memset(&ticket, 0xff, sizeof ticket);
  memset(&view, 0xff, sizeof view);
  assert_int_equal(weir_breaker_admit(f->breaker, now_ns, &f->random, &ticket, &view),
                   WEIR_ADMISSION_PROCEED);
  assert_int_equal(ticket.stage, WEIR_BREAKER_TICKET_PENDING);
  assert_int_equal(view.next_probe_in_ns, 0);
  return ticket;
}

int64_t fixture_refused(struct fixture *f, int64_t now_ns) {
  struct weir_breaker_ticket ticket;
  struct weir_breaker_view view;
  memset(&ticket, 0xff, sizeof ticket);
  memset(&view, 0xff, sizeof view);
  assert_int_equal(weir_breaker_admit(f->breaker, now_ns, &f->random, &ticket, &view),
                   WEIR_ADMISSION_REFUSE);
  assert_int_equal(ticket.stage, WEIR_BREAKER_TICKET_SPENT);
  assert_int_not_equal(view.state, WEIR_BREAKER_CLOSED);
  assert_true(view.next_probe_in_ns >= 0);
  return view.next_probe_in_ns;
}

void fixture_settle(struct fixture *f, struct weir_breaker_ticket *ticket,
                    enum weir_breaker_verdict verdict, int64_t now_ns) {
  weir_breaker_settle(f->breaker, ticket, verdict, now_ns, &f->random, NULL);
  weir_breaker_release(f->breaker, ticket);
}

void fixture_calls(struct fixture *f, uint32_t n, enum weir_breaker_verdict verdict,
                   int64_t now_ns) {
  for (uint32_t i = 0; i < n; i++) {
    struct weir_breaker_ticket ticket = fixture_admit(f, now_ns);
    fixture_settle(f, &ticket, verdict, now_ns);
  }
}

struct weir_breaker_snapshot fixture_snapshot(const struct fixture *f, int64_t now_ns) {
  struct weir_breaker_snapshot snapshot;
  memset(&snapshot, 0xff, sizeof snapshot);
  snapshot.size = sizeof snapshot;
  assert_int_equal(weir_breaker_snapshot(f->breaker, now_ns, &snapshot), WEIR_OK);
  assert_int_equal(snapshot.size, sizeof snapshot);
  return snapshot;
}

void fixture_trip(struct fixture *f, int64_t now_ns) {
  assert_int_equal(fixture_snapshot(f, now_ns).state, WEIR_BREAKER_CLOSED);
  fixture_calls(f, f->options.min_requests, WEIR_BREAKER_VERDICT_FAILURE, now_ns);
  assert_int_equal(fixture_snapshot(f, now_ns).state, WEIR_BREAKER_OPEN);
}
