/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/chain/next.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include "test/e2e/support/bare_call.h"
#include "test/e2e/support/metadata.h"
#include "test/support/silent_log.h"

#define TEXT_SIZE 32

struct next {
  struct journal *journal;
  weir_channel *weir;
  grpc_channel *core; /* NULL = over weir */
};

static void check(bool fine, const char *what) {
  if (!fine) {
    fprintf(stderr, "hop: %s\n", what);
    abort();
  }
}

/* --- channels --- */

static weir_channel *open_weir(int port, const char *document) {
  char target[TEXT_SIZE];
  struct weir_diagnostic diagnostic;
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  options.log = &silent_log;
  if (weir_policy_from_json(document, strlen(document), NULL, NULL, &options.policy, &diagnostic) !=
      WEIR_OK) {
    fprintf(stderr, "hop: %s: %s: %s\n", document, diagnostic.path, diagnostic.message);
    abort();
  }
  (void)snprintf(target, sizeof target, "127.0.0.1:%d", port);
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  weir_channel *channel = weir_channel_create(target, creds, NULL, &options);
  grpc_channel_credentials_release(creds);
  weir_policy_unref(options.policy);
  check(channel != NULL, "no channel");
  return channel;
}

struct next *next_new(int port, const char *policy, struct journal *journal) {
  struct next *next = calloc(1, sizeof *next);
  check(next != NULL, "no memory");
  next->journal = journal;
  if (policy != NULL) {
    next->weir = open_weir(port, policy);
  } else {
    next->core = weir__bare_channel_create(port, WEIR__CORE_RETRIES_OFF, NULL);
  }
  return next;
}

void next_release(struct next *next) {
  if (next == NULL) {
    return;
  }
  if (next->weir != NULL) {
    weir_channel_destroy(next->weir);
  } else {
    grpc_channel_destroy(next->core);
  }
  free(next);
}

/* --- what is told of a call, and answered --- */

static grpc_metadata root_entry(const struct served *served) {
  char number[TEXT_SIZE];
  (void)snprintf(number, sizeof number, "%" PRId64, served->root);
  return weir__metadata_from_text(CHAIN_ROOT_KEY, number);
}

static void root_entry_fini(grpc_metadata *entry) {
  grpc_slice_unref(entry->key);
  grpc_slice_unref(entry->value);
}

/* `begun_at_ns` was read just before: attempts are told rather early than late. */
static void tell_report(const struct next *next, const struct served *served, int64_t begun_at_ns,
                        const struct weir_call_report *report) {
  for (uint32_t i = 0; i < report->n_attempts && i < WEIR_REPORT_ATTEMPTS; i++) {
    journal_write(next->journal, &(struct chain_event){
                                     .kind = CHAIN_TRIED,
                                     .root = served->root,
                                     .at_ns = begun_at_ns + report->attempts[i].started_after_ns});
  }
  journal_write(next->journal, &(struct chain_event){.kind = CHAIN_ASKED,
                                                     .root = served->root,
                                                     .code = report->code,
                                                     .n_attempts = report->n_attempts,
                                                     .reason = report->reason,
                                                     .bound = report->deadline_bound});
}

static void answer_by_report(struct next_answer *answer, const struct weir_call_report *report) {
  memset(answer, 0, sizeof *answer);
  answer->text = grpc_empty_slice();
  weir_reply_status(report, &answer->reply, &answer->status);
}

void next_answer_init(struct next_answer *answer, grpc_status_code code, grpc_slice text) {
  memset(answer, 0, sizeof *answer);
  answer->text = grpc_slice_ref(text);
  answer->status.op = GRPC_OP_SEND_STATUS_FROM_SERVER;
  answer->status.data.send_status_from_server.status = code;
  answer->status.data.send_status_from_server.status_details = &answer->text;
}

void next_answer_fini(struct next_answer *answer) {
  grpc_slice_unref(answer->text);
  grpc_byte_buffer_destroy(answer->message);
}

/* --- unary --- */

static void ask_weir(struct next *next, const struct served *served, grpc_byte_buffer *message,
                     struct next_answer *answer_out) {
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  grpc_metadata root = root_entry(served);
  char *method = grpc_slice_to_c_string(served->details->method);
  bool anyway = strcmp(method, CHAIN_FINISH) == 0;
  request.method = anyway ? CHAIN_ASK : method;
  request.message = message;
  request.metadata = &root;
  request.n_metadata = 1;
  request.inbound = served->inbound;
  request.inbound_bond = anyway ? WEIR_INBOUND_DETACHED : WEIR_INBOUND_ATTACHED;
  int64_t begun_at_ns = journal_now_ns();
  check(weir_unary(next->weir, &request, &reply) == WEIR_OK, "weir_unary");
  tell_report(next, served, begun_at_ns, &reply.report);
  answer_by_report(answer_out, &reply.report);
  answer_out->message = reply.message;
  reply.message = NULL;
  weir_unary_reply_fini(&reply);
  root_entry_fini(&root);
  gpr_free(method);
}

/* A service as they are without weir: it makes the call under the request's, so that deadline and
 * cancellation reach it, and passes the status on. */
