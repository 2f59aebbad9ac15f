/* line_write – one line to a file descriptor, by a thread that must not wait.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_LOG_LINE_WRITE_H
#define WEIR_SRC_LOG_LINE_WRITE_H

#include <stddef.h>

enum weir__line_fate {
  WEIR__LINE_WRITTEN = 0,
  WEIR__LINE_DROPPED, /* nothing of it was written */
  WEIR__LINE_TORN     /* its beginning was */
};

/* Writes a line, by one write unless that is cut short. It does not wait for a reader that does not
 * read, and a reader that has gone costs no signal. */
enum weir__line_fate weir__line_write(int fd, const char *line, size_t size);

#endif /* WEIR_SRC_LOG_LINE_WRITE_H */
