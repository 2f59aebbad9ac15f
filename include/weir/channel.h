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
#include <weir/breaker.h>
#include <weir/breaker_change.h>
#include <weir/clock.h>
#include <weir/completion_queue.h>
#include <weir/error.h>
#include <weir/export.h>
#include <weir/fallback.h>
#include <weir/inbound.h>
#include <weir/interceptor.h>
#include <weir/log.h>
#include <weir/policy.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A grpc_channel, the policy that its calls go by, and the breakers that they share. */
typedef struct weir_channel weir_channel;

/* What the application asked for: any number of attempts, one final status. */
typedef struct weir_call weir_call;

/* What the application says of the core's own retries on a channel that it hands over. */
enum weir_core_retries {
  WEIR_CORE_RETRIES_UNKNOWN = 0, /* they may be on, as the core's default has it */
  WEIR_CORE_RETRIES_OFF          /* the channel was made with grpc.enable_retries 0 */
};

/* What a channel is made with beside the core's arguments. Start from WEIR_CHANNEL_OPTIONS_INIT.
 *
 * Where WEIR_ORG_POLICY in the environment names an organisation's document, the policy is laid under
 * that (weir_policy_layer) unless it has been already. If that fails no channel is made, and the log
 * says why (WEIR_LOG_POLICY_REFUSED). */
struct weir_channel_options {
  size_t size;
  weir_policy *policy; /* NULL = the built-in defaults; the channel takes a share of its own */
  const struct weir_log_sink *log;        /* NULL = one JSON line a record on standard error */
  const struct weir_allocator *allocator; /* NULL = malloc */
  const struct weir_random *random;       /* NULL = a generator a thread, seeded by the system */
  enum weir_core_retries core_retries;    /* of weir_channel_wrap; no other function looks at it */
  /* NULL = none; copied, and what its `context` is belongs to the channel once it has been made */
  const struct weir_fallback *fallback;
  /* NULL = nobody is told of the breakers' changes but the log */
  const struct weir_breaker_listener *breaker_listener;
};

#define WEIR_CHANNEL_OPTIONS_INIT                                                                \
  {                                                                                              \
    .size = sizeof(struct weir_channel_options), .policy = NULL, .log = NULL, .allocator = NULL, \
    .random = NULL, .core_retries = WEIR_CORE_RETRIES_UNKNOWN, .fallback = NULL,                 \
    .breaker_listener = NULL                                                                     \
  }

/* Makes a channel, as grpc_channel_create does, with a policy. The core's own retries are switched
 * off on it (grpc.enable_retries 0), and service configs from the resolver too, unless `args` asks
 * for them.
 *
 * Ownership: `creds` and `args` are borrowed for the call, `options` (NULL = the defaults) too,
 *            what it points to as its type says. The result is the caller's until
 *            weir_channel_destroy.
 * Threads:   any thread.
 * Errors:    NULL when there is no memory, `target` is NULL, `options` or its fallback is from a
 *            newer header and asks for what this library lacks, its log sink, listener or fallback
 *            has no size or no function, or an organisation's policy refuses the channel's. What
 *            the core refuses makes a channel whose calls fail, as the core's does. */
WEIR_API weir_channel *weir_channel_create(const char *target, grpc_channel_credentials *creds,
                                           const grpc_channel_args *args,
                                           const struct weir_channel_options *options);

/* Makes a channel over a connected socket, as grpc_channel_create_from_fd does, with a policy. It
 * is never connected again, and has no connectivity to watch.
 *
 * Ownership: as weir_channel_create; `fd` is taken over, unless the result is NULL.
 * Threads:   any thread.
 * Errors:    as weir_channel_create. */
WEIR_API weir_channel *weir_channel_create_from_fd(const char *target, int fd,
                                                   grpc_channel_credentials *creds,
                                                   const grpc_channel_args *args,
                                                   const struct weir_channel_options *options);

/* Makes a channel whose calls all fail with a status of the application's, as
 * grpc_lame_client_channel_create does, with a policy: at a boundary the status is translated.
 *
 * Ownership: `target` and `error_message` are copied. `options` as in weir_channel_create.
 * Threads:   any thread.
 * Errors:    as weir_channel_create. */
WEIR_API weir_channel *weir_lame_client_channel_create(const char *target,
                                                       grpc_status_code error_code,
                                                       const char *error_message,
                                                       const struct weir_channel_options *options);

