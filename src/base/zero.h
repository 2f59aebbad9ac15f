/* zero – memory of some hundred bytes, cleared.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_BASE_ZERO_H
#define WEIR_SRC_BASE_ZERO_H

#include <stddef.h>
#include <string.h>

/* memset by libc's function: where the size is known, gcc puts "rep stos" in its place, which takes
 * longer to begin than libc's loop takes for all of it. */
static inline void weir__zero(void *memory, size_t size) {
  __asm__("" : "+r"(memory), "+r"(size)); /* so it is not known */
  memset(memory, 0, size);
}

#endif /* WEIR_SRC_BASE_ZERO_H */
