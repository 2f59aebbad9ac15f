/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/captured.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include <weir/weir.h>

void capture_begin(struct captured *captured) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  (void)fflush(stderr);
  captured->reads = ends[0];
  captured->saved = dup(STDERR_FILENO);
  assert_true(captured->saved >= 0);
  assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
  (void)close(ends[1]);
}

void capture_end(struct captured *captured) {
  (void)fflush(stderr);
  assert_true(dup2(captured->saved, STDERR_FILENO) >= 0); /* the pipe's other end is closed by it */
  (void)close(captured->saved);
  captured->size = 0;
  ssize_t n = 0;
  do {
    captured->size += (size_t)n;
    n = read(captured->reads, captured->text + captured->size, CAPTURED_SIZE - captured->size);
  } while (n > 0);
  assert_int_equal(n, 0);
  captured->text[captured->size] = '\0';
  (void)close(captured->reads);
}

/* By the strict reader of policies, which takes any object when it is told to overlook unknown
 * keys. */
bool captured_is_json(const struct captured *captured) {
  struct weir_policy_load_options lenient = WEIR_POLICY_LOAD_OPTIONS_INIT;
  weir_policy *policy = NULL;
  lenient.lenient = true;
  enum weir_error error =
      weir_policy_from_json(captured->text, captured->size, &lenient, NULL, &policy, NULL);
  weir_policy_unref(policy);
  return error == WEIR_OK;
}