/* Puts the stack on a channel that weir has not created: calls go through all layers, by the policy
 * in `options`. What weir sets on the channels that it creates can't be set any more, so it depends
 * on the channel what holds: the core may retry by itself, apply a service config that the resolver
 * brings, and abort the process when a peer ends a stream without a status (doc/surface.md).
 *
 * Unless `options` says that the core's retries are off, weir makes none on this channel, and no
 * free replay either, so that attempts don't multiply; it does not mark its calls as a retrying
 * layer's; and it logs so, once (WEIR_LOG_CHANNEL_WRAPPED).
 *
 * Ownership: on success `core` is taken over, and ends with the last call, as the channel of
 *            weir_channel_create does; what the application has under way on it goes on. On failure
 *            it is the caller's still. `options` as in weir_channel_create. `*channel_out` is the
 *            caller's until weir_channel_destroy; on failure it is NULL.
 * Threads:   any thread; the log sink runs in it.
 * Errors:    WEIR_ERROR_INVALID_ARGUMENT `core` is NULL or a weir channel's already, by whatever
 *            function, or a field of `options` is out of range. WEIR_ERROR_INVALID_POLICY or
 *            WEIR_ERROR_UNAVAILABLE an organisation's policy refuses the channel's, or is wrong, or
 *            can't be read. WEIR_ERROR_UNSUPPORTED `options` is from a newer header and asks for what
 *            this library lacks. WEIR_ERROR_NO_MEMORY. */
WEIR_API WEIR_MUST_CHECK enum weir_error
weir_channel_wrap(grpc_channel *core, const struct weir_channel_options *options,
                  weir_channel **channel_out);

/* Puts a policy in the place of the channel's, at once and whole: calls that are made from now on go
 * by it, and those that were made before by theirs to their end, started or not. The breakers stay,
 * with their windows, states and overrides, and so does the throttle's level; doc/reload.md says
 * what becomes of them where their parameters change. Methods that are registered stay so, with what
 * the new policy says of them.
 *
 * What the policy has for the core (load balancing, health checks) was read when the channel was
 * made. Where that changes, the rest is put in force, and the log is told (WEIR_LOG_CORE_CONFIG_KEPT).
 *
 * As where a channel is made, the policy is laid under the organisation's that WEIR_ORG_POLICY
 * names, whose file is read each time.
 *
 * Ownership: the channel takes a share of `policy` (NULL = the built-in defaults), or of what the
 *            organisation's makes of it. A policy that is put out of force is let go by the end of
 *            the last of its calls. `diagnostic` (NULL = none) is the caller's.
 * Threads:   any thread; the log sink runs in it. No call waits for it; others that swap this
 *            channel's policy, or register a method, do, so that of two at once one is the last.
 * Errors:    WEIR_ERROR_INVALID_POLICY the organisation's policy refuses this one, or is wrong
 *            itself; WEIR_ERROR_UNAVAILABLE its file can't be read; WEIR_ERROR_NO_MEMORY.
 *            `diagnostic` says more. Nothing has changed. */
WEIR_API WEIR_MUST_CHECK enum weir_error
weir_channel_set_policy(weir_channel *channel, weir_policy *policy,
                        struct weir_diagnostic *diagnostic);

/* Gives the policy that is in force.
 *
 * Ownership: the result is shared, the caller's until weir_policy_unref; never NULL.
 * Threads:   any thread; it may be in force no more when the function returns.
 * Errors:    none. */
WEIR_API weir_policy *weir_channel_policy(weir_channel *channel);

/* Ends a channel. Calls under way go on; the core's channel ends with the last of them.
 *
 * Ownership: `channel` is taken over.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API void weir_channel_destroy(weir_channel *channel);

/* What a call knows beyond the core's arguments; where the core has `reserved`. Start from
 * WEIR_CALL_OPTIONS_INIT. */
struct weir_call_options {
  size_t size;
  /* the request being served; the call takes a share of its own. NULL = the thread's ambient one,
   * if there is one (weir_inbound_enter) */
  weir_inbound *inbound;
  enum weir_inbound_bond inbound_bond; /* to that request */
};

#define WEIR_CALL_OPTIONS_INIT                                 \
  {                                                            \
    .size = sizeof(struct weir_call_options), .inbound = NULL, \
    .inbound_bond = WEIR_INBOUND_ATTACHED                      \
  }

