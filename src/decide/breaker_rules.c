/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "src/base/allocator.h"
#include "src/base/container_of.h"
#include "src/base/options.h"
#include "src/decide/breaker.h"
#include "src/decide/breaker_options.h"
#include "src/decide/breaker_probes.h"
#include "src/decide/breaker_window.h"
#include "src/time/instant.h"

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

/* With the jitter, and a nanosecond for rounding. */
static int64_t longest_open_ns(const struct weir_breaker_options *options) {
  int64_t grown_ns = options->open_backoff > 1.0 ? options->max_open_for_ns : options->open_for_ns;
  double longest = (double)grown_ns * (1.0 + options->open_jitter) + 1.0;
  return longest < 0x1p63 ? (int64_t)longest : WEIR_NO_LIMIT_NS;
}

void weir__breaker_rules_init(struct weir__breaker_rules *rules,
                              const struct weir_breaker_options *options,
                              const struct weir_allocator *allocator) {
  memset(rules, 0, sizeof *rules);
  rules->options = *options;
  rules->allocator = allocator;
  rules->stripe_mask = stripes_for(options->scope) - 1;
  rules->longest_open_ns = longest_open_ns(options);
  rules->longest_wait_ns = weir__instant_add(rules->longest_open_ns, WEIR__BREAKER_CLOCK_STEP_NS);
  weir__breaker_window_derive(rules);
}

size_t weir__breaker_bytes(const struct weir__breaker_rules *rules) {
  return sizeof(weir_breaker) + weir__breaker_stripe_size(rules) +
         rules->options.probes * sizeof(struct weir__breaker_place);
}

void weir__breaker_init(weir_breaker *breaker, const struct weir__breaker_rules *rules) {
  memset(breaker, 0, weir__breaker_bytes(rules));
  breaker->rules = rules;
}

void weir__breaker_fini(weir_breaker *breaker) {
  /* Relaxed: whoever ends the breaker has seen its calls end. */
  weir__free(breaker->rules->allocator,
             atomic_load_explicit(&breaker->spread, memory_order_relaxed));
}

/* A breaker that is nobody else's has rules of its own. */
struct alone {
  struct weir__breaker_rules rules;
  weir_breaker breaker;
};

static weir_breaker *alone_new(const struct weir__breaker_rules *rules) {
  struct alone *alone =
      weir__zalloc(rules->allocator, offsetof(struct alone, breaker) + weir__breaker_bytes(rules));
  if (alone == NULL) {
    return NULL;
  }
  alone->rules = *rules;
  weir__breaker_init(&alone->breaker, &alone->rules);
  if (!weir__breaker_spread(&alone->breaker)) {
    weir__free(rules->allocator, alone);
    return NULL;
  }
  return &alone->breaker;
}

enum weir_error weir_breaker_new(const struct weir_breaker_options *options,
                                 const struct weir_allocator *allocator,
                                 weir_breaker **breaker_out) {
  struct weir_breaker_options known = WEIR_BREAKER_OPTIONS_INIT;
  struct weir__breaker_rules rules;
  *breaker_out = NULL;
  enum weir_error error =
      options == NULL ? WEIR_OK : weir__options_copy(&known, sizeof known, options);
  if (error == WEIR_OK) {
    error = weir__breaker_options_check(&known, NULL);
  }
  if (error != WEIR_OK) {
    return error;
  }
  known.scope = WEIR_BREAKER_SCOPE_CHANNEL;
  weir__breaker_rules_init(&rules, &known, weir__allocator_or_default(allocator));
  *breaker_out = alone_new(&rules);
  return *breaker_out != NULL ? WEIR_OK : WEIR_ERROR_NO_MEMORY;
}

void weir_breaker_free(weir_breaker *breaker) {
  if (breaker != NULL) {
    struct alone *alone = WEIR__CONTAINER_OF(breaker, struct alone, breaker);
    const struct weir_allocator *allocator = alone->rules.allocator;
    weir__breaker_fini(breaker);
    weir__free(allocator, alone);
  }
}
