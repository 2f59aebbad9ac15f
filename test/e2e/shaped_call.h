/* shaped call – one unary call, started as one batch or in several, whose every tag is counted.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_SHAPED_CALL_H
#define WEIR_TEST_E2E_SHAPED_CALL_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"

enum shape {
  SHAPE_ONE_BATCH = 0,
  SHAPE_SIX_BATCHES,   /* an operation each, all started at once */
  SHAPE_SERVER_STREAM, /* messages are received until there are no more */
  N_SHAPES,            /* those in which a peer's doings make a difference */

  SHAPE_TWO_BATCHES = N_SHAPES, /* what is sent, and what is received */
  SHAPE_FOUR_BATCHES,           /* what is received is an operation each */
  SHAPE_METADATA_APART,         /* one batch, and one for the initial metadata */
  SHAPE_METADATA_LAST,          /* the same, started once the first is over */
  SHAPE_STREAM_METADATA_LAST,   /* four batches, and so */
  N_ALL_SHAPES
};

const char *shape_name(enum shape shape);

#define SHAPED_BATCHES_MAX 6

struct shaped_batch {
  size_t n_started;
  size_t n_came; /* of its tag, which is the batch's address */
  bool ok;       /* the last of them */
};

struct shaped_call {
  struct unary unary; /* where its outputs are; of several messages, the last */
  grpc_byte_buffer *next_message;
  enum shape shape;
  size_t n_messages;
  size_t n_batches; /* that were started */
  struct shaped_batch batches[SHAPED_BATCHES_MAX];
  size_t n_under_way;

  bool ended;          /* the tag of the status has come */
  bool metadata_early; /* the initial metadata came before it */
  bool message_early;  /* and so did the message */
};

/* Makes the call, and starts no batch. `setup` NULL = the defaults. */
void shaped_create(struct shaped_call *call, enum shape shape, weir_channel *channel,
                   weir_completion_queue *queue, const struct unary_setup *setup);

/* Starts the batches of a call that was made with this setup. */
void shaped_begin(struct shaped_call *call, const struct unary_setup *setup);

/* Both. */
void shaped_start(struct shaped_call *call, enum shape shape, weir_channel *channel,
                  weir_completion_queue *queue, const struct unary_setup *setup);

/* A tag has come: false if it is none of the call's that was waited for. */
bool shaped_on_tag(struct shaped_call *call, void *tag, bool ok);

/* Drains a queue on which nothing else is under way until all tags have come, and reads the
 * report. */
void shaped_wait(struct shaped_call *call, weir_completion_queue *queue);

void shaped_fini(struct shaped_call *call);

/* All of it, on a queue of its own, on which no tag comes twice. */
void shaped_run(struct shaped_call *call, enum shape shape, weir_channel *channel,
                const struct unary_setup *setup);

#endif /* WEIR_TEST_E2E_SHAPED_CALL_H */
