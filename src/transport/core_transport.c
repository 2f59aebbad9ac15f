/* SPDX-License-Identifier: Apache-2.0 */
#include "src/transport/transport.h"

/* The system's core is not built for the thread sanitizer, which therefore can't see that its locks
 * order a batch before the batch's event, and a queue's shutdown before the end that is seen of it.
 * It is told so here, by the tag, and by the queue. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEIR__TELL_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define WEIR__TELL_TSAN 1
#endif

#ifdef WEIR__TELL_TSAN
#include <sanitizer/tsan_interface.h>

/* A place that stands for a tag, since a tag need not be an address. */
static void *place_of(const void *tag) {
  static char places[65536];
  return &places[((uintptr_t)tag * UINT64_C(0x9e3779b97f4a7c15) >> 32) % sizeof places];
}

static void batch_leaves(void *tag) {
  __tsan_release(place_of(tag));
}

static void event_comes(const grpc_completion_queue *queue, const grpc_event *event) {
  if (event->type == GRPC_OP_COMPLETE) {
    __tsan_acquire(place_of(event->tag));
  } else if (event->type == GRPC_QUEUE_SHUTDOWN) {
    __tsan_acquire(place_of(queue));
  }
}

static void queue_ends(const grpc_completion_queue *queue) {
  __tsan_release(place_of(queue));
}
#else
static void batch_leaves(void *tag) {
  (void)tag;
}

static void event_comes(const grpc_completion_queue *queue, const grpc_event *event) {
  (void)queue;
  (void)event;
}

static void queue_ends(const grpc_completion_queue *queue) {
  (void)queue;
}
#endif

static grpc_call *core_call_create(void *context, const struct weir__call_target *target) {
  (void)context;
  if (target->registered != NULL) {
    return grpc_channel_create_registered_call(target->channel, target->parent,
                                               target->propagation_mask, target->queue,
                                               target->registered, target->deadline, NULL);
  }
  return grpc_channel_create_call(target->channel, target->parent, target->propagation_mask,
                                  target->queue, target->method, target->host, target->deadline,
                                  NULL);
}

static grpc_call_error core_call_start_batch(grpc_call *call, const grpc_op *ops, size_t n_ops,
                                             void *tag, void *context) {
  (void)context;
  batch_leaves(tag);
  return grpc_call_start_batch(call, ops, n_ops, tag, NULL);
}

static void core_call_cancel(void *context, grpc_call *call, grpc_status_code code,
                             const char *description) {
  (void)context;
  (void)grpc_call_cancel_with_status(call, code, description,
                                     NULL); /* answers GRPC_CALL_OK always */
}

static void core_call_ref(void *context, grpc_call *call) {
  (void)context;
  grpc_call_ref(call);
}

static void core_call_unref(void *context, grpc_call *call) {
  (void)context;
  grpc_call_unref(call);
}

static bool core_call_failed_before_recv_message(void *context, const grpc_call *call) {
  (void)context;
  return grpc_call_failed_before_recv_message(call) != 0;
}

static char *core_call_peer(void *context, grpc_call *call) {
  (void)context;
  return grpc_call_get_peer(call);
}

static grpc_auth_context *core_call_auth_context(void *context, grpc_call *call) {
  (void)context;
  return grpc_call_auth_context(call);
}

static void core_call_set_credentials(void *context, grpc_call *call,
                                      grpc_call_credentials *credentials) {
  (void)context;
  (void)grpc_call_set_credentials(call, credentials); /* answers GRPC_CALL_OK on a client always */
}

static void core_call_set_census(void *context, grpc_call *call, struct census_context *census) {
  (void)context;
  grpc_census_call_set_context(call, census);
}

static struct census_context *core_call_census(void *context, grpc_call *call) {
  (void)context;
  return grpc_census_call_get_context(call);
}

