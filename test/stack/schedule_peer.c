/* SPDX-License-Identifier: Apache-2.0 */
#include "test/stack/schedule_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/time/instant.h"
#include "test/stack/schedule_trace.h"
#include "test/stack/schedule_world.h"

#define PUSHBACK_KEY "grpc-retry-pushback-ms"

/* --- what is sent --- */

/* By the last letter of the path: metadata may come after messages. */
static struct schedule_call *call_of(struct schedule_world *world,
                                     const struct sent_attempt *attempt) {
  size_t index = (size_t)(attempt->path[strlen(attempt->path) - 1] - 'a');
  assert_true(index < world->n_calls);
  return &world->calls[index];
}

static void check_metadata(const struct schedule_call *call, const struct sent_attempt *attempt) {
  char note[SCHEDULE_NOTE_BYTES];
  const char id[] = {(char)('a' + call->index), '\0'};
  schedule_call_write_note(call, note);
  const char *sent_id = sent_attempt_value(attempt, "call-id");
  const char *sent_note = sent_attempt_value(attempt, SCHEDULE_NOTE_KEY);
  assert_non_null(sent_id);
  assert_non_null(sent_note);
  assert_string_equal(sent_id, id);
  assert_string_equal(sent_note, note);
  const char *previous = sent_attempt_value(attempt, "grpc-previous-rpc-attempts");
  size_t n_previous = previous != NULL ? strtoul(previous, NULL, 10) : 0;
  /* one replay of what no server saw is not counted */
  assert_true(n_previous == call->n_attempts || n_previous + 1 == call->n_attempts);
  assert_true(previous == NULL || n_previous > 0);
}

/* What the attempt was sent is to be small enough to be kept. Of a call in one batch, the metadata
 * are the application's until the end. */
static void check_kept(const struct schedule_world *world, const struct schedule_call *call,
                       const struct sent_attempt *attempt) {
  size_t bytes = call->is_one_batch ? 0 : SCHEDULE_METADATA_BYTES;
  for (size_t i = 0; i < attempt->n_messages; i++) {
    bytes += call->message_sizes[i];
  }
  assert_true(bytes <= world->policy->replay_bytes);
}

/* A stream's attempt has no deadline of its own in the core, and one of a call in one batch none at
 * all where its queue keeps the time: weir cancels it. No application here cancels with this code. */
static bool was_cut_off(const struct sent_attempt *attempt) {
  return attempt->cancelled && attempt->cancel_code == GRPC_STATUS_DEADLINE_EXCEEDED;
}

/* Of a call that shares its parent's deadline, only the core knows it. */
static bool has_kept_time(const struct schedule_world *world, const struct schedule_call *call) {
  return world->keeps_time && call->is_one_batch &&
         !(call->has_parent && (schedule_call_mask(call) & GRPC_PROPAGATE_DEADLINE) != 0);
}

/* When the attempt of a call in one batch is to be over. */
static int64_t due_at_ns(const struct schedule_world *world, const struct schedule_call *call,
                         const struct sent_attempt *attempt) {
  if (!has_kept_time(world, call)) {
    return attempt->deadline_at_ns;
  }
  return weir__instant_min(
      call->deadline_at_ns,
      weir__instant_add(attempt->sent_at_ns, world->policy->per_attempt_timeout_ns));
}

/* The time of one attempt is up, and that of the call is not. */
static bool ran_out_of_its_time(const struct schedule_world *world,
                                const struct schedule_call *call,
                                const struct sent_attempt *attempt) {
  if (!call->is_one_batch) {
    return attempt->ended_here && was_cut_off(attempt) &&
           attempt->status == GRPC_STATUS_DEADLINE_EXCEEDED;
  }
  return attempt->ended_here && world->policy->per_attempt_timeout_ns != WEIR_NO_LIMIT_NS &&
         attempt->status == GRPC_STATUS_DEADLINE_EXCEEDED &&
         due_at_ns(world, call, attempt) < call->deadline_at_ns &&
         due_at_ns(world, call, attempt) <= world->clock.now_ns;
}

