/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <grpc/grpc.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/odd_case.h"
#include "test/e2e/seen.h"
#include "test/e2e/shaped_call.h"
#include "test/e2e/support/odd_peer.h"

#define RETRIES METHODS(RETRY("3", "0.001s", CODES_ALL))

/* HTTP/2's numbers of settings. */
#define MAX_CONCURRENT_STREAMS 3
#define INITIAL_WINDOW_SIZE 4

/* Where the peer falls silent, for ever. */
struct silence {
  const char *why;
  struct odd_script script;
  struct odd_script greeting; /* without steps: as a server greets */
};

static const struct silence silences[] = {
    {.why = "accepted", .greeting = ODD_SCRIPT(ODD_MUTE)},
    {.why = "accepted, and nothing is read", .greeting = ODD_SCRIPT(ODD_MUTE, ODD_DEAF)},
    {.why = "half of SETTINGS", .greeting = ODD_SCRIPT(ODD_CUT, ODD_SETTINGS(3, 100))},
    {.why = "a window that never opens",
     .greeting = ODD_SCRIPT(ODD_NO_WINDOW, ODD_SETTINGS(INITIAL_WINDOW_SIZE, 0))},
    {.why = "headers, and a window that never opens",
     .greeting = ODD_SCRIPT(ODD_NO_WINDOW, ODD_SETTINGS(INITIAL_WINDOW_SIZE, 0)),
     .script = ODD_EARLY_SCRIPT(ODD_HEADERS(ODD_OK))},
    {.why = "no stream is allowed",
     .greeting = ODD_SCRIPT(ODD_SETTINGS(MAX_CONCURRENT_STREAMS, 0))},
    {.why = "the request is read"},
    {.why = "the request is read, and nothing acknowledged",
     .greeting = ODD_SCRIPT(ODD_NO_ACKS, ODD_SETTINGS(0, 0))},
    {.why = "a graceful GOAWAY", .script = ODD_SCRIPT(ODD_GRACEFUL_GOAWAY)},
    {.why = "headers", .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK))},
    {.why = "half of headers", .script = ODD_SCRIPT(ODD_CUT, ODD_HEADERS(ODD_OK "x " SECRET "\n"))},
    {.why = "headers that go on",
     .script = ODD_SCRIPT(ODD_RAW_HEADERS(ODD_FLAG_NONE, ODD_OK), ODD_CONTINUATIONS(9))},
    {.why = "half of Trailers-Only", .script = ODD_SCRIPT(ODD_CUT, ODD_ONLY(14))},
    {.why = "half of trailers",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_CUT, ODD_TRAILERS(ODD_STATUS(14)))},
    {.why = "half of a message",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_CUT, ODD_MESSAGE(SECRET))},
    {.why = "a message of 4 GiB",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_DATA("\0\377\377\377\377x"))},
    {.why = "a message", .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_MESSAGE(SECRET))},
    {.why = "two messages",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_MESSAGE(SECRET), ODD_MESSAGE(SECRET))},
    {.why = "half of a frame's header", .script = ODD_SCRIPT(ODD_BYTES("\0\0\10\6"))},
};

#define N_SILENCES COUNT_OF(silences)

/* The ways to call. A retry that the policy allows would come before the call's end. */
enum way { PLAIN = 0, AT_BOUNDARY, RETRIED_AT_BOUNDARY, N_WAYS };

static const char *const policies[N_WAYS] = {
    [PLAIN] = "{" NO_BOUNDARY "}",
    [AT_BOUNDARY] = "{}",
    [RETRIED_AT_BOUNDARY] = "{" RETRIES "}",
};

/* One call, on a connection of its own. */
struct victim {
  size_t silence;
  enum way way;
  weir_channel *channel;
  struct shaped_call call;
};

#define N_VICTIMS (N_SILENCES * N_WAYS * N_SHAPES)

/* A peer for each silence, and a call of each shape in each way: all under way at once. */
static weir_completion_queue *queue;
static struct odd_peer *peers[N_SILENCES];
static struct victim victims[N_VICTIMS];

