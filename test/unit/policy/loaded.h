/* loaded – a policy document that has been loaded, with all that was told about it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_UNIT_POLICY_LOADED_H
#define WEIR_TEST_UNIT_POLICY_LOADED_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/policy.h>

#include "test/support/counting_allocator.h"

#define LOADED_TOLD_MAX 64

struct told {
  enum weir_policy_severity severity;
  struct weir_diagnostic problem;
};

struct loaded {
  struct counting_allocator allocator;
  enum weir_error error;
  weir_policy *policy;
  struct weir_diagnostic diagnostic;
  size_t n_refused;
  size_t n_warnings;
  size_t n_told; /* of `told` */
  struct told told[LOADED_TOLD_MAX];
};

enum load_mode { LOAD_STRICT = 0, LOAD_LENIENT };

/* Ends with loaded_fini. */
void loaded_from_bytes(struct loaded *loaded, const char *text, size_t size, enum load_mode mode);
void loaded_from_text(struct loaded *loaded, const char *text, enum load_mode mode);

/* A file of testdata/. */
void loaded_from_file(struct loaded *loaded, const char *name, enum load_mode mode);

/* Gives the policy back, and fails the test if memory is still out. */
void loaded_fini(struct loaded *loaded);

/* The first problem or warning at a place, or NULL. */
const struct told *loaded_told(const struct loaded *loaded, const char *path);

const struct weir_method_policy *loaded_method(const struct loaded *loaded, const char *path);

/* Writes all that was told to standard error. */
void loaded_print(const struct loaded *loaded);

#endif /* WEIR_TEST_UNIT_POLICY_LOADED_H */