static bool is_listed(const struct schedule_world *world, int status) {
  return status >= 0 && status < WEIR_N_STATUS_CODES &&
         (world->policy->retryable_codes >> status & 1) != 0;
}

/* How long after this one the next may be sent, at least. */
static int64_t least_delay_ns(const struct sent_attempt *attempt) {
  size_t n_pairs = attempt->ended_here ? 0 : WIRE_PAIRS;
  for (size_t i = 0; i < n_pairs && attempt->answer.trailing[i].key != NULL; i++) {
    if (strcmp(attempt->answer.trailing[i].key, PUSHBACK_KEY) == 0) {
      return MS(strtol(attempt->answer.trailing[i].value, NULL, 10));
    }
  }
  return attempt->unprocessed ? 0 : SCHEDULE_BACKOFF_NS;
}

/* Whether there may be an attempt after this one. */
static void check_retry(const struct schedule_world *world, const struct schedule_call *call,
                        const struct sent_attempt *previous) {
  /* What comes of an attempt that was cut off is not looked at. */
  bool headers_pass = (world->policy->retry_after_headers && call->is_one_batch) ||
                      (!call->is_one_batch && ran_out_of_its_time(world, call, previous));
  assert_true(previous->ended);
  assert_true(!previous->ended_here || ran_out_of_its_time(world, call, previous));
  assert_true(is_listed(world, previous->status) || previous->unprocessed);
  assert_true(!previous->has_headers || headers_pass);
  assert_true(previous->n_received == 0 || was_cut_off(previous));
  assert_int_equal(call->n_read, 0);
  assert_true(least_delay_ns(previous) >= 0); /* or the peer has said not to come again */
  assert_true(world->clock.now_ns >= previous->ended_at_ns + least_delay_ns(previous));
  check_kept(world, call, previous);
}

static void check_deadline(const struct schedule_world *world, const struct schedule_call *call,
                           const struct sent_attempt *attempt) {
  int64_t now_ns = world->clock.now_ns;
  assert_true(now_ns < call->deadline_at_ns);
  assert_int_equal(sent_attempt_value(attempt, "grpc-timeout") != NULL, has_kept_time(world, call));
  if (has_kept_time(world, call)) {
    assert_true(attempt->deadline_at_ns == WEIR_NO_DEADLINE);
    return;
  }
  assert_true(attempt->deadline_at_ns <= call->deadline_at_ns);
  if (call->is_one_batch) {
    assert_true(attempt->deadline_at_ns <=
                weir__instant_add(now_ns, world->policy->per_attempt_timeout_ns));
  }
}

static void check_send(const struct schedule_world *world, const struct schedule_call *call,
                       const struct sent_attempt *attempt) {
  bool first = call->n_attempts == 0;
  assert_true(call->n_attempts < SCHEDULE_ATTEMPTS);
  assert_false(call->is_over);
  assert_int_equal(first, call->is_starting);
  assert_true(first || !world->queues[call->queue].shut_down);
  assert_true(first || !(call->has_parent && world->parent_cancelled));
  check_deadline(world, call, attempt);
  check_metadata(call, attempt);
  if (!first) {
    check_retry(world, call, schedule_call_last(call));
    size_t n_cut_off = was_cut_off(schedule_call_last(call)) ? 1 : 0;
    *(call->is_one_batch ? &world->tally->n_expired_retried : &world->tally->n_cut_off_retried) +=
        n_cut_off;
  }
}

/* A message, which is in `attempt` already. */
static void check_message(const struct schedule_call *call, const struct sent_attempt *attempt) {
  char wanted[SCHEDULE_MESSAGE_BYTES];
  size_t nth = attempt->n_messages - 1;
  assert_true(nth < call->n_messages);
  size_t begin = nth > 0 ? attempt->message_ends[nth - 1] : 0;
  assert_int_equal(attempt->message_size - begin, call->message_sizes[nth]);
  schedule_call_write_message(call, nth, wanted);
  assert_memory_equal(attempt->message + begin, wanted, call->message_sizes[nth]);
}

