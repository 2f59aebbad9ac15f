/* SPDX-License-Identifier: Apache-2.0 */
#include "test/stack/schedule_queue.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "src/base/container_of.h"
#include "src/queue/queue.h"
#include "src/time/instant.h"
#include "src/time/timespec.h"
#include "test/stack/schedule_trace.h"
#include "test/stack/schedule_world.h"

/* Big enough for three calls: what happens when it grows is seen too. */
#define SLAB_BLOCKS 3
#define MAX_BLOCKS 256

static void note_end(grpc_completion_queue_functor *functor, int success) {
  struct schedule_queue *queue = WEIR__CONTAINER_OF(functor, struct schedule_queue, at_end);
  (void)success;
  assert_true(queue->shut_down && !queue->has_ended);
  assert_int_equal(queue->n_owed, 0);
  queue->has_ended = true;
}

void schedule_queue_open(struct schedule_world *world, size_t index, grpc_cq_completion_type type) {
  struct schedule_queue *queue = &world->queues[index];
  *queue = (struct schedule_queue){.type = type, .at_end = {.functor_run = note_end}};
  queue->queue = weir__queue_new(&(struct weir__queue_options){.allocator = &world->allocator.base,
                                                               .clock = &world->clock.base,
                                                               .transport = &world->transport.base,
                                                               .type = type,
                                                               .slab_blocks = SLAB_BLOCKS,
                                                               .shutdown_callback = &queue->at_end,
                                                               .n_callback_threads = 0});
  assert_non_null(queue->queue);
}

/* --- events --- */

/* Whether an event is a post's; several may have the same alias. */
static bool is_of_post(const struct schedule_post *post, const grpc_event *event) {
  if (post->alias != NULL) {
    return event->tag == post->alias && post->tag.n_came == 0 &&
           (event->success != 0) == post->success;
  }
  return event->tag == &post->tag;
}

static void tag_came(struct schedule_world *world, struct schedule_queue *queue,
                     const grpc_event *event) {
  assert_true(queue->n_owed > 0);
  queue->n_owed--;
  bool success = event->success != 0;
  for (size_t i = 0; i < world->n_posts; i++) {
    struct schedule_post *post = &world->posts[i];
    if (is_of_post(post, event)) {
      assert_int_equal(post->tag.n_came++, 0);
      assert_int_equal(success, post->success);
      return;
    }
  }
  struct owed_tag *tag = event->tag;
  assert_non_null(tag);
  assert_true(tag->n_came < tag->n_owed);
  tag->n_came++;
  if (tag->kind == TAG_EMPTY) {
    assert_true(success);
    return;
  }
  /* the tag is the first member */
  schedule_call_batch_came(world, (struct schedule_batch *)(void *)tag, success);
}

static void tag_is_called(grpc_completion_queue_functor *functor, int success) {
  struct owed_tag *tag = WEIR__CONTAINER_OF(functor, struct owed_tag, functor);
  grpc_event event = {.type = GRPC_OP_COMPLETE, .success = success, .tag = tag};
  tag_came(tag->world, &tag->world->queues[tag->queue], &event);
}

struct owed_tag schedule_queue_tag(struct schedule_world *world, size_t index, enum tag_kind kind,
                                   size_t call) {
  return (struct owed_tag){.functor = {.functor_run = tag_is_called, .inlineable = call % 2 == 0},
                           .world = world,
                           .kind = kind,
                           .call = call,
                           .queue = index};
}

/* Drains by next until `until_ns`. */
static void drain_next(struct schedule_world *world, struct schedule_queue *queue,
                       int64_t until_ns) {
  gpr_timespec until = weir__instant_to_timespec(until_ns);
  for (;;) {
    grpc_event event = weir_completion_queue_next(queue->queue, until, NULL);
    if (event.type != GRPC_OP_COMPLETE) {
      assert_true(event.type == GRPC_QUEUE_TIMEOUT || queue->shut_down);
      return;
    }
    tag_came(world, queue, &event);
  }
}

/* A tag that is owed on a pluck queue, from `*position` on in some order; NULL = no more. */
static void *next_owed(struct schedule_world *world, size_t index, size_t *position) {
  const size_t a_call = SCHEDULE_BATCHES + 1;
  for (; *position < SCHEDULE_CALLS * a_call + SCHEDULE_POSTS; (*position)++) {
    size_t n = *position / a_call;
    size_t nth = *position % a_call;
    if (n >= SCHEDULE_CALLS) {
      size_t post = *position - SCHEDULE_CALLS * a_call;
      if (post < world->n_posts && world->posts[post].tag.queue == index &&
          world->posts[post].tag.n_came == 0) {
        return &world->posts[post].tag;
      }
      continue;
    }
    if (n >= world->n_calls || world->calls[n].queue != index) {
      *position += a_call - 1 - nth;
      continue;
    }
    struct schedule_call *call = &world->calls[n];
    struct owed_tag *tag = nth == SCHEDULE_BATCHES ? &call->empty : &call->batches[nth].tag;
    bool is_batch = nth < call->n_batches || nth == SCHEDULE_BATCHES;
    if (is_batch && tag->n_came < tag->n_owed) {
      return tag;
    }
  }
  return NULL;
}

static bool pluck(struct schedule_world *world, struct schedule_queue *queue, void *tag,
                  int64_t until_ns) {
  grpc_event event =
      weir_completion_queue_pluck(queue->queue, tag, weir__instant_to_timespec(until_ns), NULL);
  if (event.type != GRPC_OP_COMPLETE) {
    assert_true(event.type == GRPC_QUEUE_TIMEOUT || queue->shut_down);
    return false;
  }
  assert_ptr_equal(event.tag, tag);
  tag_came(world, queue, &event);
  return true;
}