/* Makes a call, as grpc_channel_create_call does. Nothing is sent before its first batch.
 *
 * Ownership: `method` and `host` are copied by reference as the core does. `parent_call` (a
 *            server's call, or NULL) is borrowed until the call has ended; with one, the mask says
 *            what of it reaches the call, whatever the inbound's bond. The result is the caller's
 *            until weir_call_unref.
 * Threads:   any thread; without an inbound in `options`, the calling one's ambient inbound counts.
 * Errors:    NULL when there is no memory, or `options` asks for what this library lacks: it is from
 *            a newer header, or the bond is none. As in the core, a mask with only one of the two
 *            census bits makes a call that ends with UNKNOWN. */
WEIR_API weir_call *weir_channel_create_call(weir_channel *channel, grpc_call *parent_call,
                                             uint32_t propagation_mask,
                                             weir_completion_queue *completion_queue,
                                             grpc_slice method, const grpc_slice *host,
                                             gpr_timespec deadline,
                                             const struct weir_call_options *options);

/* Registers a method, and the host that it is called on (NULL or "" = the channel's), as
 * grpc_channel_register_call does: what is to be found out about it is found once, and not for each
 * call. The same pair has the same handle.
 *
 * Ownership: `method` ("/pkg.Service/Method") and `host` are copied. The result is borrowed until
 *            weir_channel_destroy. `reserved` must be NULL.
 * Threads:   any thread.
 * Errors:    NULL when there is no memory, `method` is NULL, or `reserved` is not. */
WEIR_API void *weir_channel_register_call(weir_channel *channel, const char *method,
                                          const char *host, void *reserved);

/* Makes a call of a registered method, as grpc_channel_create_registered_call does. It is a call as
 * weir_channel_create_call makes it.
 *
 * Ownership: `registered_call_handle` is the same channel's, of weir_channel_register_call. The
 *            rest as in weir_channel_create_call.
 * Threads:   any thread.
 * Errors:    as weir_channel_create_call. */
WEIR_API weir_call *weir_channel_create_registered_call(
    weir_channel *channel, grpc_call *parent_call, uint32_t propagation_mask,
    weir_completion_queue *completion_queue, void *registered_call_handle, gpr_timespec deadline,
    const struct weir_call_options *options);

/* Reads how the channel is connected, as grpc_channel_check_connectivity_state does, and has an
 * idle one connect when `try_to_connect` is not 0.
 *
 * Ownership: `channel` is borrowed for the call.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API grpc_connectivity_state weir_channel_check_connectivity_state(weir_channel *channel,
                                                                       int try_to_connect);

/* Has `tag` come back from `cq`, as grpc_channel_watch_connectivity_state does: with success when
 * the state is another than `last_observed_state`, without it when `deadline` is past. The watch
 * holds the queue open, and a shutdown of the queue does not end it; the end of the core's channel
 * does, with success.
 *
 * Ownership: `channel` and `cq` are borrowed until the tag has come back; weir_channel_destroy is
 *            allowed before.
 * Threads:   any thread.
 * Errors:    none. As in the core, it aborts on a queue that is shut down and drained, and on a
 *            channel that can't be watched (weir_channel_support_connectivity_watcher). */
WEIR_API void weir_channel_watch_connectivity_state(weir_channel *channel,
                                                    grpc_connectivity_state last_observed_state,
                                                    gpr_timespec deadline,
                                                    weir_completion_queue *cq, void *tag);

/* Counts the watches under way, as grpc_channel_num_external_connectivity_watchers does.
 *
 * Ownership: `channel` is borrowed for the call.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API int weir_channel_num_external_connectivity_watchers(weir_channel *channel);

/* Whether the channel can be watched, as grpc_channel_support_connectivity_watcher tells: not one
 * over a file descriptor, nor a lame one.
 *
 * Ownership: `channel` is borrowed for the call.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API int weir_channel_support_connectivity_watcher(weir_channel *channel);

/* Has the channel connect at once where it waits before the next try, as
 * grpc_channel_reset_connect_backoff does. A call that waits for a retry goes on waiting.
 *
 * Ownership: `channel` is borrowed for the call.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API void weir_channel_reset_connect_backoff(weir_channel *channel);

/* Names what the channel was created for, as grpc_channel_get_target does.
 *
 * Ownership: the result is the caller's until gpr_free.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API char *weir_channel_get_target(weir_channel *channel);

/* Tells the load balancing policy and the service config that the core uses, as
 * grpc_channel_get_info does. The service config is what weir has handed on, or what a wrapped
 * channel was made with; the method configs are in weir's policy.
 *
 * Ownership: `channel_info` is borrowed for the call; what is written to where it points is the
 *            caller's until gpr_free.
 * Threads:   any thread.
 * Errors:    none; what the core does not know is left as it is. */
