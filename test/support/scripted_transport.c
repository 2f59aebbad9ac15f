/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/scripted_transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/support/alloc.h>
#include <grpc/support/string_util.h>

#include "src/time/timespec.h"
#include "test/support/scripted_call.h"
#include "test/support/scripted_queue.h"

struct scripted_post {
  struct scripted_post *next;
  struct scripted_queue *queue;
  void *tag;
  bool success;
  int64_t at_ns;
};

/* A registered call's handle. */
struct scripted_method {
  struct scripted_method *next;
  char path[SENT_TEXT];
  char host[SENT_TEXT];
};

static struct scripted_transport *transport_of(void *context) {
  return context;
}

static struct scripted_call *call_of(grpc_call *call) {
  return (struct scripted_call *)(void *)call;
}

static struct scripted_queue *queue_of(grpc_completion_queue *queue) {
  return (struct scripted_queue *)(void *)queue;
}

/* --- the script --- */

static int64_t step_at_ns(const struct scripted_transport *transport) {
  return transport->script_from_ns + transport->script->at_ns;
}

static int ms_of(const struct scripted_transport *transport, int64_t at_ns) {
  return (int)((at_ns - transport->script_from_ns) / WEIR_MS_NS);
}

static void check_script_is_over(const struct scripted_transport *transport) {
  if (transport->script != NULL && transport->script->answer.what != WIRE_END) {
    fail_msg("the script waits for something at %d ms that did not happen",
             ms_of(transport, step_at_ns(transport)));
  }
}

void scripted_transport_play(struct scripted_transport *transport,
                             const struct script_step *steps) {
  size_t length = 1;
  while (steps[length - 1].answer.what != WIRE_END) {
    length++;
  }
  check_script_is_over(transport);
  free(transport->steps);
  transport->steps = malloc(length * sizeof steps[0]);
  assert_non_null(transport->steps);
  memcpy(transport->steps, steps, length * sizeof steps[0]);
  transport->script = transport->steps;
  transport->script_from_ns = transport->clock->now_ns;
}

static void always_on_send(void *context, struct sent_attempt *attempt) {
  const struct scripted_transport *transport = context;
  attempt->will_answer = true;
  attempt->answer_at_ns = attempt->sent_at_ns + transport->always_after_ns;
  attempt->answer = transport->always;
}

void scripted_transport_always(struct scripted_transport *transport, int64_t after_ns,
                               struct wire_answer answer) {
  transport->script = NULL;
  transport->always = answer;
  transport->always_after_ns = after_ns;
  transport->on_send = always_on_send;
  transport->on_send_context = transport;
}

static bool is_expectation(const struct script_step *step) {
  return step->answer.what == WIRE_EXPECT_SEND || step->answer.what == WIRE_EXPECT_CONNECTING;
}

/* When the script does something by itself; WEIR_NO_DEADLINE = it waits for an attempt, or is
 * over. */
static int64_t script_next_at_ns(const struct scripted_transport *transport) {
  if (transport->script == NULL || transport->script->answer.what == WIRE_END) {
    return WEIR_NO_DEADLINE;
  }
  if (is_expectation(transport->script)) {
    return WEIR_NO_DEADLINE;
  }
  return step_at_ns(transport);
}

static void script_on_send(struct scripted_transport *transport, struct sent_attempt *attempt) {
  if (transport->script == NULL) {
    return;
  }
  int64_t now_ns = transport->clock->now_ns;
  if (!is_expectation(transport->script)) {
    fail_msg("an attempt was sent at %d ms that the script does not expect",
             ms_of(transport, now_ns));
  }
  if (step_at_ns(transport) != now_ns) {
    fail_msg("an attempt was sent at %d ms, %ld ns off: it was expected at %d ms",
             ms_of(transport, now_ns), (long)(now_ns - step_at_ns(transport)),
             ms_of(transport, step_at_ns(transport)));
  }
  attempt->is_connecting = transport->script->answer.what == WIRE_EXPECT_CONNECTING;
  transport->script++;
}

