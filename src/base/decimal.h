/* decimal – unsigned numbers as text on the wire, without a locale.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_BASE_DECIMAL_H
#define WEIR_SRC_BASE_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Enough for any uint64_t; not terminated. */
#define WEIR__DECIMAL_BYTES 20

/* Returns the number of digits written; what is behind them in `out` is zeroed or unchanged. */
size_t weir__decimal_write(uint64_t number, char out[WEIR__DECIMAL_BYTES]);

/* Reads digits and nothing else. False: empty, another character, or beyond uint64_t. */
bool weir__decimal_read(const char *text, size_t size, uint64_t *number_out);

#endif /* WEIR_SRC_BASE_DECIMAL_H */
