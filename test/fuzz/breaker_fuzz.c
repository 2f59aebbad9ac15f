/* A breaker, asked and told things in any order, beside a model of it that doc/breaker.md describes.
 *
 * Two bytes are a step. Time goes forward by milliseconds; all times of the breaker end in half of one, so
 * that nothing is ever due at the very instant. What a window of buckets has just lost, or is about to
 * lose, the model does not know: it asks the breaker then, and only then.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <weir/breaker.h>

#include "test/fuzz/fuzz_target.h"

#define HALF_MS_NS (WEIR_MS_NS / 2)
#define WINDOW_NS WEIR_SECOND_NS
#define BUCKETS 10
#define BUCKET_NS (WINDOW_NS / BUCKETS)
#define OPEN_FOR_NS (100 * WEIR_MS_NS + HALF_MS_NS)
#define MAX_OPEN_FOR_NS (350 * WEIR_MS_NS + HALF_MS_NS)
#define LEASE_NS (50 * WEIR_MS_NS + HALF_MS_NS)

#define TICKETS 16
#define MAX_PROBES 4
#define MAX_SAMPLES 256

struct sample {
  int64_t at_ns;
  bool is_failure;
};

struct ticket {
  struct weir_breaker_ticket real;
  enum weir_breaker_ticket_stage stage;
  uint64_t generation;
  bool is_probe;
};

/* A place of a probe. */
struct place {
  int holder;   /* a ticket; -1 = nobody */
  bool is_done; /* its probe has succeeded */
  int64_t taken_at_ns;
};

struct model {
  enum weir_breaker_state state; /* what it decides */
  enum weir_breaker_override override;
  uint64_t generation;
  uint64_t n_trips;
  uint64_t n_refused;
  uint64_t n_probes;
  uint32_t n_reopenings;
  int64_t opens_at_ns; /* when OPEN is over */
  struct place places[MAX_PROBES];
  uint32_t row;
  struct sample samples[MAX_SAMPLES];
  size_t n_samples;
};

struct world {
  weir_breaker *breaker;
  struct weir_breaker_options options;
  struct model model;
  struct ticket tickets[TICKETS];
  size_t n_tickets;
  int64_t now_ns;
};

static void require(bool holds) {
  if (!holds) {
    abort();
  }
}

/* --- the model --- */

static void begin(struct model *model, enum weir_breaker_state state) {
  model->state = state;
  model->generation++;
  model->n_samples = 0;
  model->row = 0;
  for (size_t i = 0; i < MAX_PROBES; i++) {
    model->places[i] = (struct place){.holder = -1};
  }
}

static void open(struct world *world) {
  struct model *model = &world->model;
  int64_t open_for_ns = OPEN_FOR_NS;
  for (uint32_t i = 0; i < model->n_reopenings && open_for_ns < MAX_OPEN_FOR_NS; i++) {
    open_for_ns = (int64_t)((double)open_for_ns * world->options.open_backoff);
  }
  begin(model, WEIR_BREAKER_OPEN);
  model->n_trips++;
  model->opens_at_ns =
      world->now_ns + (open_for_ns < MAX_OPEN_FOR_NS ? open_for_ns : MAX_OPEN_FOR_NS);
}

static void close(struct model *model) {
  begin(model, WEIR_BREAKER_CLOSED);
  model->n_reopenings = 0;
}

/* What the window holds, if that is certain. */
static bool count(const struct world *world, uint64_t *n_requests, uint64_t *n_failures) {
  *n_requests = *n_failures = 0;
  for (size_t i = 0; i < world->model.n_samples; i++) {
    const struct sample *sample = &world->model.samples[i];
    const int64_t age_ns = world->now_ns - sample->at_ns;
    if (age_ns > WINDOW_NS - BUCKET_NS && age_ns < WINDOW_NS + BUCKET_NS) {
      return false;
    }
    *n_requests += age_ns <= WINDOW_NS - BUCKET_NS ? 1 : 0;
    *n_failures += age_ns <= WINDOW_NS - BUCKET_NS && sample->is_failure ? 1 : 0;
  }
  return world->model.n_samples < MAX_SAMPLES;
}

/* Whether a failure trips it now. Where that is not certain, the breaker itself says. */
static bool trips(const struct world *world) {
  uint64_t n_requests = 0;
  uint64_t n_failures = 0;
  const struct weir_breaker_options *options = &world->options;
  if (options->consecutive_failures > 0 && world->model.row >= options->consecutive_failures) {
    return true;
  }
  if (!count(world, &n_requests, &n_failures)) {
    return weir_breaker_look(world->breaker, world->now_ns).generation != world->model.generation;
  }
  return n_requests >= options->min_requests &&
         (double)n_failures / (double)n_requests >= options->failure_ratio;
}

