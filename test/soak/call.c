/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/call.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include "test/e2e/support/metadata.h"
#include "test/soak/message.h"
#include "test/soak/service.h"

#define NUMBER_SIZE 24
#define NO_CODE ((grpc_status_code)-1)
#define OWN_CODE GRPC_STATUS_FAILED_PRECONDITION /* of a cancellation */

/* After this long, a call that has not ended never will. */
#define STUCK_LIMIT_NS (WEIR_SECOND_NS * 60)

/* The operations of a unary call, each of which is a line of its own in six batches. In streams, a
 * line is what follows one another. */
enum { OP_METADATA = 0, OP_MESSAGE, OP_CLOSE, OP_RECV_METADATA, OP_RECV_MESSAGE, OP_RECV_STATUS };

#define LINE_SENDS OP_METADATA

static void check(bool fine, const char *what) {
  if (!fine) {
    fprintf(stderr, "soak: client: %s\n", what);
    abort();
  }
}

void call_init(struct call *call, struct client *client, weir_completion_queue *queue,
               void (*run)(grpc_completion_queue_functor *functor, int success)) {
  memset(call, 0, sizeof *call);
  call->client = client;
  call->queue = queue;
  (void)pthread_mutex_init(&call->mutex, NULL);
  for (unsigned i = 0; i < CALL_OPS; i++) {
    call->tags[i].functor.functor_run = run;
    call->tags[i].functor.inlineable = (int)(i % 2);
    call->tags[i].call = call;
    call->tags[i].line = i;
  }
}

void call_fini(struct call *call) {
  (void)pthread_mutex_destroy(&call->mutex);
}

static bool is_stream(const struct call *call) {
  return call->told.plan.shape >= PLAN_SERVER_STREAM;
}

/* --- operations --- */

static grpc_byte_buffer *next_message(struct call *call) {
  grpc_byte_buffer_destroy(call->sent);
  call->sent = message_new(&(struct message){.kind = MESSAGE_REQUEST,
                                             .id = (uint32_t)call->told.id,
                                             .number = call->n_sent++,
                                             .size = call->told.plan.size});
  return call->sent;
}

static void set_op(struct call *call, unsigned which, grpc_op *op) {
  static const grpc_op_type types[CALL_OPS] = {
      GRPC_OP_SEND_INITIAL_METADATA, GRPC_OP_SEND_MESSAGE, GRPC_OP_SEND_CLOSE_FROM_CLIENT,
      GRPC_OP_RECV_INITIAL_METADATA, GRPC_OP_RECV_MESSAGE, GRPC_OP_RECV_STATUS_ON_CLIENT};
  memset(op, 0, sizeof *op);
  op->op = types[which];
  if (which == OP_METADATA) {
    op->data.send_initial_metadata.count = 1;
    op->data.send_initial_metadata.metadata = &call->id;
    op->flags = call->told.plan.waits_for_ready
                    ? GRPC_INITIAL_METADATA_WAIT_FOR_READY |
                          GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET
                    : 0;
  } else if (which == OP_MESSAGE) {
    op->data.send_message.send_message = next_message(call);
  } else if (which == OP_CLOSE) {
    call->closed = true;
  } else if (which == OP_RECV_METADATA) {
    op->data.recv_initial_metadata.recv_initial_metadata = &call->initial_metadata;
  } else if (which == OP_RECV_MESSAGE) {
    op->data.recv_message.recv_message = &call->received;
  } else {
    op->data.recv_status_on_client.trailing_metadata = &call->trailing_metadata;
    op->data.recv_status_on_client.status = &call->code;
    op->data.recv_status_on_client.status_details = &call->details;
    op->data.recv_status_on_client.error_string = &call->error_string;
  }
}

/* Starts a batch of these operations, as bits. */
static void start(struct call *call, unsigned line, unsigned which) {
  grpc_op ops[CALL_OPS];
  size_t n_ops = 0;
  for (unsigned i = 0; i < CALL_OPS; i++) {
    if ((which & 1u << i) != 0) {
      set_op(call, i, &ops[n_ops++]);
    }
  }
  struct call_tag *tag = &call->tags[line];
  ledger_note(call->client->ledger, call->told.id, LEDGER_CLIENT, LEDGER_STARTED, line, which);
  tag->n_owed++;
  call->n_under_way++;
  grpc_call_error error = weir_call_start_batch(call->weir, ops, n_ops, tag, NULL);
  if (error != GRPC_CALL_OK) {
    ledger_blame(call->client->ledger, call->told.id, LEDGER_CLIENT, "batch %x is refused: %s",
                 which, grpc_call_error_to_string(error));
    tag->n_owed--;
    call->n_under_way--;
  }
}