struct sent_attempt *scripted_transport_sent(const struct scripted_transport *transport,
                                             size_t nth) {
  if (nth == 0 || nth > transport->n_sent) {
    fail_msg("attempt %zu of %zu that were sent", nth, transport->n_sent);
  }
  if (nth == transport->n_sent) {
    return transport->last_sent;
  }
  struct sent_attempt *attempt = transport->first_sent;
  for (size_t i = 1; i < nth; i++) {
    attempt = attempt->next;
  }
  return attempt;
}

static struct scripted_call *call_of_attempt(const struct scripted_transport *transport,
                                             const struct sent_attempt *attempt) {
  for (struct scripted_call *call = transport->calls; call != NULL; call = call->next) {
    if (call->attempt == attempt) {
      return call;
    }
  }
  return NULL;
}

static void script_step(struct scripted_transport *transport) {
  const struct script_step *step = transport->script++;
  size_t number = step->attempt != 0 ? step->attempt : transport->n_sent;
  struct scripted_call *call =
      call_of_attempt(transport, scripted_transport_sent(transport, number));
  if (call != NULL) {
    scripted_call_answer(call, &step->answer);
  }
}

void scripted_transport_note_sent(struct scripted_transport *transport,
                                  struct sent_attempt *attempt) {
  int64_t now_ns = transport->clock->now_ns;
  if (now_ns >= attempt->deadline_at_ns) {
    fail_msg("an attempt was sent when its deadline was past");
  }
  attempt->sent_at_ns = now_ns;
  if (transport->last_sent != NULL) {
    transport->last_sent->next = attempt;
  } else {
    transport->first_sent = attempt;
  }
  transport->last_sent = attempt;
  transport->n_sent++;
  script_on_send(transport, attempt);
  if (transport->script == NULL && transport->on_send != NULL) {
    transport->on_send(transport->on_send_context, attempt);
  }
}

void scripted_transport_note_op(struct scripted_transport *transport, struct sent_attempt *attempt,
                                grpc_op_type type) {
  if (transport->on_op != NULL) {
    transport->on_op(transport->on_send_context, attempt, type);
  }
}

void scripted_transport_note_end(struct scripted_transport *transport,
                                 struct sent_attempt *attempt) {
  if (transport->on_end != NULL) {
    transport->on_end(transport->on_send_context, attempt);
  }
}

/* --- time --- */

enum source { SOURCE_NONE, SOURCE_SCRIPT, SOURCE_ANSWER, SOURCE_POST, SOURCE_DEADLINE };

/* What happens next, and when. Of what is at the same instant, what the peer did comes first. */
struct upcoming {
  enum source source;
  int64_t at_ns;
  struct scripted_call *call;
  struct scripted_post *post;
};

static void upcoming_offer(struct upcoming *best, struct upcoming other) {
  if (other.at_ns != WEIR_NO_DEADLINE &&
      (best->source == SOURCE_NONE || other.at_ns < best->at_ns)) {
    *best = other;
  }
}

static struct upcoming upcoming_find(const struct scripted_transport *transport) {
  struct upcoming best = {.source = SOURCE_NONE, .at_ns = WEIR_NO_DEADLINE};
  upcoming_offer(&best,
                 (struct upcoming){.source = SOURCE_SCRIPT, .at_ns = script_next_at_ns(transport)});
  for (struct scripted_call *call = transport->calls; call != NULL; call = call->next) {
    if (call->kind == CALL_ATTEMPT && call->was_sent && call->attempt->will_answer) {
      upcoming_offer(&best, (struct upcoming){.source = SOURCE_ANSWER,
                                              .at_ns = call->attempt->answer_at_ns,
                                              .call = call});
    }
  }
  for (struct scripted_post *post = transport->posts; post != NULL; post = post->next) {
    upcoming_offer(&best,
                   (struct upcoming){.source = SOURCE_POST, .at_ns = post->at_ns, .post = post});
  }
  for (struct scripted_call *call = transport->calls; call != NULL; call = call->next) {
    if (scripted_call_has_deadline(call)) {
      upcoming_offer(&best, (struct upcoming){.source = SOURCE_DEADLINE,
                                              .at_ns = call->attempt->deadline_at_ns,
                                              .call = call});
    }
  }
  return best;
}