static void victim_fail(const struct victim *victim, const char *what) {
  static const char *const names[N_WAYS] = {"no boundary", "boundary", "boundary, retries"};
  const struct weir_call_report *report = &victim->call.unary.report;
  fail_msg("%s (%s, %s): %s; %s from %s, %u attempts, %zu tags are owed",
           silences[victim->silence].why, shape_name(victim->call.shape), names[victim->way], what,
           weir_status_code_name(victim->call.unary.code), weir_origin_name(report->origin),
           report->n_attempts, victim->call.n_under_way);
}

static void victims_start(int64_t timeout_ns) {
  queue = weir_completion_queue_create_for_next(NULL);
  for (size_t i = 0; i < N_SILENCES; i++) {
    bool greets_oddly = silences[i].greeting.steps[0].act != ODD_ACT_END;
    peers[i] = odd_peer_new(&(struct odd_setup){.greetings = &silences[i].greeting,
                                                .n_greetings = greets_oddly ? 1 : 0,
                                                .answers = &silences[i].script,
                                                .n_answers = 1});
  }
  for (size_t i = 0; i < N_VICTIMS; i++) {
    struct victim *victim = &victims[i];
    victim->silence = i % N_SILENCES;
    victim->way = (enum way)(i / N_SILENCES % N_WAYS);
    victim->channel =
        channel_new(&(struct channel_setup){.port = odd_peer_port(peers[victim->silence]),
                                            .policy = policies[victim->way],
                                            .own_connection = true});
    shaped_start(&victim->call, (enum shape)(i / N_SILENCES / N_WAYS), victim->channel, queue,
                 &(struct unary_setup){.timeout_ns = timeout_ns});
  }
}

/* Gives a tag to the call that it belongs to. */
static void take_tag(void *tag, bool ok) {
  for (size_t i = 0; i < N_VICTIMS; i++) {
    if (shaped_on_tag(&victims[i].call, tag, ok)) {
      return;
    }
  }
  fail_msg("a tag came that was not owed");
}

static gpr_timespec in_ns(int64_t ns) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(ns, GPR_TIMESPAN));
}

/* Takes the tags that come until `for_ns` have passed, or the queue is over; `n` at most. */
static grpc_completion_type victims_take(size_t n, int64_t for_ns) {
  gpr_timespec limit = in_ns(for_ns);
  for (size_t i = 0; i < n; i++) {
    grpc_event event = weir_completion_queue_next(queue, limit, NULL);
    if (event.type != GRPC_OP_COMPLETE) {
      return event.type;
    }
    take_tag(event.tag, event.success != 0);
  }
  return GRPC_OP_COMPLETE;
}

static grpc_completion_type victims_drain(int64_t for_ns) {
  return victims_take(SIZE_MAX, for_ns);
}

/* Enough for each peer to have said what it says; if not, less is tried, and nothing fails. */
#define A_WHILE MS(200)

/* Waits for the end of the queue, and so of every call. */
static void victims_finish(void) {
  weir_completion_queue_shutdown(queue);
  grpc_completion_type last = victims_drain(SECONDS(30));
  for (size_t i = 0; i < N_VICTIMS; i++) {
    if (victims[i].call.n_under_way > 0) {
      victim_fail(&victims[i], "it goes on");
    }
  }
  assert_int_equal(last, GRPC_QUEUE_SHUTDOWN);
}

static void victims_end(void) {
  for (size_t i = 0; i < N_VICTIMS; i++) {
    shaped_fini(&victims[i].call);
    weir_channel_destroy(victims[i].channel);
  }
  for (size_t i = 0; i < N_SILENCES; i++) {
    odd_peer_release(peers[i]);
  }
  weir_completion_queue_destroy(queue);
}

static void check_secret(const struct victim *victim) {
  static struct seen seen;
  seen.size = 0;
  see_unary(&seen, &victim->call.unary);
  if (victim->way != PLAIN && victim->call.shape == SHAPE_ONE_BATCH &&
      count_seen(&seen, SECRET) > 0) {
    victim_fail(victim, "it is seen");
  }
}

