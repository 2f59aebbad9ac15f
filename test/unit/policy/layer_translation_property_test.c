/* What an organisation enforces of translation is never weakened: over a great many pairs of
 * documents, the same ones in each run, either the pair is refused, or the layer shows what is
 * enforced, or something stricter, for each method, code and origin.
 *
 * What is weaker is said here once more, in a few lines that know nothing of the table by which it
 * is done.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <weir/interceptor.h>
#include <weir/outcome.h>
#include <weir/policy.h>

#include "interceptors/translation/translation.h"
#include "test/support/counting_allocator.h"
#include "test/support/seeded_random.h"
#include "test/unit/policy/document_writer.h"

/* A sanitizer takes five times as long for each. */
#if defined(__SANITIZE_ADDRESS__)
#define N_PAIRS 600
#else
#define N_PAIRS 3000
#endif

#define N_KEYS 3
static const char *const keys[N_KEYS] = {"x-a", "x-b", "x-c-bin"};
#define N_TYPES 2
static const char *const types[N_TYPES] = {"google.rpc.RetryInfo", "shop.v1.Why"};
static const int8_t codes_used[] = {4, 5, 10, 14};
static const int8_t codes_shown[] = {13, 2, 14};

/* What a `translation` says. */
struct says {
  int boundary; /* -1: nothing, as the others */
  int message_ref;
  int keep_metadata; /* a set of `keys` */
  int keep_details;
  int max_message_bytes;
  int8_t as;
  int8_t codes[WEIR_N_STATUS_CODES];
};

static const struct says silent = {
    .boundary = -1,
    .message_ref = -1,
    .keep_metadata = -1,
    .keep_details = -1,
    .max_message_bytes = -1,
    .as = -1,
    .codes = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}};

/* Names of entries, and what of the methods each stands for; a set of names is a bit each. */
#define N_NAMES 5
static const char *const names[N_NAMES] = {
    "{}", "{\"service\":\"a.S\"}", "{\"service\":\"a.S\",\"method\":\"M\"}",
    "{\"service\":\"a.S\",\"method\":\"N\"}", "{\"service\":\"a.T\"}"};
static const char *const prefixes[N_NAMES] = {"", "/a.S/", "/a.S/M", "/a.S/N", "/a.T/"};
#define N_METHODS 5
static const char *const methods[N_METHODS] = {"/a.S/M", "/a.S/N", "/a.S/O", "/a.T/M", "/a.U/M"};

#define N_ENTRIES 3
struct entry {
  unsigned names;
  struct says says;
};

struct part {
  struct says says;
  struct entry entries[N_ENTRIES];
  size_t n_entries;
};

struct pair {
  struct part enforced;
  struct part plain; /* of the organisation */
  struct part channel;
  bool lenient;
};

/* ---- making pairs ---- */

static unsigned below(struct seeded_random *random, unsigned n) {
  return (unsigned)(seeded_random_next(random) >> 33) % n;
}

static bool one_in(struct seeded_random *random, unsigned n) {
  return below(random, n) == 0;
}

/* The rarer a word is, the more pairs are accepted. */
static struct says make_says(struct seeded_random *random, unsigned rarity) {
  struct says says = silent;
  says.boundary = one_in(random, rarity) ? (int)below(random, 2) : -1;
  says.message_ref = one_in(random, rarity * 2) ? (int)below(random, 2) : -1;
  says.keep_metadata = one_in(random, rarity) ? (int)below(random, 1 << N_KEYS) : -1;
  says.keep_details = one_in(random, rarity) ? (int)below(random, 1 << N_TYPES) : -1;
  says.max_message_bytes = one_in(random, rarity) ? 64 + (int)below(random, 4) * 100 : -1;
  says.as = one_in(random, rarity * 2) ? codes_shown[below(random, 3)] : -1;
  for (size_t i = 0; i < sizeof codes_used / sizeof codes_used[0]; i++) {
    if (one_in(random, rarity * 2)) {
      says.codes[codes_used[i]] = codes_shown[below(random, 3)];
    }
  }
  return says;
}