static void post_happens(struct scripted_transport *transport, struct scripted_post *post) {
  struct scripted_post **place = &transport->posts;
  while (*place != post) {
    place = &(*place)->next;
  }
  *place = post->next;
  scripted_queue_push(post->queue, post->tag, post->success);
  free(post);
}

static void answer_happens(struct scripted_transport *transport, struct scripted_call *call) {
  call->attempt->will_answer = false;
  scripted_call_answer(call, &call->attempt->answer);
  if (call->end == END_NOT && transport->on_answered != NULL) {
    transport->on_answered(transport->on_send_context, call->attempt);
  }
}

static void upcoming_happens(struct scripted_transport *transport,
                             const struct upcoming *upcoming) {
  fake_clock_advance_to(transport->clock, upcoming->at_ns);
  switch (upcoming->source) {
  case SOURCE_SCRIPT:
    script_step(transport);
    break;
  case SOURCE_ANSWER:
    answer_happens(transport, upcoming->call);
    break;
  case SOURCE_POST:
    post_happens(transport, upcoming->post);
    break;
  case SOURCE_DEADLINE:
    scripted_call_end_locally(upcoming->call, GRPC_STATUS_DEADLINE_EXCEEDED, "Deadline Exceeded");
    break;
  case SOURCE_NONE:
    break;
  }
}

void scripted_transport_happen(struct scripted_transport *transport) {
  struct upcoming upcoming = upcoming_find(transport);
  while (upcoming.source != SOURCE_NONE && upcoming.at_ns <= transport->clock->now_ns) {
    upcoming_happens(transport, &upcoming);
    upcoming = upcoming_find(transport);
  }
}

void scripted_transport_turn(grpc_completion_queue *queue) {
  scripted_queue_turn(queue_of(queue));
}

static grpc_event drain(struct scripted_transport *transport, struct scripted_queue *queue,
                        gpr_timespec deadline) {
  int64_t until_ns = weir__instant_from_timespec(deadline, transport->clock->now_ns);
  grpc_event event = {.type = GRPC_QUEUE_TIMEOUT, .success = 0, .tag = NULL};
  for (;;) {
    /* What is due comes before what is there, so that one drainer sees the world in its order. */
    scripted_transport_happen(transport);
    if (scripted_queue_pop(queue, &event)) {
      return event;
    }
    if (queue->n_open == 0 && queue->events == NULL) {
      event.type = GRPC_QUEUE_SHUTDOWN;
      return event;
    }
    struct upcoming upcoming = upcoming_find(transport);
    if (upcoming.source == SOURCE_NONE || upcoming.at_ns > until_ns) {
      if (until_ns != WEIR_NO_DEADLINE) {
        fake_clock_advance_to(transport->clock, until_ns);
      }
      return event;
    }
    upcoming_happens(transport, &upcoming);
  }
}

/* --- calls --- */

static grpc_call_error scripted_start_batch(grpc_call *handle, const grpc_op *ops, size_t n_ops,
                                            void *tag, void *context) {
  struct scripted_transport *transport = transport_of(context);
  struct scripted_call *call = call_of(handle);
  transport->n_touches++;
  if (n_ops == 0) {
    transport->n_rings++;
    scripted_queue_begin(call->queue);
    scripted_queue_push(call->queue, tag, true);
    return GRPC_CALL_OK;
  }
  transport->n_start_batches++;
  if (transport->n_start_batches == transport->start_fails_at) {
    return GRPC_CALL_ERROR;
  }
  return scripted_call_start(call, ops, n_ops, tag) ? GRPC_CALL_OK
                                                    : GRPC_CALL_ERROR_TOO_MANY_OPERATIONS;
}

