/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "src/base/allocator.h"
#include "src/base/container_of.h"
#include "src/base/options.h"
#include "src/decide/breaker.h"
#include "src/decide/breaker_annex.h"
#include "src/decide/breaker_numbers.h"
#include "src/decide/breaker_options.h"
#include "src/decide/breaker_probes.h"
#include "src/decide/breaker_window.h"

/* A stripe for each processor, up to these: a channel's only breaker is used by all of them, of
 * many breakers few are that busy. */
#define MAX_STRIPES_ALONE 64
#define MAX_STRIPES_AMONG_MANY 16

_Static_assert(sizeof(struct weir__breaker_numbers) % sizeof(uint64_t) == 0, "whole words");

static uint32_t stripes_for(enum weir_breaker_scope scope) {
  long limit = scope == WEIR_BREAKER_SCOPE_CHANNEL ? MAX_STRIPES_ALONE : MAX_STRIPES_AMONG_MANY;
  long n_processors = sysconf(_SC_NPROCESSORS_ONLN); /* -1 = not known */
  uint32_t n_stripes = 1;
  while ((long)n_stripes < n_processors && (long)n_stripes < limit) {
    n_stripes *= 2;
  }
  return n_stripes;
}

static struct weir__breaker_numbers numbers_of(const struct weir_breaker_options *options,
                                               uint64_t first_generation) {
  return (struct weir__breaker_numbers){
      .grid = weir__breaker_grid_make(options, first_generation),
      .opening = {.open_for_ns = (double)options->open_for_ns,
                  .max_open_for_ns = (double)options->max_open_for_ns,
                  .jitter = options->open_jitter,
                  .backoff = options->open_backoff,
                  .is_shadow = options->mode == WEIR_BREAKER_MODE_SHADOW},
      .probe_lease_ns = options->probe_lease_ns,
      .ramp_for_ns = options->ramp_for_ns,
      .failure_ratio = options->failure_ratio,
      .min_requests = options->min_requests,
      .consecutive_failures = options->consecutive_failures,
      .n_probes = options->probes,
  };
}

/* Release, each: who reads a word of it sees that the page's former turn is over. */
static void page_write(_Atomic uint64_t *page, const struct weir__breaker_numbers *numbers) {
  uint64_t words[WEIR__BREAKER_NUMBERS_WORDS];
  memcpy(words, numbers, sizeof words);
  for (size_t i = 0; i < WEIR__BREAKER_NUMBERS_WORDS; i++) {
    atomic_store_explicit(&page[i], words[i], memory_order_release);
  }
}

void weir__breaker_rules_init(struct weir__breaker_rules *rules,
                              const struct weir_breaker_options *options,
                              const struct weir_allocator *allocator) {
  memset(rules, 0, sizeof *rules);
  rules->options = *options;
  rules->allocator = allocator;
  rules->scope = options->scope;
  rules->n_buckets = options->window_buckets;
  rules->n_places = options->probes;
  rules->stripe_mask = stripes_for(options->scope) - 1;
  struct weir__breaker_numbers numbers = numbers_of(options, 0);
  page_write(rules->pages[0], &numbers);
}

bool weir__breaker_rules_recut(const struct weir__breaker_rules *rules,
                               const struct weir_breaker_options *options) {
  return options->window_ns != rules->options.window_ns ||
         options->window_buckets != rules->options.window_buckets;
}

void weir__breaker_rules_set(struct weir__breaker_rules *rules,
                             const struct weir_breaker_options *options) {
  uint64_t turn = atomic_load_explicit(&rules->turn, memory_order_relaxed); /* nobody else's */
  struct weir__breaker_numbers before = weir__breaker_numbers_of(rules, NULL);
  struct weir__breaker_numbers numbers = numbers_of(
      options, before.grid.first_generation +
                   (weir__breaker_rules_recut(rules, options) ? WEIR__BREAKER_GRID_STEP : 0));
  rules->options = *options;
  if (memcmp(&numbers, &before, sizeof numbers) != 0) {
    page_write(rules->pages[(turn + 1) & 1], &numbers);
    atomic_store_explicit(&rules->turn, turn + 1, memory_order_seq_cst);
  }
}

