/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stddef.h>

#include <grpc/support/alloc.h>

#include <weir/channel.h>

#include "src/base/options.h"
#include "src/channel/channel.h"
#include "src/channel/core_claims.h"
#include "src/fallback/fallbacks.h"
#include "src/time/clock.h"

static const char not_held[] =
    "whether the core retries by itself on this channel is not known, so weir makes no retries and "
    "no replays on it, and does not mark its calls; make the channel with grpc.enable_retries 0 "
    "and say WEIR_CORE_RETRIES_OFF";

static void log_wrapped(const struct weir__environment *environment) {
  const struct weir_log_record record = {
      .reference = "",
      .path = {.data = NULL, .size = 0},
      .target = environment->target,
      .event = WEIR_LOG_CHANNEL_WRAPPED,
      .at_ns = weir__clock_now_ns(weir__clock_or_default(NULL)),
      .time_unix_ns = weir__wall_clock_now_ns(),
      .text = not_held,
      .fallback_source = "",
  };
  environment->log->write(environment->log->context, &record);
}

/* What an application says of the core's retries; false when it is no answer. */
static bool is_known(enum weir_core_retries core_retries) {
  switch (core_retries) {
  case WEIR_CORE_RETRIES_UNKNOWN:
  case WEIR_CORE_RETRIES_OFF:
    return true;
  }
  return false;
}

static enum weir_error channel_over(grpc_channel *core, const struct weir_channel_options *options,
                                    weir_channel **channel_out) {
  const struct weir__transport *transport = weir__transport_core();
  char *target = transport->channel_target(transport->context, core);
  enum weir_error error =
      weir__channel_new(target, transport, options->core_retries, options, channel_out);
  gpr_free(target);
  return error;
}

enum weir_error weir_channel_wrap(grpc_channel *core, const struct weir_channel_options *options,
                                  weir_channel **channel_out) {
  struct weir_channel_options known = WEIR_CHANNEL_OPTIONS_INIT;
  *channel_out = NULL;
  enum weir_error error =
      options != NULL ? weir__options_copy(&known, sizeof known, options) : WEIR_OK;
  if (error != WEIR_OK) {
    return error;
  }
  if (core == NULL || !is_known(known.core_retries) || !weir__channel_log_is_usable(known.log) ||
      !weir__channel_listener_is_usable(known.breaker_listener)) {
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  error = weir__fallback_check(known.fallback);
  if (error != WEIR_OK) {
    return error;
  }
  weir_channel *channel = NULL;
  error = channel_over(core, &known, &channel);
  if (error != WEIR_OK) {
    return error;
  }
  if (!weir__core_claim(channel->environment, core)) {
    weir__channel_undo(channel);
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  if (known.core_retries == WEIR_CORE_RETRIES_UNKNOWN) {
    log_wrapped(channel->environment);
  }
  *channel_out = channel;
  return WEIR_OK;
}
