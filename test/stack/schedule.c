/* SPDX-License-Identifier: Apache-2.0 */
#include "test/stack/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/base/container_of.h"
#include "src/channel/channel.h"
#include "src/stack/stack.h"
#include "src/time/instant.h"
#include "test/stack/stack_fixture.h"

#define MAX_CALLS 12
#define MAX_POSTS 8
#define MAX_ATTEMPTS 3

/* Of the n-th batch of a call, whose tag is the address of this. */
struct owed_tag {
  size_t n_owed;
  size_t n_came;
};

struct scheduled_call {
  struct unary unary;
  struct owed_tag tags[MAX_UNARY_OPS]; /* by operation; a unary batch has the first */
  struct owed_tag empty;
  bool is_stream;
  bool is_over; /* cancelled or let go: nothing may be sent any more */
  size_t n_sent;
};

/* A layer that counts. It is the innermost, so it hears of every attempt. */
struct counting_layer {
  weir_interceptor base;
  size_t n_admits;
  size_t n_releases;
};

struct counting_call {
  bool admitted;
  bool released;
  size_t n_settled;
};

struct schedule {
  const uint8_t *bytes;
  size_t size;
  size_t at;
  struct fixture *f;
  struct schedule_tally *tally;
  struct counting_layer layer;
  bool has_layer;
  bool shut_down;
  bool in_start; /* the application is starting a batch just now */
  grpc_call *parent;
  bool parent_cancelled;
  weir_inbound *inbound;
  struct scheduled_call calls[MAX_CALLS];
  size_t n_calls;
  struct owed_tag posts[MAX_POSTS];
  size_t n_posts;
};

static uint8_t next_byte(struct schedule *s) {
  return s->at < s->size ? s->bytes[s->at++] : 0;
}

/* --- the counting layer --- */

static enum weir_admission counting_admit(weir_interceptor *self, void *call_state,
                                          const struct weir_event *event, struct weir_plan *plan) {
  struct counting_call *call = call_state;
  (void)event;
  (void)plan;
  assert_false(call->admitted);
  call->admitted = true;
  WEIR__CONTAINER_OF(self, struct counting_layer, base)->n_admits++;
  return WEIR_ADMISSION_PROCEED;
}

static enum weir_disposition counting_settle(weir_interceptor *self, void *call_state,
                                             const struct weir_event *event,
                                             const struct weir_outcome *outcome,
                                             struct weir_plan *plan) {
  struct counting_call *call = call_state;
  (void)self;
  (void)event;
  (void)plan;
  assert_true(call->admitted && !call->released);
  assert_in_range(outcome->code, 0, 16);
  call->n_settled++;
  return WEIR_DISPOSITION_FINISH;
}

static void counting_release(weir_interceptor *self, void *call_state,
                             const struct weir_event *event) {
  struct counting_call *call = call_state;
  (void)event;
  assert_true(call->admitted && !call->released);
  call->released = true;
  WEIR__CONTAINER_OF(self, struct counting_layer, base)->n_releases++;
}

static const struct weir_interceptor_vtable counting_vtable = {
    .size = sizeof(struct weir_interceptor_vtable),
    .name = "counting",
    .call_state_size = sizeof(struct counting_call),
    .admit = counting_admit,
    .settle = counting_settle,
    .release = counting_release,
};

/* --- the peers --- */

static const struct wire_answer answers[] = {
    {.what = WIRE_MESSAGE_THEN, .status = 0, .text = "", .body = "bar"},
    {.what = WIRE_MESSAGE_THEN, .status = 0, .text = "", .body = "bar"},
    {.what = WIRE_TRAILERS_ONLY, .status = 14, .text = "busy"},
    {.what = WIRE_TRAILERS_ONLY, .status = 14, .text = "busy"},
    {.what = WIRE_TRAILERS_ONLY,
     .status = 14,
     .text = "",
     .trailing = {{"grpc-retry-pushback-ms", "0"}}},
    {.what = WIRE_TRAILERS_ONLY,
     .status = 14,
     .text = "",
     .trailing = {{"grpc-retry-pushback-ms", "3"}}},
    {.what = WIRE_TRAILERS_ONLY,
     .status = 14,
     .text = "",
     .trailing = {{"grpc-retry-pushback-ms", "-1"}}},
    {.what = WIRE_TRAILERS, .status = 14, .text = "late"},
    {.what = WIRE_MESSAGE_THEN, .status = 10, .text = "both", .body = "bar"},
    {.what = WIRE_TRAILERS_ONLY, .status = 4, .text = "slow"},
    {.what = WIRE_TRAILERS_ONLY, .status = 3, .text = "bad"},
    {.what = WIRE_CONNECT_FAIL, .status = 14, .text = "refused"},
    {.what = WIRE_RESET, .status = 14, .text = "closed"},
    {.what = WIRE_UNPROCESSED, .status = 14, .text = "GOAWAY"},
    {.what = WIRE_UNPROCESSED, .status = 14, .text = "GOAWAY"},
    {.what = WIRE_END}, /* silence */
};

