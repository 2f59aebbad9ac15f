/* results – the demo's tables: rows of what was measured, and whether it is what was to be
 * expected.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_EXAMPLES_DEMO_RESULTS_H
#define WEIR_EXAMPLES_DEMO_RESULTS_H

#include <stdbool.h>
#include <stdio.h>

#include <jansson.h>

struct results {
  json_t *document; /* table's name -> array of rows */
  unsigned n_rows;
  unsigned n_wrong;
};

void results_init(struct results *results);
void results_fini(struct results *results);

/* Adds a row, taken over, to a table. One that is not as expected is told on standard error, with
 * what was expected. */
void results_add(struct results *results, const char *table, json_t *row, bool as_expected,
                 const char *expected);

/* Prints a table with its title, one column for each key; `remark` says what to look at. */
void results_print(const struct results *results, FILE *file, const char *table, const char *title,
                   const char *remark);

/* As results_print, one line for each cell: for long texts. */
void results_print_blocks(const struct results *results, FILE *file, const char *table,
                          const char *title, const char *remark);

/* Prints all of it as one JSON document. */
void results_print_json(const struct results *results, FILE *file);

#endif /* WEIR_EXAMPLES_DEMO_RESULTS_H */
