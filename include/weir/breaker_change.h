/* weir/breaker_change.h – a change of one of a channel's circuit breakers, and who is told.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BREAKER_CHANGE_H
#define WEIR_BREAKER_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/status.h>

#include <weir/breaker.h>
#include <weir/outcome.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What has changed. All of it is borrowed for the call of the listener. */
struct weir_breaker_change {
  size_t size;
  /* The breaker's name, terminated, and cut to less than WEIR_REPORT_NAME_BYTES: the method's path,
   * the service ("/pkg.Service"), the policy's name for the only one of a channel, "other" for the
   * one that calls share beyond maxBreakers. With an override of all, an invented path may be cut to
   * 32 bytes. */
  const char *name;
  size_t name_size;
  enum weir_breaker_state from; /* the state before */
  enum weir_breaker_state to;   /* `from` where an override was set, and nothing else changed */
  /* that began with this change: of two changes of one breaker, the larger is the later one,
   * whichever is told first */
  uint64_t generation;
  int64_t next_probe_in_ns; /* as in struct weir_breaker_view */
  int64_t at_ns;            /* on the monotonic clock */
  /* a call's end has changed it, with this code and origin, before any translation */
  bool by_outcome;
  grpc_status_code code; /* OK unless `by_outcome` */
  enum weir_origin origin;
  enum weir_breaker_override override; /* that is in force now */
  bool by_policy; /* another policy has switched it off or on, or has breakers of another scope */
};

/* Whom a channel tells of its breakers' changes, each once; borrowed until the last channel made
 * with it is gone, and the last of its calls. It runs in the thread that made the change: one that
 * starts a batch, ends a call (see struct weir_log_sink) or sets an override. No lock of weir's is
 * held: it may call anything of weir, make calls on the same channel, set overrides, destroy the
 * channel. The call that made the change waits for it meanwhile. */
struct weir_breaker_listener {
  size_t size; /* start from WEIR_BREAKER_LISTENER_INIT */
  /* is told of each change, once it has been made */
  void (*changed)(void *context, const struct weir_breaker_change *change);
  void *context;
};

#define WEIR_BREAKER_LISTENER_INIT \
  { .size = sizeof(struct weir_breaker_listener), .changed = NULL, .context = NULL }

#ifdef __cplusplus
}
#endif

#endif /* WEIR_BREAKER_CHANGE_H */
