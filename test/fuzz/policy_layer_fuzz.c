/* Two documents, given any bytes: laying one over the other says the same each time, makes nothing
 * that is out of range, and leaks nothing.
 *
 * The input is the organisation's document, a byte 0x1e (the record separator), and the channel's.
 * Without one the channel says nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <weir/policy.h>

#include "test/fuzz/fuzz_target.h"
#include "test/support/counting_allocator.h"

#define SEPARATOR 0x1e

/* What a laying came to; problems are hashed in their order. */
struct verdict {
  enum weir_error error;
  uint64_t told;
  size_t n_refused;
};

static void require(bool holds) {
  if (!holds) {
    abort();
  }
}

static void on_problem(void *context, enum weir_policy_severity severity,
                       const struct weir_diagnostic *problem) {
  struct verdict *verdict = context;
  verdict->n_refused += severity == WEIR_POLICY_REFUSED ? 1 : 0;
  const unsigned char *bytes = (const unsigned char *)problem;
  require(memchr(problem->path, '\0', sizeof problem->path) != NULL);
  require(memchr(problem->other_path, '\0', sizeof problem->other_path) != NULL);
  require(memchr(problem->message, '\0', sizeof problem->message) != NULL);
  require(problem->message[0] != '\0' && strchr(problem->message, '\n') == NULL);
  for (size_t i = 0; i < sizeof *problem; i++) {
    verdict->told = (verdict->told ^ bytes[i]) * UINT64_C(0x100000001b3);
  }
}

static weir_policy *load(const char *text, size_t size, const struct weir_allocator *allocator) {
  weir_policy *policy = NULL;
  const enum weir_error error = weir_policy_from_json(text, size, NULL, allocator, &policy, NULL);
  require((error == WEIR_OK) == (policy != NULL));
  return policy;
}

static void look_up(const weir_policy *both) {
  static const char *const paths[] = {"/a.B/C", "/shop.Cart/Pay", ""};
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    const struct weir_method_policy *method = weir_policy_method(both, paths[i], strlen(paths[i]));
    require(method != NULL && method->timeout_ns >= 0);
    require(method->retry.max_attempts >= 1 && method->retry.max_attempts <= WEIR_MAX_ATTEMPTS);
    require((method->retry.retryable_codes & 1) == 0);
    require(method->translation->max_message_bytes >= 64);
  }
}

static struct verdict lay(const weir_policy *organisation, const weir_policy *channel,
                          size_t n_allowed) {
  struct verdict verdict = {.told = 0};
  struct counting_allocator allocator;
  struct weir_policy_load_options options = WEIR_POLICY_LOAD_OPTIONS_INIT;
  weir_policy *both = NULL;
  counting_allocator_init(&allocator);
  allocator.n_allowed = n_allowed;
  options.on_problem = on_problem;
  options.context = &verdict;
  verdict.error = weir_policy_layer(organisation, channel, &options, &allocator.base, &both, NULL);
  require((verdict.error == WEIR_OK) == (both != NULL));
  require(verdict.error != WEIR_OK || verdict.n_refused == 0);
  require(verdict.error != WEIR_ERROR_INVALID_POLICY || verdict.n_refused > 0);
  if (both != NULL) {
    look_up(both);
  }
  weir_policy_unref(both);
  return verdict;
}

static void lay_both(const weir_policy *organisation, const weir_policy *channel, size_t size) {
  const struct verdict first = lay(organisation, channel, SIZE_MAX);
  const struct verdict again = lay(organisation, channel, SIZE_MAX);
  require(first.error == again.error && first.told == again.told);
  require(first.error != WEIR_ERROR_NO_MEMORY);
  /* An organisation's document that was accepted is so over a channel that says nothing. */
  require(lay(organisation, NULL, SIZE_MAX).error == WEIR_OK);
  (void)lay(organisation, channel, size % 32);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *text = (const char *)data;
  struct counting_allocator allocator;
  counting_allocator_init(&allocator);
  const char *separator = size > 0 ? memchr(text, SEPARATOR, size) : NULL;
  const size_t over_size = separator != NULL ? (size_t)(separator - text) : size;
  weir_policy *organisation = load(text, over_size, &allocator.base);
  weir_policy *channel = NULL;
  if (separator != NULL) {
    channel = load(separator + 1, size - over_size - 1, &allocator.base);
  }
  if (organisation != NULL) {
    lay_both(organisation, channel, size);
  }
  weir_policy_unref(organisation);
  weir_policy_unref(channel);
  require(allocator.n_outstanding == 0);
  return 0;
}
