/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/demo/caller.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include <weir/inbound.h>
#include <weir/unary.h>

#include "examples/demo/files.h"
#include "examples/demo/pause.h"
#include "test/e2e/support/bare_call.h"
#include "test/e2e/support/metadata.h"

#define LOOP_TRIES 3
#define LOOP_PAUSE_NS (10 * WEIR_MS_NS)
#define DETAILS_KEY "grpc-status-details-bin"

static weir_channel *open_weir(const struct caller_options *options, int port) {
  char target[32];
  struct weir_channel_options channel_options = WEIR_CHANNEL_OPTIONS_INIT;
  weir_policy *policy = files_policy(options->policy);
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  (void)snprintf(target, sizeof target, "127.0.0.1:%d", port);
  channel_options.policy = policy;
  channel_options.log = options->log;
  weir_channel *channel = weir_channel_create(target, creds, NULL, &channel_options);
  grpc_channel_credentials_release(creds);
  weir_policy_unref(policy);
  if (channel == NULL) {
    fputs("demo: no memory for a channel\n", stderr);
    abort();
  }
  return channel;
}

void caller_init(struct caller *caller, const struct caller_options *options, int port) {
  char *config = NULL;
  memset(caller, 0, sizeof *caller);
  caller->options = *options;
  switch (options->kind) {
  case CALLER_ONCE:
  case CALLER_LOOP:
    caller->core = weir__bare_channel_create(port, WEIR__CORE_RETRIES_OFF, NULL);
    break;
  case CALLER_CORE_RETRIES:
    config = files_read(options->policy);
    caller->core = weir__bare_channel_create(port, WEIR__CORE_RETRIES_ON, config);
    free(config);
    break;
  case CALLER_WEIR:
    caller->weir = open_weir(options, port);
    break;
  }
}

void caller_fini(struct caller *caller) {
  if (caller->core != NULL) {
    grpc_channel_destroy(caller->core);
  }
  if (caller->weir != NULL) {
    weir_channel_destroy(caller->weir);
  }
  memset(caller, 0, sizeof *caller);
}

static void copy_text(const grpc_slice *slice, char text_out[ORDERS_TEXT_SIZE]) {
  (void)snprintf(text_out, ORDERS_TEXT_SIZE, "%.*s", (int)GRPC_SLICE_LENGTH(*slice),
                 (const char *)GRPC_SLICE_START_PTR(*slice));
}

/* What every caller can see, whichever way it called. */
static void answer_fill(struct answer *answer, grpc_status_code code, const grpc_slice *text,
                        grpc_byte_buffer *message, const grpc_metadata_array *trailers) {
  const grpc_slice *details = weir__metadata_find(trailers, DETAILS_KEY);
  memset(answer, 0, sizeof *answer);
  answer->code = code;
  copy_text(text, answer->text);
  if (code == GRPC_STATUS_OK && !orders_reply_decode(message, answer->state)) {
    answer->code = GRPC_STATUS_INTERNAL;
  }
  if (details != NULL && GRPC_SLICE_LENGTH(*details) <= sizeof answer->details) {
    answer->details_size = GRPC_SLICE_LENGTH(*details);
    memcpy(answer->details, GRPC_SLICE_START_PTR(*details), answer->details_size);
  }
}

static void ask_bare(const struct caller *caller, const struct caller_inbound *inbound,
                     const char *id, struct answer *answer) {
  struct weir__bare_reply reply;
  struct weir__bare_request request = {
      .method = ORDERS_METHOD,
      .message = orders_request_encode(id),
      .deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                               gpr_time_from_nanos(caller->options.timeout_ns, GPR_TIMESPAN)),
      .parent = inbound == NULL ? NULL : inbound->call,
  };
  weir__bare_unary(caller->core, &request, &reply);
  answer_fill(answer, reply.code, &reply.details, reply.message, &reply.trailing_metadata);
  weir__bare_reply_fini(&reply);
  grpc_byte_buffer_destroy(request.message);
}

/* As many a service has it: try again when it was UNAVAILABLE, and ask nobody. */
static void ask_in_loop(const struct caller *caller, const struct caller_inbound *inbound,
                        const char *id, struct answer *answer) {
  for (int i = 0; i < LOOP_TRIES; i++) {
    if (i > 0) {
      pause_for(LOOP_PAUSE_NS);
    }
    ask_bare(caller, inbound, id, answer);
    if (answer->code != GRPC_STATUS_UNAVAILABLE) {
      return;
    }
  }
}

static void ask_weir(const struct caller *caller, const struct caller_inbound *inbound,
                     const char *id, struct answer *answer) {
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  request.method = ORDERS_METHOD;
  request.message = orders_request_encode(id);
  enum weir_error error = WEIR_OK;
  if (inbound != NULL) {
    error = weir_inbound_new(inbound->details, inbound->metadata, inbound->call, NULL,
                             &request.inbound);
  }
  if (error == WEIR_OK) {
    error = weir_unary(caller->weir, &request, &reply);
  }
  if (error == WEIR_OK) {
    answer_fill(answer, reply.code, &reply.details, reply.message, &reply.trailing_metadata);
  } else {
    memset(answer, 0, sizeof *answer);
    answer->code = GRPC_STATUS_RESOURCE_EXHAUSTED;
    (void)snprintf(answer->text, sizeof answer->text, "%s", weir_error_string(error));
  }
  answer->report = reply.report;
  weir_unary_reply_fini(&reply);
  weir_inbound_release(request.inbound);
  grpc_byte_buffer_destroy(request.message);
}

void caller_ask(const struct caller *caller, const struct caller_inbound *inbound, const char *id,
                struct answer *answer_out) {
  switch (caller->options.kind) {
  case CALLER_ONCE:
  case CALLER_CORE_RETRIES:
    ask_bare(caller, inbound, id, answer_out);
    break;
  case CALLER_LOOP:
    ask_in_loop(caller, inbound, id, answer_out);
    break;
  case CALLER_WEIR:
    ask_weir(caller, inbound, id, answer_out);
    break;
  }
}
