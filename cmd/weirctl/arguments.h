/* arguments – the words of a command line, told apart: options and operands.
 *
 * Options may stand behind operands; "--" ends them; "-" is an operand. A long option's value is
 * behind "=" or the next word, a letter's the rest of its word or the next one. Names are not
 * abbreviated, so that a new option breaks no script.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_WEIRCTL_ARGUMENTS_H
#define WEIR_CMD_WEIRCTL_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#define ARGUMENTS_MAX_OPTIONS 16

struct option_rule {
  const char *name;  /* without its dashes */
  char letter;       /* '\0' = none */
  const char *value; /* what --help calls its value; NULL = it takes none */
  const char *help;  /* a line */
};

enum color_mode { COLOR_AUTO = 0, COLOR_ALWAYS, COLOR_NEVER };

struct arguments {
  /* By the index in the verb's rules: the value, "" of an option that takes none, NULL = not
   * given. */
  const char *given[ARGUMENTS_MAX_OPTIONS];
  char **operands;
  size_t n_operands;
  /* what every verb takes */
  bool as_json;
  bool wants_help;
  enum color_mode color;
};

/* The rules of what every verb takes, for --help. */
extern const struct option_rule arguments_common[];
extern const size_t arguments_n_common;

/* Reads `words`, which end with NULL, and puts the operands at their front; all stays borrowed.
 * False: it has been said what is wrong. */
bool arguments_parse(struct arguments *arguments, const struct option_rule *rules, size_t n_rules,
                     char **words);

#endif /* WEIR_CMD_WEIRCTL_ARGUMENTS_H */
