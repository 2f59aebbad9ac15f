/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/decisions.h"

#include <stdlib.h>

#include "bench/require.h"
#include "src/queue/timer_heap.h"

#define SERIES 900
#define STEP_NS 1000

/* Timers as calls in backoff have them: each due by chance, one taken out and another put in. */
struct timers {
  struct weir__timer_heap heap;
  struct weir__timer *all;
  size_t n;
  size_t next;
  int64_t now_ns; /* when the last one was due */
  uint64_t chance;
};

/* The same in each run. */
static int64_t due_at_ns(struct timers *timers) {
  timers->chance ^= timers->chance << 13;
  timers->chance ^= timers->chance >> 7;
  timers->chance ^= timers->chance << 17;
  return timers->now_ns + (int64_t)(timers->chance % 1000000) * STEP_NS;
}

static void take_out_and_put_in(struct timers *timers, struct weir__timer *timer) {
  require(weir__timer_heap_remove(&timers->heap, timer), "a timer is lost");
  timer->due_at_ns = due_at_ns(timers);
  weir__timer_heap_add(&timers->heap, timer);
}

static void take_due(struct timers *timers) {
  struct weir__timer *timer = weir__timer_heap_first(&timers->heap);
  timers->now_ns = timer->due_at_ns;
  take_out_and_put_in(timers, timer);
}

static void *timers_new(size_t n) {
  struct timers *timers = require_memory(1, sizeof *timers);
  timers->all = require_memory(n, sizeof *timers->all);
  timers->n = n;
  timers->chance = 88172645463325252;
  for (size_t i = 0; i < n; i++) {
    timers->all[i].due_at_ns = due_at_ns(timers);
    weir__timer_heap_add(&timers->heap, &timers->all[i]);
  }
  /* A heap that has only grown is in no order yet; who takes the first ones out puts it in order. */
  for (size_t i = 0; i < n; i++) {
    take_due(timers);
  }
  return timers;
}

static void timers_free(void *state) {
  struct timers *timers = state;
  free(timers->all);
  free(timers);
}

static void *setup_1(void) {
  return timers_new(1);
}

static void *setup_1000(void) {
  return timers_new(1000);
}

static void *setup_100000(void) {
  return timers_new(100000);
}

/* Every second time the one that is due, every second time another, as one that is cancelled. */
static void run_timers(void *state, uint32_t n_times) {
  struct timers *timers = state;
  for (uint32_t i = 0; i < n_times; i++) {
    if (i % 2 == 0) {
      take_due(timers);
    } else {
      take_out_and_put_in(timers, &timers->all[timers->next]);
      timers->next = timers->next + 1 < timers->n ? timers->next + 1 : 0;
    }
  }
}

const struct operation timer_of_1 = {
    .name = "timer.of_1",
    .series_length = SERIES,
    .setup = setup_1,
    .run = run_timers,
    .teardown = timers_free,
};

const struct operation timer_of_1000 = {
    .name = "timer.of_1000",
    .series_length = SERIES,
    .setup = setup_1000,
    .run = run_timers,
    .teardown = timers_free,
};

const struct operation timer_of_100000 = {
    .name = "timer.of_100000",
    .series_length = SERIES,
    .setup = setup_100000,
    .run = run_timers,
    .teardown = timers_free,
};
