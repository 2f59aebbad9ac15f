/* The loader, given any bytes: it says the same each time, forgives no more than unknown keys, and
 * leaks nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <weir/policy.h>

#include "src/policy/policy.h"
#include "test/fuzz/fuzz_target.h"
#include "test/support/counting_allocator.h"

/* What a load came to; problems are hashed in their order. */
struct verdict {
  const char *text;
  size_t size;
  enum weir_error error;
  uint64_t told;
  size_t n_refused;
};

static void require(bool holds) {
  if (!holds) {
    abort();
  }
}

/* Every problem of a document has a place in it: there are so many lines, and the line has so many
 * characters, but for one more at its end. */
static void require_place(const struct verdict *verdict, const struct weir_diagnostic *problem) {
  uint32_t line = 1;
  uint32_t n_characters = 0;
  require(problem->line >= 1 && problem->column >= 1);
  for (size_t i = 0; i < verdict->size && line <= problem->line; i++) {
    const unsigned char c = (unsigned char)verdict->text[i];
    n_characters += line == problem->line && c != '\n' && (c < 0x80 || c >= 0xc0) ? 1 : 0;
    line += c == '\n' ? 1 : 0;
  }
  require(problem->line <= line);
  require(problem->column <= n_characters + 1);
}

static void on_problem(void *context, enum weir_policy_severity severity,
                       const struct weir_diagnostic *problem) {
  struct verdict *verdict = context;
  verdict->n_refused += severity == WEIR_POLICY_REFUSED ? 1 : 0;
  const unsigned char *bytes = (const unsigned char *)problem;
  require(memchr(problem->path, '\0', sizeof problem->path) != NULL);
  require(memchr(problem->message, '\0', sizeof problem->message) != NULL);
  require(problem->message[0] != '\0' && strchr(problem->message, '\n') == NULL);
  require_place(verdict, problem);
  for (size_t i = 0; i < sizeof *problem; i++) {
    verdict->told = (verdict->told ^ bytes[i]) * UINT64_C(0x100000001b3);
  }
}

/* OK is on neither side, and nothing is out of range. */
static void require_translation(const struct weir_translation_options *translation) {
  require(translation->codes[0] == WEIR_TRANSLATION_DEFAULT);
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    require(translation->codes[code] != 0 && translation->codes[code] < WEIR_N_STATUS_CODES);
  }
  require(translation->deadline_exceeded_as != 0);
  require(translation->max_message_bytes >= 64 && translation->max_message_bytes <= 8192);
  for (size_t i = 0; i < translation->n_keep_metadata; i++) {
    require(translation->keep_metadata[i][0] != '\0');
  }
  for (size_t i = 0; i < translation->n_keep_details; i++) {
    require(strchr(translation->keep_details[i], '.') != NULL);
  }
}

static void look_up(const weir_policy *policy) {
  static const char *const paths[] = {"/a.B/C", "/shop.Cart/Pay", "", "/", "//", "no slash"};
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    const struct weir_method_policy *method =
        weir_policy_method(policy, paths[i], strlen(paths[i]));
    require(method != NULL && method->timeout_ns >= 0);
    require(method->retry.max_attempts >= 1 && method->retry.max_attempts <= WEIR_MAX_ATTEMPTS);
    require((method->retry.retryable_codes & 1) == 0);
    require_translation(method->translation);
  }
}

static struct verdict load(const char *text, size_t size, bool lenient, size_t n_allowed) {
  struct verdict verdict = {.text = text, .size = size, .told = 0};
  struct counting_allocator allocator;
  struct weir_policy_load_options options = WEIR_POLICY_LOAD_OPTIONS_INIT;
  weir_policy *policy = NULL;
  counting_allocator_init(&allocator);
  allocator.n_allowed = n_allowed;
  options.lenient = lenient;
  options.on_problem = on_problem;
  options.context = &verdict;
  verdict.error = weir_policy_from_json(text, size, &options, &allocator.base, &policy, NULL);
  require((verdict.error == WEIR_OK) == (policy != NULL));
  require(verdict.error != WEIR_OK || verdict.n_refused == 0);
  require(verdict.error != WEIR_ERROR_INVALID_POLICY || verdict.n_refused > 0);
  if (policy != NULL) {
    look_up(policy);
  }
  weir_policy_unref(policy);
  require(allocator.n_outstanding == 0);
  return verdict;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *text = (const char *)data;
  const struct verdict strict = load(text, size, false, SIZE_MAX);
  const struct verdict again = load(text, size, false, SIZE_MAX);
  const struct verdict lenient = load(text, size, true, SIZE_MAX);
  require(strict.error == again.error && strict.told == again.told);
  require(strict.error != WEIR_OK || lenient.error == WEIR_OK);
  require(lenient.n_refused <= strict.n_refused);
  (void)load(text, size, false, size % 16);
  return 0;
}
