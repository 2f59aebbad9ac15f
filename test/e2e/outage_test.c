/* A total outage under load: 64 calls at once, on threads that block and on a queue, while the
 * server is gone, fails, or is silent. What is said of it is counted, not timed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <grpc/grpc.h>

#include <weir/weir.h>

#include "src/queue/queue.h"
#include "src/transport/transport.h"
#include "test/e2e/crowd.h"
#include "test/e2e/fixture.h"
#include "test/e2e/support/test_server.h"
#include "test/e2e/tally.h"

/* --- a server that can be lost --- */

enum outage {
  OUTAGE_NONE = 0,
  OUTAGE_REFUSED, /* nobody listens any more */
  OUTAGE_FAILING, /* every attempt is answered UNAVAILABLE */
  OUTAGE_SILENT   /* no attempt is answered */
};

struct peer {
  weir__test_server *server;
  _Atomic enum outage outage;
};

static void answer_unless_lost(void *context, const struct weir__test_served *served,
                               struct weir__test_reply *reply) {
  struct peer *peer = context;
  struct answer answer = {.code = GRPC_STATUS_OK};
  switch (atomic_load(&peer->outage)) {
  case OUTAGE_NONE:
  case OUTAGE_REFUSED:
    break;
  case OUTAGE_FAILING:
    answer.code = GRPC_STATUS_UNAVAILABLE;
    break;
  case OUTAGE_SILENT:
    answer.delay_ns = SECONDS(60); /* until the client gives up */
    break;
  }
  answer_with(&answer, served, reply);
}

static void peer_lose(struct peer *peer, enum outage outage) {
  atomic_store(&peer->outage, outage);
  if (outage == OUTAGE_REFUSED) {
    weir__test_server_stop(peer->server);
  }
}

static void peer_restore(struct peer *peer) {
  atomic_store(&peer->outage, OUTAGE_NONE);
  weir__test_server_start(peer->server);
}

/* --- the policy, and what it allows --- */

#define PROBES 3
#define FAILURE_RATIO 0.6
#define MAX_TOKENS 10

#define POLICY(open_for) POLICY_WITH(open_for, "")
#define POLICY_WITH(open_for, more)                                                       \
  "{\"deadline\":{\"defaultTimeout\":\"60s\"},\"breaker\":{\"openFor\":\"" open_for       \
  "\",\"probes\":3,\"minRequests\":5,\"failureRatio\":0.6" more "},\"retryThrottling\":{" \
  "\"maxTokens\":10,\"tokenRatio\":0.1}," METHODS(RETRY("4", "0.01s", UNAVAILABLE)) "}"

struct way {
  struct peer peer;
  weir_channel *channel;
};

static void open_way_with(struct way *way, const char *policy, const grpc_channel_args *args) {
  atomic_init(&way->peer.outage, OUTAGE_NONE);
  way->peer.server = weir__test_server_new(answer_unless_lost, &way->peer, 0);
  way->channel = channel_new(&(struct channel_setup){
      .port = weir__test_server_port(way->peer.server), .policy = policy, .args = args});
}

static void open_way(struct way *way, const char *policy) {
  open_way_with(way, policy, NULL);
}

static void close_way(struct way *way) {
  weir_channel_destroy(way->channel);
  weir__test_server_release(way->peer.server);
}

static struct weir_breaker_snapshot look(weir_channel *channel) {
  struct weir_breaker_snapshot snapshot = {.size = sizeof snapshot};
  assert_int_equal(weir_channel_breaker_snapshot(channel, METHOD, &snapshot), WEIR_OK);
  return snapshot;
}

/* The core has found out that its connection is gone, so that no call is lost with it. */
static void await_disconnection(struct way *way) {
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  while (weir_channel_check_connectivity_state(way->channel, 0) == GRPC_CHANNEL_READY) {
    weir_channel_watch_connectivity_state(way->channel, GRPC_CHANNEL_READY,
                                          gpr_inf_future(GPR_CLOCK_MONOTONIC), queue, way);
    assert_ptr_equal(next_tag(queue), way);
  }
  queue_end(queue);
}

/* As many failures as make six in ten of all that is in the window, and those calls that were under
 * way when the last of them came. */
