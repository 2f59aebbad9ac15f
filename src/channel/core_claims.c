/* SPDX-License-Identifier: Apache-2.0 */
#include "src/channel/core_claims.h"

#include <pthread.h>
#include <stddef.h>

static struct {
  pthread_mutex_t mutex;
  struct weir__environment *first;
} claims = {.mutex = PTHREAD_MUTEX_INITIALIZER, .first = NULL};

static bool is_claimed_locked(const grpc_channel *core) {
  const struct weir__environment *environment = claims.first;
  while (environment != NULL && environment->channel != core) {
    environment = environment->next_claim;
  }
  return environment != NULL;
}

bool weir__core_claim(struct weir__environment *environment, grpc_channel *core) {
  (void)pthread_mutex_lock(&claims.mutex);
  bool is_free = !is_claimed_locked(core);
  if (is_free) {
    environment->channel = core;
    environment->previous_claim = NULL;
    environment->next_claim = claims.first;
    if (claims.first != NULL) {
      claims.first->previous_claim = environment;
    }
    claims.first = environment;
  }
  (void)pthread_mutex_unlock(&claims.mutex);
  return is_free;
}

void weir__core_unclaim(struct weir__environment *environment) {
  (void)pthread_mutex_lock(&claims.mutex);
  if (environment->previous_claim != NULL) {
    environment->previous_claim->next_claim = environment->next_claim;
  } else {
    claims.first = environment->next_claim;
  }
  if (environment->next_claim != NULL) {
    environment->next_claim->previous_claim = environment->previous_claim;
  }
  (void)pthread_mutex_unlock(&claims.mutex);
}