static void name_attempt(struct sent_attempt *attempt, const struct weir__call_target *target) {
  const struct scripted_method *method = target->registered;
  attempt->registered = method != NULL;
  if (method != NULL) {
    memcpy(attempt->path, method->path, sizeof attempt->path);
    memcpy(attempt->host, method->host, sizeof attempt->host);
    return;
  }
  sent_attempt_copy_text(attempt->path, target->method);
  if (target->host != NULL) {
    sent_attempt_copy_text(attempt->host, *target->host);
  }
}

/* One bit without the other is a call that has failed already; weir has to have seen to that. */
static void inherit_census(struct scripted_call *call, const struct scripted_call *parent,
                           uint32_t propagation_mask) {
  bool tracing = (propagation_mask & GRPC_PROPAGATE_CENSUS_TRACING_CONTEXT) != 0;
  assert_int_equal(tracing, (propagation_mask & GRPC_PROPAGATE_CENSUS_STATS_CONTEXT) != 0);
  if (tracing) {
    call->census = parent->census;
    call->attempt->census = parent->census;
  }
}

static grpc_call *scripted_call_create(void *context, const struct weir__call_target *target) {
  struct scripted_transport *transport = transport_of(context);
  transport->n_touches++;
  transport->n_created++;
  struct scripted_call *call = scripted_call_new(transport, CALL_ATTEMPT, queue_of(target->queue));
  call->attempt = sent_attempt_new();
  assert_non_null(call->attempt);
  name_attempt(call->attempt, target);
  assert_int_equal(target->deadline.clock_type, GPR_CLOCK_MONOTONIC);
  call->attempt->deadline_at_ns =
      weir__instant_from_timespec(target->deadline, transport->clock->now_ns);
  call->attempt->parent = target->parent;
  if ((target->propagation_mask & GRPC_PROPAGATE_CANCELLATION) != 0) {
    call->parent = target->parent;
    if (target->parent != NULL && call_of(target->parent)->end != END_NOT) {
      scripted_call_end_locally(call, GRPC_STATUS_CANCELLED, "Cancelled");
    }
  }
  if (target->parent != NULL) {
    inherit_census(call, call_of(target->parent), target->propagation_mask);
  }
  return (grpc_call *)(void *)call;
}

static void scripted_call_cancel(void *context, grpc_call *handle, grpc_status_code code,
                                 const char *description) {
  struct scripted_call *call = call_of(handle);
  (void)context;
  assert_int_equal(call->kind, CALL_ATTEMPT);
  if (call->own_text != NULL) {
    return; /* the first cancellation stands */
  }
  call->own_text = gpr_strdup(description);
  struct sent_attempt *attempt = call->attempt;
  if (call->end == END_NOT) {
    attempt->cancelled = true;
    attempt->cancel_code = code;
  }
  bool ended_here = attempt->ended_here;
  scripted_call_end_locally(call, (int)code, call->own_text);
  if (attempt->ended_here && !ended_here) { /* also where the peer has ended it, but was not read */
    attempt->cancelled = true;
    attempt->cancel_code = code;
  }
}

static void scripted_call_ref(void *context, grpc_call *handle) {
  struct scripted_call *call = call_of(handle);
  if (call->kind == CALL_PARENT) {
    transport_of(context)->n_parents++;
  }
  call->n_refs++;
}

static void scripted_call_unref(void *context, grpc_call *handle) {
  struct scripted_call *call = call_of(handle);
  if (call->kind == CALL_PARENT) {
    transport_of(context)->n_parents--;
  }
  if (--call->n_refs == 0) {
    scripted_call_free(call);
  }
}

static bool scripted_failed_before_recv_message(void *context, const grpc_call *handle) {
  const struct scripted_call *call = (const struct scripted_call *)(const void *)handle;
  (void)context;
  return call->failed_before_recv_message;
}

