/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/policy/loaded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void on_problem(void *context, enum weir_policy_severity severity,
                       const struct weir_diagnostic *problem) {
  struct loaded *loaded = context;
  loaded->n_refused += severity == WEIR_POLICY_REFUSED ? 1 : 0;
  loaded->n_warnings += severity == WEIR_POLICY_WARNING ? 1 : 0;
  if (loaded->n_told < LOADED_TOLD_MAX) {
    loaded->told[loaded->n_told++] = (struct told){.severity = severity, .problem = *problem};
  }
}

static struct weir_policy_load_options begin(struct loaded *loaded, enum load_mode mode) {
  struct weir_policy_load_options options = WEIR_POLICY_LOAD_OPTIONS_INIT;
  memset(loaded, 0, sizeof *loaded);
  counting_allocator_init(&loaded->allocator);
  options.lenient = mode == LOAD_LENIENT;
  options.on_problem = on_problem;
  options.context = loaded;
  return options;
}

void loaded_from_bytes(struct loaded *loaded, const char *text, size_t size, enum load_mode mode) {
  const struct weir_policy_load_options options = begin(loaded, mode);
  loaded->error = weir_policy_from_json(text, size, &options, &loaded->allocator.base,
                                        &loaded->policy, &loaded->diagnostic);
}

void loaded_from_text(struct loaded *loaded, const char *text, enum load_mode mode) {
  loaded_from_bytes(loaded, text, strlen(text), mode);
}

void loaded_from_file(struct loaded *loaded, const char *name, enum load_mode mode) {
  char path[128];
  const struct weir_policy_load_options options = begin(loaded, mode);
  snprintf(path, sizeof path, "test/unit/policy/testdata/%s", name);
  loaded->error = weir_policy_from_file(path, &options, &loaded->allocator.base, &loaded->policy,
                                        &loaded->diagnostic);
}

void loaded_fini(struct loaded *loaded) {
  weir_policy_unref(loaded->policy);
  assert_int_equal(loaded->allocator.n_outstanding, 0);
}

const struct told *loaded_told(const struct loaded *loaded, const char *path) {
  for (size_t i = 0; i < loaded->n_told; i++) {
    if (strcmp(loaded->told[i].problem.path, path) == 0) {
      return &loaded->told[i];
    }
  }
  return NULL;
}

const struct weir_method_policy *loaded_method(const struct loaded *loaded, const char *path) {
  return weir_policy_method(loaded->policy, path, strlen(path));
}

void loaded_print(const struct loaded *loaded) {
  for (size_t i = 0; i < loaded->n_told; i++) {
    const struct weir_diagnostic *problem = &loaded->told[i].problem;
    fprintf(stderr, "  %s [%s] %s (%u:%u)\n",
            loaded->told[i].severity == WEIR_POLICY_REFUSED ? "refused" : "warning", problem->path,
            problem->message, (unsigned)problem->line, (unsigned)problem->column);
  }
}
