/* Every public function, where memory runs out at each of its allocations.
 *
 * The functions are those that the headers declare: one that is new has to be in the rows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>

#include <grpc/grpc.h>

#include <weir/throttle.h>

#include "test/memory/memory_fault.h"
#include "test/memory/trial.h"

/* More than any of them asks for. */
#define MOST_ALLOCATIONS 5000

#define FUNCTION_BYTES 80

static const struct trial_row *const all_rows[] = {
    call_rows, channel_rows, decide_rows, inbound_rows, log_rows,
    name_rows, policy_rows,  queue_rows,  unary_rows,   watch_rows,
};

#define N_ALL_ROWS (sizeof all_rows / sizeof all_rows[0])

static char **headers;
static int n_headers;

/* --- the rows are complete --- */

static bool has_row(const char *function) {
  for (size_t i = 0; i < N_ALL_ROWS; i++) {
    for (const struct trial_row *row = all_rows[i]; row->function != NULL; row++) {
      if (strcmp(row->function, function) == 0) {
        return true;
      }
    }
  }
  return false;
}

/* The next function that is declared behind WEIR_API in a header's text; NULL = none. */
static const char *next_function(const char *text, char function_out[FUNCTION_BYTES]) {
  const char *at = strstr(text, "WEIR_API ");
  while (at != NULL && strncmp(at, "weir_", 5) != 0) {
    at++;
    const size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz_0123456789");
    at += strncmp(at, "weir_", 5) == 0 && at[length] == '(' ? 0 : length;
    if (*at == ';' || *at == '\0') {
      return NULL;
    }
  }
  if (at == NULL) {
    return NULL;
  }
  const size_t length = strcspn(at, "(");
  assert_true(length < FUNCTION_BYTES);
  memcpy(function_out, at, length);
  function_out[length] = '\0';
  return at + length;
}

static size_t check_header(const char *path) {
  static char text[256 * 1024];
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  (void)fclose(file);
  size_t n_functions = 0;
  char function[FUNCTION_BYTES];
  for (const char *at = next_function(text, function); at != NULL;
       at = next_function(at, function)) {
    n_functions++;
    if (!has_row(function)) {
      fail_msg("%s has no row: what does it do without memory?", function);
    }
  }
  return n_functions;
}

static void every_public_function_has_a_row(void **state) {
  (void)state;
  size_t n_functions = 0;
  for (int i = 0; i < n_headers; i++) {
    n_functions += check_header(headers[i]);
  }
  assert_true(n_functions > 100);
}

/* --- the rows hold --- */

/* What runs, for whoever reads of a failure. */
static struct {
  const char *function;
  size_t nth;
  bool for_good;
} running;

static int tell_what_ran(void **state) {
  (void)state;
  if (running.function != NULL) {
    print_message("%s, %s %zu\n", running.function, running.for_good ? "from" : "at", running.nth);
  }
  running.function = NULL;
  return 0;
}

static struct trial run_trial(const struct trial_row *row, size_t nth, bool for_good) {
  running.function = row->function;
  running.nth = nth;
  running.for_good = for_good;
  struct trial trial = {.nth = nth, .for_good = for_good};
  const size_t n_before = memory_fault_n_outstanding();
  row->scenario(&trial);
  weir_throttle_forget(); /* the levels that are kept on purpose */
  if (memory_fault_n_outstanding() != n_before) {
    fail_msg("%zd are left", (ssize_t)(memory_fault_n_outstanding() - n_before));
  }
  return trial;
}

static void run_row(const struct trial_row *row, bool for_good) {
  size_t nth = 1;
  while (run_trial(row, nth, for_good).n_refused > 0) {
    nth++;
    assert_true(nth < MOST_ALLOCATIONS);
  }
  if ((nth > 1) != (row->memory == TAKES_MEMORY)) {
    fail_msg("it takes memory %zu times", nth - 1);
  }
}

static void run_rows(bool for_good) {
  for (size_t i = 0; i < N_ALL_ROWS; i++) {
    const struct trial_row *before = NULL;
    for (const struct trial_row *row = all_rows[i]; row->function != NULL; row++) {
      if (before == NULL || before->scenario != row->scenario) {
        run_row(row, for_good);
      }
      before = row;
    }
  }
  running.function = NULL;
}

static void without_one_piece_of_memory_each_is_whole_or_not_at_all(void **state) {
  (void)state;
  run_rows(false);
}

static void without_any_more_memory_each_is_whole_or_not_at_all(void **state) {
  (void)state;
  run_rows(true);
}

static int start_core(void **state) {
  (void)state;
  grpc_init();
  return 0;
}

static int stop_core(void **state) {
  (void)state;
  grpc_shutdown_blocking();
  return 0;
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_public_function_has_a_row),
      cmocka_unit_test_teardown(without_one_piece_of_memory_each_is_whole_or_not_at_all,
                                tell_what_ran),
      cmocka_unit_test_teardown(without_any_more_memory_each_is_whole_or_not_at_all, tell_what_ran),
  };
  headers = argv + 1;
  n_headers = argc - 1;
  return cmocka_run_group_tests_name("every function", tests, start_core, stop_core);
}
