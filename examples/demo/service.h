/* service – one of the demo's servers: it answers by a script, or relays what the next one says.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_EXAMPLES_DEMO_SERVICE_H
#define WEIR_EXAMPLES_DEMO_SERVICE_H

#include <pthread.h>
#include <stdint.h>

#include <grpc/status.h>

#include "examples/demo/caller.h"
#include "test/e2e/support/test_server.h"

enum script_details { SCRIPT_WITHOUT_DETAILS = 0, SCRIPT_WITH_DETAILS };

/* What the last service answers. */
struct script {
  grpc_status_code code;
  const char *text; /* static */
  enum script_details details;
  int64_t delay_ns;
};

/* What a service without weir makes of the next one's DEADLINE_EXCEEDED. */
enum relay_deadline { RELAY_DEADLINE_AS_IT_IS = 0, RELAY_DEADLINE_AS_UNAVAILABLE };

struct service {
  weir__test_server *server;
  struct caller next; /* a relaying service's */
  enum relay_deadline deadline;
  struct {
    pthread_mutex_t mutex; /* first: what follows is guarded by it */
    struct script script;
  } guarded;
};

/* The last of a chain: it answers by its script. */
void service_init_last(struct service *service, const struct script *script);

/* One in the middle: it asks `next`, and its client gets what it got. */
void service_init_relay(struct service *service, const struct caller_options *options,
                        const struct service *next, enum relay_deadline deadline);

void service_fini(struct service *service);

/* From the next call on. */
void service_set_script(struct service *service, const struct script *script);

#endif /* WEIR_EXAMPLES_DEMO_SERVICE_H */
