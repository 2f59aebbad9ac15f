/* What a policy of 10,000 methods costs to load, and what it costs to find a method's.
 *
 *   policy time ROUNDS             prints "load NAME NANOSECONDS" of each document, and
 *                                  "lookup NAME NANOSECONDS" of one look-up
 *   policy bytes                   prints "NAME PEAK KEPT" of each document: the most bytes while it is
 *                                  loaded, its text included, and those of the policy
 *   policy count NAME              loads that document once, for callgrind
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <weir/policy.h>

#include "bench/require.h"
#include "bench/timed.h"

#define N_FEW 10
#define N_MANY 10000
#define LOOKUPS 1000
#define TEXT_BYTES ((size_t)4 * 1024 * 1024)
#define PATH_BYTES 48

/* Nothing is sent there. */
#define TARGET "ipv4:127.0.0.1:1"

/* What each entry of a document has. */
#define RETRIES                                                                           \
  ",\"timeout\":\"1.5s\",\"retryPolicy\":{\"maxAttempts\":3,\"initialBackoff\":\"0.1s\"," \
  "\"maxBackoff\":\"1s\",\"backoffMultiplier\":2,\"retryableStatusCodes\":[\"UNAVAILABLE\"]}"
#define ALL_ELSE                                                                         \
  ",\"translation\":{\"codes\":{\"NOT_FOUND\":\"INTERNAL\"},\"keepMetadata\":[\"x-a\"]," \
  "\"keepDetails\":[\"a.RetryInfo\"]},\"fallback\":{\"timeout\":\"0.05s\"}"

/* ---- documents ---- */

struct document {
  char *text;
  size_t size;
};

static struct document document_new(int n_methods, const char *each) {
  struct document document = {.text = require_memory(TEXT_BYTES, 1), .size = 0};
  char *text = document.text;
  size_t n = (size_t)snprintf(text, TEXT_BYTES, "{\"methodConfig\":[");
  for (int i = 0; i < n_methods; i++) {
    n += (size_t)snprintf(
        text + n, TEXT_BYTES - n,
        "%s{\"name\":[{\"service\":\"bench.Service%03d\",\"method\":\"Method%02d\"}]%s}",
        i > 0 ? "," : "", i / 100, i % 100, each);
    require(n < TEXT_BYTES, "the document is too large");
  }
  n += (size_t)snprintf(text + n, TEXT_BYTES - n, "]}");
  document.size = n;
  return document;
}

static weir_policy *load(const struct document *document, const struct weir_allocator *allocator) {
  weir_policy *policy = NULL;
  struct weir_diagnostic fault;
  require(weir_policy_from_json(document->text, document->size, NULL, allocator, &policy, &fault) ==
              WEIR_OK,
          "the document is refused");
  return policy;
}

static void *setup_document(int n_methods, const char *each) {
  struct document *document = require_memory(1, sizeof *document);
  *document = document_new(n_methods, each);
  return document;
}

static void *setup_10(void) {
  return setup_document(10, RETRIES);
}

static void *setup_100(void) {
  return setup_document(100, RETRIES);
}

static void *setup_1000(void) {
  return setup_document(1000, RETRIES);
}

static void *setup_10000(void) {
  return setup_document(N_MANY, RETRIES);
}

static void *setup_full(void) {
  return setup_document(N_MANY, RETRIES ALL_ELSE);
}

/* Callgrind is told to begin with nothing where this begins, and to write down where it ends, so it
 * stays a function of its own. */
void series(void *state, uint32_t n_times);

__attribute__((noinline)) void series(void *state, uint32_t n_times) {
  for (uint32_t i = 0; i < n_times; i++) {
    weir_policy_unref(load(state, NULL));
  }
}

static void teardown_document(void *state) {
  struct document *document = state;
  free(document->text);
  free(document);
}

