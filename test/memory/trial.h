/* trial – one run of a scenario in which one allocation, or all from one on, fails.
 *
 * A scenario makes what it needs, and between trial_begin and trial_end calls the function that it is
 * about. Whatever failed, it then checks that nothing is half done, uses what there is, or makes it
 * again, with memory, and gives everything back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_MEMORY_TRIAL_H
#define WEIR_TEST_MEMORY_TRIAL_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/error.h>

struct trial {
  size_t nth;
  bool for_good;
  size_t n_asked; /* once it has ended */
  size_t n_refused;
};

void trial_begin(struct trial *trial);
void trial_end(struct trial *trial);

/* Fails unless a constructor has made its object, or has said that there was no memory and made
 * none, because there was none. */
void trial_check_made(const struct trial *trial, enum weir_error error, const void *object);

/* The same of one that tells it by NULL. */
void trial_check_not_null(const struct trial *trial, const void *object);

/* Fails unless it is WEIR_OK, or WEIR_ERROR_NO_MEMORY because there was none. */
void trial_check_error(const struct trial *trial, enum weir_error error);

typedef void trial_scenario_fn(struct trial *trial);

enum trial_memory {
  TAKES_NOTHING = 0, /* the scenario asks for no memory, whatever happens */
  TAKES_MEMORY
};

/* A public function, and a scenario that it is part of. */
struct trial_row {
  const char *function;
  enum trial_memory memory;
  trial_scenario_fn *scenario;
};

/* The end of an array of them. */
#define TRIAL_ROWS_END \
  { NULL, TAKES_NOTHING, NULL }

extern const struct trial_row call_rows[];
extern const struct trial_row channel_rows[];
extern const struct trial_row decide_rows[];
extern const struct trial_row inbound_rows[];
extern const struct trial_row log_rows[];
extern const struct trial_row name_rows[];
extern const struct trial_row policy_rows[];
extern const struct trial_row queue_rows[];
extern const struct trial_row unary_rows[];
extern const struct trial_row watch_rows[];

#endif /* WEIR_TEST_MEMORY_TRIAL_H */