/* A black hole is a failure, a cancellation no sample; a stream's first message is one of its
 * own. */
static void check_breaker(const struct victim *victim, enum weir_origin origin) {
  struct weir_breaker_snapshot snapshot = {.size = sizeof snapshot};
  uint64_t n_failures = origin == WEIR_ORIGIN_LOCAL_DEADLINE ? 1 : 0;
  uint64_t n_answers =
      victim->call.shape != SHAPE_ONE_BATCH && victim->call.unary.message != NULL ? 1 : 0;
  assert_int_equal(weir_channel_breaker_snapshot(victim->channel, METHOD, &snapshot), WEIR_OK);
  if (snapshot.n_failures != n_failures || snapshot.n_requests > n_failures + n_answers) {
    victim_fail(victim, "breaker");
  }
}

/* All ended so, and none was tried again, though the policy lists every code. */
static void check_victims(grpc_status_code code, enum weir_origin origin) {
  for (size_t i = 0; i < N_VICTIMS; i++) {
    struct victim *victim = &victims[i];
    struct unary *unary = &victim->call.unary;
    unary_read_report(unary);
    if (unary->code != code || unary->report.origin != origin || unary->report.n_attempts != 1) {
      victim_fail(victim, "its end");
    }
    check_breaker(victim, origin);
    check_secret(victim);
  }
  for (size_t i = 0; i < N_SILENCES; i++) {
    assert_true(odd_peer_count(peers[i], ODD_REQUESTS) <= (size_t)N_WAYS * N_SHAPES);
  }
}

/* --- how it ends --- */

static void the_deadline_ends_every_call(void **state) {
  (void)state;
  victims_start(MS(500));
  victims_finish();
  check_victims(GRPC_STATUS_DEADLINE_EXCEEDED, WEIR_ORIGIN_LOCAL_DEADLINE);
  victims_end();
}

static void cancel_all(void) {
  for (size_t i = 0; i < N_VICTIMS; i++) {
    assert_int_equal(weir_call_cancel(victims[i].call.unary.call, NULL), GRPC_CALL_OK);
  }
}

static void a_cancellation_ends_every_call(void **state) {
  (void)state;
  victims_start(SECONDS(60));
  (void)victims_drain(A_WHILE);
  cancel_all();
  victims_finish();
  check_victims(GRPC_STATUS_CANCELLED, WEIR_ORIGIN_LOCAL_CANCEL);
  victims_end();
}

/* Before anything could have come. */
static void a_cancellation_at_once_ends_every_call(void **state) {
  (void)state;
  victims_start(SECONDS(60));
  cancel_all();
  victims_finish();
  check_victims(GRPC_STATUS_CANCELLED, WEIR_ORIGIN_LOCAL_CANCEL);
  victims_end();
}

/* The application's own, so a boundary lets it through. */
static void a_cancellation_with_a_status_ends_every_call_with_it(void **state) {
  (void)state;
  victims_start(SECONDS(60));
  (void)victims_drain(A_WHILE);
  for (size_t i = 0; i < N_VICTIMS; i++) {
    assert_int_equal(weir_call_cancel_with_status(victims[i].call.unary.call,
                                                  GRPC_STATUS_FAILED_PRECONDITION, "enough", NULL),
                     GRPC_CALL_OK);
  }
  victims_finish();
  check_victims(GRPC_STATUS_FAILED_PRECONDITION, WEIR_ORIGIN_LOCAL_CANCEL);
  victims_end();
}

/* As with the core, a call under way keeps its queue; its deadline holds all the same. */
static void a_queue_that_is_shut_down_waits_for_the_deadline(void **state) {
  (void)state;
  victims_start(MS(500));
  weir_completion_queue_shutdown(queue);
  victims_finish();
  check_victims(GRPC_STATUS_DEADLINE_EXCEEDED, WEIR_ORIGIN_LOCAL_DEADLINE);
  victims_end();
}