static const struct operation loads[] = {
    {.name = "policy_10",
     .series_length = 100,
     .setup = setup_10,
     .run = series,
     .teardown = teardown_document,
     .is_long = true},
    {.name = "policy_100",
     .series_length = 10,
     .setup = setup_100,
     .run = series,
     .teardown = teardown_document,
     .is_long = true},
    {.name = "policy_1000",
     .series_length = 1,
     .setup = setup_1000,
     .run = series,
     .teardown = teardown_document,
     .is_long = true},
    {.name = "policy_10000",
     .series_length = 1,
     .setup = setup_10000,
     .run = series,
     .teardown = teardown_document,
     .is_long = true},
    {.name = "policy_10000_full",
     .series_length = 1,
     .setup = setup_full,
     .run = series,
     .teardown = teardown_document,
     .is_long = true},
};

#define N_LOADS (sizeof loads / sizeof loads[0])

/* ---- the core's own, of the same document ---- */

/* The core reads a service config when a channel is made. */
static void run_core_load(void *state, uint32_t n_times) {
  const struct document *document = state;
  char config_key[] = GRPC_ARG_SERVICE_CONFIG;
  grpc_arg arg = {.type = GRPC_ARG_STRING, .key = config_key, .value = {.string = document->text}};
  grpc_channel_args args = {.num_args = 1, .args = &arg};
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  for (uint32_t i = 0; i < n_times; i++) {
    grpc_channel *channel = grpc_channel_create(TARGET, creds, &args);
    /* of a config that it refuses the core makes a lame channel, which can't be watched */
    require(grpc_channel_support_connectivity_watcher(channel) != 0, "the core refuses it");
    grpc_channel_destroy(channel);
  }
  grpc_channel_credentials_release(creds);
}

static const struct operation core_load = {
    .name = "peer.core.policy_10000",
    .series_length = 1,
    .setup = setup_10000,
    .run = run_core_load,
    .teardown = teardown_document,
    .is_long = true,
};

/* ---- look-ups ---- */

struct lookup {
  weir_policy *policy;
  char paths[N_FEW][PATH_BYTES];
  size_t path_sizes[N_FEW];
};

/* Ten of them, spread over all. */
static void *setup_lookup(int n_methods) {
  struct lookup *lookup = require_memory(1, sizeof *lookup);
  struct document document = document_new(n_methods, RETRIES);
  lookup->policy = load(&document, NULL);
  free(document.text);
  for (int i = 0; i < N_FEW; i++) {
    const int method = i * (n_methods / N_FEW);
    lookup->path_sizes[i] = (size_t)snprintf(
        lookup->paths[i], PATH_BYTES, "/bench.Service%03d/Method%02d", method / 100, method % 100);
  }
  return lookup;
}

static void *setup_lookup_10(void) {
  return setup_lookup(N_FEW);
}

static void *setup_lookup_100(void) {
  return setup_lookup(100);
}

static void *setup_lookup_1000(void) {
  return setup_lookup(1000);
}

static void *setup_lookup_10000(void) {
  return setup_lookup(N_MANY);
}

static void run_lookup(void *state, uint32_t n_times) {
  struct lookup *lookup = state;
  uint32_t n_attempts = 0;
  size_t next = 0;
  for (uint32_t i = 0; i < n_times; i++) {
    const struct weir_method_policy *method =
        weir_policy_method(lookup->policy, lookup->paths[next], lookup->path_sizes[next]);
    n_attempts += method->retry.max_attempts;
    next = next + 1 < N_FEW ? next + 1 : 0;
  }
  require(n_attempts == 3 * n_times, "a path has not its own entry");
}

static void teardown_lookup(void *state) {
  struct lookup *lookup = state;
  weir_policy_unref(lookup->policy);
  free(lookup);
}