static char *core_channel_target(void *context, grpc_channel *channel) {
  (void)context;
  return grpc_channel_get_target(channel);
}

static void *core_channel_register_call(void *context, grpc_channel *channel, const char *method,
                                        const char *host) {
  (void)context;
  return grpc_channel_register_call(channel, method, host, NULL);
}

static void core_channel_watch(void *context, grpc_channel *channel,
                               grpc_connectivity_state last_observed, gpr_timespec deadline,
                               grpc_completion_queue *queue, void *tag) {
  (void)context;
  batch_leaves(tag);
  grpc_channel_watch_connectivity_state(channel, last_observed, deadline, queue, tag);
}

static void core_channel_reconnect(void *context, grpc_channel *channel) {
  (void)context;
  grpc_channel_reset_connect_backoff(channel);
}

static grpc_completion_queue *core_queue_create(void *context, grpc_cq_polling_type polling) {
  (void)context;
  const grpc_completion_queue_attributes attributes = {
      .version = 1, .cq_completion_type = GRPC_CQ_NEXT, .cq_polling_type = polling};
  return grpc_completion_queue_create(grpc_completion_queue_factory_lookup(&attributes),
                                      &attributes, NULL);
}

static grpc_event core_queue_next(grpc_completion_queue *queue, gpr_timespec deadline,
                                  void *context) {
  (void)context;
  grpc_event event = grpc_completion_queue_next(queue, deadline, NULL);
  event_comes(queue, &event);
  return event;
}

static void core_queue_cache_init(void *context, grpc_completion_queue *queue) {
  (void)context;
  grpc_completion_queue_thread_local_cache_init(queue);
}

static bool core_queue_cache_flush(void *context, grpc_completion_queue *queue,
                                   grpc_event *event_out) {
  (void)context;
  if (grpc_completion_queue_thread_local_cache_flush(queue, &event_out->tag, &event_out->success) ==
      0) {
    return false;
  }
  event_comes(queue, event_out);
  return true;
}

static void core_queue_shutdown(void *context, grpc_completion_queue *queue) {
  (void)context;
  queue_ends(queue);
  grpc_completion_queue_shutdown(queue);
}

static void core_queue_destroy(void *context, grpc_completion_queue *queue) {
  (void)context;
  grpc_completion_queue_destroy(queue);
}

static grpc_call *core_bell_create(void *context, grpc_completion_queue *queue) {
  (void)context;
  grpc_channel *channel =
      grpc_lame_client_channel_create("weir:bell", GRPC_STATUS_UNAVAILABLE, "never sent");
  grpc_call *bell =
      grpc_channel_create_call(channel, NULL, 0, queue, grpc_slice_from_static_string("/weir/bell"),
                               NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  grpc_channel_destroy(channel); /* the call keeps it */
  return bell;
}

static const struct weir__transport core_transport = {
    .context = NULL,
    .call_create = core_call_create,
    .call_start_batch = core_call_start_batch,
    .call_cancel = core_call_cancel,
    .call_ref = core_call_ref,
    .call_unref = core_call_unref,
    .call_failed_before_recv_message = core_call_failed_before_recv_message,
    .call_peer = core_call_peer,
    .call_auth_context = core_call_auth_context,
    .call_set_credentials = core_call_set_credentials,
    .call_set_census = core_call_set_census,
    .call_census = core_call_census,
    .channel_target = core_channel_target,
    .channel_register_call = core_channel_register_call,
    .channel_watch = core_channel_watch,
    .channel_reconnect = core_channel_reconnect,
    .queue_create = core_queue_create,
    .queue_next = core_queue_next,
    .queue_cache_init = core_queue_cache_init,
    .queue_cache_flush = core_queue_cache_flush,
    .queue_shutdown = core_queue_shutdown,
    .queue_destroy = core_queue_destroy,
    .bell_create = core_bell_create,
};

const struct weir__transport *weir__transport_core(void) {
  return &core_transport;
}