static void ask_bare(struct next *next, const struct served *served, grpc_byte_buffer *message,
                     struct next_answer *answer_out) {
  struct weir__bare_reply reply;
  grpc_metadata root = root_entry(served);
  char *method = grpc_slice_to_c_string(served->details->method);
  const struct weir__bare_request request = {.method = method,
                                             .message = message,
                                             .metadata = &root,
                                             .n_metadata = 1,
                                             .deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC),
                                             .parent = served->call};
  journal_write(next->journal, &(struct chain_event){.kind = CHAIN_TRIED, .root = served->root});
  weir__bare_unary(next->core, &request, &reply);
  journal_write(next->journal, &(struct chain_event){.kind = CHAIN_ASKED,
                                                     .root = served->root,
                                                     .code = reply.code,
                                                     .n_attempts = 1});
  next_answer_init(answer_out, reply.code, reply.details);
  answer_out->message = reply.message;
  reply.message = NULL;
  weir__bare_reply_fini(&reply);
  root_entry_fini(&root);
  gpr_free(method);
}

void next_ask(struct next *next, const struct served *served, grpc_byte_buffer *message,
              struct next_answer *answer_out) {
  if (next->weir != NULL) {
    ask_weir(next, served, message, answer_out);
  } else {
    ask_bare(next, served, message, answer_out);
  }
}

/* --- streams --- */

/* A stream of the next hop's, read one message after the other. */
struct watching {
  weir_call *call;
  weir_completion_queue *queue;
  grpc_metadata_array initial_metadata;
  grpc_metadata_array trailing_metadata;
  grpc_status_code code;
  grpc_slice details;
};

static bool run(struct watching *watching, const grpc_op *ops, size_t n_ops) {
  check(weir_call_start_batch(watching->call, ops, n_ops, watching, NULL) == GRPC_CALL_OK, "batch");
  grpc_event event =
      weir_completion_queue_next(watching->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  check(event.type == GRPC_OP_COMPLETE, "an event");
  return event.success != 0;
}

static void watch_begin(struct watching *watching, const struct next *next,
                        const struct served *served, grpc_byte_buffer *message) {
  struct weir_call_options options = WEIR_CALL_OPTIONS_INIT;
  grpc_op ops[3];
  grpc_metadata root = root_entry(served);
  memset(watching, 0, sizeof *watching);
  memset(ops, 0, sizeof ops);
  options.inbound = served->inbound;
  watching->details = grpc_empty_slice();
  watching->queue = weir_completion_queue_create_for_next(NULL);
  watching->call = weir_channel_create_call(next->weir, NULL, 0, watching->queue,
                                            grpc_slice_from_static_string(CHAIN_WATCH), NULL,
                                            gpr_inf_future(GPR_CLOCK_MONOTONIC), &options);
  check(watching->call != NULL, "no call");
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[0].data.send_initial_metadata.count = 1;
  ops[0].data.send_initial_metadata.metadata = &root;
  ops[1].op = GRPC_OP_SEND_MESSAGE;
  ops[1].data.send_message.send_message = message;
  ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  (void)run(watching, ops, sizeof ops / sizeof ops[0]);
  memset(ops, 0, sizeof ops);
  ops[0].op = GRPC_OP_RECV_INITIAL_METADATA;
  ops[0].data.recv_initial_metadata.recv_initial_metadata = &watching->initial_metadata;
  (void)run(watching, ops, 1);
  root_entry_fini(&root);
}

/* NULL = there are no more. */
static grpc_byte_buffer *watch_receive(struct watching *watching) {
  grpc_op op;
  grpc_byte_buffer *message = NULL;
  memset(&op, 0, sizeof op);
  op.op = GRPC_OP_RECV_MESSAGE;
  op.data.recv_message.recv_message = &message;
  (void)run(watching, &op, 1);
  return message;
}

static void watch_finish(struct watching *watching) {
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  op.data.recv_status_on_client.trailing_metadata = &watching->trailing_metadata;
  op.data.recv_status_on_client.status = &watching->code;
  op.data.recv_status_on_client.status_details = &watching->details;
  (void)run(watching, &op, 1);
}

static void watch_end(struct watching *watching) {
  grpc_metadata_array_destroy(&watching->initial_metadata);
  grpc_metadata_array_destroy(&watching->trailing_metadata);
  grpc_slice_unref(watching->details);
  weir_call_unref(watching->call);
  weir_completion_queue_shutdown(watching->queue);
  (void)weir_completion_queue_next(watching->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  weir_completion_queue_destroy(watching->queue);
}

void next_watch(struct next *next, const struct served *served, grpc_byte_buffer *message,
                next_pass_fn *pass, void *context, struct next_answer *answer_out) {
  struct watching watching;
  struct weir_call_report report = WEIR_CALL_REPORT_INIT;
  int64_t begun_at_ns = journal_now_ns();
  watch_begin(&watching, next, served, message);
  bool wanted = true;
  for (grpc_byte_buffer *received = watch_receive(&watching); received != NULL;
       received = wanted ? watch_receive(&watching) : NULL) {
    wanted = pass(context, received);
    grpc_byte_buffer_destroy(received);
  }
  if (!wanted) {
    (void)weir_call_cancel(watching.call, NULL);
  }
  watch_finish(&watching);
  check(weir_call_get_report(watching.call, &report) == WEIR_OK, "a report");
  tell_report(next, served, begun_at_ns, &report);
  answer_by_report(answer_out, &report);
  watch_end(&watching);
}