/* No name is in two entries of a document's plain part. */
static struct part make_part(struct seeded_random *random, unsigned rarity, bool names_repeat) {
  struct part part = {.says = make_says(random, rarity), .n_entries = below(random, N_ENTRIES + 1)};
  unsigned left = (1 << N_NAMES) - 1;
  for (size_t i = 0; i < part.n_entries; i++) {
    part.entries[i].names = below(random, 1 << N_NAMES) & left;
    part.entries[i].says = make_says(random, rarity);
    left = names_repeat ? left : left & ~part.entries[i].names;
  }
  return part;
}

/* Leaves what is said of DEADLINE_EXCEEDED, which two fields tell of. */
static void keep_deadlines(struct part *part) {
  struct says *const all[] = {&part->says, &part->entries[0].says, &part->entries[1].says,
                              &part->entries[2].says};
  _Static_assert(N_ENTRIES == 3, "all of them");
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    const struct says said = *all[i];
    *all[i] = silent;
    all[i]->as = said.as;
    all[i]->codes[4] = said.codes[4];
  }
}

static struct pair make_pair(struct seeded_random *random) {
  const unsigned rarity = 2 + below(random, 6);
  struct pair pair = {.enforced = make_part(random, rarity, true)};
  pair.plain = make_part(random, rarity * 4, false);
  pair.channel = make_part(random, rarity, false);
  pair.lenient = one_in(random, 4);
  if (one_in(random, 4)) {
    keep_deadlines(&pair.enforced);
    keep_deadlines(&pair.plain);
    keep_deadlines(&pair.channel);
  }
  /* An enforced false is no demand; one that contradicts is refused, and shows nothing. */
  if (pair.enforced.says.boundary == 0) {
    pair.enforced.says.boundary = 1;
  }
  for (size_t i = 0; i < pair.enforced.n_entries; i++) {
    struct says *says = &pair.enforced.entries[i].says;
    says->boundary = says->boundary == 0 ? 1 : says->boundary;
  }
  return pair;
}

/* ---- writing them ---- */

static void write_set(struct document_writer *writer, const char *key, const char *const *words,
                      size_t n_words, int set) {
  document_writer_key(writer, key);
  document_writer_put(writer, "[");
  for (size_t i = 0; i < n_words; i++) {
    if ((set >> i & 1) != 0) {
      document_writer_next(writer);
      document_writer_put(writer, "\"%s\"", words[i]);
    }
  }
  document_writer_put(writer, "]");
}

static void write_bool(struct document_writer *writer, const char *key, int value) {
  if (value >= 0) {
    document_writer_key(writer, key);
    document_writer_put(writer, "%s", value != 0 ? "true" : "false");
  }
}

static void write_codes(struct document_writer *writer, const struct says *says) {
  document_writer_key(writer, "codes");
  document_writer_put(writer, "{");
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    if (says->codes[code] >= 0) {
      document_writer_key(writer, weir_status_code_name((grpc_status_code)code));
      document_writer_put(writer, "%d", says->codes[code]);
    }
  }
  document_writer_put(writer, "}");
}

static void write_says(struct document_writer *writer, const struct says *says) {
  document_writer_key(writer, "translation");
  document_writer_put(writer, "{");
  write_bool(writer, "boundary", says->boundary);
  write_bool(writer, "messageRef", says->message_ref);
  if (says->keep_metadata >= 0) {
    write_set(writer, "keepMetadata", keys, N_KEYS, says->keep_metadata);
  }
  if (says->keep_details >= 0) {
    write_set(writer, "keepDetails", types, N_TYPES, says->keep_details);
  }
  if (says->max_message_bytes >= 0) {
    document_writer_key(writer, "maxMessageBytes");
    document_writer_put(writer, "%d", says->max_message_bytes);
  }
  if (says->as >= 0) {
    document_writer_key(writer, "deadlineExceededAs");
    document_writer_put(writer, "%d", says->as);
  }
  write_codes(writer, says);
  document_writer_put(writer, "}");
}