static uint64_t most_before_trip(const struct weir_breaker_snapshot *before) {
  double n_failures = ceil((double)before->n_requests * FAILURE_RATIO / (1.0 - FAILURE_RATIO));
  return (uint64_t)n_failures + CROWD_THREADS - 1;
}

/* What holds of all calls of an outage, whatever its kind. `n_replays`: of calls that the server
 * never saw, which cost no token. */
static void assert_outage(const struct tally *tally, const struct weir_breaker_snapshot *before,
                          const struct weir_breaker_snapshot *after, uint64_t n_replays) {
  uint64_t n_probes = after->n_probes - before->n_probes;
  uint64_t n_trips = after->n_trips - before->n_trips;
  assert_int_equal(tally->n_odd, 0);
  assert_int_equal(tally->n_ok, 0);
  assert_int_equal(tally->n_ramped, 0);
  assert_int_equal(tally->n_calls, tally->n_admitted + tally->n_refused + tally->n_expired);
  assert_true(tally->n_admitted - n_probes <= most_before_trip(before));
  assert_true(tally->n_attempts - tally->n_admitted <= MAX_TOKENS / 2 + n_replays);
  assert_true(n_probes > 0 && n_probes <= PROBES * n_trips);
  assert_int_equal(after->n_refused - before->n_refused, tally->n_refused);
  assert_true(tally->n_refused > n_trips);
}

/* --- on threads that block --- */

enum phase { PHASE_UP = 0, PHASE_OUTAGE, PHASE_RETURN, PHASE_BACK };

struct goal {
  weir_channel *channel;
  enum phase phase;
  uint64_t count;
};

static bool has_called(const struct crowd *crowd, void *context) {
  const struct goal *goal = context;
  return crowd_tally(crowd, goal->phase)->n_calls >= goal->count;
}

static bool has_tripped(const struct crowd *crowd, void *context) {
  (void)crowd;
  const struct goal *goal = context;
  return look(goal->channel).n_trips >= goal->count;
}

static bool is_whole(const struct crowd *crowd, void *context) {
  (void)crowd;
  const struct goal *goal = context;
  struct weir_breaker_snapshot snapshot = look(goal->channel);
  return snapshot.state == WEIR_BREAKER_CLOSED && snapshot.admitted_share_milli == 1000;
}

/* The crowd is held when this returns. */
static struct crowd *open_crowd(struct way *way) {
  struct crowd *crowd = crowd_new(way->channel);
  crowd_let_in(crowd, PHASE_UP, WEIR_NO_LIMIT_NS);
  assert_true(crowd_wait(crowd, has_called, &(struct goal){NULL, PHASE_UP, 2 * CROWD_THREADS}));
  crowd_hold(crowd);
  const struct tally *up = crowd_tally(crowd, PHASE_UP);
  assert_int_equal(up->n_ok, up->n_calls);
  return crowd;
}

#define TRIPS 5

/* Until the breaker has opened again and again. */
static void sit_outage_out(struct way *way, struct crowd *crowd) {
  assert_true(crowd_wait(crowd, has_tripped, &(struct goal){way->channel, PHASE_OUTAGE, TRIPS}));
  crowd_hold(crowd);
}

/* The server is back while the crowd goes on. `n_more_trips`: half-open periods that may have begun
 * too early for it; each costs one openFor. */
static void assert_recovery(struct way *way, struct crowd *crowd, uint64_t n_more_trips) {
  crowd_let_in(crowd, PHASE_RETURN, WEIR_NO_LIMIT_NS);
  peer_restore(&way->peer);
  uint64_t n_trips = look(way->channel).n_trips;
  assert_true(crowd_wait(crowd, is_whole, &(struct goal){way->channel, PHASE_RETURN, 0}));
  crowd_let_in(crowd, PHASE_BACK, WEIR_NO_LIMIT_NS);
  assert_true(crowd_wait(crowd, has_called, &(struct goal){NULL, PHASE_BACK, 4 * CROWD_THREADS}));
  crowd_hold(crowd);
  const struct tally *back = crowd_tally(crowd, PHASE_BACK);
  assert_int_equal(back->n_ok, back->n_calls);
  assert_int_equal(crowd_tally(crowd, PHASE_RETURN)->n_odd, 0);
  assert_true(look(way->channel).n_trips <= n_trips + n_more_trips);
}

