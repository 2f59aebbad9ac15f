/* SPDX-License-Identifier: Apache-2.0 */
#include "src/fallback/threads.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* Detached, since nobody waits for one that is stuck. Signals are for the application's threads. */
static bool system_start(void *context, void *(*run)(void *argument), void *argument) {
  (void)context;
  pthread_t thread;
  pthread_attr_t attributes;
  sigset_t all;
  sigset_t before;
  if (pthread_attr_init(&attributes) != 0) {
    return false;
  }
  (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = pthread_create(&thread, &attributes, run, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return started;
}

const struct weir__fallback_threads weir__fallback_threads_system = {.start = system_start,
                                                                     .context = NULL};
