/* schedule_world – what the parts of a schedule share: the bytes, weir over a scripted transport,
 * and the calls that are made.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_STACK_SCHEDULE_WORLD_H
#define WEIR_TEST_STACK_SCHEDULE_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "test/stack/schedule.h"
#include "test/stack/schedule_bytes.h"
#include "test/stack/schedule_call.h"
#include "test/stack/schedule_layers.h"
#include "test/stack/schedule_policy.h"
#include "test/support/counting_allocator.h"
#include "test/support/fake_clock.h"
#include "test/support/scripted_fallback.h"
#include "test/support/scripted_transport.h"
#include "test/support/seeded_random.h"

#define MS(n) ((n)*WEIR_MS_NS)
#define SECONDS(n) ((n)*WEIR_SECOND_NS)

/* Some time after the machine's start. */
#define SCHEDULE_T0 SECONDS(1200)

/* What a fallback finds; no peer says it. */
#define SCHEDULE_STAND_IN "stand-in"

#define SCHEDULE_CALLS 12
#define SCHEDULE_POSTS 8

/* One to be drained by next; one to be plucked from, or for callbacks. */
#define SCHEDULE_QUEUES 2

/* An event of nobody's that weir knows. */
struct schedule_post {
  struct owed_tag tag;
  bool success;
  const void *alias; /* instead of the address of `tag`; NULL = none */
};

struct schedule_queue {
  weir_completion_queue *queue; /* NULL = nobody has needed it */
  grpc_cq_completion_type type;
  bool shut_down;
  size_t n_owed;                        /* tags that have not come */
  grpc_completion_queue_functor at_end; /* of a queue for callbacks */
  bool has_ended;
};

struct schedule_world {
  struct schedule_bytes in;
  struct schedule_tally *tally;
  const struct schedule_policy *policy;

  struct fake_clock clock;
  struct seeded_random random;
  struct counting_allocator allocator;
  struct scripted_transport transport;
  struct weir_log_sink log;
  size_t n_logged;
  struct schedule_layers layers;

  bool has_fallback; /* the channel */
  bool keeps_time;   /* as it does over the core: calls in one batch have no deadline there */
  struct scripted_fallback fallback;

  weir_channel *channel; /* NULL: destroyed, while calls go on */
  struct schedule_queue queues[SCHEDULE_QUEUES];
  grpc_call *parent;
  bool parent_cancelled;
  weir_inbound *inbound;
  int64_t inbound_deadline_at_ns;
  bool faulty;                /* memory, or the start of a batch, was told to fail */
  int64_t undrained_until_ns; /* nobody drained before: a timer may have fired as late as that */

  size_t n_calls;
  struct schedule_call calls[SCHEDULE_CALLS];
  size_t n_posts;
  struct schedule_post posts[SCHEDULE_POSTS];
};

#endif /* WEIR_TEST_STACK_SCHEDULE_WORLD_H */
