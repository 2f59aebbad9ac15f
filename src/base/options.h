/* options – reads a struct that begins with its own size, from a program older or newer than the
 * library.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_BASE_OPTIONS_H
#define WEIR_SRC_BASE_OPTIONS_H

#include <stddef.h>

#include <weir/error.h>

/* Copies what both sides know of `src` over `dst`, which holds the defaults. The first member of
 * `src` is its size_t size. WEIR_ERROR_INVALID_ARGUMENT: less than the size itself.
 * WEIR_ERROR_UNSUPPORTED: it sets a field that this library does not know. `dst` is then
 * unchanged. */
WEIR_MUST_CHECK enum weir_error weir__options_copy(void *dst, size_t dst_size, const void *src);

#endif /* WEIR_SRC_BASE_OPTIONS_H */
