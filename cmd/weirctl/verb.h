/* verb – one thing that weirctl does: its name, what it takes, what --help says of it.
 *
 * A verb has a file of its own, and a place in the table of main.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_WEIRCTL_VERB_H
#define WEIR_CMD_WEIRCTL_VERB_H

#include <stddef.h>

#include "cmd/weirctl/arguments.h"
#include "cmd/weirctl/output.h"

/* What weirctl exits with. Of several files the worst counts. */
enum verdict {
  VERDICT_ACCEPTED = 0,
  VERDICT_REFUSED = 1,
  VERDICT_FAILED = 2 /* wrong usage, or something that can't be read or written */
};

struct verb {
  const char *name;
  const char *operands; /* for the usage line: "FILE..." */
  const char *summary;  /* a line, for the list of verbs */
  const char *help;     /* what else --help says: whole lines */
  const struct option_rule *options;
  size_t n_options; /* at most ARGUMENTS_MAX_OPTIONS */
  size_t least_operands;
  size_t most_operands;
  /* The arguments and the output end when it returns; main closes standard output, and tells if
   * that fails. */
  enum verdict (*run)(const struct arguments *arguments, const struct output *output);
};

extern const struct verb verb_check;
extern const struct verb verb_diff;
extern const struct verb verb_init;
extern const struct verb verb_explain;

#endif /* WEIR_CMD_WEIRCTL_VERB_H */
