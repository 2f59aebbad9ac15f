/* SPDX-License-Identifier: Apache-2.0 */
#include "src/channel/registered_method.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <grpc/slice.h>

#include "src/base/allocator.h"
#include "src/call/extras.h"
#include "src/channel/channel.h"

/* Looks through `method` and those after it up to `end`. */
static struct weir__registered_method *find(struct weir__registered_method *method,
                                            const struct weir__registered_method *end,
                                            const char *path, const char *host) {
  while (method != end && (strcmp(method->texts, path) != 0 || strcmp(method->host, host) != 0)) {
    method = method->next;
  }
  return method != end ? method : NULL;
}

static enum weir_error resolve(const struct weir__registered_method *method,
                               struct weir__rules *rules) {
  const char *path = method->texts;
  size_t path_size = GRPC_SLICE_LENGTH(method->path);
  enum weir_error error = weir__rules_make_room(rules, method->nth);
  if (error != WEIR_OK) {
    return error;
  }
  struct weir__call_extras *extras = weir__rules_registered(rules, method->nth);
  extras->shared = true;
  extras->registered = method->core;
  extras->policy = weir_policy_method(rules->policy, path, path_size);
  return weir__stack_know_method(&rules->stack, path, path_size, &extras->breaker_entry);
}

enum weir_error weir__registered_methods_resolve(const struct weir__environment *environment,
                                                 struct weir__rules *rules) {
  /* relaxed: nobody adds to the list meanwhile */
  const struct weir__registered_method *method =
      atomic_load_explicit(&environment->registered, memory_order_relaxed);
  enum weir_error error = WEIR_OK;
  while (method != NULL && error == WEIR_OK) {
    error = resolve(method, rules);
    method = method->next;
  }
  return error;
}

static struct weir__registered_method *method_new(const weir_channel *channel, const char *path,
                                                  const char *host) {
  size_t path_size = strlen(path);
  size_t host_size = strlen(host);
  struct weir__registered_method *method =
      weir__zalloc(channel->environment->allocator, sizeof *method + path_size + 1 + host_size + 1);
  if (method == NULL) {
    return NULL;
  }
  memcpy(method->texts, path, path_size);
  memcpy(method->texts + path_size + 1, host, host_size);
  method->host = method->texts + path_size + 1;
  method->path = grpc_slice_from_static_buffer(method->texts, path_size);
  method->nth = channel->guarded.n_registered;
  return method;
}

/* Whoever is given the method finds it in the rules in force, and in all that follow. */
static struct weir__registered_method *add_locked(weir_channel *channel, const char *path,
                                                  const char *host) {
  const struct weir__transport *transport = channel->environment->transport;
  struct weir__environment *environment = channel->environment;
  struct weir__rules *rules = weir__rules_peek(&channel->rules);
  struct weir__registered_method *method = method_new(channel, path, host);
  if (method == NULL) {
    return NULL;
  }
  if (resolve(method, rules) != WEIR_OK) {
    weir__free(environment->allocator, method);
    return NULL;
  }
  method->core = transport->channel_register_call(transport->context, environment->channel, path,
                                                  host[0] != '\0' ? host : NULL);
  weir__rules_registered(rules, method->nth)->registered = method->core;
  channel->guarded.n_registered++;
  method->next = atomic_load_explicit(&environment->registered, memory_order_relaxed);
  atomic_store_explicit(&environment->registered, method, memory_order_release);
  return method;
}

struct weir__registered_method *weir__registered_method_of(weir_channel *channel, const char *path,
                                                           const char *host) {
  struct weir__environment *environment = channel->environment;
  /* acquire: pairs with the release above; who finds a method finds it whole */
  struct weir__registered_method *first =
      atomic_load_explicit(&environment->registered, memory_order_acquire);
  struct weir__registered_method *method = find(first, NULL, path, host);
  if (method != NULL) {
    return method;
  }
  (void)pthread_mutex_lock(&channel->guarded.mutex);
  /* Of those that came in between, one may be the same. relaxed: they came under the lock */
  method =
      find(atomic_load_explicit(&environment->registered, memory_order_relaxed), first, path, host);
  if (method == NULL) {
    method = add_locked(channel, path, host);
  }
  (void)pthread_mutex_unlock(&channel->guarded.mutex);
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
