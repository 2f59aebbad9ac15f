/* breaker_fixture – what the breaker's tests share: memory that is counted, chance that is set.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_UNIT_DECIDE_BREAKER_FIXTURE_H
#define WEIR_TEST_UNIT_DECIDE_BREAKER_FIXTURE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/allocator.h>
#include <weir/breaker.h>
#include <weir/clock.h>

#include "src/decide/breaker.h"

#define MS(n) ((n)*WEIR_MS_NS)
#define SECONDS(n) ((n)*WEIR_SECOND_NS)

/* Some time after the machine's start. */
#define T0 SECONDS(1200)

struct fixture {
  struct weir_allocator allocator;
  atomic_size_t n_outstanding;
  size_t n_allocations;
  size_t fails_at; /* the nth allocation fails, and all later ones; 0 = none */

  struct weir_random random;
  uint64_t chance; /* what `random` returns; half of the range = no jitter */

  struct weir_breaker_options options;
  uint32_t stripe_mask; /* whatever the machine has */
  struct weir__breaker_rules rules;
  weir_breaker *breaker; /* of fixture_breaker */
};

#define CHANCE_LOWEST UINT64_C(0)
#define CHANCE_MIDDLE (UINT64_C(1) << 63)
#define CHANCE_HIGHEST UINT64_MAX

/* setup and teardown of cmocka; the latter fails on a leak. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

/* Makes f->breaker from f->options, with all its stripes; ended by fixture_breaker_end. */
void fixture_breaker(struct fixture *f);
void fixture_breaker_end(struct fixture *f);

/* Has f->breaker go by other options; f->options stay. */
void fixture_set_options(struct fixture *f, const struct weir_breaker_options *options);

/* A call that is let through; fails the test if it is not. */
struct weir_breaker_ticket fixture_admit(struct fixture *f, int64_t now_ns);

/* A call that is turned away; fails the test if it is not. Returns the time to the next probe. */
int64_t fixture_refused(struct fixture *f, int64_t now_ns);

void fixture_settle(struct fixture *f, struct weir_breaker_ticket *ticket,
                    enum weir_breaker_verdict verdict, int64_t now_ns);

/* `n` whole calls. */
void fixture_calls(struct fixture *f, uint32_t n, enum weir_breaker_verdict verdict,
                   int64_t now_ns);

struct weir_breaker_snapshot fixture_snapshot(const struct fixture *f, int64_t now_ns);

/* Opens a CLOSED breaker at `now_ns`, with as many failures as it takes. */
void fixture_trip(struct fixture *f, int64_t now_ns);

#endif /* WEIR_TEST_UNIT_DECIDE_BREAKER_FIXTURE_H */
