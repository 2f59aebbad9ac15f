/* container_of – from a member back to what it is a member of.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_BASE_CONTAINER_OF_H
#define WEIR_SRC_BASE_CONTAINER_OF_H

#include <stddef.h>

#define WEIR__CONTAINER_OF(pointer, type, member) \
  ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif /* WEIR_SRC_BASE_CONTAINER_OF_H */
