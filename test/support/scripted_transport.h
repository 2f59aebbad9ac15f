/* scripted_transport – a core whose peers follow a script, in virtual time.
 *
 * It stands in for the core behind the table of src/transport/transport.h, and does what libgrpc
 * 1.51.1 was seen to do: the success of each operation, the capacities of the metadata arrays, a
 * message that loses its bytes when it is started, an error string that is left alone when the
 * status is OK, metadata that lives as long as its call, a status that waits until the initial
 * metadata were asked for and the messages before it were read, a message that waits for the
 * initial metadata.
 *
 * Time is a fake clock's. When a drainer would sleep, it jumps to the next thing that happens: a
 * step of the script, the deadline of an attempt, or the end of the drainer's own patience. When
 * nothing will ever happen, the drainer gets GRPC_QUEUE_TIMEOUT even if its patience is endless.
 *
 * Whatever the real core would answer with an abort, and whatever the engine must never do, fails
 * the running test.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SUPPORT_SCRIPTED_TRANSPORT_H
#define WEIR_TEST_SUPPORT_SCRIPTED_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include "src/transport/transport.h"
#include "test/support/fake_clock.h"
#include "test/support/script.h"
#include "test/support/sent_attempt.h"

struct scripted_call;
struct scripted_method;
struct scripted_post;
struct scripted_queue;

struct scripted_transport {
  struct weir__transport base; /* what is handed to the code under test */
  struct fake_clock *clock;

  struct sent_attempt *first_sent; /* a list, in the order sent */
  struct sent_attempt *last_sent;
  size_t n_sent;
  size_t n_created; /* calls of the core, sent or not; bells and parents not counted */
  size_t n_parents; /* references to parents that are held */
  size_t n_slices;  /* given out, and not unreferenced */
  size_t n_start_batches;
  size_t start_fails_at; /* the nth start of a batch that is not empty is refused; 0 = none */
  size_t n_rings;        /* empty batches */
  size_t n_touches;      /* calls of the table that change something */
  size_t n_reconnects;   /* demands to connect without a wait */
  size_t n_registered;   /* methods, each as often as it was registered */

  struct script_step *steps;        /* a copy of the script */
  const struct script_step *script; /* the step to come; NULL = no script */
  int64_t script_from_ns;

  /* Instead of a script: what happens to each attempt. May set will_answer, answer_at_ns and
   * answer. */
  void (*on_send)(void *context, struct sent_attempt *attempt);
  void *on_send_context;
  /* Told of the same, with the same context; NULL = not asked for. An operation is begun on an
   * attempt; it was answered, and has not ended: the next answer may be set; it has ended. */
  void (*on_op)(void *context, struct sent_attempt *attempt, grpc_op_type type);
  void (*on_answered)(void *context, struct sent_attempt *attempt);
  void (*on_end)(void *context, struct sent_attempt *attempt);
  struct wire_answer always;
  int64_t always_after_ns;

  struct scripted_call *calls;
  struct scripted_queue *queues;
  struct scripted_post *posts;
  struct scripted_method *methods;
};

void scripted_transport_init(struct scripted_transport *transport, struct fake_clock *clock);

/* Fails the test if anything of the core's is still held, or a part of the script did not
 * happen. */
void scripted_transport_fini(struct scripted_transport *transport);

/* Plays `steps` from now on; they are copied, and what was played before has to be over. */
void scripted_transport_play(struct scripted_transport *transport, const struct script_step *steps);

/* Answers every attempt so, from now on. */
void scripted_transport_always(struct scripted_transport *transport, int64_t after_ns,
                               struct wire_answer answer);

/* The nth attempt that was sent, from 1; fails when there were not so many. */
struct sent_attempt *scripted_transport_sent(const struct scripted_transport *transport,
                                             size_t nth);

/* Lets happen what is due now, while nobody drains: its events wait on their queues. */
void scripted_transport_happen(struct scripted_transport *transport);

/* Turns the order of the events that wait on a queue round. */
void scripted_transport_turn(grpc_completion_queue *queue);

/* An event of nobody's that weir knows: a server's, or a raw call's. Comes at `at_ns`. */
void scripted_transport_post(struct scripted_transport *transport, grpc_completion_queue *queue,
                             void *tag, bool success, int64_t at_ns);

/* Whether an event waits on the queue to be drained. */
bool scripted_transport_has_events(const grpc_completion_queue *queue);

/* A server's call, to be a parent: the caller's until the transport's call_unref. */
grpc_call *scripted_transport_parent(struct scripted_transport *transport);

/* The server is told that its client has gone away: so are the calls that were made under it. */
void scripted_transport_cancel_parent(struct scripted_transport *transport, grpc_call *parent);

/* The census context of a server's call. */
void scripted_transport_set_census(grpc_call *parent, struct census_context *census);

/* A slice that the transport counts until it is unreferenced. */
grpc_slice scripted_transport_slice(struct scripted_transport *transport, const char *bytes,
                                    size_t size);

/* For scripted_call: an attempt is sent now; an operation is begun on one; one has ended. */
void scripted_transport_note_sent(struct scripted_transport *transport,
                                  struct sent_attempt *attempt);
void scripted_transport_note_op(struct scripted_transport *transport, struct sent_attempt *attempt,
                                grpc_op_type type);
void scripted_transport_note_end(struct scripted_transport *transport,
                                 struct sent_attempt *attempt);

#endif /* WEIR_TEST_SUPPORT_SCRIPTED_TRANSPORT_H */