#define ONLY(op) (1u << (op))

static void start_first(struct call *call) {
  switch (call->told.plan.shape) {
  case PLAN_ONE_BATCH:
    start(call, LINE_SENDS, (1u << CALL_OPS) - 1);
    return;
  case PLAN_SIX_BATCHES:
    for (unsigned i = 0; i < CALL_OPS; i++) {
      start(call, i, ONLY(i));
    }
    return;
  case PLAN_SERVER_STREAM:
    start(call, LINE_SENDS, ONLY(OP_METADATA) | ONLY(OP_MESSAGE) | ONLY(OP_CLOSE));
    break;
  case PLAN_BLOCKING:
  case PLAN_CLIENT_STREAM:
  case PLAN_BIDI:
  case PLAN_N_SHAPES:
    start(call, LINE_SENDS, ONLY(OP_METADATA));
    break;
  }
  start(call, OP_RECV_METADATA, ONLY(OP_RECV_METADATA));
  start(call, OP_RECV_MESSAGE, ONLY(OP_RECV_MESSAGE));
  start(call, OP_RECV_STATUS, ONLY(OP_RECV_STATUS));
}

/* --- making it --- */

static gpr_timespec deadline_of(const struct call *call) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(call->told.plan.timeout_ns, GPR_TIMESPAN));
}

static weir_call *make(struct call *call) {
  const struct plan *plan = &call->told.plan;
  if (plan->registered) {
    return weir_channel_create_registered_call(call->wire->channel, NULL, 0, call->queue,
                                               call->wire->registered[plan->shape],
                                               deadline_of(call), NULL);
  }
  return weir_channel_create_call(call->wire->channel, NULL, 0, call->queue,
                                  grpc_slice_from_static_string(plan_method(plan->shape)), NULL,
                                  deadline_of(call), NULL);
}

static void prepare(struct call *call, int64_t id) {
  char number[NUMBER_SIZE];
  (void)snprintf(number, sizeof number, "%" PRId64, id);
  call->told = (struct tally_call){.id = id, .plan = plan_of(call->client->plans, id)};
  call->wire = &call->client->wires[call->told.plan.channel];
  call->id = weir__metadata_from_text(SERVICE_ID_KEY, number);
  call->n_sent = 0;
  call->closed = false;
  call->let_go = false;
  call->code = NO_CODE;
  call->details = grpc_empty_slice();
  call->error_string = NULL;
  grpc_metadata_array_init(&call->initial_metadata);
  grpc_metadata_array_init(&call->trailing_metadata);
}

void call_begin(struct call *call, int64_t id) {
  (void)pthread_mutex_lock(&call->mutex);
  prepare(call, id);
  tally_begin(call->client->tally, &call->told);
  call->told.began_at_ns = ledger_now_ns();
  uint64_t looked = wire_look(call->wire);
  call->weir = make(call);
  call->told.policy = wire_policy_since(call->wire, looked);
  check(call->weir != NULL, "no call");
  call->active = true;
  start_first(call);
  (void)pthread_mutex_unlock(&call->mutex);
}

/* --- its tags --- */

static void receive(struct call *call) {
  if (call->received != NULL) {
    tally_receive(call->client->tally, &call->told, call->received);
    grpc_byte_buffer_destroy(call->received);
    call->received = NULL;
  }
}

static void send_more(struct call *call) {
  if (call->let_go || call->closed) {
    return;
  }
  if (call->n_sent < call->told.plan.n_sent) {
    start(call, LINE_SENDS, ONLY(OP_MESSAGE));
  } else {
    start(call, LINE_SENDS, ONLY(OP_CLOSE));
  }
}

static void receive_more(struct call *call) {
  bool any = call->received != NULL;
  receive(call);
  if (any && !call->let_go && call->told.plan.shape != PLAN_CLIENT_STREAM) {
    start(call, OP_RECV_MESSAGE, ONLY(OP_RECV_MESSAGE));
  }
}