static void check_send(struct schedule *s, struct scheduled_call *call) {
  call->n_sent++;
  assert_false(call->is_over);
  assert_true(call->n_sent == 1 || !s->shut_down);
  assert_int_equal(call->n_sent == 1, s->in_start);
  /* one replay of what no server saw does not count */
  assert_true(call->n_sent <= MAX_ATTEMPTS + 1);
  s->tally->n_attempts++;
  s->tally->n_retried += call->n_sent > 1 ? 1 : 0;
}

static void peer_decides(void *context, struct sent_attempt *attempt) {
  struct schedule *s = context;
  const char *id = sent_attempt_value(attempt, "call-id");
  assert_non_null(id);
  check_send(s, &s->calls[id[0] - 'a']);
  uint8_t byte = next_byte(s);
  const struct wire_answer *answer = &answers[byte % (sizeof answers / sizeof answers[0])];
  if (answer->what != WIRE_END) {
    attempt->will_answer = true;
    attempt->answer = *answer;
    attempt->answer_at_ns = attempt->sent_at_ns + MS(byte / 16);
  }
}

/* --- the application --- */

static struct scheduled_call *any_call(struct schedule *s) {
  return s->n_calls > 0 ? &s->calls[next_byte(s) % s->n_calls] : NULL;
}

static void event_note(const grpc_event *event) {
  struct owed_tag *tag = event->tag;
  assert_non_null(tag);
  assert_true(tag->n_came < tag->n_owed);
  tag->n_came++;
}

static void run_for(struct schedule *s, int64_t span_ns) {
  gpr_timespec until = weir__instant_to_timespec(weir__instant_add(s->f->clock.now_ns, span_ns));
  for (;;) {
    grpc_event event = weir_completion_queue_next(s->f->queue, until, NULL);
    if (event.type != GRPC_OP_COMPLETE) {
      assert_true(event.type == GRPC_QUEUE_TIMEOUT || s->shut_down);
      return;
    }
    event_note(&event);
  }
}

static grpc_call_error start_batch(struct schedule *s, struct scheduled_call *call,
                                   const grpc_op *ops, size_t n_ops, struct owed_tag *tag) {
  s->in_start = true;
  grpc_call_error error = weir_call_start_batch(call->unary.call, ops, n_ops, tag, NULL);
  s->in_start = false;
  tag->n_owed += error == GRPC_CALL_OK ? 1 : 0;
  return error;
}

static struct scheduled_call *call_make(struct schedule *s) {
  static const char *const ids[MAX_CALLS] = {"a", "b", "c", "d", "e", "f",
                                             "g", "h", "i", "j", "k", "l"};
  if (s->n_calls == MAX_CALLS) {
    return NULL;
  }
  struct scheduled_call *call = &s->calls[s->n_calls];
  uint8_t byte = next_byte(s);
  struct unary_options options = {
      .deadline_at_ns = (byte & 3) == 0 ? 0 : s->f->clock.now_ns + MS(byte / 8),
      .inbound = (byte & 4) != 0 && (byte & 16) != 0 ? s->inbound : NULL,
      .parent = (byte & 8) != 0 ? s->parent : NULL,
  };
  unary_init_with(s->f, &call->unary, &options);
  unary_add_metadata(s->f, &call->unary, "call-id", ids[s->n_calls]);
  s->n_calls++;
  call->is_over = call->unary.call == NULL;
  s->tally->n_calls++;
  return call->unary.call != NULL ? call : NULL;
}

