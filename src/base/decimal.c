/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/decimal.h"

#include <string.h>

static const char pairs[] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
    "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
    "8081828384858687888990919293949596979899";

/* What eight digits hold. */
#define EIGHT UINT64_C(100000000)

/* All eight digits, the zeros in front included. */
static void eight_write(uint32_t number, char out[8]) {
  const uint32_t upper = number / 10000;
  const uint32_t lower = number % 10000;
  memcpy(out, pairs + upper / 100 * 2, 2);
  memcpy(out + 2, pairs + upper % 100 * 2, 2);
  memcpy(out + 4, pairs + lower / 100 * 2, 2);
  memcpy(out + 6, pairs + lower % 100 * 2, 2);
}

/* Returns how many digits there are without the zeros in front. */
static size_t head_write(uint32_t number, char out[8]) {
  char digits[2 * 8] = {0}; /* the second half is only there to be copied */
  eight_write(number, digits);
  size_t start = 0;
  while (start < 7 && digits[start] == '0') {
    start++;
  }
  memcpy(out, digits + start, 8); /* a constant size: a move */
  return 8 - start;
}

size_t weir__decimal_write(uint64_t number, char out[WEIR__DECIMAL_BYTES]) {
  if (number < EIGHT) {
    return head_write((uint32_t)number, out);
  }
  const uint64_t upper = number / EIGHT;
  size_t size = 0;
  if (upper < EIGHT) {
    size = head_write((uint32_t)upper, out);
  } else {
    size = head_write((uint32_t)(upper / EIGHT), out);
    eight_write((uint32_t)(upper % EIGHT), out + size);
    size += 8;
  }
  eight_write((uint32_t)(number % EIGHT), out + size);
  return size + 8;
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