static void go_on(struct call *call, unsigned line, bool ok) {
  if (!is_stream(call)) {
    return; /* what has come is looked at when all has */
  }
  if (line == LINE_SENDS && ok) {
    send_more(call);
  } else if (line == OP_RECV_MESSAGE) {
    receive_more(call);
  }
}

static void end(struct call *call) {
  struct weir_call_report report = WEIR_CALL_REPORT_INIT;
  receive(call);
  call->told.ended_at_ns = ledger_now_ns();
  if (call->let_go) {
    tally_end(call->client->tally, &call->told, NULL, call->code, call->details);
  } else {
    if (weir_call_get_report(call->weir, &report) != WEIR_OK) {
      ledger_blame(call->client->ledger, call->told.id, LEDGER_CLIENT, "no report");
    }
    tally_end(call->client->tally, &call->told, &report, call->code, call->details);
    weir_call_unref(call->weir);
  }
  call->weir = NULL;
  call->active = false;
  grpc_byte_buffer_destroy(call->sent);
  call->sent = NULL;
  grpc_metadata_array_destroy(&call->initial_metadata);
  grpc_metadata_array_destroy(&call->trailing_metadata);
  grpc_slice_unref(call->details);
  grpc_slice_unref(call->id.key);
  grpc_slice_unref(call->id.value);
  gpr_free((void *)(uintptr_t)call->error_string);
}

bool call_on_tag(struct call_tag *tag, bool ok) {
  struct call *call = tag->call;
  (void)pthread_mutex_lock(&call->mutex);
  ledger_note(call->client->ledger, call->told.id, LEDGER_CLIENT, LEDGER_CAME, tag->line, ok);
  if (!call->active || tag->n_came == tag->n_owed) {
    ledger_blame(call->client->ledger, call->told.id, LEDGER_CLIENT,
                 "line %u completes once too often", tag->line);
    (void)pthread_mutex_unlock(&call->mutex);
    return false;
  }
  tag->n_came++;
  call->n_under_way--;
  go_on(call, tag->line, ok);
  bool over = call->n_under_way == 0;
  if (over) {
    end(call);
  }
  (void)pthread_mutex_unlock(&call->mutex);
  return over;
}

struct call_tag *call_owed(struct call *call) {
  struct call_tag *owed = NULL;
  (void)pthread_mutex_lock(&call->mutex);
  for (unsigned i = 0; i < CALL_OPS && owed == NULL; i++) {
    owed = call->tags[i].n_came < call->tags[i].n_owed ? &call->tags[i] : NULL;
  }
  (void)pthread_mutex_unlock(&call->mutex);
  return owed;
}

/* --- from another thread --- */

static void cancel(struct call *call) {
  const struct plan *plan = &call->told.plan;
  call->told.cancelled = true;
  if (plan->lets_go) {
    ledger_note(call->client->ledger, call->told.id, LEDGER_CLIENT, LEDGER_LET_GO, 0, 0);
    call->let_go = true;
    weir_call_unref(call->weir);
    call->weir = NULL;
    return;
  }
  ledger_note(call->client->ledger, call->told.id, LEDGER_CLIENT, LEDGER_CANCELLED,
              plan->cancels_with_status ? OWN_CODE : GRPC_STATUS_CANCELLED, 0);
  if (plan->cancels_with_status) {
    (void)weir_call_cancel_with_status(call->weir, OWN_CODE, "not wanted any more", NULL);
  } else {
    (void)weir_call_cancel(call->weir, NULL);
  }
}

void call_cancel_if_due(struct call *call, int64_t now_ns) {
  (void)pthread_mutex_lock(&call->mutex);
  const struct tally_call *told = &call->told;
  if (call->active && !told->cancelled && told->plan.cancel_after_ns > 0 &&
      now_ns - told->began_at_ns >= told->plan.cancel_after_ns) {
    cancel(call);
  }
  (void)pthread_mutex_unlock(&call->mutex);
}

bool call_is_stuck(struct call *call, int64_t now_ns) {
  (void)pthread_mutex_lock(&call->mutex);
  const struct tally_call *told = &call->told;
  bool stuck = call->active && now_ns - told->began_at_ns > told->plan.timeout_ns + STUCK_LIMIT_NS;
  if (stuck) {
    ledger_blame(call->client->ledger, told->id, LEDGER_CLIENT,
                 "has not ended: %u batches are under way", call->n_under_way);
  }
  (void)pthread_mutex_unlock(&call->mutex);
  return stuck;
}