static void call_start_unary(struct schedule *s) {
  struct scheduled_call *call = call_make(s);
  if (call != NULL) {
    grpc_op ops[MAX_UNARY_OPS];
    unary_ops(&call->unary, ops);
    (void)start_batch(s, call, ops, MAX_UNARY_OPS, &call->tags[0]);
  }
}

static void call_start_stream(struct schedule *s) {
  struct scheduled_call *call = call_make(s);
  if (call == NULL) {
    return;
  }
  grpc_op ops[MAX_UNARY_OPS];
  unary_ops(&call->unary, ops);
  s->tally->n_streams++;
  call->is_stream = true;
  uint8_t left_out = next_byte(s) % (MAX_UNARY_OPS + 2); /* perhaps one of the operations */
  for (size_t op = 0; op < MAX_UNARY_OPS; op++) {
    /* the core's status waits until messages have been read */
    if (op != left_out || ops[op].op == GRPC_OP_RECV_MESSAGE) {
      (void)start_batch(s, call, &ops[op], 1, &call->tags[op]);
    }
  }
}

static void call_cancel(struct schedule *s) {
  struct scheduled_call *call = any_call(s);
  if (call != NULL && call->unary.call != NULL) {
    if (next_byte(s) % 2 == 0) {
      weir_call_cancel(call->unary.call, NULL);
    } else {
      weir_call_cancel_with_status(call->unary.call, GRPC_STATUS_ABORTED, "enough", NULL);
    }
    call->is_over = true;
  }
}

static void call_let_go(struct schedule *s) {
  struct scheduled_call *call = any_call(s);
  if (call != NULL && call->unary.call != NULL) {
    weir_call_unref(call->unary.call);
    call->unary.call = NULL;
    call->is_over = true;
  }
}

static void call_start_late(struct schedule *s) {
  struct scheduled_call *call = call_make(s);
  if (call != NULL) {
    if (next_byte(s) % 2 == 0) {
      weir_call_cancel(call->unary.call, NULL);
      call->is_over = true;
    }
    run_for(s, MS(next_byte(s) / 8));
    grpc_op ops[MAX_UNARY_OPS];
    unary_ops(&call->unary, ops);
    (void)start_batch(s, call, ops, MAX_UNARY_OPS, &call->tags[0]);
  }
}

static void call_start_empty(struct schedule *s) {
  struct scheduled_call *call = any_call(s);
  if (call != NULL && call->unary.call != NULL) {
    (void)start_batch(s, call, NULL, 0, &call->empty);
  }
}

static void post_foreign(struct schedule *s) {
  if (s->n_posts < MAX_POSTS && !s->shut_down) {
    struct owed_tag *tag = &s->posts[s->n_posts++];
    tag->n_owed++;
    scripted_transport_post(&s->f->transport, weir_completion_queue_core(s->f->queue), tag, true,
                            s->f->clock.now_ns + MS(next_byte(s) / 8));
  }
}

/* Time passes, and things happen, while nobody drains. */
static void pause_draining(struct schedule *s) {
  fake_clock_advance_to(&s->f->clock, s->f->clock.now_ns + MS(next_byte(s) / 8));
  scripted_transport_happen(&s->f->transport);
}

static void queue_shutdown(struct schedule *s) {
  weir_completion_queue_shutdown(s->f->queue);
  s->shut_down = true;
}

static void parent_cancel(struct schedule *s) {
  if (!s->parent_cancelled) {
    s->parent_cancelled = true;
    scripted_transport_cancel_parent(&s->f->transport, s->parent);
  }
}

static void step(struct schedule *s) {
  uint8_t byte = next_byte(s);
  switch (byte % 16) {
  case 0:
  case 1:
  case 2:
  case 3:
    call_start_unary(s);
    break;
  case 4:
    call_start_stream(s);
    break;
  case 5:
    call_cancel(s);
    break;
  case 6:
    call_let_go(s);
    break;
  case 7:
    call_start_late(s);
    break;
  case 8:
  case 9:
  case 10:
    run_for(s, MS(byte / 16));
    break;
  case 11:
    pause_draining(s);
    break;
  case 12:
    call_start_empty(s);
    break;
  case 13:
    post_foreign(s);
    break;
  case 14:
    if (byte > 200) {
      queue_shutdown(s);
    }
    break;
  case 15:
    if (byte > 200) {
      parent_cancel(s);
    }
    break;
  }
}