static void add_sample(struct world *world, bool is_failure) {
  struct model *model = &world->model;
  if (!is_failure) {
    model->row = 0;
  } else if (world->options.consecutive_failures > 0) { /* counted only while there is the rule */
    model->row++;
  }
  if (model->n_samples < MAX_SAMPLES) {
    model->samples[model->n_samples++] =
        (struct sample){.at_ns = world->now_ns, .is_failure = is_failure};
  }
  if (is_failure && trips(world)) {
    open(world);
  }
}

/* Whose place it is; NULL = it has none any more. */
static struct place *place_of(struct model *model, const struct ticket *ticket, int number) {
  if (!ticket->is_probe || model->places[ticket->real.place].holder != number) {
    return NULL;
  }
  return &model->places[ticket->real.place];
}

static void probe_succeeded(struct world *world, struct place *place) {
  place->is_done = true;
  uint32_t n_done = 0;
  for (size_t i = 0; i < MAX_PROBES; i++) {
    n_done += world->model.places[i].is_done ? 1 : 0;
  }
  if (n_done >= world->options.probes) {
    close(&world->model);
  }
}

/* --- steps --- */

static bool is_taken(const struct world *world, size_t nth) {
  const struct place *place = &world->model.places[nth];
  return place->is_done || (place->holder >= 0 && world->now_ns - place->taken_at_ns < LEASE_NS);
}

static bool has_room(const struct world *world) {
  for (size_t i = 0; i < world->options.probes; i++) {
    if (!is_taken(world, i)) {
      return true;
    }
  }
  return false;
}

static enum weir_breaker_refusal expect_refusal(struct world *world) {
  struct model *model = &world->model;
  switch (model->override) {
  case WEIR_BREAKER_OVERRIDE_OPEN:
    return WEIR_BREAKER_REFUSAL_FORCED_OPEN;
  case WEIR_BREAKER_OVERRIDE_DISABLED:
    return WEIR_BREAKER_REFUSAL_NONE;
  case WEIR_BREAKER_OVERRIDE_NONE:
    break;
  }
  if (model->state == WEIR_BREAKER_OPEN) {
    if (world->now_ns < model->opens_at_ns) {
      return WEIR_BREAKER_REFUSAL_OPEN;
    }
    begin(model, WEIR_BREAKER_HALF_OPEN);
  }
  return model->state == WEIR_BREAKER_HALF_OPEN && !has_room(world)
             ? WEIR_BREAKER_REFUSAL_PROBES_TAKEN
             : WEIR_BREAKER_REFUSAL_NONE;
}

static void take_place(struct world *world, int number) {
  struct model *model = &world->model;
  const uint32_t nth = world->tickets[number].real.place;
  require(nth < world->options.probes && !is_taken(world, nth));
  model->places[nth] = (struct place){.holder = number, .taken_at_ns = world->now_ns};
  model->n_probes++;
}

static void step_admit(struct world *world) {
  struct model *model = &world->model;
  struct weir_breaker_ticket real;
  struct weir_breaker_view view;
  const uint64_t generation = model->generation;
  const enum weir_breaker_refusal refusal = expect_refusal(world);
  const enum weir_admission admission =
      weir_breaker_admit(world->breaker, world->now_ns, NULL, &real, &view);
  require((admission == WEIR_ADMISSION_REFUSE) == (refusal != WEIR_BREAKER_REFUSAL_NONE));
  require(view.refusal == refusal);
  require(view.changed == (generation != model->generation));
  model->n_refused += refusal != WEIR_BREAKER_REFUSAL_NONE ? 1 : 0;
  const bool counts =
      refusal == WEIR_BREAKER_REFUSAL_NONE && model->override == WEIR_BREAKER_OVERRIDE_NONE;
  require((real.stage == WEIR_BREAKER_TICKET_PENDING) == counts);
  if (world->n_tickets == TICKETS || !counts) {
    if (counts && model->state == WEIR_BREAKER_HALF_OPEN) {
      model->places[real.place] = (struct place){.holder = -1};
      model->n_probes++;
    }
    weir_breaker_release(world->breaker, &real); /* as a call that is cancelled at once */
    return;
  }
  const int number = (int)world->n_tickets++;
  world->tickets[number] = (struct ticket){.real = real,
                                           .stage = WEIR_BREAKER_TICKET_PENDING,
                                           .generation = model->generation,
                                           .is_probe = real.place != WEIR_BREAKER_NO_PLACE};
  require(world->tickets[number].is_probe == (model->state == WEIR_BREAKER_HALF_OPEN));
  if (world->tickets[number].is_probe) {
    take_place(world, number);
  }
}