static void write_part(struct document_writer *writer, const struct part *part) {
  write_says(writer, &part->says);
  document_writer_key(writer, "methodConfig");
  document_writer_put(writer, "[");
  for (size_t i = 0; i < part->n_entries; i++) {
    document_writer_next(writer);
    document_writer_put(writer, "{\"name\":[");
    for (size_t j = 0; j < N_NAMES; j++) {
      if ((part->entries[i].names >> j & 1) != 0) {
        document_writer_next(writer);
        document_writer_put(writer, "%s", names[j]);
      }
    }
    document_writer_put(writer, "]");
    write_says(writer, &part->entries[i].says);
    document_writer_put(writer, "}");
  }
  document_writer_put(writer, "]");
}

static void write_organisation(struct document_writer *writer, const struct pair *pair) {
  document_writer_init(writer);
  document_writer_put(writer, "{");
  write_part(writer, &pair->plain);
  document_writer_key(writer, "enforce");
  document_writer_put(writer, "{");
  write_part(writer, &pair->enforced);
  document_writer_put(writer, "}}");
}

static void write_channel(struct document_writer *writer, const struct pair *pair) {
  document_writer_init(writer);
  document_writer_put(writer, "{");
  write_part(writer, &pair->channel);
  if (pair->lenient) {
    document_writer_key(writer, "somethingElse");
    document_writer_put(writer, "1");
  }
  document_writer_put(writer, "}");
}

/* ---- what is weaker ---- */

static bool wants_boundary(const struct says *says) {
  bool wants = says->keep_metadata >= 0 || says->keep_details >= 0 || says->as >= 0 ||
               says->message_ref == 1;
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    wants = wants || says->codes[code] >= 0;
  }
  return wants;
}

static bool differ(int said, int enforced) {
  return said >= 0 && enforced >= 0 && said != enforced;
}

static bool exceeds(int said, int enforced) {
  return said >= 0 && enforced >= 0 && (said & ~enforced) != 0;
}

static bool is_weaker(const struct says *said, const struct says *enforced) {
  bool weaker = said->boundary == 0 && (enforced->boundary == 1 || wants_boundary(enforced));
  weaker = weaker || differ(said->message_ref, enforced->message_ref);
  weaker = weaker || exceeds(said->keep_metadata, enforced->keep_metadata);
  weaker = weaker || exceeds(said->keep_details, enforced->keep_details);
  weaker = weaker || (enforced->max_message_bytes >= 0 &&
                      said->max_message_bytes > enforced->max_message_bytes);
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    weaker = weaker || differ(said->codes[code], enforced->codes[code]);
  }
  return weaker || differ(said->as, enforced->as) || differ(said->as, enforced->codes[4]) ||
         differ(said->codes[4], enforced->as);
}

/* Whether the enforced entry holds for everything that the name stands for. */
static bool covers(const struct entry *enforced, size_t name) {
  for (size_t i = 0; i < N_NAMES; i++) {
    const size_t size = strlen(prefixes[i]);
    if ((enforced->names >> i & 1) != 0 && strncmp(prefixes[i], prefixes[name], size) == 0) {
      return true;
    }
  }
  return false;
}

static bool entry_is_weaker(const struct entry *stated, const struct part *enforced) {
  bool weaker = stated->names != 0 && is_weaker(&stated->says, &enforced->says);
  for (size_t name = 0; name < N_NAMES; name++) {
    for (size_t i = 0; i < enforced->n_entries && (stated->names >> name & 1) != 0; i++) {
      weaker = weaker || (covers(&enforced->entries[i], name) &&
                          is_weaker(&stated->says, &enforced->entries[i].says));
    }
  }
  return weaker;
}

static bool part_is_weaker(const struct part *stated, const struct part *enforced) {
  bool weaker = is_weaker(&stated->says, &enforced->says);
  for (size_t i = 0; i < enforced->n_entries; i++) {
    weaker = weaker || (covers(&enforced->entries[i], 0) &&
                        is_weaker(&stated->says, &enforced->entries[i].says));
  }
  for (size_t i = 0; i < stated->n_entries; i++) {
    weaker = weaker || entry_is_weaker(&stated->entries[i], enforced);
  }
  return weaker;
}