/* --- from beginning to end --- */

static void set_policy(struct schedule *s, uint8_t byte) {
  struct fixture *f = s->f;
  s->has_layer = (byte & 1) != 0;
  f->breaker.enabled = !s->has_layer; /* it takes the breaker's place */
  f->breaker.min_requests = 2;
  f->breaker.open_for_ns = MS(5);
  f->breaker.probes = 1;
  f->translation.boundary = (byte & 2) != 0;
  f->policy_options.throttle_max_tokens = (byte & 4) != 0 ? 6 : 0;
  f->policy_options.throttle_token_ratio_milli = (byte & 4) != 0 ? 500 : 0;
  f->retry.retry_after_headers = (byte & 8) != 0;
  f->method.max_response_bytes = (byte & 48) == 48 ? 2 : WEIR_NO_LIMIT_BYTES;
  f->method.timeout_ns = MS(60);
  f->method.retry.max_attempts = MAX_ATTEMPTS;
  f->method.retry.initial_backoff_ns = MS(4);
}

static void open(struct schedule *s) {
  struct fixture *f = s->f;
  set_policy(s, next_byte(s));
  fixture_open(f);
  if (s->has_layer) {
    s->layer.base.vtable = &counting_vtable;
    weir__stack_add(&f->channel->environment->stack, &s->layer.base);
  }
  f->transport.on_send = peer_decides;
  f->transport.on_send_context = s;
  s->parent = scripted_transport_parent(&f->transport);
  s->inbound = fixture_inbound(f, T0 + MS(100), "front-door", NULL);
  uint8_t byte = next_byte(s);
  if (byte >= 192) {
    counting_allocator_fail_nth(&f->allocator, byte - 191u);
  }
}

static void tag_check(const struct owed_tag *tag) {
  assert_int_equal(tag->n_came, tag->n_owed);
}

static void call_check(struct schedule *s, const struct scheduled_call *call) {
  for (size_t op = 0; op < MAX_UNARY_OPS; op++) {
    tag_check(&call->tags[op]);
  }
  tag_check(&call->empty);
  struct weir_call_report report = WEIR_CALL_REPORT_INIT;
  if (call->unary.call != NULL && weir_call_get_report(call->unary.call, &report) == WEIR_OK) {
    /* The core does not send what is made under a parent that was cancelled, or has no metadata. */
    bool may_be_unsent = s->parent_cancelled || call->is_stream;
    assert_true(report.n_attempts == call->n_sent ||
                (may_be_unsent && report.n_attempts == call->n_sent + 1));
    s->tally->n_refused += report.reason == WEIR_REASON_BREAKER_OPEN ? 1 : 0;
    s->tally->n_ended_in_backoff +=
        report.reason == WEIR_REASON_CANCELLED && report.attempts[0].code != GRPC_STATUS_CANCELLED
            ? 1
            : 0;
  }
}

static void close(struct schedule *s) {
  struct fixture *f = s->f;
  run_for(s, SECONDS(1)); /* all deadlines are past */
  queue_shutdown(s);
  run_for(s, WEIR_NO_LIMIT_NS);
  for (size_t i = 0; i < s->n_calls; i++) {
    call_check(s, &s->calls[i]);
    unary_fini(&s->calls[i].unary);
  }
  for (size_t i = 0; i < s->n_posts; i++) {
    tag_check(&s->posts[i]);
  }
  s->tally->n_out_of_memory += f->allocator.n_failed;
  f->transport.base.call_unref(&f->transport, s->parent);
  weir_inbound_release(s->inbound);
}

void schedule_run(const uint8_t *bytes, size_t size, struct schedule_tally *tally) {
  void *state = NULL;
  struct schedule *s = calloc(1, sizeof *s);
  assert_non_null(s);
  assert_int_equal(fixture_setup(&state), 0);
  s->bytes = bytes;
  s->size = size;
  s->f = state;
  s->tally = tally;
  open(s);
  while (s->at < s->size) {
    step(s);
  }
  close(s);
  assert_int_equal(fixture_teardown(&state), 0);
  assert_int_equal(s->layer.n_admits, s->layer.n_releases);
  free(s);
}