static void nobody_listening_is_found_out_by_probes_alone(void **state) {
  (void)state;
  struct way way;
  open_way(&way, POLICY("0.2s"));
  struct crowd *crowd = open_crowd(&way);
  struct weir_breaker_snapshot before = look(way.channel);
  peer_lose(&way.peer, OUTAGE_REFUSED);
  await_disconnection(&way);
  crowd_let_in(crowd, PHASE_OUTAGE, WEIR_NO_LIMIT_NS);
  sit_outage_out(&way, crowd);
  struct weir_breaker_snapshot after = look(way.channel);
  assert_outage(crowd_tally(crowd, PHASE_OUTAGE), &before, &after, 0);

  /* one that begins just before the connection is there, and one more on a busy machine */
  assert_recovery(&way, crowd, 2);
  crowd_release(crowd);
  close_way(&way);
}

/* The core would wait for an hour before it connects again, as after a long outage it does for
 * minutes. */
static void a_core_that_waits_to_connect_does_not_hold_the_recovery_up(void **state) {
  (void)state;
  char min_key[] = GRPC_ARG_MIN_RECONNECT_BACKOFF_MS;
  char initial_key[] = GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS;
  char max_key[] = GRPC_ARG_MAX_RECONNECT_BACKOFF_MS;
  grpc_arg hour[] = {
      {.type = GRPC_ARG_INTEGER, .key = min_key, .value.integer = 3600000},
      {.type = GRPC_ARG_INTEGER, .key = initial_key, .value.integer = 3600000},
      {.type = GRPC_ARG_INTEGER, .key = max_key, .value.integer = 3600000},
  };
  const grpc_channel_args args = {.num_args = COUNT_OF(hour), .args = hour};
  struct way way;
  open_way_with(&way, POLICY("0.2s"), &args);
  struct crowd *crowd = open_crowd(&way);
  peer_lose(&way.peer, OUTAGE_REFUSED);
  await_disconnection(&way);
  crowd_let_in(crowd, PHASE_OUTAGE, WEIR_NO_LIMIT_NS);
  assert_true(crowd_wait(crowd, has_tripped, &(struct goal){way.channel, PHASE_OUTAGE, 2}));
  assert_recovery(&way, crowd, 2);
  crowd_release(crowd);
  close_way(&way);
}

/* Calls that the server has begun to serve fail, others find the connection closing. */
static void a_server_that_goes_under_load_costs_no_more_than_its_calls(void **state) {
  (void)state;
  struct way way;
  open_way(&way, POLICY("0.05s"));
  struct crowd *crowd = open_crowd(&way);
  struct weir_breaker_snapshot before = look(way.channel);
  crowd_let_in(crowd, PHASE_OUTAGE, WEIR_NO_LIMIT_NS);
  assert_true(crowd_wait(crowd, has_called, &(struct goal){NULL, PHASE_OUTAGE, CROWD_THREADS}));
  peer_lose(&way.peer, OUTAGE_REFUSED);
  sit_outage_out(&way, crowd);
  struct weir_breaker_snapshot after = look(way.channel);
  struct tally tally = *crowd_tally(crowd, PHASE_OUTAGE);
  uint64_t n_answered = tally.n_ok + tally.n_cut_off;
  assert_true(tally.n_ok >= CROWD_THREADS);
  before.n_requests += n_answered; /* these were before the outage */
  tally.n_calls -= n_answered;
  tally.n_admitted -= n_answered;
  tally.n_attempts -= n_answered;
  tally.n_ok = 0;
  assert_outage(&tally, &before, &after, CROWD_THREADS);
  crowd_release(crowd);
  close_way(&way);
}

static void a_failing_server_is_asked_by_probes_alone(void **state) {
  (void)state;
  struct way way;
  open_way(&way, POLICY("0.1s"));
  struct crowd *crowd = open_crowd(&way);
  struct weir_breaker_snapshot before = look(way.channel);
  uint64_t n_served = weir__test_server_n_calls(way.peer.server);
  peer_lose(&way.peer, OUTAGE_FAILING);
  crowd_let_in(crowd, PHASE_OUTAGE, WEIR_NO_LIMIT_NS);
  sit_outage_out(&way, crowd);
  struct weir_breaker_snapshot after = look(way.channel);
  const struct tally *tally = crowd_tally(crowd, PHASE_OUTAGE);
  assert_outage(tally, &before, &after, 0);
  assert_int_equal(weir__test_server_n_calls(way.peer.server), n_served + tally->n_attempts);
  assert_recovery(&way, crowd, 0); /* no probe was under way: the next one succeeds */
  crowd_release(crowd);
  close_way(&way);
}