void schedule_peer_on_op(void *context, struct sent_attempt *attempt, grpc_op_type type) {
  struct schedule_world *world = context;
  if (type > GRPC_OP_SEND_CLOSE_FROM_CLIENT || attempt->ended) {
    return;
  }
  struct schedule_call *call = call_of(world, attempt);
  if (attempt->sent_at_ns != 0) {
    assert_ptr_equal(schedule_call_last(call), attempt);
  }
  if (type == GRPC_OP_SEND_MESSAGE) {
    check_message(call, attempt);
  }
  if (attempt->half_closed) {
    assert_true((call->started & SCHEDULE_OP_BIT(GRPC_OP_SEND_CLOSE_FROM_CLIENT)) != 0);
    assert_true(type != GRPC_OP_SEND_CLOSE_FROM_CLIENT || attempt->n_messages == call->n_messages);
  }
  SCHEDULE_NOTE("@: attempt # is sent &", (int)call->index, (int)call->n_attempts,
                SCHEDULE_OP_BIT(type));
}

static bool is_under_way(const struct sent_attempt *attempt) {
  for (size_t type = 0; type <= GRPC_OP_SEND_CLOSE_FROM_CLIENT; type++) {
    if (attempt->results[type] == SENT_UNDER_WAY) {
      return true;
    }
  }
  return false;
}

/* A stream's attempt is cut off, not before its time is up, while the call's is not, and not when
 * its answer had been taken from the queue. */
static void check_cut_off(struct schedule_world *world, const struct schedule_call *call,
                          const struct sent_attempt *attempt) {
  if (!was_cut_off(attempt)) {
    return;
  }
  if (call->is_one_batch) {
    world->tally->n_expired++;
    assert_true(has_kept_time(world, call));
    assert_true(world->clock.now_ns >= due_at_ns(world, call, attempt));
    return;
  }
  world->tally->n_cut_off++;
  assert_true(world->policy->per_attempt_timeout_ns != WEIR_NO_LIMIT_NS);
  assert_true(world->clock.now_ns >= attempt->sent_at_ns + world->policy->per_attempt_timeout_ns);
  assert_true(world->clock.now_ns < call->deadline_at_ns);
  assert_true(
      world->faulty || !attempt->has_headers ||
      scripted_transport_has_events(weir_completion_queue_core(world->queues[call->queue].queue)));
}

/* And none that nothing came of goes on for longer: its time, and what a queue that was drained late is
 * given, with the millisecond by which two queues take turns. Who plucks does not always drain. */
static void check_not_cut_off(const struct schedule_world *world, const struct schedule_call *call,
                              const struct sent_attempt *attempt) {
  bool expires = has_kept_time(world, call);
  int64_t at_ns =
      expires ? due_at_ns(world, call, attempt)
              : weir__instant_add(attempt->sent_at_ns, world->policy->per_attempt_timeout_ns);
  int64_t seen_at_ns = at_ns > world->undrained_until_ns ? at_ns : world->undrained_until_ns;
  if ((call->is_one_batch && !expires) || (attempt->has_headers && !expires) || world->faulty ||
      call->is_over || world->queues[call->queue].type == GRPC_CQ_PLUCK) {
    return;
  }
  assert_true(world->clock.now_ns <= weir__instant_add(seen_at_ns, MS(11)));
}

/* When a peer says that all is well, it has been sent all that there was, unless the core, or the
 * application with an event in its queue, is still at it. */
void schedule_peer_on_end(void *context, struct sent_attempt *attempt) {
  struct schedule_world *world = context;
  struct schedule_call *call = call_of(world, attempt);
  if (attempt->sent_at_ns == 0) {
    return; /* a watch on the parent, or one without metadata */
  }
  SCHEDULE_NOTE("@: attempt # has ended with #, # messages", (int)call->index,
                (int)call->n_attempts, attempt->status, (int)attempt->n_received);
  check_cut_off(world, call, attempt);
  check_not_cut_off(world, call, attempt);
  if (attempt->ended_here || attempt->status != GRPC_STATUS_OK || is_under_way(attempt) ||
      call->is_starting || call->is_over ||
      scripted_transport_has_events(weir_completion_queue_core(world->queues[call->queue].queue))) {
    return;
  }
  assert_int_equal(attempt->n_messages, call->n_messages);
  assert_int_equal(attempt->half_closed,
                   (call->started & SCHEDULE_OP_BIT(GRPC_OP_SEND_CLOSE_FROM_CLIENT)) != 0);
}