static void expect_settle(struct world *world, int number, enum weir_breaker_verdict verdict) {
  struct model *model = &world->model;
  const struct ticket *ticket = &world->tickets[number];
  const bool is_pending = ticket->stage == WEIR_BREAKER_TICKET_PENDING;
  if (ticket->stage == WEIR_BREAKER_TICKET_SPENT || ticket->generation != model->generation) {
    return;
  }
  if (!ticket->is_probe) {
    if (verdict == WEIR_BREAKER_VERDICT_FAILURE ||
        (is_pending && verdict == WEIR_BREAKER_VERDICT_SUCCESS)) {
      add_sample(world, verdict == WEIR_BREAKER_VERDICT_FAILURE);
    }
    return;
  }
  struct place *place = place_of(model, ticket, number);
  if (place == NULL) {
    return; /* its lease was over, and another has its place */
  }
  if (verdict == WEIR_BREAKER_VERDICT_FAILURE) {
    model->n_reopenings++;
    open(world);
  } else if (is_pending && verdict == WEIR_BREAKER_VERDICT_SUCCESS) {
    probe_succeeded(world, place);
  } else if (is_pending) {
    place->holder = -1;
  }
}

static void step_settle(struct world *world, int number, uint8_t byte) {
  static const enum weir_breaker_verdict verdicts[] = {
      WEIR_BREAKER_VERDICT_FAILURE, WEIR_BREAKER_VERDICT_SUCCESS, WEIR_BREAKER_VERDICT_IGNORED,
      WEIR_BREAKER_VERDICT_FAILURE};
  struct ticket *ticket = &world->tickets[number];
  const enum weir_breaker_verdict verdict = verdicts[byte & 3];
  const uint64_t generation = world->model.generation;
  struct weir_breaker_view view;
  weir_breaker_settle(world->breaker, &ticket->real, verdict, world->now_ns, NULL, &view);
  expect_settle(world, number, verdict);
  ticket->stage = WEIR_BREAKER_TICKET_SPENT;
  require(ticket->real.stage == WEIR_BREAKER_TICKET_SPENT);
  require(view.changed == (generation != world->model.generation));
}

static void step_progress(struct world *world, int number) {
  struct ticket *ticket = &world->tickets[number];
  struct model *model = &world->model;
  weir_breaker_progress(world->breaker, &ticket->real, world->now_ns, NULL);
  if (ticket->stage != WEIR_BREAKER_TICKET_PENDING) {
    return;
  }
  ticket->stage = ticket->real.stage;
  if (ticket->generation != model->generation) {
    return;
  }
  struct place *place = place_of(model, ticket, number);
  if (!ticket->is_probe) {
    add_sample(world, false);
  } else if (place != NULL) {
    probe_succeeded(world, place);
  }
}

static void step_release(struct world *world, int number) {
  struct ticket *ticket = &world->tickets[number];
  weir_breaker_release(world->breaker, &ticket->real);
  struct place *place = place_of(&world->model, ticket, number);
  if (ticket->stage == WEIR_BREAKER_TICKET_PENDING &&
      ticket->generation == world->model.generation && place != NULL) {
    place->holder = -1;
  }
  ticket->stage = WEIR_BREAKER_TICKET_SPENT;
}

static void step_override(struct world *world, uint8_t byte) {
  const enum weir_breaker_override override = (enum weir_breaker_override)(byte % 3);
  struct weir_breaker_view view;
  weir_breaker_set_override(world->breaker, override, &view);
  require(view.changed == (override != world->model.override));
  if (override != world->model.override) {
    world->model.override = override;
    close(&world->model);
  }
}

/* What changes no window, and no place. */
static void step_options(struct world *world, uint8_t byte) {
  world->options.min_requests = 1u + (byte & 7);
  world->options.failure_ratio = (byte & 8) != 0 ? 0.5 : 0.75;
  world->options.consecutive_failures = byte >> 6;
  require(weir_breaker_set_options(world->breaker, &world->options) == WEIR_OK);
}

