/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/crowd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include <grpc/byte_buffer.h>

#include "test/e2e/fixture.h"

#define WAIT_LIMIT_NS SECONDS(30)

/* Of who was refused: a lease may be long. */
#define PATIENCE_NS MS(10)

struct crowd {
  weir_channel *channel;
  pthread_t threads[CROWD_THREADS];
  pthread_mutex_t mutex;  /* of all that follows */
  pthread_cond_t stirred; /* the gate, the phase */
  pthread_cond_t counted;
  bool open;
  bool over;
  unsigned n_at_gate;
  unsigned phase;
  int64_t timeout_ns;
  struct tally tallies[CROWD_PHASES];
};

static struct timespec timespec_of(int64_t at_ns) {
  return (struct timespec){.tv_sec = at_ns / WEIR_SECOND_NS, .tv_nsec = at_ns % WEIR_SECOND_NS};
}

static int64_t least(int64_t one, int64_t other) {
  return one < other ? one : other;
}

/* With the lock. False: the crowd is over. */
static bool pass_gate(struct crowd *crowd) {
  while (!crowd->open && !crowd->over) {
    crowd->n_at_gate++;
    (void)pthread_cond_signal(&crowd->counted);
    (void)pthread_cond_wait(&crowd->stirred, &crowd->mutex);
    crowd->n_at_gate--;
  }
  return !crowd->over;
}

/* With the lock. Until a refused call may be let through, unless something changes before. */
static void come_back_later(struct crowd *crowd, const struct weir_call_report *report) {
  if (report->n_attempts == 0 && report->next_probe_in_ns > 0 && crowd->open) {
    struct timespec until = timespec_of(now_ns() + least(report->next_probe_in_ns, PATIENCE_NS));
    (void)pthread_cond_timedwait(&crowd->stirred, &crowd->mutex, &until);
  }
}

static struct weir_call_report call_once(weir_channel *channel, int64_t timeout_ns) {
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  request.method = METHOD;
  request.message = message_of("hello");
  request.timeout_ns = timeout_ns;
  enum weir_error error = weir_unary(channel, &request, &reply);
  struct weir_call_report report = reply.report; /* UNKNOWN after an error */
  if (error == WEIR_OK && report.code != reply.code) {
    report.code = GRPC_STATUS_UNKNOWN;
  }
  weir_unary_reply_fini(&reply);
  grpc_byte_buffer_destroy(request.message);
  return report;
}

static void *call_on_and_on(void *argument) {
  struct crowd *crowd = argument;
  (void)pthread_mutex_lock(&crowd->mutex);
  while (pass_gate(crowd)) {
    unsigned phase = crowd->phase;
    int64_t timeout_ns = crowd->timeout_ns;
    (void)pthread_mutex_unlock(&crowd->mutex);
    struct weir_call_report report = call_once(crowd->channel, timeout_ns);
    (void)pthread_mutex_lock(&crowd->mutex);
    tally_add(&crowd->tallies[phase], &report);
    (void)pthread_cond_signal(&crowd->counted);
    come_back_later(crowd, &report);
  }
  (void)pthread_mutex_unlock(&crowd->mutex);
  return NULL;
}

struct crowd *crowd_new(weir_channel *channel) {
  struct crowd *crowd = calloc(1, sizeof *crowd);
  pthread_condattr_t monotonic;
  assert_non_null(crowd);
  crowd->channel = channel;
  (void)pthread_mutex_init(&crowd->mutex, NULL);
  (void)pthread_condattr_init(&monotonic);
  (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  (void)pthread_cond_init(&crowd->stirred, &monotonic);
  (void)pthread_cond_init(&crowd->counted, &monotonic);
  (void)pthread_condattr_destroy(&monotonic);
  for (size_t i = 0; i < CROWD_THREADS; i++) {
    assert_int_equal(pthread_create(&crowd->threads[i], NULL, call_on_and_on, crowd), 0);
  }
  return crowd;
}

void crowd_let_in(struct crowd *crowd, unsigned phase, int64_t timeout_ns) {
  (void)pthread_mutex_lock(&crowd->mutex);
  crowd->phase = phase;
  crowd->timeout_ns = timeout_ns;
  crowd->open = true;
  (void)pthread_cond_broadcast(&crowd->stirred);
  (void)pthread_mutex_unlock(&crowd->mutex);
}

static bool all_at_gate(const struct crowd *crowd, void *context) {
  (void)context;
  return crowd->n_at_gate == CROWD_THREADS;
}

void crowd_hold(struct crowd *crowd) {
  (void)pthread_mutex_lock(&crowd->mutex);
  crowd->open = false;
  (void)pthread_cond_broadcast(&crowd->stirred);
  (void)pthread_mutex_unlock(&crowd->mutex);
  assert_true(crowd_wait(crowd, all_at_gate, NULL));
}

bool crowd_wait(struct crowd *crowd, bool (*is_so)(const struct crowd *crowd, void *context),
                void *context) {
  struct timespec until = timespec_of(now_ns() + WAIT_LIMIT_NS);
  int error = 0;
  (void)pthread_mutex_lock(&crowd->mutex);
  bool so = is_so(crowd, context);
  while (!so && error == 0) {
    error = pthread_cond_timedwait(&crowd->counted, &crowd->mutex, &until);
    so = is_so(crowd, context);
  }
  (void)pthread_mutex_unlock(&crowd->mutex);
  return so;
}

const struct tally *crowd_tally(const struct crowd *crowd, unsigned phase) {
  return &crowd->tallies[phase];
}

void crowd_release(struct crowd *crowd) {
  (void)pthread_mutex_lock(&crowd->mutex);
  crowd->over = true;
  (void)pthread_cond_broadcast(&crowd->stirred);
  (void)pthread_mutex_unlock(&crowd->mutex);
  for (size_t i = 0; i < CROWD_THREADS; i++) {
    assert_int_equal(pthread_join(crowd->threads[i], NULL), 0);
  }
  (void)pthread_cond_destroy(&crowd->counted);
  (void)pthread_cond_destroy(&crowd->stirred);
  (void)pthread_mutex_destroy(&crowd->mutex);
  free(crowd);
}
