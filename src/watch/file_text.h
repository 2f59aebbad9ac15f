/* file_text – what a file holds at a moment: all of it, or nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_WATCH_FILE_TEXT_H
#define WEIR_SRC_WATCH_FILE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/allocator.h>
#include <weir/error.h>

struct weir__file_text {
  char *data; /* NULL: none was read */
  size_t size;
};

enum weir__file_result {
  WEIR__FILE_READ = 0,
  WEIR__FILE_MISSING,    /* nothing has that name */
  WEIR__FILE_UNREADABLE, /* something has, which can't be read, or is no regular file */
  WEIR__FILE_UNSETTLED,  /* it was changed while it was read */
  WEIR__FILE_NO_MEMORY
};

/* Reads a regular file, at most a byte more than a document may have. It never waits for a writer,
 * as opening a FIFO would. `text_out` ends with weir__file_text_fini; `diagnostic_out` says why,
 * unless it was read. */
enum weir__file_result weir__file_text_read(struct weir__file_text *text_out, const char *path,
                                            const struct weir_allocator *allocator,
                                            struct weir_diagnostic *diagnostic_out);

void weir__file_text_fini(struct weir__file_text *text, const struct weir_allocator *allocator);

/* Of one that was never read there is no equal. */
bool weir__file_text_equals(const struct weir__file_text *one, const struct weir__file_text *other);

#endif /* WEIR_SRC_WATCH_FILE_TEXT_H */
