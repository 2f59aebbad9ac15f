/* output – what weirctl says: text with colours or one JSON document on standard output,
 * complaints on standard error.
 *
 * What comes from elsewhere, names of files and all that a document holds, goes through
 * output_foreign or output_string: it may hold anything.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_WEIRCTL_OUTPUT_H
#define WEIR_CMD_WEIRCTL_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

#include <jansson.h>

#include "cmd/weirctl/arguments.h"

enum style { STYLE_PLAIN = 0, STYLE_STRONG, STYLE_FAINT, STYLE_ERROR, STYLE_WARNING, STYLE_GOOD };

struct output {
  FILE *file;
  bool colored;
  bool as_json; /* then output_json is called once, and nothing else */
};

void output_init(struct output *output, FILE *file, const struct arguments *arguments);

/* Text of weirctl's own, and numbers. */
__attribute__((format(printf, 3, 4))) void output_text(const struct output *output,
                                                       enum style style, const char *format, ...);

/* Text from elsewhere; what would move a cursor, turn the writing around or is no UTF-8 becomes a
 * question mark. */
void output_foreign(const struct output *output, enum style style, const char *text);

/* A document as output_json prints it; free() ends it. */
char *output_json_text(const json_t *document);

/* Takes the document over. Keys stay in the order in which they were set. */
void output_json(const struct output *output, json_t *document);

/* A string from elsewhere for a document; what is no UTF-8 becomes U+FFFD. */
json_t *output_string(const char *text);

/* "weirctl: ...", on standard error. */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);

/* Says so, and ends weirctl. */
_Noreturn void complain_of_memory(void);

#endif /* WEIR_CMD_WEIRCTL_OUTPUT_H */
