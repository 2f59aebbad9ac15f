/* SPDX-License-Identifier: Apache-2.0 */
#include "test/memory/trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/memory/memory_fault.h"

void trial_begin(struct trial *trial) {
  memory_fault_begin(trial->nth, trial->for_good);
}

void trial_end(struct trial *trial) {
  memory_fault_end();
  trial->n_asked += memory_fault_n_asked();
  trial->n_refused += memory_fault_n_refused();
}

void trial_check_error(const struct trial *trial, enum weir_error error) {
  if (error != WEIR_OK) {
    assert_int_equal(error, WEIR_ERROR_NO_MEMORY);
    assert_true(trial->n_refused > 0);
  }
}

void trial_check_made(const struct trial *trial, enum weir_error error, const void *object) {
  trial_check_error(trial, error);
  assert_int_equal(error == WEIR_OK, object != NULL);
}

void trial_check_not_null(const struct trial *trial, const void *object) {
  assert_true(object != NULL || trial->n_refused > 0);
}
