/* SPDX-License-Identifier: Apache-2.0 */
#include <grpc/grpc.h>

#include <weir/channel.h>

#include "src/channel/channel.h"

/* All of it is the core's: how a channel is connected has nothing to do with a policy. */

grpc_connectivity_state weir_channel_check_connectivity_state(weir_channel *channel,
                                                              int try_to_connect) {
  return grpc_channel_check_connectivity_state(channel->environment->channel, try_to_connect);
}

void weir_channel_watch_connectivity_state(weir_channel *channel,
                                           grpc_connectivity_state last_observed_state,
                                           gpr_timespec deadline, weir_completion_queue *cq,
                                           void *tag) {
  const struct weir__transport *transport = channel->environment->transport;
  transport->channel_watch(transport->context, channel->environment->channel, last_observed_state,
                           deadline, weir_completion_queue_core(cq), tag);
}

int weir_channel_num_external_connectivity_watchers(weir_channel *channel) {
  return grpc_channel_num_external_connectivity_watchers(channel->environment->channel);
}

int weir_channel_support_connectivity_watcher(weir_channel *channel) {
  return grpc_channel_support_connectivity_watcher(channel->environment->channel);
}

void weir_channel_reset_connect_backoff(weir_channel *channel) {
  grpc_channel_reset_connect_backoff(channel->environment->channel);
}

char *weir_channel_get_target(weir_channel *channel) {
  const struct weir__transport *transport = channel->environment->transport;
  return transport->channel_target(transport->context, channel->environment->channel);
}

void weir_channel_get_info(weir_channel *channel, const grpc_channel_info *channel_info) {
  grpc_channel_get_info(channel->environment->channel, channel_info);
}

grpc_channel *weir_channel_core(weir_channel *channel) {
  return channel->environment->channel;
}
