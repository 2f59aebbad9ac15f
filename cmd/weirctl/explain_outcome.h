/* explain_outcome – what each layer would do with an end that an attempt is supposed to have had.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_WEIRCTL_EXPLAIN_OUTCOME_H
#define WEIR_CMD_WEIRCTL_EXPLAIN_OUTCOME_H

#include <stdbool.h>

#include <jansson.h>

#include "cmd/weirctl/output.h"
#include "cmd/weirctl/simulate.h"

/* As they stand on the command line; NULL = not given. */
struct explain_words {
  const char *code;
  const char *origin;
  const char *bound;
  const char *attempt;
  const char *pushback;
  bool is_stream;
  bool is_serving;
  bool is_outer_retrying;
  bool after_headers;
  bool is_unprocessed;
};

/* Fills in what the words say. False: it has been said what is wrong with them. */
bool explain_outcome_parse(const struct explain_words *words,
                           struct simulation_question *question_out);

void explain_outcome_print(const struct simulation_question *question,
                           const struct simulation_answer *answer, const struct output *output);

json_t *explain_outcome_json(const struct simulation_question *question,
                             const struct simulation_answer *answer);

#endif /* WEIR_CMD_WEIRCTL_EXPLAIN_OUTCOME_H */