/* All of the load at once is not what a server that has just come back should get. */
static void a_server_that_is_back_gets_its_load_by_and_by(void **state) {
  (void)state;
  struct way way;
  open_way(&way, POLICY_WITH("0.05s", ",\"rampFor\":\"0.3s\""));
  struct crowd *crowd = open_crowd(&way);
  peer_lose(&way.peer, OUTAGE_FAILING);
  crowd_let_in(crowd, PHASE_OUTAGE, WEIR_NO_LIMIT_NS);
  sit_outage_out(&way, crowd);
  assert_int_equal(crowd_tally(crowd, PHASE_OUTAGE)->n_ramped, 0);
  assert_recovery(&way, crowd, 0); /* the ramp included */
  assert_true(crowd_tally(crowd, PHASE_RETURN)->n_ramped > 0);
  assert_true(crowd_tally(crowd, PHASE_RETURN)->n_ok > PROBES);
  crowd_release(crowd);
  close_way(&way);
}

static void a_silent_server_is_asked_by_probes_alone(void **state) {
  (void)state;
  struct way way;
  open_way(&way, POLICY("0.1s"));
  struct crowd *crowd = open_crowd(&way);
  struct weir_breaker_snapshot before = look(way.channel);
  uint64_t n_served = weir__test_server_n_calls(way.peer.server);
  peer_lose(&way.peer, OUTAGE_SILENT);
  crowd_let_in(crowd, PHASE_OUTAGE, MS(20));
  sit_outage_out(&way, crowd);
  struct weir_breaker_snapshot after = look(way.channel);
  const struct tally *tally = crowd_tally(crowd, PHASE_OUTAGE);
  assert_outage(tally, &before, &after, 0);
  assert_int_equal(tally->n_attempts, tally->n_admitted); /* no time is left for another */
  assert_true(weir__test_server_n_calls(way.peer.server) <= n_served + tally->n_attempts);
  assert_recovery(&way, crowd, 0);
  crowd_release(crowd);
  close_way(&way);
}

/* --- on a queue, in a time that runs ahead --- */

#define CALLS 64

/* What a refusal, and a wait for the core, put the clock forward by. */
#define REFUSAL_NS (MS(1) / 2)
#define WAIT_NS MS(10)

struct swarm {
  weir_channel *channel;
  weir_completion_queue *queue;
  struct weir_clock clock;
  int64_t ahead_ns; /* one thread does it all */
  struct unary calls[CALLS];
  bool under_way[CALLS];
  unsigned n_under_way;
};

static int64_t ahead_of_time(void *context) {
  const struct swarm *swarm = context;
  return now_ns() + swarm->ahead_ns;
}

static void swarm_open(struct swarm *swarm, weir_channel *channel) {
  *swarm = (struct swarm){.channel = channel};
  swarm->clock =
      (struct weir_clock){.size = sizeof swarm->clock, .now_ns = ahead_of_time, .context = swarm};
  swarm->queue = weir__queue_new(&(struct weir__queue_options){
      .clock = &swarm->clock, .transport = weir__transport_core(), .type = GRPC_CQ_NEXT});
  assert_non_null(swarm->queue);
}

static void swarm_start(struct swarm *swarm, unsigned i) {
  assert_false(swarm->under_way[i]);
  unary_start(&swarm->calls[i], swarm->channel, swarm->queue, NULL);
  swarm->under_way[i] = true;
  swarm->n_under_way++;
}

/* Waits a moment for a tag. False: none came, and time has passed. */
static bool swarm_step(struct swarm *swarm, struct tally *tally, unsigned *ended_out) {
  gpr_timespec soon =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(1, GPR_TIMESPAN));
  grpc_event event = weir_completion_queue_next(swarm->queue, soon, NULL);
  if (event.type != GRPC_OP_COMPLETE) {
    assert_int_equal(event.type, GRPC_QUEUE_TIMEOUT);
    swarm->ahead_ns += WAIT_NS;
    return false;
  }
  struct unary *unary = event.tag;
  *ended_out = (unsigned)(unary - swarm->calls);
  assert_true(*ended_out < CALLS && swarm->under_way[*ended_out]);
  swarm->under_way[*ended_out] = false;
  swarm->n_under_way--;
  unary_read_report(unary);
  tally_add(tally, &unary->report);
  if (unary->report.breaker_state == WEIR_BREAKER_OPEN) { /* a probe's time is the core's */
    swarm->ahead_ns += REFUSAL_NS;
  }
  unary_fini(unary);
  return true;
}

