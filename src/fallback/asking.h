/* asking – one question put to a fallback, shared by the call that waits for the answer and the
 * thread that gets it.
 *
 * Either may be the first to be done with it. The thread reaches the call through `waiter` only,
 * which the call takes away when it waits no longer; so a thread that is stuck holds nothing of the
 * call's, of its queue's or of its channel's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_FALLBACK_ASKING_H
#define WEIR_SRC_FALLBACK_ASKING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include <weir/error.h>
#include <weir/fallback.h>

#include "src/fallback/fallbacks.h"

/* Who waits for an answer. */
struct weir__asking_waiter {
  /* Ends its wait in favour of the caller; false: it has ended, or is ending, otherwise. With the
   * asking's lock. */
  bool (*claim)(void *waiter);

  /* Its wait was claimed, and the answer is there. Without a lock. */
  void (*answer)(void *waiter);
};

/* What is asked, and who waits. */
struct weir__asking_arguments {
  struct weir__fallbacks *fallbacks;
  const struct weir_fallback_request *request; /* `message` is taken over on success, all else is
                                                  copied; `path` need not be terminated */
  const struct weir__asking_waiter *ops;
  void *waiter;
};

struct weir__asking {
  atomic_uint n_refs; /* the waiter's, and the thread's */
  struct weir__fallbacks *fallbacks;
  struct weir_fallback_request request; /* the thread's, until it has asked */
  grpc_metadata *metadata;
  const struct weir__asking_waiter *ops;

  /* The answer, from `answer` on: HIT, MISS or BROKEN, and with HIT: */
  enum weir_fallback_result result;
  grpc_byte_buffer *message;
  const char *source;

  /* The waiter's own. */
  int64_t asked_at_ns;
  int64_t waited_ns;

  struct {
    pthread_mutex_t lock;
    void *waiter; /* NULL: nobody waits */
  } guarded;
};

/* The caller has taken a place, which the asking has from here on. There are two shares of it: the
 * waiter's, and the one for weir__asking_start. NULL when there is no memory. */
struct weir__asking *weir__asking_new(const struct weir__asking_arguments *arguments);

/* Has a thread ask, with a share of the caller's: the waiter may be answered, and gone, before it
 * returns. False: there is no thread for it. */
WEIR_MUST_CHECK bool weir__asking_start(struct weir__asking *asking);

/* Of one that was not started: gives its place back, and the share that the thread would have
 * had. */
void weir__asking_drop(struct weir__asking *asking);

/* Ends the wait in favour of the caller, as an answer does: the waiter, or NULL if its wait has
 * ended otherwise. */
void *weir__asking_claim(struct weir__asking *asking);

/* The waiter waits no longer: nobody looks for it after this. */
void weir__asking_abandon(struct weir__asking *asking);

/* Gives a share back. */
void weir__asking_release(struct weir__asking *asking);

#endif /* WEIR_SRC_FALLBACK_ASKING_H */