/* --- what is answered --- */

static const struct wire_answer at_once[] = {
    {.what = WIRE_MESSAGE_THEN, .status = 0, .text = ""},
    {.what = WIRE_MESSAGE_THEN, .status = 0, .text = ""},
    {.what = WIRE_TRAILERS_ONLY, .status = 14, .text = "~busy"},
    {.what = WIRE_TRAILERS_ONLY, .status = 14, .text = "~busy"},
    {.what = WIRE_TRAILERS_ONLY,
     .status = 14,
     .text = "~later",
     .trailing = {{"", ""}, {PUSHBACK_KEY, "3"}}},
    {.what = WIRE_TRAILERS_ONLY,
     .status = 14,
     .text = "~never",
     .trailing = {{"", ""}, {PUSHBACK_KEY, "-1"}}},
    {.what = WIRE_TRAILERS, .status = 14, .text = "~late"},
    {.what = WIRE_MESSAGE_THEN, .status = 10, .text = "~both"},
    {.what = WIRE_TRAILERS_ONLY, .status = 0, .text = "~"},
    {.what = WIRE_CONNECT_FAIL, .status = 14, .text = "~refused"},
    {.what = WIRE_RESET, .status = 14, .text = "~closed"},
    {.what = WIRE_UNPROCESSED, .status = 14, .text = "GOAWAY received"},
    {.what = WIRE_END}, /* silence */
};

#define N_AT_ONCE (sizeof at_once / sizeof at_once[0])

/* How a stepwise peer ends. */
static const struct wire_answer ends[] = {
    {.what = WIRE_TRAILERS, .status = 0, .text = ""},
    {.what = WIRE_TRAILERS, .status = 14, .text = "~late"},
    {.what = WIRE_RESET, .status = 14, .text = "~closed"},
    {.what = WIRE_END},
    {.what = WIRE_TRAILERS_ONLY, .status = 14, .text = "~busy"},
    {.what = WIRE_TRAILERS_ONLY, .status = 4, .text = "~slow"},
    {.what = WIRE_UNPROCESSED, .status = 14, .text = "GOAWAY received"},
    {.what = WIRE_CONNECT_FAIL, .status = 14, .text = "~refused"},
};

static const char *next_body(struct schedule_peer *peer) {
  char *body = peer->bodies[peer->n_told];
  (void)snprintf(body, sizeof peer->bodies[0], "%s.%d%s", peer->from, (int)peer->n_told,
                 peer->n_told % 2 == 0 ? "" : "-longer");
  peer->n_told++;
  return body;
}

static void sign(const struct schedule_peer *peer, struct wire_pair pairs[WIRE_PAIRS]) {
  pairs[0] = (struct wire_pair){"x-from", peer->from};
}

static void answer_with(struct schedule_peer *peer, struct sent_attempt *attempt,
                        const struct wire_answer *answer, int64_t at_ns) {
  attempt->answer = *answer;
  if (answer->what == WIRE_MESSAGE || answer->what == WIRE_MESSAGE_THEN) {
    attempt->answer.body = next_body(peer);
  }
  sign(peer, attempt->answer.initial);
  if (answer->what == WIRE_TRAILERS || answer->what == WIRE_TRAILERS_ONLY ||
      answer->what == WIRE_MESSAGE_THEN) {
    sign(peer, attempt->answer.trailing);
  }
  attempt->will_answer = answer->what != WIRE_END;
  attempt->answer_at_ns = at_ns;
}