static char *scripted_call_peer(void *context, grpc_call *handle) {
  (void)context;
  (void)handle;
  return gpr_strdup(SCRIPTED_PEER);
}

/* A stand-in, to be compared and not released. */
static grpc_auth_context *scripted_call_auth_context(void *context, grpc_call *handle) {
  (void)context;
  return (grpc_auth_context *)(void *)handle;
}

static void scripted_call_set_credentials(void *context, grpc_call *handle,
                                          grpc_call_credentials *credentials) {
  (void)context;
  call_of(handle)->attempt->credentials = credentials;
}

static void scripted_call_set_census(void *context, grpc_call *handle,
                                     struct census_context *census) {
  (void)context;
  call_of(handle)->census = census;
  call_of(handle)->attempt->census = census;
}

static struct census_context *scripted_call_census(void *context, grpc_call *handle) {
  (void)context;
  return call_of(handle)->census;
}

/* --- the table's channels --- */

static char *scripted_channel_target(void *context, grpc_channel *channel) {
  (void)context;
  (void)channel;
  return gpr_strdup(SCRIPTED_TARGET);
}

static void *scripted_channel_register_call(void *context, grpc_channel *channel,
                                            const char *method, const char *host) {
  struct scripted_transport *transport = transport_of(context);
  struct scripted_method *handle = calloc(1, sizeof *handle);
  (void)channel;
  assert_non_null(handle);
  sent_attempt_copy_text(handle->path, grpc_slice_from_static_string(method));
  sent_attempt_copy_text(handle->host, grpc_slice_from_static_string(host != NULL ? host : ""));
  handle->next = transport->methods;
  transport->methods = handle;
  transport->n_registered++;
  return handle;
}

/* Nothing ever changes: the tag comes at the deadline. */
static void scripted_channel_watch(void *context, grpc_channel *channel,
                                   grpc_connectivity_state last_observed, gpr_timespec deadline,
                                   grpc_completion_queue *queue, void *tag) {
  struct scripted_transport *transport = transport_of(context);
  (void)channel;
  (void)last_observed;
  scripted_transport_post(transport, queue, tag, false,
                          weir__instant_from_timespec(deadline, transport->clock->now_ns));
}

static void scripted_channel_reconnect(void *context, grpc_channel *channel) {
  (void)channel;
  transport_of(context)->n_reconnects++;
}

void scripted_transport_set_census(grpc_call *parent, struct census_context *census) {
  call_of(parent)->census = census;
}

grpc_call *scripted_transport_parent(struct scripted_transport *transport) {
  transport->n_parents++;
  return (grpc_call *)(void *)scripted_call_new(transport, CALL_PARENT, NULL);
}

void scripted_transport_cancel_parent(struct scripted_transport *transport, grpc_call *parent) {
  call_of(parent)->end = END_LOCAL;
  for (struct scripted_call *call = transport->calls; call != NULL; call = call->next) {
    if (call->parent == parent) {
      scripted_call_end_locally(call, GRPC_STATUS_CANCELLED, "Cancelled");
    }
  }
}

static grpc_call *scripted_bell_create(void *context, grpc_completion_queue *queue) {
  return (grpc_call *)(void *)scripted_call_new(transport_of(context), CALL_BELL, queue_of(queue));
}

/* --- the table's queues --- */

static grpc_completion_queue *scripted_queue_create(void *context, grpc_cq_polling_type polling) {
  struct scripted_transport *transport = transport_of(context);
  struct scripted_queue *queue = calloc(1, sizeof *queue);
  (void)polling;
  assert_non_null(queue);
  queue->n_open = 1;
  queue->next = transport->queues;
  transport->queues = queue;
  return (grpc_completion_queue *)(void *)queue;
}

static grpc_event scripted_queue_next(grpc_completion_queue *queue, gpr_timespec deadline,
                                      void *context) {
  return drain(transport_of(context), queue_of(queue), deadline);
}

