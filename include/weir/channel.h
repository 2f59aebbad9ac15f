/* weir/channel.h – a grpc_channel with a policy.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CHANNEL_H
#define WEIR_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <weir/allocator.h>
#include <weir/clock.h>
#include <weir/completion_queue.h>
#include <weir/error.h>
#include <weir/export.h>
#include <weir/inbound.h>
#include <weir/interceptor.h>
#include <weir/log.h>
#include <weir/policy.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_channel weir_channel;
typedef struct weir_call weir_call;

/* What a channel is made with beside the core's arguments. Start from WEIR_CHANNEL_OPTIONS_INIT. */
struct weir_channel_options {
  size_t size;
  weir_policy *policy; /* NULL = the built-in defaults; the channel takes a share of its own */
  const struct weir_log_sink *log;        /* NULL = one JSON line a record on standard error */
  const struct weir_allocator *allocator; /* NULL = malloc */
  const struct weir_random *random;       /* NULL = a generator a thread, seeded by the system */
};

#define WEIR_CHANNEL_OPTIONS_INIT                                                                \
  {                                                                                              \
    .size = sizeof(struct weir_channel_options), .policy = NULL, .log = NULL, .allocator = NULL, \
    .random = NULL                                                                               \
  }

/* Makes a channel, as grpc_channel_create does, with a policy. The core's own retries are switched
 * off on it (grpc.enable_retries 0), and service configs from the resolver too, unless `args` asks
 * for them.
 *
 * Ownership: `creds` and `args` are borrowed for the call, `options` (NULL = the defaults) too,
 *            what it points to as its type says. The result is the caller's until
 *            weir_channel_destroy.
 * Threads:   any thread.
 * Errors:    NULL when there is no memory, or `options` is from a newer header and asks for what
 *            this library lacks. What the core refuses makes a channel whose calls fail, as the
 *            core's does. */
WEIR_API weir_channel *weir_channel_create(const char *target, grpc_channel_credentials *creds,
                                           const grpc_channel_args *args,
                                           const struct weir_channel_options *options);

/* Ends a channel. Calls under way go on.
 *
 * Ownership: `channel` is taken over.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API void weir_channel_destroy(weir_channel *channel);

/* What a call knows beyond the core's arguments; where the core has `reserved`. Start from
 * WEIR_CALL_OPTIONS_INIT. */
struct weir_call_options {
  size_t size;
  /* the request being served; the call takes a share of its own. NULL = none */
  weir_inbound *inbound;
};

#define WEIR_CALL_OPTIONS_INIT \
  { .size = sizeof(struct weir_call_options), .inbound = NULL }

/* Makes a call, as grpc_channel_create_call does. Nothing is sent before its first batch.
 *
 * Ownership: `method` and `host` are copied by reference as the core does. `parent_call` (a
 *            server's call, or NULL) is borrowed until the call has ended. The result is the
 *            caller's until weir_call_unref.
 * Threads:   any thread.
 * Errors:    NULL when there is no memory, or `options` is from a newer header and asks for what
 *            this library lacks. */
WEIR_API weir_call *weir_channel_create_call(weir_channel *channel, grpc_call *parent_call,
                                             uint32_t propagation_mask,
                                             weir_completion_queue *completion_queue,
                                             grpc_slice method, const grpc_slice *host,
                                             gpr_timespec deadline,
                                             const struct weir_call_options *options);

/* What a circuit breaker looks like from outside. Set `size` first. */
struct weir_breaker_snapshot {
  size_t size;
  enum weir_breaker_state state;
  uint64_t generation;      /* grows with each change of state */
  uint64_t n_trips;         /* changes to OPEN */
  uint64_t n_refused;       /* calls that were turned away */
  uint64_t n_probes;        /* calls let through while HALF_OPEN */
  uint64_t n_requests;      /* samples in the window */
  uint64_t n_failures;      /* of them */
  int64_t next_probe_in_ns; /* 0 unless OPEN */
};

/* Reads the breaker that calls of a method go through.
 *
 * Ownership: `method` ("/pkg.Service/Method") is borrowed for the call; `snapshot_out` is the
 *            caller's.
 * Threads:   any thread.
 * Errors:    WEIR_ERROR_UNAVAILABLE the channel has no breaker, or none for that method yet. */
WEIR_API WEIR_MUST_CHECK enum weir_error
weir_channel_breaker_snapshot(weir_channel *channel, const char *method,
                              struct weir_breaker_snapshot *snapshot_out);

/* What a channel keeps of what its calls have sent, to send it again. Set `size` first. */
struct weir_replay_snapshot {
  size_t size;
  uint64_t n_bytes;     /* kept now */
  uint64_t max_bytes;   /* channelReplayBytes */
  uint64_t n_overflows; /* calls that went on unretried: replayBytes or channelReplayBytes bound */
};

#define WEIR_REPLAY_SNAPSHOT_INIT \
  { .size = sizeof(struct weir_replay_snapshot), .n_bytes = 0, .max_bytes = 0, .n_overflows = 0 }

/* Reads what a channel keeps for replays.
 *
 * Ownership: `snapshot_out` is the caller's; its `size` is set before.
 * Threads:   any thread.
 * Errors:    WEIR_ERROR_INVALID_ARGUMENT `size` is too small. */
WEIR_API WEIR_MUST_CHECK enum weir_error
weir_channel_replay_snapshot(weir_channel *channel, struct weir_replay_snapshot *snapshot_out);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_CHANNEL_H */
