/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/asker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include "test/e2e/support/metadata.h"
#include "test/soak/chance.h"
#include "test/soak/judge.h"
#include "test/soak/wire.h"

#define NUMBER_SIZE 24
#define UNARY_OPS 6

struct asker {
  struct ledger *ledger;
  const struct plans *plans;
  struct chance chance; /* of who swaps policies */
  struct wire wires[PLAN_A_CHANNELS];
  _Atomic uint64_t n_detached[PLAN_A_CHANNELS];
};

/* A request, and the call that is made for it. */
struct asking {
  struct asker *asker;
  struct served *served;
  struct plan plan;
  struct wire *wire;
  const struct policy_facts *policy;
  weir_call *call;
  struct desk_tag tags[UNARY_OPS];
  grpc_metadata id;
  int64_t began_at_ns;

  grpc_byte_buffer *message;
  grpc_metadata_array initial_metadata;
  grpc_metadata_array trailing_metadata;
  grpc_status_code code;
  grpc_slice details;
};

static void check(bool fine, const char *what) {
  if (!fine) {
    fprintf(stderr, "soak: A: %s\n", what);
    abort();
  }
}

/* --- how it ends --- */

/* Blames what is wrong with the report, counts it, and answers by it. */
static void end(struct asking *asking, const struct weir_call_report *report,
                grpc_byte_buffer *message) {
  struct served *served = asking->served;
  struct ledger_entry *entry = ledger_entry_of(served->ledger, served->id);
  struct weir_reply reply;
  grpc_op op;
  atomic_fetch_add(&entry->n_tried, report->n_attempts);
  atomic_fetch_add(&entry->n_due, served->owned ? 1 : judge_max_attempts(asking->policy));
  ledger_note(served->ledger, served->id, LEDGER_A, LEDGER_ASKED, report->code, report->n_attempts);
  ledger_note(served->ledger, served->id, LEDGER_A, LEDGER_EXPLAINED, report->reason,
              report->raw_code);
  judge_call(&(struct judged){.ledger = served->ledger,
                              .id = served->id,
                              .who = LEDGER_A,
                              .policy = asking->policy,
                              .report = report,
                              .code = asking->code,
                              .details = asking->details,
                              .took_ns = ledger_now_ns() - asking->began_at_ns});
  if (served->owned && report->n_attempts > 1u + judge_was_replayed(report)) {
    ledger_blame(served->ledger, served->id, LEDGER_A,
                 "%u attempts in the middle of a chain whose retries are another's",
                 report->n_attempts);
  }
  weir_reply_status(report, &reply, &op);
  served_answer(served, &op, report->code == GRPC_STATUS_OK ? message : NULL);
}

/* --- weir_unary --- */

static void ask_blocking(struct asking *asking, grpc_byte_buffer *message) {
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  struct weir_inbound_scope scope;
  struct served *served = asking->served;
  request.method = served->method;
  request.message = message;
  request.metadata = &asking->id;
  request.n_metadata = 1;
  request.inbound = asking->plan.a_is_ambient ? NULL : served->inbound;
  request.inbound_bond = asking->plan.a_detached ? WEIR_INBOUND_DETACHED : WEIR_INBOUND_ATTACHED;
  weir_inbound_enter(served->inbound, &scope);
  check(weir_unary(asking->wire->channel, &request, &reply) == WEIR_OK, "weir_unary");
  weir_inbound_leave(&scope);
  asking->policy = NULL; /* a swap may have come between */
  asking->code = reply.code;
  grpc_slice_unref(asking->details);
  asking->details = grpc_slice_ref(reply.details);
  end(asking, &reply.report, reply.message);
  weir_unary_reply_fini(&reply);
}

/* --- batches --- */

static void start(struct asking *asking, struct desk_tag *tag, const grpc_op *ops, size_t n_ops) {
  check(weir_call_start_batch(asking->call, ops, n_ops, desk_owe(tag), NULL) == GRPC_CALL_OK,
        "weir refused a batch");
}

static bool await(struct asking *asking, struct desk_tag *tag) {
  (void)desk_await(asking->served->desk, tag, WEIR_NO_LIMIT_NS);
  return tag->ok;
}

static bool run(struct asking *asking, const grpc_op *ops, size_t n_ops) {
  start(asking, &asking->tags[0], ops, n_ops);
  return await(asking, &asking->tags[0]);
}

static void open_call(struct asking *asking) {
  struct weir_call_options options = WEIR_CALL_OPTIONS_INIT;
  struct weir_inbound_scope scope;
  struct served *served = asking->served;
  options.inbound = asking->plan.a_is_ambient ? NULL : served->inbound;
  options.inbound_bond = asking->plan.a_detached ? WEIR_INBOUND_DETACHED : WEIR_INBOUND_ATTACHED;
  weir_inbound_enter(served->inbound, &scope);
  uint64_t looked = wire_look(asking->wire);
  grpc_slice method = grpc_slice_from_copied_string(served->method);
  asking->call =
      weir_channel_create_call(asking->wire->channel, NULL, 0, served->desk->queue, method, NULL,
                               gpr_inf_future(GPR_CLOCK_MONOTONIC), &options);
  grpc_slice_unref(method);
  asking->policy = wire_policy_since(asking->wire, looked);
  weir_inbound_leave(&scope);
  check(asking->call != NULL, "no call");
}