static void let_go_after(size_t n_tags) {
  victims_start(SECONDS(60));
  (void)victims_take(n_tags, A_WHILE);
  for (size_t i = 0; i < N_VICTIMS; i++) {
    weir_call_unref(victims[i].call.unary.call);
    victims[i].call.unary.call = NULL;
  }
  victims_finish();
  for (size_t i = 0; i < N_VICTIMS; i++) {
    if (victims[i].call.unary.code != GRPC_STATUS_CANCELLED) {
      victim_fail(&victims[i], "its end");
    }
  }
  victims_end();
}

static void giving_the_last_share_back_ends_every_call(void **state) {
  (void)state;
  let_go_after(SIZE_MAX);
}

/* What has come of other calls by then is taken afterwards. */
static void giving_it_back_sooner_ends_every_call_too(void **state) {
  (void)state;
  for (size_t n_tags = 0; n_tags < N_VICTIMS; n_tags += N_VICTIMS / 2) {
    let_go_after(n_tags);
  }
}

/* It fills the connection as fast as the core reads. */
static void a_header_block_that_never_ends_does_not_keep_a_call(void **state) {
  (void)state;
  const struct odd_script script =
      ODD_SCRIPT(ODD_RAW_HEADERS(ODD_FLAG_NONE, ODD_OK), ODD_CONTINUATIONS(0));
  for (int shape = 0; shape < N_SHAPES; shape++) {
    struct odd_peer *peer = odd_peer_answering(&script);
    weir_channel *channel = channel_to(odd_peer_port(peer), "{" RETRIES "}");
    struct shaped_call call;
    shaped_run(&call, (enum shape)shape, channel, &(struct unary_setup){.timeout_ns = MS(300)});
    assert_int_equal(call.unary.code, GRPC_STATUS_DEADLINE_EXCEEDED);
    assert_int_equal(call.unary.report.origin, WEIR_ORIGIN_LOCAL_DEADLINE);
    assert_int_equal(call.unary.report.n_attempts, 1);
    shaped_fini(&call);
    weir_channel_destroy(channel);
    odd_peer_release(peer);
  }
}

/* --- near the deadline --- */

/* What is to be sent or received fails; a batch with the status succeeds, as in the core. */
static void a_deadline_that_is_past_ends_every_batch_and_connects_to_nobody(void **state) {
  (void)state;
  for (int shape = 0; shape < N_SHAPES; shape++) {
    struct odd_peer *peer = odd_peer_answering(NULL);
    weir_channel *channel = channel_to(odd_peer_port(peer), "{" RETRIES "}");
    struct weir_breaker_snapshot snapshot = {.size = sizeof snapshot};
    struct shaped_call call;
    shaped_run(&call, (enum shape)shape, channel, &(struct unary_setup){.timeout_ns = -SECONDS(5)});
    assert_int_equal(call.unary.code, GRPC_STATUS_DEADLINE_EXCEEDED);
    assert_int_equal(call.unary.report.n_attempts, 0);
    for (size_t i = 0; i < call.n_batches; i++) {
      assert_int_equal(call.batches[i].ok, i == call.n_batches - 1);
    }
    assert_int_equal(weir_channel_breaker_snapshot(channel, METHOD, &snapshot), WEIR_OK);
    assert_int_equal(snapshot.n_requests, 0);
    assert_int_equal(odd_peer_count(peer, ODD_CONNECTIONS), 0);
    shaped_fini(&call);
    weir_channel_destroy(channel);
    odd_peer_release(peer);
  }
}

