/* service – a server of a soak, whose threads serve a request each, on queues of weir's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_SERVICE_H
#define WEIR_TEST_SOAK_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include <weir/weir.h>

#include "test/soak/desk.h"
#include "test/soak/ledger.h"

/* The number of the call that a request belongs to. */
#define SERVICE_ID_KEY "x-soak-id"

/* A request being served. */
struct served {
  struct ledger *ledger;
  enum ledger_who who;
  struct desk *desk; /* the thread's; calls made for the request may use it */
  grpc_call *call;
  char *method;
  weir_inbound *inbound;
  int64_t id;
  uint32_t arrival; /* from 1: how many requests of this call have come here */
  bool owned;       /* a layer further out retries */

  /* The service's. */
  struct desk_tag close;
  struct desk_tag work;
  int cancelled;
  bool headers_sent;
};

struct service;

typedef void service_handler_fn(void *context, struct served *served);

/* Starts on a port of the loopback that the system chooses. `ledger` and `context` are borrowed
 * until the release. */
struct service *service_new(struct ledger *ledger, enum ledger_who who, service_handler_fn *handler,
                            void *context);

/* Cancels what is being served, and waits until all is quiet. */
void service_release(struct service *service);
int service_port(const struct service *service);

/* Waits until no request is being served; false = not within `limit_ns`. */
bool service_await_quiet(struct service *service, int64_t limit_ns);

/* --- for the handler --- */

/* NULL = the caller has closed his side, or is gone. */
grpc_byte_buffer *served_receive(struct served *served);

/* False = the caller is gone. `message` stays the handler's to destroy. */
bool served_send(struct served *served, grpc_byte_buffer *message);

/* Ends the request, once: `status` is a GRPC_OP_SEND_STATUS_FROM_SERVER. */
void served_answer(struct served *served, const grpc_op *status, grpc_byte_buffer *message);

/* Waits for the end of the request; false = it has not come within `span_ns`. */
bool served_await_end(struct served *served, int64_t span_ns);

#endif /* WEIR_TEST_SOAK_SERVICE_H */