/* ---- what is shown ---- */

struct shown {
  weir_interceptor *layer;
  const struct weir_translation_options *options;
  const struct weir_method_policy *method;
};

static const enum weir_origin origins[] = {
    WEIR_ORIGIN_PEER,           WEIR_ORIGIN_TRANSPORT_CONNECT, WEIR_ORIGIN_TRANSPORT_RESET,
    WEIR_ORIGIN_LOCAL_DEADLINE, WEIR_ORIGIN_LOCAL_CANCEL,      WEIR_ORIGIN_LOCAL_BREAKER,
    WEIR_ORIGIN_LOCAL_LIMIT,    WEIR_ORIGIN_LOCAL_SHUTDOWN};

/* The code that is enforced for a failure, or -1. */
static int enforced_code(const struct says *enforced, const struct weir_outcome *outcome) {
  if (outcome->origin == WEIR_ORIGIN_LOCAL_CANCEL ||
      outcome->origin == WEIR_ORIGIN_LOCAL_SHUTDOWN) {
    return -1; /* the application's own doing */
  }
  return outcome->code == GRPC_STATUS_DEADLINE_EXCEEDED && enforced->as >= 0
             ? enforced->as
             : enforced->codes[outcome->code];
}

static bool shows_enforced(const struct shown *shown, const struct says *enforced,
                           const struct weir_outcome *outcome, bool serving) {
  const struct weir_inbound_facts inbound = {.deadline_at_ns = 1};
  struct weir_plan plan = {
      .method = shown->method, .inbound = serving ? &inbound : NULL, .visible_code = outcome->code};
  shown->layer->vtable->present(shown->layer, outcome, &plan);
  const int code = enforced_code(enforced, outcome);
  return (plan.scrubbed || (enforced->boundary != 1 && !wants_boundary(enforced))) &&
         (code < 0 || plan.visible_code == (grpc_status_code)code);
}

static bool list_is_within(const char *const *list, size_t n, const char *const *words,
                           size_t n_words, int allowed) {
  for (size_t i = 0; i < n && allowed >= 0; i++) {
    bool found = false;
    for (size_t j = 0; j < n_words; j++) {
      found = found || ((allowed >> j & 1) != 0 && strcmp(list[i], words[j]) == 0);
    }
    if (!found) {
      return false;
    }
  }
  return true;
}

static bool passes_no_more(const struct shown *shown, const struct says *enforced) {
  const struct weir_translation_options *options = shown->options;
  bool holds = list_is_within(options->keep_details, options->n_keep_details, types, N_TYPES,
                              enforced->keep_details);
  for (size_t i = 0; i < N_KEYS && enforced->keep_metadata >= 0; i++) {
    holds = holds && ((enforced->keep_metadata >> i & 1) != 0 ||
                      !weir__translation_keeps(options, keys[i], strlen(keys[i])));
  }
  return holds &&
         (enforced->message_ref < 0 || options->message_ref == (enforced->message_ref == 1)) &&
         (enforced->max_message_bytes < 0 ||
          options->max_message_bytes <= (uint32_t)enforced->max_message_bytes);
}

static bool holds_for(weir_interceptor *layer, const struct weir_method_policy *method,
                      const struct says *enforced) {
  const struct shown shown = {.layer = layer, .options = method->translation, .method = method};
  bool holds = passes_no_more(&shown, enforced);
  for (int code = 1; code < WEIR_N_STATUS_CODES; code++) {
    for (size_t i = 0; i < sizeof origins / sizeof origins[0]; i++) {
      const struct weir_outcome outcome = {.code = (grpc_status_code)code,
                                           .origin = origins[i],
                                           .deadline_bound = WEIR_DEADLINE_BOUND_PARENT};
      holds = holds && shows_enforced(&shown, enforced, &outcome, false) &&
              shows_enforced(&shown, enforced, &outcome, true);
    }
  }
  return holds;
}