/* What comes after our deadline is our deadline, whatever it says; and not tried again. */
static void an_answer_after_the_deadline_is_the_deadline(void **state) {
  (void)state;
  static const struct odd_script scripts[] = {
      ODD_SCRIPT(ODD_DELAY_MS(101), ODD_TRAILERS(ODD_OK ODD_STATUS(1) "grpc-message " SECRET "\n")),
      ODD_SCRIPT(ODD_DELAY_MS(101), ODD_TRAILERS(ODD_OK ODD_STATUS(4) "grpc-message " SECRET "\n")),
      /* Late enough for a thread that is kept waiting meanwhile. */
      ODD_SCRIPT(ODD_DELAY_MS(500), ODD_ONLY(14)),
      ODD_SCRIPT(ODD_DELAY_MS(500), ODD_RST(8)),
      ODD_SCRIPT(ODD_DELAY_MS(500), ODD_CLOSE),
  };
  static struct seen seen;
  for (size_t i = 0; i < COUNT_OF(scripts); i++) {
    struct odd_peer *peer = odd_peer_answering(&scripts[i]);
    weir_channel *channel = channel_to(odd_peer_port(peer), "{" RETRIES "}");
    struct unary unary;
    unary_run(&unary, channel, &(struct unary_setup){.timeout_ns = MS(100)});
    assert_int_equal(unary.code, GRPC_STATUS_DEADLINE_EXCEEDED);
    assert_int_equal(unary.report.origin, WEIR_ORIGIN_LOCAL_DEADLINE);
    assert_int_equal(unary.report.n_attempts, 1);
    seen.size = 0;
    see_unary(&seen, &unary);
    assert_int_equal(count_seen(&seen, SECRET), 0);
    unary_fini(&unary);
    weir_channel_destroy(channel);
    odd_peer_release(peer);
  }
}

/* --- the client's word --- */

/* A peer that is given up hears of it (gRPC's PROTOCOL-HTTP2.md, "Errors"). */
static void a_peer_is_told_of_the_end(void **state) {
  (void)state;
  for (int shape = 0; shape < N_SHAPES; shape++) {
    struct odd_peer *peer = odd_peer_answering(NULL);
    weir_channel *channel = channel_to(odd_peer_port(peer), "{}");
    queue = weir_completion_queue_create_for_next(NULL);
    struct odd_request request;
    struct shaped_call call;
    shaped_start(&call, (enum shape)shape, channel, queue, NULL);
    /* Nothing goes on in the core unless the queue is drained. */
    while (odd_peer_count(peer, ODD_ENDS) == 0) {
      grpc_event event = weir_completion_queue_next(queue, in_ns(MS(1)), NULL);
      if (event.type == GRPC_OP_COMPLETE) {
        assert_true(shaped_on_tag(&call, event.tag, event.success != 0));
      }
    }
    assert_int_equal(weir_call_cancel(call.unary.call, NULL), GRPC_CALL_OK);
    shaped_wait(&call, queue);
    assert_int_equal(call.unary.code, GRPC_STATUS_CANCELLED);
    assert_true(odd_peer_wait(peer, ODD_RESETS, 1));
    assert_true(odd_peer_request(peer, 0, &request));
    assert_true(request.reset);
    assert_int_equal(request.reset_code, 8); /* CANCEL */
    shaped_fini(&call);
    queue_end(queue);
    weir_channel_destroy(channel);
    odd_peer_release(peer);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_deadline_ends_every_call),
      cmocka_unit_test(a_cancellation_ends_every_call),
      cmocka_unit_test(a_cancellation_with_a_status_ends_every_call_with_it),
      cmocka_unit_test(a_cancellation_at_once_ends_every_call),
      cmocka_unit_test(a_queue_that_is_shut_down_waits_for_the_deadline),
      cmocka_unit_test(giving_the_last_share_back_ends_every_call),
      cmocka_unit_test(giving_it_back_sooner_ends_every_call_too),
      cmocka_unit_test(a_header_block_that_never_ends_does_not_keep_a_call),
      cmocka_unit_test(a_deadline_that_is_past_ends_every_batch_and_connects_to_nobody),
      cmocka_unit_test(an_answer_after_the_deadline_is_the_deadline),
      cmocka_unit_test(a_peer_is_told_of_the_end),
  };
  return cmocka_run_group_tests_name("silence", tests, start_core, stop_core);
}
