/* The comments of policy.proto, which doc/policy.md shows, and what the loader does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/policy/loaded.h"

enum verdict { NONE = 0, ACCEPTED, REFUSED };

/* A document at the end of a field's range, or just beyond. */
struct trial {
  enum verdict verdict;
  const char *document;
};

struct pair {
  const char *with;
  const char *without;
};

/* What a field's comment says. */
struct fact {
  const char *message;
  const char *field;
  bool has_default;     /* one that JSON has; else it is a word, or the field is required */
  const char *stricter; /* NULL: it is an object */
  bool ceiling;
  bool warned_of;
  const char *order[4]; /* of the values of an enum, the strictest first */
  /* documents that state the default, and that don't: a pair for each place of the message */
  struct pair defaults[4];
  struct trial trials[24];
};

static const struct fact facts[] = {
#include "doc/policy/policy_facts.inc"
};

#define N_FACTS (sizeof facts / sizeof facts[0])

static void try_document(const struct fact *fact, const struct trial *trial) {
  struct loaded loaded;
  loaded_from_text(&loaded, trial->document, LOAD_STRICT);
  const enum verdict verdict = loaded.error == WEIR_OK ? ACCEPTED : REFUSED;
  if (verdict != trial->verdict || (loaded.n_warnings > 0 && !fact->warned_of)) {
    loaded_print(&loaded);
    fail_msg("%s.%s: %s, and its comment says other\n%s", fact->message, fact->field,
             verdict == ACCEPTED ? "accepted" : "refused", trial->document);
  }
  loaded_fini(&loaded);
}

/* And warns of nothing that is not said to be warned of. */
static void the_loader_takes_a_range_to_its_ends_and_no_further(void **state) {
  (void)state;
  size_t n_trials = 0;
  for (size_t i = 0; i < N_FACTS; i++) {
    for (const struct trial *trial = facts[i].trials; trial->document != NULL; trial++) {
      try_document(&facts[i], trial);
      n_trials++;
    }
  }
  assert_true(n_trials > 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_loader_takes_a_range_to_its_ends_and_no_further),
  };
  return cmocka_run_group_tests_name("policy facts", tests, NULL, NULL);
}