static bool policy_holds(weir_interceptor *layer, const weir_policy *policy,
                         const struct part *enforced) {
  bool holds = true;
  for (size_t m = 0; m < N_METHODS; m++) {
    const struct weir_method_policy *method =
        weir_policy_method(policy, methods[m], strlen(methods[m]));
    holds = holds && holds_for(layer, method, &enforced->says);
    for (size_t i = 0; i < enforced->n_entries; i++) {
      for (size_t name = 0; name < N_NAMES; name++) {
        if ((enforced->entries[i].names >> name & 1) != 0 &&
            strncmp(prefixes[name], methods[m], strlen(prefixes[name])) == 0) {
          holds = holds && holds_for(layer, method, &enforced->entries[i].says);
        }
      }
    }
  }
  return holds;
}

/* ---- the property ---- */

struct counts {
  size_t n_accepted;
  size_t n_refused;
  size_t n_contradictions;
};

static weir_policy *load(const struct document_writer *writer, bool lenient,
                         const struct weir_allocator *allocator) {
  struct weir_policy_load_options options = WEIR_POLICY_LOAD_OPTIONS_INIT;
  weir_policy *policy = NULL;
  options.lenient = lenient;
  const enum weir_error error =
      weir_policy_from_json(writer->text, writer->size, &options, allocator, &policy, NULL);
  assert_true((error == WEIR_OK) == (policy != NULL));
  return policy;
}

static void try_pair(weir_interceptor *layer, const struct pair *pair, struct counts *counts) {
  static struct document_writer over;
  static struct document_writer under;
  struct counting_allocator allocator;
  struct weir_diagnostic diagnostic = {.line = 0};
  weir_policy *both = NULL;
  counting_allocator_init(&allocator);
  write_organisation(&over, pair);
  write_channel(&under, pair);
  weir_policy *organisation = load(&over, false, &allocator.base);
  weir_policy *channel = load(&under, pair->lenient, &allocator.base);
  assert_non_null(channel);
  if (organisation == NULL) {
    counts->n_contradictions++;
  } else {
    const enum weir_error error =
        weir_policy_layer(organisation, channel, NULL, &allocator.base, &both, &diagnostic);
    const bool weaker = part_is_weaker(&pair->channel, &pair->enforced);
    if (part_is_weaker(&pair->plain, &pair->enforced) ||
        error != (weaker ? WEIR_ERROR_INVALID_POLICY : WEIR_OK) ||
        (weaker && (diagnostic.line == 0 || diagnostic.other_line == 0)) ||
        (both != NULL && !policy_holds(layer, both, &pair->enforced)) ||
        !policy_holds(layer, organisation, &pair->enforced)) {
      fail_msg("%s (%s: %s)\n%s\n%s", weir_error_name(error), diagnostic.path, diagnostic.message,
               over.text, under.text);
    }
    counts->n_accepted += weaker ? 0 : 1;
    counts->n_refused += weaker ? 1 : 0;
  }
  weir_policy_unref(both);
  weir_policy_unref(organisation);
  weir_policy_unref(channel);
  assert_int_equal(allocator.n_outstanding, 0);
}

static void an_enforced_translation_is_never_weakened(void **state) {
  (void)state;
  struct seeded_random random;
  struct counts counts = {.n_accepted = 0};
  weir_interceptor *layer = NULL;
  assert_int_equal(weir__translation_layer_new(NULL, &layer), WEIR_OK);
  seeded_random_init(&random, 6);
  for (size_t i = 0; i < N_PAIRS; i++) {
    const struct pair pair = make_pair(&random);
    try_pair(layer, &pair, &counts);
  }
  layer->vtable->destroy(layer);
  print_message("%zu accepted, %zu refused, %zu contradict themselves\n", counts.n_accepted,
                counts.n_refused, counts.n_contradictions);
  assert_true(counts.n_accepted > N_PAIRS / 10);
  assert_true(counts.n_refused > N_PAIRS / 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_enforced_translation_is_never_weakened),
  };
  return cmocka_run_group_tests_name("layer_translation_property", tests, NULL, NULL);
}
