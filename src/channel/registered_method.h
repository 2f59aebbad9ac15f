/* registered_method – a method that was registered on a channel: what is known of it, found once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CHANNEL_REGISTERED_METHOD_H
#define WEIR_SRC_CHANNEL_REGISTERED_METHOD_H

#include <grpc/grpc.h>

#include "src/call/environment.h"
#include "src/call/extras.h"
#include "src/transport/transport.h"

/* Lives as long as its environment, and so as its calls; it never changes. */
struct weir__registered_method {
  struct weir__registered_method *next;
  grpc_slice path; /* of `texts`: a reference of it counts nothing */
  const char *host;
  struct weir__call_extras extras; /* of its calls */
  char texts[];                    /* the path and the host, terminated */
};

/* The method of a path and a host ("" = the channel's), made if it was not registered yet. NULL
 * when there is no memory. Any thread. */
struct weir__registered_method *weir__registered_method_of(struct weir__environment *environment,
                                                           const struct weir__transport *transport,
                                                           const char *path, const char *host);

/* Frees all of an environment's, at its end. */
void weir__registered_methods_free(struct weir__environment *environment);

#endif /* WEIR_SRC_CHANNEL_REGISTERED_METHOD_H */
