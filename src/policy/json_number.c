/* SPDX-License-Identifier: Apache-2.0 */
#include "src/policy/json_number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Exponents beyond this are taken as this: the documents that carry them are not that long. */
#define EXPONENT_LIMIT INT64_C(1000000000)

/* What strtod is given. A double is told from its neighbours by 17 digits; what follows the 64th
 * can only break a tie. */
#define DIGITS_LIMIT 64

/* Digits of UINT64_MAX. */
#define UINT64_DIGITS 20

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static const char *skip_digits(const char *at, const char *end) {
  while (at < end && is_digit(*at)) {
    at++;
  }
  return at;
}

/* The part from the "e" on. NULL: it is none. */
static const char *parse_exponent(const char *at, const char *end, int64_t *exponent_out) {
  bool negative = false;
  int64_t exponent = 0;
  at++;
  if (at < end && (*at == '+' || *at == '-')) {
    negative = *at == '-';
    at++;
  }
  const char *first = at;
  for (; at < end && is_digit(*at); at++) {
    if (exponent < EXPONENT_LIMIT) {
      exponent = exponent * 10 + (*at - '0');
    }
  }
  *exponent_out = negative ? -exponent : exponent;
  return at > first ? at : NULL;
}

/* Drops leading zeros, and the point if only they stand before it. */
static void trim_zeros(struct weir__json_number *number) {
  while (number->digits_size > 0 && (*number->digits == '0' || *number->digits == '.')) {
    if (*number->digits == '0') {
      number->leading_power--;
    }
    number->digits++;
    number->digits_size--;
  }
}

bool weir__json_number_parse(const char *text, size_t size, struct weir__json_number *number_out) {
  const char *end = text + size;
  const char *at = text;
  int64_t exponent = 0;
  number_out->negative = at < end && *at == '-';
  at += number_out->negative ? 1 : 0;

  const char *whole = at;
  at = skip_digits(at, end);
  const int64_t n_whole = at - whole;
  if (n_whole == 0 || (n_whole > 1 && *whole == '0')) {
    return false;
  }
  if (at < end && *at == '.') {
    const char *fraction = at + 1;
    at = skip_digits(fraction, end);
    if (at == fraction) {
      return false;
    }
  }
  number_out->digits = whole;
  number_out->digits_size = (size_t)(at - whole);
  if (at < end && (*at == 'e' || *at == 'E')) {
    at = parse_exponent(at, end, &exponent);
  }
  number_out->leading_power = n_whole - 1 + exponent;
  trim_zeros(number_out);
  return at == end;
}

bool weir__json_number_scale(const struct weir__json_number *number, uint32_t places,
                             uint64_t *scaled_out) {
  int64_t power = number->leading_power + (int64_t)places;
  uint64_t scaled = 0;
  bool exact = true;
  *scaled_out = 0;
  if (number->digits_size > 0 && power >= UINT64_DIGITS) {
    *scaled_out = UINT64_MAX;
    return true;
  }
  for (size_t i = 0; i < number->digits_size; i++) {
    if (number->digits[i] == '.') {
      continue;
    }
    const uint64_t digit = (uint64_t)(number->digits[i] - '0');
    if (power < 0) {
      exact = exact && digit == 0;
    } else if (__builtin_mul_overflow(scaled, 10, &scaled) ||
               __builtin_add_overflow(scaled, digit, &scaled)) {
      *scaled_out = UINT64_MAX;
      return true;
    }
    power--;
  }
  for (; number->digits_size > 0 && power >= 0; power--) {
    if (__builtin_mul_overflow(scaled, 10, &scaled)) {
      scaled = UINT64_MAX;
      break;
    }
  }
  *scaled_out = scaled;
  return exact;
}

double weir__json_number_to_double(const struct weir__json_number *number) {
  /* Written without a point, which is what a locale could change, strtod reads it the same
   * everywhere. */
  char text[DIGITS_LIMIT + 32];
  size_t n = 0;
  if (number->digits_size == 0) {
    return 0.0;
  }
  for (size_t i = 0; i < number->digits_size && n < DIGITS_LIMIT; i++) {
    if (number->digits[i] != '.') {
      text[n++] = number->digits[i];
    }
  }
  snprintf(text + n, sizeof text - n, "e%" PRId64, number->leading_power - (int64_t)n + 1);
  const double magnitude = strtod(text, NULL);
  return number->negative ? -magnitude : magnitude;
}
