/* weirctl's verbs, given documents of any bytes: they say the same twice, what they say is readable, and
 * their verdict is the loader's.
 *
 * The input is up to three documents between bytes 0x1e (the record separator): a policy, another
 * one, the organisation's. Which verb, and with which options, is chosen by all of its bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include <weir/policy.h>

#include "cmd/weirctl/arguments.h"
#include "cmd/weirctl/memory.h"
#include "cmd/weirctl/output.h"
#include "cmd/weirctl/verb.h"
#include "test/fuzz/fuzz_target.h"

#define SEPARATOR 0x1e
#define N_DOCUMENTS 3
#define MAX_WORDS 16
#define PATH_BYTES 64

enum document { POLICY, OTHER, ORGANISATION };

struct input {
  const char *text[N_DOCUMENTS];
  size_t size[N_DOCUMENTS];
  size_t n_documents;
};

/* What a verb was told, and what it said. */
struct result {
  enum verdict verdict;
  char *text;
  size_t size;
};

static void require(bool holds) {
  if (!holds) {
    abort();
  }
}

/* --- files: the same three, written anew --- */

static int files[N_DOCUMENTS];
static char paths[N_DOCUMENTS][PATH_BYTES];

static void open_files(void) {
  for (size_t i = 0; i < N_DOCUMENTS; i++) {
    char name[] = "/tmp/weirctl-fuzz-XXXXXX";
    files[i] = mkstemp(name);
    require(files[i] >= 0);
    (void)unlink(name);
    (void)snprintf(paths[i], sizeof paths[i], "/proc/self/fd/%d", files[i]);
  }
}

static void write_files(const struct input *input) {
  for (size_t i = 0; i < input->n_documents; i++) {
    require(ftruncate(files[i], 0) == 0);
    require(pwrite(files[i], input->text[i], input->size[i], 0) == (ssize_t)input->size[i]);
  }
}

static void split(struct input *input, const char *text, size_t size) {
  memset(input, 0, sizeof *input);
  for (bool more = true; more && input->n_documents < N_DOCUMENTS; input->n_documents++) {
    const char *separator = size > 0 ? memchr(text, SEPARATOR, size) : NULL;
    more = separator != NULL && input->n_documents + 1 < N_DOCUMENTS;
    const size_t length = more ? (size_t)(separator - text) : size;
    input->text[input->n_documents] = text;
    input->size[input->n_documents] = length;
    text += more ? length + 1 : length;
    size -= more ? length + 1 : length;
  }
}

/* --- a verb --- */

static struct result run(const struct verb *verb, const char *const *words, size_t n_words) {
  struct arguments arguments;
  struct output output;
  struct result result = {.text = NULL};
  char *copies[MAX_WORDS + 1] = {NULL};
  require(n_words <= MAX_WORDS);
  for (size_t i = 0; i < n_words; i++) {
    copies[i] = strdup(words[i]);
    require(copies[i] != NULL);
  }
  char *given[MAX_WORDS + 1]; /* whose order changes */
  memcpy(given, copies, sizeof given);
  FILE *file = open_memstream(&result.text, &result.size);
  require(file != NULL);
  require(arguments_parse(&arguments, verb->options, verb->n_options, given));
  output_init(&output, file, &arguments);
  result.verdict = verb->run(&arguments, &output);
  require(fclose(file) == 0);
  for (size_t i = 0; i < n_words; i++) {
    free(copies[i]);
  }
  return result;
}

/* Nothing that moves a cursor, and UTF-8. */
static void check_text(const struct result *result) {
  for (size_t i = 0; i < result->size; i++) {
    const unsigned char byte = (unsigned char)result->text[i];
    require(byte == '\n' || (byte >= ' ' && byte != 0x7f));
  }
  json_t *string = json_stringn(result->text, result->size);
  require(string != NULL);
  json_decref(string);
}

static void check_json(const struct result *result, bool tells_change, bool changed) {
  json_t *document = json_loadb(result->text, result->size, JSON_REJECT_DUPLICATES, NULL);
  require(document != NULL);
  if (tells_change) {
    require(json_is_true(json_object_get(document, "changed")) == changed);
  }
  json_decref(document);
}

/* --- the loader --- */