static const struct operation lookups[] = {
    {.name = "policy.lookup_10",
     .series_length = LOOKUPS,
     .setup = setup_lookup_10,
     .run = run_lookup,
     .teardown = teardown_lookup},
    {.name = "policy.lookup_100",
     .series_length = LOOKUPS,
     .setup = setup_lookup_100,
     .run = run_lookup,
     .teardown = teardown_lookup},
    {.name = "policy.lookup_1000",
     .series_length = LOOKUPS,
     .setup = setup_lookup_1000,
     .run = run_lookup,
     .teardown = teardown_lookup},
    {.name = "policy.lookup_10000",
     .series_length = LOOKUPS,
     .setup = setup_lookup_10000,
     .run = run_lookup,
     .teardown = teardown_lookup},
};

#define N_LOOKUPS (sizeof lookups / sizeof lookups[0])

/* ---- memory ---- */

/* Each block has its size in front. */
union measured {
  size_t n_bytes;
  max_align_t alignment;
};

struct measure {
  size_t n_bytes;
  size_t most_bytes;
};

static void *measured_allocate(void *context, size_t size) {
  struct measure *measure = context;
  union measured *block = malloc(sizeof *block + size);
  if (block == NULL) {
    return NULL;
  }
  block->n_bytes = size;
  measure->n_bytes += size;
  if (measure->n_bytes > measure->most_bytes) {
    measure->most_bytes = measure->n_bytes;
  }
  return block + 1;
}

static void measured_release(void *context, void *memory) {
  struct measure *measure = context;
  union measured *block = (union measured *)memory - 1;
  measure->n_bytes -= block->n_bytes;
  free(block);
}

static void run_bytes(void) {
  for (size_t i = 0; i < N_LOADS; i++) {
    struct measure measure = {.n_bytes = 0};
    const struct weir_allocator allocator = {.size = sizeof allocator,
                                             .allocate = measured_allocate,
                                             .release = measured_release,
                                             .context = &measure};
    struct document *document = loads[i].setup();
    weir_policy *policy = load(document, &allocator);
    printf("%s %zu %zu\n", loads[i].name, measure.most_bytes + document->size, measure.n_bytes);
    weir_policy_unref(policy);
    loads[i].teardown(document);
  }
}

/* ---- the program ---- */

static void run_time(int n_rounds) {
  double ns[N_LOADS + N_LOOKUPS];
  double core_ns = 0.0;
  timed_alone(loads, N_LOADS, n_rounds, ns);
  grpc_init();
  timed_alone(&core_load, 1, n_rounds, &core_ns);
  grpc_shutdown();
  timed_alone(lookups, N_LOOKUPS, n_rounds * 10, ns + N_LOADS);
  printf("load %s %.0f\n", core_load.name, core_ns);
  for (size_t i = 0; i < N_LOADS; i++) {
    printf("load %s %.0f\n", loads[i].name, ns[i]);
  }
  for (size_t i = 0; i < N_LOOKUPS; i++) {
    printf("lookup %s %.2f\n", lookups[i].name, ns[N_LOADS + i]);
  }
}

static void run_count(const char *name) {
  for (size_t i = 0; i < N_LOADS; i++) {
    if (strcmp(loads[i].name, name) == 0) {
      void *state = loads[i].setup();
      series(state, 1);
      loads[i].teardown(state);
      return;
    }
  }
  require(false, "no document has that name");
}

int main(int argc, char **argv) {
  const char *verb = argc > 1 ? argv[1] : "";
  const long n_rounds = argc > 2 && strcmp(verb, "time") == 0 ? strtol(argv[2], NULL, 10) : 0;
  if (strcmp(verb, "time") == 0 && argc == 3 && n_rounds > 0 && n_rounds < 10000) {
    run_time((int)n_rounds);
  } else if (strcmp(verb, "bytes") == 0 && argc == 2) {
    run_bytes();
  } else if (strcmp(verb, "count") == 0 && argc == 3) {
    run_count(argv[2]);
  } else {
    (void)fprintf(stderr, "usage: policy time ROUNDS | bytes | count NAME\n");
    return 2;
  }
  return 0;
}
