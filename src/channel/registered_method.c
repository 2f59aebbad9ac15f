/* SPDX-License-Identifier: Apache-2.0 */
#include "src/channel/registered_method.h"

#include <stdint.h>
#include <string.h>

#include <grpc/slice.h>

#include "src/base/allocator.h"

/* Looks through `method` and those after it up to `end`. */
static struct weir__registered_method *find(struct weir__registered_method *method,
                                            const struct weir__registered_method *end,
                                            const char *path, const char *host) {
  while (method != end && (strcmp(method->texts, path) != 0 || strcmp(method->host, host) != 0)) {
    method = method->next;
  }
  return method != end ? method : NULL;
}

static struct weir__registered_method *method_new(const struct weir__environment *environment,
                                                  const struct weir__transport *transport,
                                                  const char *path, const char *host) {
  size_t path_size = strlen(path);
  size_t host_size = strlen(host);
  struct weir__registered_method *method =
      weir__zalloc(environment->allocator, sizeof *method + path_size + 1 + host_size + 1);
  if (method == NULL) {
    return NULL;
  }
  memcpy(method->texts, path, path_size);
  memcpy(method->texts + path_size + 1, host, host_size);
  method->host = method->texts + path_size + 1;
  method->path = grpc_slice_from_static_buffer(method->texts, path_size);
  method->extras.shared = true;
  method->extras.policy = weir_policy_method(environment->policy, path, path_size);
  if (weir__stack_know_method(&environment->stack, path, path_size,
                              &method->extras.breaker_entry) != WEIR_OK) {
    weir__free(environment->allocator, method);
    return NULL;
  }
  method->extras.registered = transport->channel_register_call(
      transport->context, environment->channel, path, host_size > 0 ? host : NULL);
  return method;
}

struct weir__registered_method *weir__registered_method_of(struct weir__environment *environment,
                                                           const struct weir__transport *transport,
                                                           const char *path, const char *host) {
  /* acquire, and the release below: who finds a method finds it whole */
  struct weir__registered_method *first =
      atomic_load_explicit(&environment->registered, memory_order_acquire);
  struct weir__registered_method *found = find(first, NULL, path, host);
  if (found != NULL) {
    return found;
  }
  struct weir__registered_method *method = method_new(environment, transport, path, host);
  if (method == NULL) {
    return NULL;
  }
  method->next = first;
  while (!atomic_compare_exchange_weak_explicit(&environment->registered, &first, method,
                                                memory_order_acq_rel, memory_order_acquire)) {
    /* Others came in between: one of them may be the same. The core gives both one handle. */
    found = find(first, method->next, path, host);
    if (found != NULL) {
      weir__free(environment->allocator, method);
      return found;
    }
    method->next = first;
  }
  return method;
}

void weir__registered_methods_free(struct weir__environment *environment) {
  /* relaxed: whoever ends the environment has seen all that was done with it */
  struct weir__registered_method *method =
      atomic_load_explicit(&environment->registered, memory_order_relaxed);
  while (method != NULL) {
    struct weir__registered_method *next = method->next;
    weir__free(environment->allocator, method);
    method = next;
  }
}
