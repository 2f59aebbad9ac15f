/* json_line – a log record as one line of JSON.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_LOG_JSON_LINE_H
#define WEIR_SRC_LOG_JSON_LINE_H

#include <stddef.h>
#include <stdint.h>

#include <weir/log.h>

/* The longest line, its end included: less than PIPE_BUF, so that a pipe takes it whole. Longer
 * texts are cut, on a character's boundary. */
#define WEIR__JSON_LINE_BYTES 4095

/* Writes a record as one terminated line with a newline; returns its length without the terminator.
 * Bytes that are not UTF-8 are written as U+FFFD, and what could end a line or move a terminal's
 * cursor is escaped. `n_left_out` 0 = not told. */
size_t weir__json_line_format(const struct weir_log_record *record, uint64_t n_left_out,
                              char line_out[WEIR__JSON_LINE_BYTES]);

#endif /* WEIR_SRC_LOG_JSON_LINE_H */