/* Plucks what is there; says whether anything was. */
static bool pluck_all(struct schedule_world *world, size_t index) {
  struct schedule_queue *queue = &world->queues[index];
  bool any = false;
  size_t position = 0;
  while (queue->n_owed > 0) {
    void *tag = next_owed(world, index, &position);
    if (tag == NULL) {
      break;
    }
    if (pluck(world, queue, tag, world->clock.now_ns)) {
      any = true;
    } else {
      position++;
    }
  }
  return any;
}

/* Plucks until `until_ns`; waits for the first tag that is owed. */
static void drain_pluck(struct schedule_world *world, size_t index, int64_t until_ns) {
  struct schedule_queue *queue = &world->queues[index];
  bool waits = true;
  while (waits) {
    while (pluck_all(world, index)) {
      /* what came may have started more */
    }
    size_t position = 0;
    void *tag = queue->n_owed > 0 ? next_owed(world, index, &position) : NULL;
    waits = tag != NULL && pluck(world, queue, tag, until_ns);
  }
}

static void drain(struct schedule_world *world, size_t index, int64_t until_ns) {
  struct schedule_queue *queue = &world->queues[index];
  switch (queue->type) {
  case GRPC_CQ_NEXT:
    drain_next(world, queue, until_ns);
    break;
  case GRPC_CQ_PLUCK:
    drain_pluck(world, index, until_ns);
    break;
  case GRPC_CQ_CALLBACK:
    if (weir_completion_queue_poll(queue->queue, weir__instant_to_timespec(until_ns), NULL) !=
        GRPC_QUEUE_TIMEOUT) {
      assert_true(queue->shut_down);
    }
    break;
  }
}

void schedule_queue_run(struct schedule_world *world, int64_t span_ns) {
  int64_t until_ns = weir__instant_add(world->clock.now_ns, span_ns);
  SCHEDULE_NOTE("draining for # ms", (int)(span_ns / WEIR_MS_NS));
  if (world->queues[1].queue == NULL) {
    drain(world, 0, until_ns);
    return;
  }
  /* By turns, a millisecond each; until there is nothing to wait for. */
  int64_t at_ns = world->clock.now_ns;
  do {
    bool waits = world->queues[0].n_owed + world->queues[1].n_owed > 0;
    at_ns = waits ? weir__instant_min(at_ns + WEIR_MS_NS, until_ns) : until_ns;
    if (!waits) {
      world->undrained_until_ns = until_ns; /* as far as the first queue goes */
    }
    drain(world, 1, at_ns);
    drain(world, 0, at_ns);
  } while (at_ns < until_ns);
  fake_clock_advance_to(&world->clock, until_ns);
}

void schedule_queue_take(struct schedule_world *world) {
  struct schedule_queue *queue = &world->queues[0];
  grpc_event event = weir_completion_queue_next(
      queue->queue, weir__instant_to_timespec(world->clock.now_ns), NULL);
  if (event.type == GRPC_OP_COMPLETE) {
    tag_came(world, queue, &event);
  }
}

/* --- ending --- */

void schedule_queue_shut_down(struct schedule_world *world, size_t index) {
  struct schedule_queue *queue = &world->queues[index];
  SCHEDULE_NOTE("queue # is shut down", (int)index);
  weir_completion_queue_shutdown(queue->queue);
  queue->shut_down = true;
}

/* Drains where no tag is owed. */
static grpc_completion_type drain_once(struct schedule_world *world, size_t index,
                                       gpr_timespec until) {
  const struct schedule_queue *queue = &world->queues[index];
  switch (queue->type) {
  case GRPC_CQ_NEXT:
    return weir_completion_queue_next(queue->queue, until, NULL).type;
  case GRPC_CQ_PLUCK:
    return weir_completion_queue_pluck(queue->queue, world, until, NULL).type;
  case GRPC_CQ_CALLBACK:
    break;
  }
  return weir_completion_queue_poll(queue->queue, until, NULL);
}

/* As many blocks as can be had before the queue asks for more memory: of whole slabs. */
void schedule_queue_check_blocks(struct schedule_world *world, size_t index) {
  weir_completion_queue *queue = world->queues[index].queue;
  void *blocks[MAX_BLOCKS];
  size_t n_blocks = 0;
  counting_allocator_fail_none(&world->allocator);
  gpr_timespec now = weir__instant_to_timespec(world->clock.now_ns);
  assert_int_not_equal(drain_once(world, index, now), GRPC_OP_COMPLETE); /* weir's own batches */
  size_t n_allocations = world->allocator.n_allocations;
  while (world->allocator.n_allocations == n_allocations) {
    assert_true(n_blocks < MAX_BLOCKS);
    blocks[n_blocks] = weir__queue_block_take(queue);
    assert_non_null(blocks[n_blocks]);
    n_blocks++;
  }
  assert_int_equal((n_blocks - 1) % SLAB_BLOCKS, 0);
  while (n_blocks > 0) {
    weir__queue_block_give(queue, blocks[--n_blocks]);
  }
}

void schedule_queue_close(struct schedule_world *world, size_t index) {
  struct schedule_queue *queue = &world->queues[index];
  assert_int_equal(drain_once(world, index, gpr_inf_future(GPR_CLOCK_MONOTONIC)),
                   GRPC_QUEUE_SHUTDOWN);
  assert_int_equal(queue->has_ended, queue->type == GRPC_CQ_CALLBACK);
  weir_completion_queue_destroy(queue->queue);
  queue->queue = NULL;
}