static void scripted_queue_cache_init(void *context, grpc_completion_queue *queue) {
  (void)context;
  queue_of(queue)->has_cache = true;
}

static bool scripted_queue_cache_flush(void *context, grpc_completion_queue *queue,
                                       grpc_event *event_out) {
  (void)context;
  return scripted_queue_flush(queue_of(queue), event_out);
}

static void scripted_queue_shutdown(void *context, grpc_completion_queue *handle) {
  struct scripted_queue *queue = queue_of(handle);
  (void)context;
  if (!queue->shut_down) {
    queue->shut_down = true;
    queue->n_open--;
  }
}

static void scripted_queue_destroy(void *context, grpc_completion_queue *handle) {
  struct scripted_transport *transport = transport_of(context);
  struct scripted_queue *queue = queue_of(handle);
  assert_true(queue->shut_down);
  assert_int_equal(queue->n_open, 0);
  assert_null(queue->events);
  struct scripted_queue **place = &transport->queues;
  while (*place != queue) {
    place = &(*place)->next;
  }
  *place = queue->next;
  free(queue);
}

void scripted_transport_post(struct scripted_transport *transport, grpc_completion_queue *queue,
                             void *tag, bool success, int64_t at_ns) {
  struct scripted_post *post = calloc(1, sizeof *post);
  assert_non_null(post);
  *post = (struct scripted_post){
      .queue = queue_of(queue), .tag = tag, .success = success, .at_ns = at_ns};
  scripted_queue_begin(post->queue);
  struct scripted_post **last = &transport->posts;
  while (*last != NULL) {
    last = &(*last)->next;
  }
  *last = post;
}

bool scripted_transport_has_events(const grpc_completion_queue *queue) {
  return ((const struct scripted_queue *)(const void *)queue)->events != NULL;
}

/* --- life --- */

void scripted_transport_init(struct scripted_transport *transport, struct fake_clock *clock) {
  memset(transport, 0, sizeof *transport);
  transport->clock = clock;
  transport->base = (struct weir__transport){
      .context = transport,
      .call_create = scripted_call_create,
      .call_start_batch = scripted_start_batch,
      .call_cancel = scripted_call_cancel,
      .call_ref = scripted_call_ref,
      .call_unref = scripted_call_unref,
      .call_failed_before_recv_message = scripted_failed_before_recv_message,
      .call_peer = scripted_call_peer,
      .call_auth_context = scripted_call_auth_context,
      .call_set_credentials = scripted_call_set_credentials,
      .call_set_census = scripted_call_set_census,
      .call_census = scripted_call_census,
      .channel_target = scripted_channel_target,
      .channel_register_call = scripted_channel_register_call,
      .channel_watch = scripted_channel_watch,
      .channel_reconnect = scripted_channel_reconnect,
      .queue_create = scripted_queue_create,
      .queue_next = scripted_queue_next,
      .queue_cache_init = scripted_queue_cache_init,
      .queue_cache_flush = scripted_queue_cache_flush,
      .queue_shutdown = scripted_queue_shutdown,
      .queue_destroy = scripted_queue_destroy,
      .bell_create = scripted_bell_create,
  };
}

void scripted_transport_fini(struct scripted_transport *transport) {
  assert_null(transport->calls);
  assert_null(transport->queues);
  assert_null(transport->posts);
  assert_int_equal(transport->n_parents, 0);
  assert_int_equal(transport->n_slices, 0);
  check_script_is_over(transport);
  free(transport->steps);
  while (transport->methods != NULL) {
    struct scripted_method *method = transport->methods;
    transport->methods = method->next;
    free(method);
  }
  while (transport->first_sent != NULL) {
    struct sent_attempt *attempt = transport->first_sent;
    transport->first_sent = attempt->next;
    assert_true(attempt->released);
    sent_attempt_free(attempt);
  }
}
