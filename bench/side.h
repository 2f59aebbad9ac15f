/* side – one of what a benchmark compares: the bare core, in four ways, or weir.
 *
 * A scenario is written once, over the table of a side's functions, and costs the same beside them
 * whichever side it runs on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_SIDE_H
#define WEIR_BENCH_SIDE_H

#include <stdbool.h>
#include <stddef.h>

#include <grpc/grpc.h>

#define SIDE_HEADERS_MAX 2

/* The handles are the core's or weir's: a queue is a grpc_completion_queue or a
 * weir_completion_queue, and so on. */
struct side_functions {
  void (*channel_destroy)(void *channel);
  void *(*queue_create)(void);
  grpc_event (*queue_next)(void *queue, gpr_timespec deadline);
  void (*queue_shutdown)(void *queue);
  void (*queue_destroy)(void *queue);
  void *(*call_create)(void *channel, void *queue, grpc_slice method, gpr_timespec deadline);
  grpc_call_error (*call_start_batch)(void *call, const grpc_op *ops, size_t n_ops, void *tag);
  void (*call_cancel)(void *call);
  void (*call_unref)(void *call);
};

struct side {
  const char *name;
  void *(*channel_create)(const struct side *side, const char *target);
  /* weir's, or the core's service config; NULL = the core's own retries are off */
  const char *policy;
  size_t n_headers;  /* what the application sends of weir's two headers */
  bool no_keepalive; /* the core's default, said to it as weir says it */
  const struct side_functions *on;
};

/* "bare"; "bare_headers", the application sending the two headers that weir sends;
 * "bare_no_keepalive", told in so many words that there is none, which costs it less; "core_retries",
 * with the retry policy that weir has; "weir", with all four layers at work; "weir_deadline",
 * "weir_translation", "weir_breaker", "weir_retry", with one; "weir_none", with all switched off
 * that a policy can. NULL: none has that name. */
const struct side *side_find(const char *name);

#endif /* WEIR_BENCH_SIDE_H */
