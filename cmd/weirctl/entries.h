/* entries – where the entries of methodConfig stand in a document, to call them by their paths.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_WEIRCTL_ENTRIES_H
#define WEIR_CMD_WEIRCTL_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/weirctl/source.h"

#define ENTRY_PATH_SIZE 64

struct entry {
  uint32_t line;
  uint32_t column;
  size_t index; /* in its list */
  bool is_enforced;
};

/* Zeroed: of no document. */
struct entries {
  struct entry *list; /* in the order of the document */
  size_t n;
  size_t capacity;
};

/* Finds all of a document that is well-formed. */
void entries_init(struct entries *entries, const struct source *source);

void entries_fini(struct entries *entries);

/* "methodConfig[2]" or "enforce.methodConfig[2]": the one that begins there. "" if none does. */
void entries_path(const struct entries *entries, uint32_t line, uint32_t column,
                  char path_out[ENTRY_PATH_SIZE]);

#endif /* WEIR_CMD_WEIRCTL_ENTRIES_H */