WEIR_API void weir_channel_get_info(weir_channel *channel, const grpc_channel_info *channel_info);

/* Gives the core's channel, for what weir has no function for. Calls that are made on it pass weir
 * by: no deadline is kept, no breaker asked, nothing is translated or retried, by the core neither.
 *
 * Ownership: the result is borrowed until weir_channel_destroy; it can't be destroyed or wrapped.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API grpc_channel *weir_channel_core(weir_channel *channel);

/* Reads the breaker that calls of a method go through; the one that calls share beyond maxBreakers,
 * where there is no place for one of its own.
 *
 * Ownership: `method` ("/pkg.Service/Method") is borrowed for the call; `snapshot_out` is the
 *            caller's; its `size` is set before.
 * Threads:   any thread.
 * Errors:    WEIR_ERROR_UNAVAILABLE the policy has switched the channel's breakers off, or there is
 *            none for that method yet; WEIR_ERROR_INVALID_ARGUMENT `size` is too small. */
WEIR_API WEIR_MUST_CHECK enum weir_error
weir_channel_breaker_snapshot(weir_channel *channel, const char *method,
                              struct weir_breaker_snapshot *snapshot_out);

/* Overrides the breaker of a method, or all that the channel has and will have: keeps it open, or
 * switches it off, until that is taken back with WEIR_BREAKER_OVERRIDE_NONE; it is then CLOSED,
 * with an empty window. The last word on a breaker holds, whether it was said of it or of all. With
 * scope SERVICE it is the breaker of the method's service ("/pkg.Service/" names it too), with
 * scope CHANNEL the channel's. A method that is overridden for itself has a breaker of its own from
 * then on, whatever maxBreakers says.
 *
 * Ownership: `method` ("/pkg.Service/Method"), NULL = all breakers, is borrowed for the call.
 * Threads:   any thread; the listener and the log sink run in it.
 * Errors:    WEIR_ERROR_INVALID_ARGUMENT `override` is none, or `method` a service ("/pkg.Service/")
 *            where each method has a breaker; WEIR_ERROR_UNAVAILABLE the policy has switched the
 *            channel's breakers off; WEIR_ERROR_NO_MEMORY. */
WEIR_API WEIR_MUST_CHECK enum weir_error
weir_channel_set_breaker_override(weir_channel *channel, const char *method,
                                  enum weir_breaker_override override);

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

/* How many calls a channel has made in a way that is worth an eye. Start from
 * WEIR_CHANNEL_COUNTERS_INIT. */
struct weir_channel_counters {
  size_t size;
  uint64_t n_clamped_deadlines; /* calls whose deadline a ceiling of the policy brought nearer */
  uint64_t n_detached_calls;    /* calls made for a request, with WEIR_INBOUND_DETACHED */

  /* Failed calls by what became of it to ask the fallback; each is counted once. */
  uint64_t n_fallback_hits;         /* the caller has its message, with OK */
  uint64_t n_fallback_misses;       /* it had nothing */
  uint64_t n_fallback_broken;       /* what it gave was no answer */
  uint64_t n_fallback_timeouts;     /* it gave none in time */
  uint64_t n_fallback_busy;         /* not asked: maxConcurrent were running */
  uint64_t n_fallback_no_resources; /* not asked: no memory or no thread */
  uint64_t n_fallback_abandoned;    /* cancelled, or the queue was shut down */
  /* Answers that came when their calls had ended. So many of the timeouts and the abandoned as this
   * does not have are still being asked, or stuck for ever. */
  uint64_t n_fallback_late;

  uint64_t n_breakers; /* that it has, but for the one that calls share beyond maxBreakers */
  uint64_t n_overflowed_calls; /* calls that went to that one, for want of one of their own */

  uint64_t n_policy_swaps;    /* weir_channel_set_policy has put a policy in force */
  uint64_t n_policy_refusals; /* it has failed, and the policy before has stayed */
};

#define WEIR_CHANNEL_COUNTERS_INIT \
  { .size = sizeof(struct weir_channel_counters) }

/* Reads a channel's counters. They only grow; while calls are made, one may be ahead of another.
 *
 * Ownership: `counters_out` is the caller's; its `size` is set before.
 * Threads:   any thread.
 * Errors:    WEIR_ERROR_INVALID_ARGUMENT `size` is too small. */
WEIR_API WEIR_MUST_CHECK enum weir_error
weir_channel_get_counters(weir_channel *channel, struct weir_channel_counters *counters_out);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_CHANNEL_H */