size_t weir__breaker_bytes(const struct weir__breaker_rules *rules) {
  return sizeof(weir_breaker) + weir__breaker_stripe_size(rules->n_buckets) +
         rules->n_places * sizeof(struct weir__breaker_place);
}

void weir__breaker_init(weir_breaker *breaker, const struct weir__breaker_rules *rules) {
  memset(breaker, 0, weir__breaker_bytes(rules));
  breaker->rules = rules;
}

void weir__breaker_fini(weir_breaker *breaker) {
  weir__breaker_annexes_end(breaker);
}

/* A breaker that is nobody else's has rules of its own. */
struct alone {
  struct weir__breaker_rules rules;
  weir_breaker breaker;
};

static struct alone *alone_of(weir_breaker *breaker) {
  return WEIR__CONTAINER_OF(breaker, struct alone, breaker);
}

static weir_breaker *alone_new(const struct weir_breaker_options *options,
                               const struct weir_allocator *allocator) {
  struct weir__breaker_rules rules;
  weir__breaker_rules_init(&rules, options, allocator);
  struct alone *alone =
      weir__zalloc(allocator, offsetof(struct alone, breaker) + weir__breaker_bytes(&rules));
  if (alone == NULL) {
    return NULL;
  }
  weir__breaker_rules_init(&alone->rules, options, allocator);
  weir__breaker_init(&alone->breaker, &alone->rules);
  if (!weir__breaker_spread(&alone->breaker)) {
    weir__free(allocator, alone);
    return NULL;
  }
  return &alone->breaker;
}

/* What this library knows of `options`, NULL = the defaults, checked. */
static enum weir_error options_take(const struct weir_breaker_options *options,
                                    struct weir_breaker_options *known_out) {
  *known_out = (struct weir_breaker_options)WEIR_BREAKER_OPTIONS_INIT;
  enum weir_error error =
      options == NULL ? WEIR_OK : weir__options_copy(known_out, sizeof *known_out, options);
  if (error == WEIR_OK) {
    error = weir__breaker_options_check(known_out, NULL);
  }
  known_out->scope = WEIR_BREAKER_SCOPE_CHANNEL;
  return error;
}

enum weir_error weir_breaker_new(const struct weir_breaker_options *options,
                                 const struct weir_allocator *allocator,
                                 weir_breaker **breaker_out) {
  struct weir_breaker_options known;
  *breaker_out = NULL;
  enum weir_error error = options_take(options, &known);
  if (error != WEIR_OK) {
    return error;
  }
  *breaker_out = alone_new(&known, weir__allocator_or_default(allocator));
  return *breaker_out != NULL ? WEIR_OK : WEIR_ERROR_NO_MEMORY;
}

enum weir_error weir_breaker_set_options(weir_breaker *breaker,
                                         const struct weir_breaker_options *options) {
  struct weir__breaker_rules *rules = &alone_of(breaker)->rules;
  struct weir_breaker_options known;
  enum weir_error error = options_take(options, &known);
  if (error != WEIR_OK) {
    return error;
  }
  if (!weir__breaker_reserve(breaker, &known)) {
    return WEIR_ERROR_NO_MEMORY;
  }
  if (weir__breaker_rules_recut(rules, &known)) {
    weir__breaker_window_clear(breaker);
  }
  weir__breaker_rules_set(rules, &known);
  return WEIR_OK;
}

void weir_breaker_free(weir_breaker *breaker) {
  if (breaker != NULL) {
    struct alone *alone = alone_of(breaker);
    const struct weir_allocator *allocator = alone->rules.allocator;
    weir__breaker_fini(breaker);
    weir__free(allocator, alone);
  }
}