/* What an end comes to where headers have been told. */
static enum wire_event end_after_headers(enum wire_event what) {
  switch (what) {
  case WIRE_TRAILERS_ONLY:
    return WIRE_TRAILERS;
  case WIRE_CONNECT_FAIL:
  case WIRE_UNPROCESSED:
    return WIRE_RESET;
  case WIRE_END:
  case WIRE_EXPECT_SEND:
  case WIRE_EXPECT_CONNECTING:
  case WIRE_CONNECTED:
  case WIRE_READ:
  case WIRE_HEADERS:
  case WIRE_MESSAGE:
  case WIRE_TRAILERS:
  case WIRE_MESSAGE_THEN:
  case WIRE_RESET:
  case WIRE_TOO_LARGE:
    break;
  }
  return what;
}

/* The next step of a peer that takes several. */
static void answer_stepwise(const struct schedule_world *world, struct schedule_peer *peer,
                            struct sent_attempt *attempt) {
  struct wire_answer step = ends[peer->end];
  if (peer->connects_late && step.what != WIRE_CONNECT_FAIL) {
    peer->connects_late = false;
    step.what = WIRE_CONNECTED;
  } else if (peer->headers_first) {
    peer->headers_first = false;
    step.what = WIRE_HEADERS;
  } else if (peer->reads_late) {
    peer->reads_late = false;
    step.what = WIRE_READ;
  } else if (peer->n_messages > 0) {
    peer->n_messages--;
    step.what = WIRE_MESSAGE;
  } else {
    peer->is_stepwise = false;
    step.what = attempt->has_headers ? end_after_headers(step.what) : step.what;
  }
  answer_with(peer, attempt, &step, world->clock.now_ns + peer->gap_ns);
}

void schedule_peer_on_answered(void *context, struct sent_attempt *attempt) {
  struct schedule_world *world = context;
  struct schedule_peer *peer = attempt->user;
  if (peer->is_stepwise) {
    answer_stepwise(world, peer, attempt);
  }
}

static void peer_decides(struct schedule_world *world, struct schedule_peer *peer,
                         struct sent_attempt *attempt) {
  uint8_t byte = schedule_bytes_next(&world->in);
  int64_t after_ns = MS(byte / 16);
  if (byte % 16 < N_AT_ONCE) {
    answer_with(peer, attempt, &at_once[byte % 16], attempt->sent_at_ns + after_ns);
    return;
  }
  uint8_t steps = schedule_bytes_next(&world->in);
  peer->is_stepwise = true;
  peer->gap_ns = after_ns / 4;
  peer->connects_late = (steps & 3) == 1;
  peer->reads_late = (steps & 3) >= 2;
  attempt->is_connecting = peer->connects_late;
  attempt->holds_sends = peer->reads_late;
  attempt->held_are_out = (steps & 3) == 3;
  peer->headers_first = (steps & 4) != 0;
  peer->n_messages = steps >> 3 & 3;
  peer->end = steps >> 5;
  answer_stepwise(world, peer, attempt);
}

void schedule_peer_on_send(void *context, struct sent_attempt *attempt) {
  struct schedule_world *world = context;
  struct schedule_call *call = call_of(world, attempt);
  check_send(world, call, attempt);
  struct schedule_peer *peer = &call->peers[call->n_attempts];
  *peer = (struct schedule_peer){
      .from = {(char)('a' + call->index), (char)('1' + call->n_attempts), '\0', '\0'}};
  attempt->user = peer;
  call->attempts[call->n_attempts++] = attempt;
  world->tally->n_attempts++;
  world->tally->n_retried += call->n_attempts > 1 ? 1 : 0;
  world->tally->n_streams_retried += call->n_attempts > 1 && !call->is_one_batch ? 1 : 0;
  peer_decides(world, peer, attempt);
  SCHEDULE_NOTE("@: attempt # is sent; event # of the wire in # us", (int)call->index,
                (int)call->n_attempts, attempt->will_answer ? (int)attempt->answer.what : -1,
                (int)((attempt->answer_at_ns - attempt->sent_at_ns) / 1000));
}
