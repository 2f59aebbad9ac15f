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

/* The entry that the place is in; NULL: there is none before it. */
const struct entry *entries_find(const struct entries *entries, uint32_t line, uint32_t column);

/* "methodConfig[2]" or "enforce.methodConfig[2]". */
void entry_path(const struct entry *entry, char path_out[ENTRY_PATH_SIZE]);

#endif /* WEIR_CMD_WEIRCTL_ENTRIES_H */
