/* channel – a core's channel, the stack of its policy, and queues for blocking calls.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CHANNEL_CHANNEL_H
#define WEIR_SRC_CHANNEL_CHANNEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/channel.h>

#include "src/call/environment.h"
#include "src/call/rules.h"
#include "src/transport/transport.h"

struct weir_channel {
  atomic_size_t n_refs;           /* the application's, and those of who watches its policy */
  struct weir__rules_place rules; /* of the calls that are made now */
  struct weir__environment *environment;
  struct {
    pthread_mutex_t mutex; /* of who swaps the policy, or registers a method; no call takes it */
    uint32_t n_registered;
  } guarded;
};

/* Makes a channel whose core's is still to come. `options` is complete (not NULL), and
 * `core_retries` stands in the place of its own. WEIR_ERROR_NO_MEMORY, or what is wrong with the
 * policy; `*channel_out` is NULL then. */
WEIR_MUST_CHECK enum weir_error weir__channel_new(const char *target,
                                                  const struct weir__transport *transport,
                                                  enum weir_core_retries core_retries,
                                                  const struct weir_channel_options *options,
                                                  weir_channel **channel_out);

/* Ends a channel that the application is never to see. */
void weir__channel_undo(weir_channel *channel);

/* Tells the listener and the log of the breakers that have changed because these rules were put in
 * force; the caller has a share. */
void weir__channel_tell_renewed(const struct weir__rules *rules);

/* A sink that can't be written to would be found out at the first failure. NULL = weir's own. */
bool weir__channel_log_is_usable(const struct weir_log_sink *log);

/* So would a listener that can't be told. NULL = none. */
bool weir__channel_listener_is_usable(const struct weir_breaker_listener *listener);

/* A share of the channel, which may outlast the application's. */
void weir__channel_ref(weir_channel *channel);

/* What a call is made of that blocks. */
struct weir__blocking_call {
  struct weir__rules *rules; /* a share; taken over when the call is made */
  weir_completion_queue *queue;
  const char *method;
  int64_t deadline_at_ns;
  weir_inbound *inbound;       /* NULL = the thread's ambient one, if there is one */
  enum weir_inbound_bond bond; /* a known one */
};

/* NULL when there is no memory. */
weir_call *weir__blocking_call_new(const struct weir__blocking_call *blocking);

#endif /* WEIR_SRC_CHANNEL_CHANNEL_H */
