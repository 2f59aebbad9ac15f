/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/demo/service.h"

#include <string.h>

#include <grpc/slice.h>

#define DETAILS_KEY "grpc-status-details-bin"

static void answer_by_script(void *context, const struct weir__test_served *served,
                             struct weir__test_reply *reply) {
  struct service *service = context;
  char id[ORDERS_TEXT_SIZE];
  uint8_t details[CALLER_DETAILS_SIZE];
  (void)pthread_mutex_lock(&service->guarded.mutex);
  const struct script script = service->guarded.script;
  (void)pthread_mutex_unlock(&service->guarded.mutex);

  reply->delay_ns = script.delay_ns;
  if (!orders_request_decode(served->message, id)) {
    weir__test_reply_status(reply, GRPC_STATUS_INVALID_ARGUMENT, "no request for an order");
    return;
  }
  weir__test_reply_status(reply, script.code, script.text);
  if (script.code == GRPC_STATUS_OK) {
    reply->message = orders_reply_encode(id, "shipped");
  }
  if (script.details == SCRIPT_WITH_DETAILS) {
    size_t size = orders_details_encode(script.code, script.text, details, sizeof details);
    weir__test_reply_trailer(reply, DETAILS_KEY, details, size);
  }
}

static void relay(void *context, const struct weir__test_served *served,
                  struct weir__test_reply *reply) {
  struct service *service = context;
  const struct caller_inbound inbound = {
      .details = served->details, .metadata = served->metadata, .call = served->call};
  char id[ORDERS_TEXT_SIZE];
  struct answer answer;
  if (!orders_request_decode(served->message, id)) {
    weir__test_reply_status(reply, GRPC_STATUS_INVALID_ARGUMENT, "no request for an order");
    return;
  }
  caller_ask(&service->next, &inbound, id, &answer);
  if (answer.code == GRPC_STATUS_OK) {
    reply->message = orders_reply_encode(id, answer.state);
    return;
  }
  if (answer.report.size > 0 && answer.report.code != GRPC_STATUS_OK) {
    weir_reply_status(&answer.report, &reply->weir, &reply->status);
    return;
  }

  /* Without weir, as many a service does: it passes on what it got. */
  if (answer.code == GRPC_STATUS_DEADLINE_EXCEEDED &&
      service->deadline == RELAY_DEADLINE_AS_UNAVAILABLE) {
    answer.code = GRPC_STATUS_UNAVAILABLE;
  }
  weir__test_reply_status(reply, answer.code, answer.text);
  if (answer.details_size > 0) {
    weir__test_reply_trailer(reply, DETAILS_KEY, answer.details, answer.details_size);
  }
}

void service_init_last(struct service *service, const struct script *script) {
  memset(service, 0, sizeof *service);
  (void)pthread_mutex_init(&service->guarded.mutex, NULL);
  service->guarded.script = *script;
  service->server = weir__test_server_new(answer_by_script, service, 0);
}

void service_init_relay(struct service *service, const struct caller_options *options,
                        const struct service *next, enum relay_deadline deadline) {
  memset(service, 0, sizeof *service);
  (void)pthread_mutex_init(&service->guarded.mutex, NULL);
  service->deadline = deadline;
  caller_init(&service->next, options, weir__test_server_port(next->server));
  service->server = weir__test_server_new(relay, service, 0);
}

void service_fini(struct service *service) {
  weir__test_server_release(service->server);
  caller_fini(&service->next);
  (void)pthread_mutex_destroy(&service->guarded.mutex);
  memset(service, 0, sizeof *service);
}

void service_set_script(struct service *service, const struct script *script) {
  (void)pthread_mutex_lock(&service->guarded.mutex);
  service->guarded.script = *script;
  (void)pthread_mutex_unlock(&service->guarded.mutex);
}