static grpc_op op_of(grpc_op_type type) {
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = type;
  return op;
}

static grpc_op send_metadata(struct asking *asking) {
  grpc_op op = op_of(GRPC_OP_SEND_INITIAL_METADATA);
  op.data.send_initial_metadata.count = 1;
  op.data.send_initial_metadata.metadata = &asking->id;
  return op;
}

static grpc_op send_message(grpc_byte_buffer *message) {
  grpc_op op = op_of(GRPC_OP_SEND_MESSAGE);
  op.data.send_message.send_message = message;
  return op;
}

static grpc_op receive_metadata(struct asking *asking) {
  grpc_op op = op_of(GRPC_OP_RECV_INITIAL_METADATA);
  op.data.recv_initial_metadata.recv_initial_metadata = &asking->initial_metadata;
  return op;
}

static grpc_op receive_message(struct asking *asking) {
  grpc_op op = op_of(GRPC_OP_RECV_MESSAGE);
  op.data.recv_message.recv_message = &asking->message;
  return op;
}

static grpc_op receive_status(struct asking *asking) {
  grpc_op op = op_of(GRPC_OP_RECV_STATUS_ON_CLIENT);
  op.data.recv_status_on_client.trailing_metadata = &asking->trailing_metadata;
  op.data.recv_status_on_client.status = &asking->code;
  op.data.recv_status_on_client.status_details = &asking->details;
  return op;
}

static void close_call(struct asking *asking) {
  struct weir_call_report report = WEIR_CALL_REPORT_INIT;
  check(weir_call_get_report(asking->call, &report) == WEIR_OK, "no report");
  end(asking, &report, asking->message);
  weir_call_unref(asking->call);
}

/* One batch, or six that are started at once. */
static void ask_in_batches(struct asking *asking, grpc_byte_buffer *message) {
  open_call(asking);
  const grpc_op ops[UNARY_OPS] = {
      send_metadata(asking),    send_message(message),   op_of(GRPC_OP_SEND_CLOSE_FROM_CLIENT),
      receive_metadata(asking), receive_message(asking), receive_status(asking)};
  size_t each = asking->plan.a_shape == PLAN_ONE_BATCH ? UNARY_OPS : 1;
  for (size_t i = 0; i < UNARY_OPS; i += each) {
    start(asking, &asking->tags[i], ops + i, each);
  }
  for (size_t i = 0; i < UNARY_OPS; i++) {
    (void)await(asking, &asking->tags[i]);
  }
  close_call(asking);
}

/* --- streams --- */

/* The next message of B's goes to the caller; false at B's last, or when either has gone. */
static bool pass_back(struct asking *asking, bool first) {
  const grpc_op ops[] = {receive_message(asking), receive_metadata(asking)};
  if (!run(asking, ops, first ? 2 : 1) || asking->message == NULL) {
    return false;
  }
  bool wanted = served_send(asking->served, asking->message);
  grpc_byte_buffer_destroy(asking->message);
  asking->message = NULL;
  if (!wanted) {
    (void)weir_call_cancel(asking->call, NULL);
  }
  return wanted;
}

/* What the caller says is said to B, with an answer to each in a conversation. */
static bool pass_on_all(struct asking *asking, grpc_byte_buffer *first, bool talks) {
  bool well = true;
  grpc_byte_buffer *message = first;
  while (message != NULL && well) {
    const grpc_op op = send_message(message);
    well = run(asking, &op, 1) && (!talks || pass_back(asking, message == first));
    if (message != first) {
      grpc_byte_buffer_destroy(message);
    }
    message = well ? served_receive(asking->served) : NULL;
  }
  return well;
}

static void relay(struct asking *asking, grpc_byte_buffer *first) {
  const char *method = asking->served->method;
  bool talks = strcmp(method, plan_method(PLAN_BIDI)) == 0;
  bool watches = strcmp(method, plan_method(PLAN_SERVER_STREAM)) == 0;
  open_call(asking);
  const grpc_op begin = send_metadata(asking);
  const grpc_op close = op_of(GRPC_OP_SEND_CLOSE_FROM_CLIENT);
  (void)run(asking, &begin, 1);
  if (pass_on_all(asking, first, talks)) {
    (void)run(asking, &close, 1);
    bool first_back = true;
    while (watches && pass_back(asking, first_back)) {
      first_back = false;
    }
    if (!talks && !watches) {
      const grpc_op ops[] = {receive_message(asking), receive_metadata(asking)};
      (void)run(asking, ops, 2);
    }
  }
  const grpc_op status = receive_status(asking);
  (void)run(asking, &status, 1);
  close_call(asking);
}

