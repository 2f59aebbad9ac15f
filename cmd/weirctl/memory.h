/* memory – there is enough, or weirctl ends: a tool that runs for a moment has nothing to go on
 * with.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_WEIRCTL_MEMORY_H
#define WEIR_CMD_WEIRCTL_MEMORY_H

#include <stddef.h>

#include <weir/error.h>

/* Zeroed; free() ends it. */
void *memory_new(size_t size);

/* Makes room for one element more in an array that has `n` of `*capacity`; returns where it is. */
void *memory_grow(void *array, size_t n, size_t *capacity, size_t element_size);

/* A terminated copy; free() ends it. */
char *memory_copy_text(const char *text, size_t size);

/* Has Jansson use memory_new. Before anything of Jansson's. */
void memory_init(void);

/* Ends weirctl if that is what an error says. */
void memory_check(enum weir_error error);

#endif /* WEIR_CMD_WEIRCTL_MEMORY_H */
