/* policies – documents that the channels of a soak change between while calls are made.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_POLICIES_H
#define WEIR_TEST_SOAK_POLICIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/policy.h>

/* What a document says that is checked. */
struct policy_facts {
  const char *document;
  uint32_t max_attempts;
  bool boundary;
};

/* The first one of each list is in force in quiet moments. */
#define POLICIES_CLIENT 6
#define POLICIES_A 4
extern const struct policy_facts client_policies[POLICIES_CLIENT];
extern const struct policy_facts a_policies[POLICIES_A];

/* The most that any of them allows. */
#define POLICIES_MAX_ATTEMPTS 5

/* In the text of each failure of B's: it must not get through a boundary. */
#define POLICIES_SECRET "table users at 10.0.0.7"

/* Ended by weir_policy_unref; aborts if it can't be read. */
weir_policy *policy_load(const struct policy_facts *facts);

#endif /* WEIR_TEST_SOAK_POLICIES_H */
