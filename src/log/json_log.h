/* json_log – the default log sink: one JSON line a record on standard error.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_LOG_JSON_LOG_H
#define WEIR_SRC_LOG_JSON_LOG_H

#include <stddef.h>

#include <weir/log.h>

/* The longest line, its end included; longer texts are cut, on a character's boundary. */
#define WEIR__JSON_LOG_LINE_BYTES 4096

/* Writes a record as one terminated line with a newline; returns its length without the terminator.
 * Bytes that are not UTF-8 are written as U+FFFD. */
size_t weir__json_log_format(const struct weir_log_record *record,
                             char line_out[WEIR__JSON_LOG_LINE_BYTES]);

/* Static. Each line is one write, so lines of several threads don't mix. */
const struct weir_log_sink *weir__json_log_sink(void);

#endif /* WEIR_SRC_LOG_JSON_LOG_H */