/* --- requests --- */

static void asking_init(struct asking *asking, struct asker *asker, struct served *served) {
  char number[NUMBER_SIZE];
  memset(asking, 0, sizeof *asking);
  asking->asker = asker;
  asking->served = served;
  asking->plan = plan_of(asker->plans, served->id);
  asking->wire = &asker->wires[asking->plan.a_channel];
  asking->began_at_ns = ledger_now_ns();
  asking->details = grpc_empty_slice();
  (void)snprintf(number, sizeof number, "%" PRId64, served->id);
  asking->id = weir__metadata_from_text(SERVICE_ID_KEY, number);
}

static void asking_fini(struct asking *asking) {
  grpc_byte_buffer_destroy(asking->message);
  grpc_metadata_array_destroy(&asking->initial_metadata);
  grpc_metadata_array_destroy(&asking->trailing_metadata);
  grpc_slice_unref(asking->details);
  grpc_slice_unref(asking->id.key);
  grpc_slice_unref(asking->id.value);
}

static void ask(struct asking *asking, grpc_byte_buffer *message) {
  struct served *served = asking->served;
  ledger_note(served->ledger, served->id, LEDGER_A, LEDGER_ASKS, asking->plan.a_shape,
              asking->plan.a_channel);
  atomic_fetch_add(&ledger_entry_of(served->ledger, served->id)->n_asked, 1);
  if (asking->plan.a_detached) {
    atomic_fetch_add(&asking->asker->n_detached[asking->plan.a_channel], 1);
  }
  if (strcmp(served->method, plan_method(PLAN_BLOCKING)) != 0) {
    relay(asking, message);
  } else if (asking->plan.a_shape == PLAN_BLOCKING) {
    ask_blocking(asking, message);
  } else {
    ask_in_batches(asking, message);
  }
}

void asker_serve(void *context, struct served *served) {
  struct asking asking;
  grpc_byte_buffer *message = served_receive(served);
  if (message == NULL) {
    return; /* the caller has gone */
  }
  asking_init(&asking, context, served);
  ask(&asking, message);
  asking_fini(&asking);
  grpc_byte_buffer_destroy(message);
}

/* --- the asker --- */

struct asker *asker_new(struct ledger *ledger, const struct plans *plans, int port) {
  struct asker *asker = calloc(1, sizeof *asker);
  check(asker != NULL, "no memory");
  asker->ledger = ledger;
  asker->plans = plans;
  asker->chance = chance_of(plans->seed, LEDGER_A);
  for (size_t i = 0; i < PLAN_A_CHANNELS; i++) {
    wire_init(&asker->wires[i], port, a_policies, POLICIES_A, NULL);
  }
  return asker;
}

void asker_release(struct asker *asker) {
  for (size_t i = 0; i < PLAN_A_CHANNELS; i++) {
    wire_fini(&asker->wires[i]);
  }
  free(asker);
}

void asker_swap(struct asker *asker) {
  struct wire *wire = &asker->wires[chance_below(&asker->chance, PLAN_A_CHANNELS)];
  wire_swap(wire, chance_below(&asker->chance, POLICIES_A));
}

void asker_calm(struct asker *asker) {
  for (size_t i = 0; i < PLAN_A_CHANNELS; i++) {
    wire_swap(&asker->wires[i], 0);
  }
}

void asker_blame_open_breakers(struct asker *asker) {
  for (size_t i = 0; i < PLAN_A_CHANNELS; i++) {
    wire_blame_open_breakers(&asker->wires[i], i, LEDGER_A, asker->ledger);
  }
}

void asker_judge(struct asker *asker) {
  for (size_t i = 0; i < PLAN_A_CHANNELS; i++) {
    struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
    struct weir_replay_snapshot replay = WEIR_REPLAY_SNAPSHOT_INIT;
    struct wire *wire = &asker->wires[i];
    check(weir_channel_get_counters(wire->channel, &counters) == WEIR_OK, "no counters");
    check(weir_channel_replay_snapshot(wire->channel, &replay) == WEIR_OK, "no replay snapshot");
    if (counters.n_detached_calls != atomic_load(&asker->n_detached[i]) ||
        counters.n_policy_swaps != atomic_load(&wire->n_swapped) ||
        counters.n_policy_refusals != 0 || replay.n_bytes != 0) {
      ledger_blame(asker->ledger, 0, LEDGER_A,
                   "channel %zu counts %" PRIu64 " detached calls, %" PRIu64 " swaps, %" PRIu64
                   " bytes kept; they were %" PRIu64 ", %" PRIu64 ", 0",
                   i, counters.n_detached_calls, counters.n_policy_swaps, replay.n_bytes,
                   atomic_load(&asker->n_detached[i]), atomic_load(&wire->n_swapped));
    }
  }
}
