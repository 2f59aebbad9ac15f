/* registered_method – a method that was registered on a channel: its name, and its number.
 *
 * What a policy says of it is in the rules that were made of that policy (src/call/rules.h), by the
 * number: found once for each policy, and not for each call.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CHANNEL_REGISTERED_METHOD_H
#define WEIR_SRC_CHANNEL_REGISTERED_METHOD_H

#include <stdint.h>

#include <grpc/grpc.h>

#include <weir/channel.h>
#include <weir/error.h>

#include "src/call/environment.h"
#include "src/call/rules.h"

/* Lives as long as its environment, and so as its calls; it never changes. */
struct weir__registered_method {
  struct weir__registered_method *next;
  grpc_slice path; /* of `texts`: a reference of it counts nothing */
  const char *host;
  void *core;   /* the core's handle */
  uint32_t nth; /* of the channel's, from 0 */
  char texts[]; /* the path and the host, terminated */
};

/* The method of a path and a host ("" = the channel's), made if it was not registered yet. NULL
 * when there is no memory. Any thread. */
struct weir__registered_method *weir__registered_method_of(weir_channel *channel, const char *path,
                                                           const char *host);

/* Finds out what rules that are being made say of all methods that are registered.
 * WEIR_ERROR_NO_MEMORY. While none is being registered. */
WEIR_MUST_CHECK enum weir_error
weir__registered_methods_resolve(const struct weir__environment *environment,
                                 struct weir__rules *rules);

/* Frees all of an environment's, at its end. */
void weir__registered_methods_free(struct weir__environment *environment);

#endif /* WEIR_SRC_CHANNEL_REGISTERED_METHOD_H */