/* Keeps all calls under way for a time, and lets them end. */
static struct tally swarm_run(struct swarm *swarm, int64_t span_ns) {
  struct tally tally = {.n_calls = 0};
  int64_t until_ns = ahead_of_time(swarm) + span_ns;
  unsigned ended = 0;
  for (unsigned i = 0; i < CALLS; i++) {
    swarm_start(swarm, i);
  }
  while (swarm->n_under_way > 0) {
    if (swarm_step(swarm, &tally, &ended) && ahead_of_time(swarm) < until_ns) {
      swarm_start(swarm, ended);
    }
  }
  return tally;
}

#define OUTAGE_NS SECONDS(20)
#define OPEN_FOR_NS SECONDS(1)

/* openFor has a jitter of a tenth; what calls take to fail comes on top. */
static void assert_open_times(const struct weir_breaker_snapshot *after) {
  assert_true(after->n_trips <= 1 + OUTAGE_NS / (OPEN_FOR_NS * 9 / 10));
  assert_true(after->n_trips >= OUTAGE_NS / (OPEN_FOR_NS * 2));
}

static void twenty_seconds_of_nobody_listening_cost_probes_alone(void **state) {
  (void)state;
  struct way way;
  struct swarm swarm;
  open_way(&way, POLICY("1s"));
  swarm_open(&swarm, way.channel);
  struct tally up = swarm_run(&swarm, 0);
  assert_int_equal(up.n_ok, CALLS);
  struct weir_breaker_snapshot before = look(way.channel);
  peer_lose(&way.peer, OUTAGE_REFUSED);
  await_disconnection(&way);
  struct tally tally = swarm_run(&swarm, OUTAGE_NS);
  struct weir_breaker_snapshot after = look(way.channel);
  assert_outage(&tally, &before, &after, 0);
  assert_open_times(&after);
  queue_end(swarm.queue);
  close_way(&way);
}

static void twenty_seconds_of_a_failing_server_cost_probes_alone(void **state) {
  (void)state;
  struct way way;
  struct swarm swarm;
  open_way(&way, POLICY("1s"));
  swarm_open(&swarm, way.channel);
  struct tally up = swarm_run(&swarm, 0);
  assert_int_equal(up.n_ok, CALLS);
  struct weir_breaker_snapshot before = look(way.channel);
  peer_lose(&way.peer, OUTAGE_FAILING);
  struct tally tally = swarm_run(&swarm, OUTAGE_NS);
  struct weir_breaker_snapshot after = look(way.channel);
  assert_outage(&tally, &before, &after, 0);
  assert_open_times(&after);
  assert_int_equal(weir__test_server_n_calls(way.peer.server), CALLS + tally.n_attempts);

  peer_restore(&way.peer);
  struct tally recovery = swarm_run(&swarm, OPEN_FOR_NS * 11 / 10);
  assert_true(recovery.n_ok >= PROBES);
  assert_int_equal(look(way.channel).n_trips, after.n_trips);
  struct tally back = swarm_run(&swarm, 0);
  assert_int_equal(back.n_ok, CALLS);
  queue_end(swarm.queue);
  close_way(&way);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nobody_listening_is_found_out_by_probes_alone),
      cmocka_unit_test(a_core_that_waits_to_connect_does_not_hold_the_recovery_up),
      cmocka_unit_test(a_server_that_goes_under_load_costs_no_more_than_its_calls),
      cmocka_unit_test(a_failing_server_is_asked_by_probes_alone),
      cmocka_unit_test(a_server_that_is_back_gets_its_load_by_and_by),
      cmocka_unit_test(a_silent_server_is_asked_by_probes_alone),
      cmocka_unit_test(twenty_seconds_of_nobody_listening_cost_probes_alone),
      cmocka_unit_test(twenty_seconds_of_a_failing_server_cost_probes_alone),
  };
  return cmocka_run_group_tests_name("outage", tests, start_core, stop_core);
}
