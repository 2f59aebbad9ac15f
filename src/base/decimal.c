/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/decimal.h"

#include <string.h>

/* Two digits a step: half the divisions. */
static const char pairs[] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
    "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
    "8081828384858687888990919293949596979899";

static size_t n_digits(uint64_t number) {
  size_t n = 1;
  for (; number >= 10000; number /= 10000) {
    n += 4;
  }
  return n + (number >= 10) + (number >= 100) + (number >= 1000);
}

size_t weir__decimal_write(uint64_t number, char out[WEIR__DECIMAL_BYTES]) {
  const size_t size = n_digits(number);
  char *end = out + size;
  while (number >= 100) {
    end -= 2;
    memcpy(end, pairs + number % 100 * 2, 2);
    number /= 100;
  }
  if (number >= 10) {
    memcpy(out, pairs + number * 2, 2);
  } else {
    out[0] = (char)('0' + number);
  }
  return size;
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
