/* scripted_queue – a completion queue of the scripted core.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SUPPORT_SCRIPTED_QUEUE_H
#define WEIR_TEST_SUPPORT_SCRIPTED_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include <grpc/grpc.h>

struct scripted_event;

struct scripted_queue {
  struct scripted_queue *next;
  /* Operations under way, and one until shutdown. At 0 the core aborts whoever starts another. */
  size_t n_open;
  bool shut_down;
  struct scripted_event *events;
  bool has_cache; /* the thread's: there is one thread */
  struct scripted_event *cached;
};

/* An operation is started. Fails the test where the core would abort. */
void scripted_queue_begin(struct scripted_queue *queue);

/* It has ended. Its event goes into the cache, if there is one and it is empty. */
void scripted_queue_push(struct scripted_queue *queue, void *tag, bool success);

/* Whether an event with the tag waits to be taken. */
bool scripted_queue_holds(const struct scripted_queue *queue, const void *tag);

/* Turns the order of the events round: two drainers may handle them in any. */
void scripted_queue_turn(struct scripted_queue *queue);

/* Takes the first event. False: there is none. */
bool scripted_queue_pop(struct scripted_queue *queue, grpc_event *event_out);

/* Ends the cache. False: nothing was in it. */
bool scripted_queue_flush(struct scripted_queue *queue, grpc_event *event_out);

#endif /* WEIR_TEST_SUPPORT_SCRIPTED_QUEUE_H */
