/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/options.h"

#include <string.h>

enum weir_error weir__options_copy(void *dst, size_t dst_size, const void *src) {
  size_t src_size = 0;
  memcpy(&src_size, src, sizeof src_size);
  if (src_size < sizeof src_size) {
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  for (size_t i = dst_size; i < src_size; i++) {
    if (((const unsigned char *)src)[i] != 0) {
      return WEIR_ERROR_UNSUPPORTED;
    }
  }
  memcpy(dst, src, src_size < dst_size ? src_size : dst_size);
  memcpy(dst, &dst_size, sizeof dst_size);
  return WEIR_OK;
}
