/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/decimal.h"

#include <string.h>

size_t weir__decimal_write(uint64_t number, char out[WEIR__DECIMAL_BYTES]) {
  char digits[WEIR__DECIMAL_BYTES];
  size_t start = sizeof digits;
  do {
    digits[--start] = (char)('0' + number % 10);
    number /= 10;
  } while (number != 0);
  memcpy(out, digits + start, sizeof digits - start);
  return sizeof digits - start;
}

bool weir__decimal_read(const char *text, size_t size, uint64_t *number_out) {
  uint64_t number = 0;
  for (size_t i = 0; i < size; i++) {
    if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(number, UINT64_C(10), &number) ||
        __builtin_add_overflow(number, (uint64_t)(text[i] - '0'), &number)) {
      return false;
    }
  }
  *number_out = number;
  return size > 0;
}
