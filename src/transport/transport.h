/* transport – the functions of the core that the engine and the queue use, as a table.
 *
 * The only code that calls grpc_call_* and grpc_completion_queue_*, and what of grpc_channel_*
 * makes calls or events, is behind it, so that tests can put a script in its place (test/support)
 * and see every attempt. What is only memory (slices, byte buffers, metadata arrays, credentials)
 * is not in it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_TRANSPORT_TRANSPORT_H
#define WEIR_SRC_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/census.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

/* What a call is made with; see grpc_channel_create_call. */
struct weir__call_target {
  grpc_channel *channel;
  grpc_call *parent; /* a server's call, or NULL */
  uint32_t propagation_mask;
  grpc_completion_queue *queue;
  void *registered; /* of channel_register_call: in the place of method and host; NULL = not */
  grpc_slice method;
  const grpc_slice *host; /* NULL = the channel's */
  gpr_timespec deadline;
};

struct weir__transport {
  /* The first argument of every function but the two that each message needs: there it is the last,
   * so that the others stay where the core has them. */
  void *context;

  grpc_call *(*call_create)(void *context, const struct weir__call_target *target);
  grpc_call_error (*call_start_batch)(grpc_call *call, const grpc_op *ops, size_t n_ops, void *tag,
                                      void *context);
  void (*call_cancel)(void *context, grpc_call *call, grpc_status_code code,
                      const char *description);
  void (*call_ref)(void *context, grpc_call *call);
  void (*call_unref)(void *context, grpc_call *call);
  bool (*call_failed_before_recv_message)(void *context, const grpc_call *call);
  char *(*call_peer)(void *context, grpc_call *call); /* gpr_free it */
  /* grpc_auth_context_release it; NULL = none yet */
  grpc_auth_context *(*call_auth_context)(void *context, grpc_call *call);
  void (*call_set_credentials)(void *context, grpc_call *call, grpc_call_credentials *credentials);
  void (*call_set_census)(void *context, grpc_call *call, struct census_context *census);
  struct census_context *(*call_census)(void *context, grpc_call *call);

  char *(*channel_target)(void *context, grpc_channel *channel); /* gpr_free it */
  void *(*channel_register_call)(void *context, grpc_channel *channel, const char *method,
                                 const char *host);
  void (*channel_watch)(void *context, grpc_channel *channel, grpc_connectivity_state last_observed,
                        gpr_timespec deadline, grpc_completion_queue *queue, void *tag);
  void (*channel_reconnect)(void *context, grpc_channel *channel); /* without a wait before it */

  /* A queue for next, whatever weir's own is for. */
  grpc_completion_queue *(*queue_create)(void *context, grpc_cq_polling_type polling);
  grpc_event (*queue_next)(grpc_completion_queue *queue, gpr_timespec deadline, void *context);
  void (*queue_cache_init)(void *context, grpc_completion_queue *queue); /* the thread's */
  /* False: nothing was in it. Of the event, `tag` and `success` are written. */
  bool (*queue_cache_flush)(void *context, grpc_completion_queue *queue, grpc_event *event_out);
  void (*queue_shutdown)(void *context, grpc_completion_queue *queue);
  void (*queue_destroy)(void *context, grpc_completion_queue *queue);

  /* A call that is never sent: its empty batches post events to `queue`. Ended by call_unref. */
  grpc_call *(*bell_create)(void *context, grpc_completion_queue *queue);
};

/* The core itself. */
const struct weir__transport *weir__transport_core(void);

#endif /* WEIR_SRC_TRANSPORT_TRANSPORT_H */
