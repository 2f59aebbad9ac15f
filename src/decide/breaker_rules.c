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

static uint32_t stripes_for(enum weir_breaker_scope scope) {
  long limit = scope == WEIR_BREAKER_SCOPE_CHANNEL ? MAX_STRIPES_ALONE : MAX_STRIPES_AMONG_MANY;
  long n_processors = sysconf(_SC_NPROCESSORS_ONLN); /* -1 = not known */
  uint32_t n_stripes = 1;
  while ((long)n_stripes < n_processors && (long)n_stripes < limit) {
    n_stripes *= 2;
  }
  return n_stripes;
}

static uint64_t bits_of(double value) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static void words_fill(uint64_t words[WEIR__BREAKER_N_WORDS],
                       const struct weir_breaker_options *options, uint32_t nth_grid) {
  struct weir__breaker_grid grid = weir__breaker_grid_make(options, nth_grid);
  words[WEIR__BREAKER_WORD_BUCKET_RECIPROCAL] = grid.bucket_reciprocal;
  words[WEIR__BREAKER_WORD_SLOT_RECIPROCAL] = grid.slot_reciprocal;
  words[WEIR__BREAKER_WORD_EPOCH_STEP] = grid.epoch_step;
  words[WEIR__BREAKER_WORD_FIRST_EPOCH] = grid.first_epoch;
  words[WEIR__BREAKER_WORD_GRID] = (uint64_t)grid.n_buckets | (uint64_t)grid.bucket_shift << 8 |
                                   (uint64_t)grid.count_bits << 16 |
                                   (uint64_t)grid.epoch_ahead << 24 |
                                   (uint64_t)grid.nth << WEIR__BREAKER_NTH_SHIFT;
  words[WEIR__BREAKER_WORD_OPEN_FOR] = bits_of((double)options->open_for_ns);
  words[WEIR__BREAKER_WORD_MAX_OPEN_FOR] = bits_of((double)options->max_open_for_ns);
  words[WEIR__BREAKER_WORD_JITTER] = bits_of(options->open_jitter);
  words[WEIR__BREAKER_WORD_BACKOFF] = bits_of(options->open_backoff);
  words[WEIR__BREAKER_WORD_MODE] = (uint64_t)options->mode;
  words[WEIR__BREAKER_WORD_LEASE] = (uint64_t)options->probe_lease_ns;
  words[WEIR__BREAKER_WORD_RAMP] = (uint64_t)options->ramp_for_ns;
  words[WEIR__BREAKER_WORD_RATIO] = bits_of(options->failure_ratio);
  words[WEIR__BREAKER_WORD_FAILURES] =
      (uint64_t)options->min_requests | (uint64_t)options->consecutive_failures << 32;
  words[WEIR__BREAKER_WORD_PROBES] = options->probes;
}

struct weir__breaker_numbers weir__breaker_numbers_of(const struct weir__breaker_rules *rules,
                                                      uint64_t *turn_out) {
  struct weir__breaker_numbers numbers;
  uint64_t turn = weir__breaker_turn_begin(rules);
  do {
    uint64_t failures = weir__breaker_word(rules, turn, WEIR__BREAKER_WORD_FAILURES);
    numbers.mode = (enum weir_breaker_mode)weir__breaker_word(rules, turn, WEIR__BREAKER_WORD_MODE);
    numbers.probe_lease_ns = (int64_t)weir__breaker_word(rules, turn, WEIR__BREAKER_WORD_LEASE);
    numbers.ramp_for_ns = (int64_t)weir__breaker_word(rules, turn, WEIR__BREAKER_WORD_RAMP);
    numbers.failure_ratio = weir__breaker_word_double(rules, turn, WEIR__BREAKER_WORD_RATIO);
    numbers.min_requests = (uint32_t)failures;
    numbers.consecutive_failures = (uint32_t)(failures >> 32);
    numbers.n_probes = (uint32_t)weir__breaker_word(rules, turn, WEIR__BREAKER_WORD_PROBES);
    numbers.opening = weir__breaker_opening_of(rules);
    numbers.grid = weir__breaker_grid_of(rules);
  } while (!weir__breaker_turn_ends(rules, &turn));
  if (turn_out != NULL) {
    *turn_out = turn;
  }
  return numbers;
}

/* Release, each: who reads a word of it sees that the page's former turn is over. */
static void page_write(_Atomic uint64_t *page, const uint64_t words[WEIR__BREAKER_N_WORDS]) {
  for (size_t i = 0; i < WEIR__BREAKER_N_WORDS; i++) {
    atomic_store_explicit(&page[i], words[i], memory_order_release);
  }
}

void weir__breaker_rules_init(struct weir__breaker_rules *rules,
                              const struct weir_breaker_options *options,
                              const struct weir_allocator *allocator) {
  uint64_t words[WEIR__BREAKER_N_WORDS];
  memset(rules, 0, sizeof *rules);
  rules->options = *options;
  rules->allocator = allocator;
  rules->scope = options->scope;
  rules->n_buckets = options->window_buckets;
  rules->n_places = options->probes;
  rules->stripe_mask = stripes_for(options->scope) - 1;
  words_fill(words, options, 0);
  page_write(rules->pages[0], words);
}

bool weir__breaker_rules_recut(const struct weir__breaker_rules *rules,
                               const struct weir_breaker_options *options) {
  return options->window_ns != rules->options.window_ns ||
         options->window_buckets != rules->options.window_buckets;
}

/* The page that holds is written by nobody else, so what is compared is what stands there. */
void weir__breaker_rules_set(struct weir__breaker_rules *rules,
                             const struct weir_breaker_options *options) {
  uint64_t words[WEIR__BREAKER_N_WORDS];
  uint64_t turn = atomic_load_explicit(&rules->turn, memory_order_relaxed); /* nobody else's */
  rules->n_grids += weir__breaker_rules_recut(rules, options) ? 1 : 0;
  rules->options = *options;
  words_fill(words, options, rules->n_grids);
  bool same = true;
  for (size_t i = 0; i < WEIR__BREAKER_N_WORDS; i++) {
    same = same && weir__breaker_word(rules, turn, (enum weir__breaker_word)i) == words[i];
  }
  if (!same) {
    page_write(rules->pages[(turn + 1) & 1], words);
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
