/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/answerer.h"

#include <stddef.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

#include "test/soak/message.h"
#include "test/soak/plan.h"
#include "test/soak/policies.h"

/* A request, and what has come of it. */
struct answering {
  struct served *served;
  struct plan plan;
  uint32_t n_received;
  uint32_t n_replies;
  bool gone; /* the caller */
};

static void answer(const struct answering *answering, grpc_status_code code, const char *pushback,
                   grpc_byte_buffer *message) {
  grpc_slice text = grpc_slice_from_static_string(code != GRPC_STATUS_OK ? POLICIES_SECRET : "");
  grpc_metadata trailer;
  grpc_op op;
  memset(&op, 0, sizeof op);
  memset(&trailer, 0, sizeof trailer);
  op.op = GRPC_OP_SEND_STATUS_FROM_SERVER;
  op.data.send_status_from_server.status = code;
  op.data.send_status_from_server.status_details = &text;
  if (pushback != NULL) {
    trailer.key = grpc_slice_from_static_string("grpc-retry-pushback-ms");
    trailer.value = grpc_slice_from_static_string(pushback);
    op.data.send_status_from_server.trailing_metadata_count = 1;
    op.data.send_status_from_server.trailing_metadata = &trailer;
  }
  served_answer(answering->served, &op, message);
}

/* The next of the caller's messages: false at their end. */
static bool receive(struct answering *answering) {
  struct served *served = answering->served;
  struct message message;
  grpc_byte_buffer *received = served_receive(served);
  if (received == NULL) {
    return false;
  }
  if (!message_read(received, &message)) {
    ledger_blame(served->ledger, served->id, LEDGER_B, "a request's bytes are wrong");
  } else if (message.kind != MESSAGE_REQUEST || message.id != served->id ||
             message.number != answering->n_received || message.size != answering->plan.size) {
    ledger_blame(served->ledger, served->id, LEDGER_B,
                 "message %u is another's: of call %u, number %u, kind %d", answering->n_received,
                 message.id, message.number, (int)message.kind);
  }
  answering->n_received++;
  grpc_byte_buffer_destroy(received);
  return true;
}

static grpc_byte_buffer *reply_of(const struct answering *answering, uint32_t number) {
  return message_new(&(struct message){.kind = MESSAGE_REPLY,
                                       .id = (uint32_t)answering->served->id,
                                       .number = number,
                                       .size = answering->plan.size});
}

static void reply(struct answering *answering) {
  grpc_byte_buffer *message = reply_of(answering, answering->n_replies);
  answering->gone = !served_send(answering->served, message);
  answering->n_replies++;
  grpc_byte_buffer_destroy(message);
}

/* --- by method --- */

static bool fails_late(const struct answering *answering) {
  return answering->plan.answer == PLAN_FAILS_LATE;
}

static void watch(struct answering *answering) {
  uint32_t n_wanted = answering->plan.n_wanted;
  uint32_t n_sent = fails_late(answering) && n_wanted > 0 ? n_wanted - 1 : n_wanted;
  while (answering->n_replies < n_sent && !answering->gone) {
    reply(answering);
  }
  answer(answering, fails_late(answering) ? answering->plan.code : GRPC_STATUS_OK, NULL, NULL);
}

/* All messages, and one that says how many they were. */
static void tell(struct answering *answering) {
  while (receive(answering)) {
  }
  if (fails_late(answering)) {
    answer(answering, answering->plan.code, NULL, NULL);
    return;
  }
  grpc_byte_buffer *message = reply_of(answering, answering->n_received);
  answer(answering, GRPC_STATUS_OK, NULL, message);
  grpc_byte_buffer_destroy(message);
}

/* A reply for each. */
static void talk(struct answering *answering) {
  reply(answering);
  while (!answering->gone && receive(answering)) {
    if (fails_late(answering) && answering->n_received == answering->plan.n_sent) {
      answer(answering, answering->plan.code, NULL, NULL);
      return;
    }
    reply(answering);
  }
  answer(answering, fails_late(answering) ? answering->plan.code : GRPC_STATUS_OK, NULL, NULL);
}

static void ask(struct answering *answering) {
  grpc_byte_buffer *message = reply_of(answering, 0);
  if (fails_late(answering)) {
    (void)served_send(answering->served, NULL); /* headers alone */
    answer(answering, answering->plan.code, NULL, NULL);
  } else {
    answer(answering, GRPC_STATUS_OK, NULL, message);
  }
  grpc_byte_buffer_destroy(message);
}

static void do_well(struct answering *answering) {
  const char *method = answering->served->method;
  if (strcmp(method, plan_method(PLAN_SERVER_STREAM)) == 0) {
    watch(answering);
  } else if (strcmp(method, plan_method(PLAN_CLIENT_STREAM)) == 0) {
    tell(answering);
  } else if (strcmp(method, plan_method(PLAN_BIDI)) == 0) {
    talk(answering);
  } else {
    ask(answering);
  }
}

/* --- by plan --- */

static void fail_first(struct answering *answering, const char *pushback) {
  if (answering->served->arrival <= answering->plan.n_failures) {
    answer(answering, answering->plan.code, pushback, NULL);
  } else {
    do_well(answering);
  }
}

static void do_as_planned(struct answering *answering) {
  switch (answering->plan.answer) {
  case PLAN_ANSWERS:
  case PLAN_FAILS_LATE:
    do_well(answering);
    break;
  case PLAN_FLAKY:
    fail_first(answering, NULL);
    break;
  case PLAN_PUSHES_BACK:
    fail_first(answering, "3");
    break;
  case PLAN_STOPS:
    answer(answering, answering->plan.code, "-1", NULL);
    break;
  case PLAN_FAILS:
    answer(answering, answering->plan.code, NULL, NULL);
    break;
  case PLAN_SLOW:
    (void)served_await_end(answering->served, answering->plan.delay_ns);
    do_well(answering);
    break;
  case PLAN_SILENT:
    (void)served_await_end(answering->served, WEIR_NO_LIMIT_NS);
    break;
  }
}

/* A request whose first message does not come is one whose caller has gone. */
void answerer_serve(void *context, struct served *served) {
  struct answering answering = {.served = served, .plan = plan_of(context, served->id)};
  if (receive(&answering)) {
    do_as_planned(&answering);
  }
}
