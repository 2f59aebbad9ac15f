/* fallback – asks another provider, in the time that the call has left.
 * SPDX-License-Identifier: Apache-2.0 */
#include "examples/fallback.h"

static enum weir_fallback_found ask_other(void *context, const struct weir_fallback_request *asked,
                                          struct weir_fallback_answer *answer) {
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  request.method = asked->path;
  request.message = asked->message; /* NULL, it was too large to be kept: an error, so nothing */
  request.timeout_ns = asked->timeout_ns;
  if (weir_unary(context, &request, &reply) == WEIR_OK && reply.code == GRPC_STATUS_OK) {
    answer->message = reply.message; /* taken over: the reply is not to free it */
    reply.message = NULL;
    answer->source = "other-provider";
    answer->empty_is_real = true; /* if it is empty, so it was answered */
  }
  weir_unary_reply_fini(&reply);
  return answer->message != NULL ? WEIR_FALLBACK_FOUND : WEIR_FALLBACK_FOUND_NOTHING;
}

static void end_other(void *context) {
  weir_channel_destroy(context);
}

weir_channel *channel_with_other(const char *target, grpc_channel_credentials *creds,
                                 weir_policy *policy, weir_channel *other) {
  struct weir_fallback fallback = WEIR_FALLBACK_INIT;
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  fallback.ask = ask_other;
  fallback.release = end_other;
  fallback.context = other;
  options.fallback = &fallback; /* copied */
  options.policy = policy;
  return weir_channel_create(target, creds, NULL, &options);
}
