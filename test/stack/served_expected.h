/* served_expected – what has to come of a request, worked out from the documents, and not from the
 * code.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_STACK_SERVED_EXPECTED_H
#define WEIR_TEST_STACK_SERVED_EXPECTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test/stack/served_plan.h"

#define EXPECTED_TRACES 8
#define EXPECTED_ENTRIES 24

struct expected_entry {
  const char *key; /* terminated */
  const char *value;
  size_t value_size;
};

struct served_expected {
  bool are_keys_legal;

  /* The nearest deadline of the request, as two instants that it lies between. */
  int64_t earliest_at_ns;
  int64_t latest_at_ns;

  bool is_marked;
  char owner[64];
  struct expected_entry traces[EXPECTED_TRACES];
  size_t n_traces;
};

/* Of a request that was read between two instants. */
void served_expect(const struct served_plan *plan, int64_t before_ns, int64_t after_ns,
                   struct served_expected *out);

/* What one attempt has to carry. */
struct expected_metadata {
  struct expected_entry entries[EXPECTED_ENTRIES];
  size_t n_entries;
  size_t n_overridden; /* values of a trace that the service's own stand for */
  char budget[24];
  char previous[24];
};

/* `budget_us` negative = none. */
void served_expect_metadata(const struct served_plan *plan, const struct served_expected *expected,
                            const struct fixture *f, int64_t budget_us, size_t n_previous,
                            struct expected_metadata *out);

/* Whether the service may retry the call. */
bool served_expect_retries(const struct served_plan *plan, const struct served_expected *expected,
                           const struct fixture *f);

#endif /* WEIR_TEST_STACK_SERVED_EXPECTED_H */