/* --- the whole --- */

static enum weir_breaker_state seen_state(const struct model *model) {
  switch (model->override) {
  case WEIR_BREAKER_OVERRIDE_NONE:
    return model->state;
  case WEIR_BREAKER_OVERRIDE_OPEN:
    return WEIR_BREAKER_OPEN;
  case WEIR_BREAKER_OVERRIDE_DISABLED:
    break;
  }
  return WEIR_BREAKER_CLOSED;
}

static void compare(const struct world *world) {
  const struct model *model = &world->model;
  const struct weir_breaker_view view = weir_breaker_look(world->breaker, world->now_ns);
  struct weir_breaker_snapshot snapshot = WEIR_BREAKER_SNAPSHOT_INIT;
  require(weir_breaker_snapshot(world->breaker, world->now_ns, &snapshot) == WEIR_OK);
  require(view.state == seen_state(model) && snapshot.state == view.state);
  require(view.generation == model->generation && snapshot.generation == model->generation);
  require(snapshot.override == model->override);
  require(snapshot.n_trips == model->n_trips);
  require(snapshot.n_refused == model->n_refused);
  require(snapshot.n_probes == model->n_probes);
  require(snapshot.n_failures <= snapshot.n_requests);
  uint64_t n_requests = 0;
  uint64_t n_failures = 0;
  if (view.state == WEIR_BREAKER_CLOSED && count(world, &n_requests, &n_failures)) {
    require(snapshot.n_requests == n_requests && snapshot.n_failures == n_failures);
  }
  if (model->override == WEIR_BREAKER_OVERRIDE_NONE && model->state == WEIR_BREAKER_OPEN) {
    const int64_t rest_ns = model->opens_at_ns - world->now_ns;
    require(view.next_probe_in_ns == (rest_ns > 0 ? rest_ns : 0));
  }
}

static void step(struct world *world, uint8_t kind, uint8_t byte) {
  /* the first value that is none of these any more */
  enum {
    ADMIT = 5,
    SETTLE = 9,
    PROGRESS = 11,
    RELEASE = 13,
    OVERRIDE = 14,
    OPTIONS = 15,
    KINDS = 18
  };
  const int number = world->n_tickets > 0 ? (byte >> 2) % (int)world->n_tickets : -1;
  kind %= KINDS;
  if (kind < ADMIT) {
    step_admit(world);
  } else if (kind < RELEASE) {
    if (number < 0) {
      return;
    }
    if (kind < SETTLE) {
      step_settle(world, number, byte);
    } else if (kind < PROGRESS) {
      step_progress(world, number);
    } else {
      step_release(world, number);
    }
  } else if (kind < OVERRIDE) {
    step_override(world, byte);
  } else if (kind < OPTIONS) {
    step_options(world, byte);
  } else {
    world->now_ns += (byte & 128) != 0 ? (byte & 127) * 10 * WEIR_MS_NS : byte * WEIR_MS_NS;
  }
}

static void open_breaker(struct world *world, uint8_t byte) {
  world->now_ns = 1000 * WEIR_SECOND_NS;
  world->options = (struct weir_breaker_options)WEIR_BREAKER_OPTIONS_INIT;
  world->options.window_ns = WINDOW_NS;
  world->options.window_buckets = BUCKETS;
  world->options.open_for_ns = OPEN_FOR_NS;
  world->options.open_jitter = 0;
  world->options.open_backoff = (byte & 1) != 0 ? 2.0 : 1.0;
  world->options.max_open_for_ns = MAX_OPEN_FOR_NS;
  world->options.probe_lease_ns = LEASE_NS;
  world->options.probes = 1u + (byte >> 1 & 3);
  world->options.min_requests = 1u + (byte >> 3 & 3);
  world->options.consecutive_failures = (byte & 32) != 0 ? 3 : 0;
  for (size_t i = 0; i < MAX_PROBES; i++) {
    world->model.places[i].holder = -1;
  }
  require(weir_breaker_new(&world->options, NULL, &world->breaker) == WEIR_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct world world;
  memset(&world, 0, sizeof world);
  open_breaker(&world, size > 0 ? data[0] : 0);
  world.model.generation = weir_breaker_look(world.breaker, world.now_ns).generation;
  for (size_t i = 1; i + 1 < size; i += 2) {
    step(&world, data[i], data[i + 1]);
    compare(&world);
  }
  weir_breaker_free(world.breaker);
  return 0;
}
