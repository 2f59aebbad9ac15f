/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/label.h"

#include <stddef.h>

static bool is_label_byte(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

bool weir__label_is_legal(const char *label) {
  size_t size = 0;
  while (size <= WEIR__LABEL_MAX && is_label_byte(label[size])) {
    size++;
  }
  return size > 0 && size <= WEIR__LABEL_MAX && label[size] == '\0';
}
