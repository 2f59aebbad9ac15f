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

/* Queues kept for the next blocking calls: as many threads can call at once without making one. */
#define WEIR__IDLE_QUEUES 32

struct weir_channel {
  atomic_size_t n_refs;           /* the application's, and one for each blocking call under way */
  struct weir__rules_place rules; /* of the calls that are made now */
  struct weir__environment *environment;
  const struct weir__transport *transport;
  struct {
    pthread_mutex_t mutex; /* of who swaps the policy, or registers a method; no call takes it */
    uint32_t n_registered;
  } guarded;
  _Atomic(weir_completion_queue *) idle_queues[WEIR__IDLE_QUEUES];
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

/* A share of the channel for a blocking call, which may outlast the application's. */
void weir__channel_ref(weir_channel *channel);

/* A queue that the caller, who has a share, has for itself until it gives it back, empty. NULL when
 * there is no memory. */
weir_completion_queue *weir__channel_take_queue(weir_channel *channel);
void weir__channel_give_queue(weir_channel *channel, weir_completion_queue *queue);

#endif /* WEIR_SRC_CHANNEL_CHANNEL_H */
