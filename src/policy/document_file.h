/* document_file – the bytes of a policy document that is a file.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_DOCUMENT_FILE_H
#define WEIR_SRC_POLICY_DOCUMENT_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/allocator.h>
#include <weir/error.h>

/* At most a byte more than a document may have: who reads it sees that it is too large. */
struct weir__document_file {
  const struct weir_allocator *allocator;
  char *text; /* the owner's, with room for a byte more; not terminated */
  size_t size;
  bool is_unsettled; /* it was changed while it was read */
};

/* Reads a regular file; weir__document_file_fini ends it, also after a failure. `diagnostic` may be
 * NULL. WEIR_ERROR_UNAVAILABLE: it can't be read, or is no regular file: of such a one nobody knows
 * when it ends. WEIR_ERROR_NO_MEMORY. */
WEIR_MUST_CHECK enum weir_error weir__document_file_read(struct weir__document_file *file,
                                                         const char *path,
                                                         const struct weir_allocator *allocator,
                                                         struct weir_diagnostic *diagnostic);

void weir__document_file_fini(struct weir__document_file *file);

#endif /* WEIR_SRC_POLICY_DOCUMENT_FILE_H */