static weir_policy *load(const char *text, size_t size, bool lenient) {
  struct weir_policy_load_options options = WEIR_POLICY_LOAD_OPTIONS_INIT;
  weir_policy *policy = NULL;
  options.lenient = lenient;
  const enum weir_error error = weir_policy_from_json(text, size, &options, NULL, &policy, NULL);
  require((error == WEIR_OK) == (policy != NULL));
  return policy;
}

/* Whether it is accepted, by itself or under the organisation's. */
static bool is_accepted(const struct input *input, enum document which, bool lenient) {
  weir_policy *policy = load(input->text[which], input->size[which], lenient);
  bool accepted = policy != NULL;
  if (accepted && input->n_documents > ORGANISATION) {
    weir_policy *organisation = load(input->text[ORGANISATION], input->size[ORGANISATION], lenient);
    weir_policy *both = NULL;
    accepted = organisation != NULL &&
               weir_policy_layer(organisation, policy, NULL, NULL, &both, NULL) == WEIR_OK;
    weir_policy_unref(both);
    weir_policy_unref(organisation);
  }
  weir_policy_unref(policy);
  return accepted;
}

/* --- the whole --- */

struct words {
  const char *list[MAX_WORDS];
  size_t n;
};

static void add(struct words *words, const char *word) {
  words->list[words->n++] = word;
}

static void add_options(struct words *words, const struct input *input, uint64_t chance) {
  if ((chance & 1) != 0) {
    add(words, "--json");
  }
  if ((chance & 2) != 0) {
    add(words, "--lenient");
  }
  if (input->n_documents > ORGANISATION) {
    add(words, "--org");
    add(words, paths[ORGANISATION]);
  }
  add(words, "--color=never");
}

static void add_supposed(struct words *words, uint64_t chance) {
  static const char *const supposed[][3] = {
      {NULL},
      {"--code=UNAVAILABLE", "--attempt=1", NULL},
      {"--code=14", "--pushback=100", "--stream"},
      {"--code=DEADLINE_EXCEEDED", "--origin=LOCAL_DEADLINE", "--inbound"},
      {"--code=INVALID_ARGUMENT", "--retried", NULL},
  };
  const char *const *chosen = supposed[chance % (sizeof supposed / sizeof supposed[0])];
  for (size_t i = 0; i < 3 && chosen[i] != NULL; i++) {
    add(words, chosen[i]);
  }
}

static void check_verb(const struct input *input, uint64_t chance) {
  static const struct verb *const verbs[] = {&verb_check, &verb_explain, &verb_diff};
  static const char *const methods[] = {"/a.B/C", "/shop.Cart/Pay", "a.B/C", "/shop.Cart/"};
  const struct verb *verb = verbs[(chance >> 8) % 3];
  const bool is_diff = verb == &verb_diff;
  const bool has_other = input->n_documents > OTHER;
  struct words words = {.n = 0};
  add_options(&words, input, chance);
  add(&words, paths[POLICY]);
  if (is_diff) {
    add(&words, paths[has_other ? OTHER : POLICY]);
  } else if (verb == &verb_explain) {
    add(&words, methods[(chance >> 16) % 3]);
    add_supposed(&words, chance >> 24);
  }
  struct result first = run(verb, words.list, words.n);
  const struct result again = run(verb, words.list, words.n);
  require(first.verdict == again.verdict && first.size == again.size &&
          memcmp(first.text, again.text, first.size) == 0);
  const bool lenient = (chance & 2) != 0;
  const bool accepted = is_accepted(input, POLICY, lenient) &&
                        (!is_diff || !has_other || is_accepted(input, OTHER, lenient));
  if (first.verdict != VERDICT_FAILED) { /* what is supposed may not be possible */
    require((first.verdict == VERDICT_ACCEPTED) == accepted);
  } else {
    require(verb == &verb_explain);
  }
  if ((chance & 1) == 0) {
    check_text(&first);
  } else if (first.verdict != VERDICT_FAILED) {
    check_json(&first, is_diff && accepted && !has_other, false);
  }
  free(again.text);
  free(first.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static bool prepared;
  struct input input;
  uint64_t chance = UINT64_C(0xcbf29ce484222325);
  if (!prepared) {
    memory_init();
    open_files();
    prepared = true;
  }
  for (size_t i = 0; i < size; i++) {
    chance = (chance ^ data[i]) * UINT64_C(0x100000001b3);
  }
  split(&input, (const char *)data, size);
  write_files(&input);
  check_verb(&input, chance ^ chance >> 32);
  return 0;
}
