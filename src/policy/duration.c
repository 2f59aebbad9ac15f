/* SPDX-License-Identifier: Apache-2.0 */
#include "src/policy/duration.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weir/clock.h>

#include "src/policy/json_number.h"

#define NANOS_PER_SECOND INT64_C(1000000000)
#define FRACTION_DIGITS 9

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/* The digits after the point, and the "s". */
static bool parse_fraction(const char *at, const char *end, int32_t *nanos_out) {
  int32_t nanos = 0;
  int n_digits = 0;
  for (; at < end && is_digit(*at); at++) {
    if (++n_digits > FRACTION_DIGITS) {
      return false;
    }
    nanos = nanos * 10 + (*at - '0');
  }
  for (int i = n_digits; i < FRACTION_DIGITS; i++) {
    nanos *= 10;
  }
  *nanos_out = nanos;
  return n_digits > 0 && end - at == 1 && *at == 's';
}

bool weir__duration_parse(const char *text, size_t size, struct weir__duration *duration_out) {
  const char *end = text + size;
  const char *at = text;
  int64_t seconds = 0;
  int32_t nanos = 0;
  const bool negative = at < end && *at == '-';
  at += negative ? 1 : 0;
  const char *whole = at;
  for (; at < end && is_digit(*at); at++) {
    seconds = seconds * 10 + (*at - '0');
    if (seconds > WEIR__DURATION_MAX_SECONDS) {
      return false;
    }
  }
  if (at == whole || at == end) {
    return false;
  }
  if (*at == '.') {
    if (!parse_fraction(at + 1, end, &nanos)) {
      return false;
    }
  } else if (end - at != 1 || *at != 's') {
    return false;
  }
  if (seconds == WEIR__DURATION_MAX_SECONDS && nanos > 0) {
    return false;
  }
  duration_out->seconds = negative ? -seconds : seconds;
  duration_out->nanos = negative ? -nanos : nanos;
  return true;
}

int64_t weir__duration_to_ns(const struct weir__duration *duration) {
  int64_t ns = 0;
  if (__builtin_mul_overflow(duration->seconds, NANOS_PER_SECOND, &ns) ||
      __builtin_add_overflow(ns, duration->nanos, &ns)) {
    return duration->seconds > 0 ? WEIR_NO_LIMIT_NS : -WEIR_NO_LIMIT_NS;
  }
  return ns;
}

/* The units that people write. One that has none is in seconds. */
static const struct unit {
  const char *name;
  int64_t ns;
} units[] = {
    {"", NANOS_PER_SECOND},
    {"s", NANOS_PER_SECOND},
    {"S", NANOS_PER_SECOND},
    {"sec", NANOS_PER_SECOND},
    {"secs", NANOS_PER_SECOND},
    {"second", NANOS_PER_SECOND},
    {"seconds", NANOS_PER_SECOND},
    {"ns", 1},
    {"us", 1000},
    {"\xc2\xb5s", 1000},
    {"\xce\xbcs", 1000},
    {"ms", 1000000},
    {"m", 60 * NANOS_PER_SECOND},
    {"min", 60 * NANOS_PER_SECOND},
    {"h", 3600 * NANOS_PER_SECOND},
    {"d", 86400 * NANOS_PER_SECOND},
};

static int64_t unit_ns(const char *name, size_t size) {
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
    if (strlen(units[i].name) == size && memcmp(units[i].name, name, size) == 0) {
      return units[i].ns;
    }
  }
  return 0;
}

static void trim_spaces(const char **text, size_t *size) {
  while (*size > 0 && **text == ' ') {
    (*text)++;
    (*size)--;
  }
  while (*size > 0 && (*text)[*size - 1] == ' ') {
    (*size)--;
  }
}

void weir__duration_print(int64_t ns, char text_out[WEIR__DURATION_TEXT_SIZE]) {
  int n = snprintf(text_out, WEIR__DURATION_TEXT_SIZE, "%" PRId64 ".%09" PRId64,
                   ns / NANOS_PER_SECOND, ns % NANOS_PER_SECOND);
  while (text_out[n - 1] == '0') {
    n--;
  }
  if (text_out[n - 1] == '.') {
    n--;
  }
  text_out[n] = 's';
  text_out[n + 1] = '\0';
}

/* `scaled` thousand-millionths of a unit of `factor_ns` nanoseconds, in nanoseconds. False: not a
 * whole number of them, or too many. */
static bool scaled_to_ns(uint64_t scaled, int64_t factor_ns, uint64_t *ns_out) {
  if (factor_ns >= NANOS_PER_SECOND) {
    return !__builtin_mul_overflow(scaled, (uint64_t)(factor_ns / NANOS_PER_SECOND), ns_out);
  }
  const uint64_t divisor = (uint64_t)(NANOS_PER_SECOND / factor_ns);
  *ns_out = scaled / divisor;
  return scaled % divisor == 0;
}

bool weir__duration_suggest(const char *text, size_t size,
                            char suggestion_out[WEIR__DURATION_TEXT_SIZE]) {
  enum { NUMBER_SIZE = 24 };
  char number[NUMBER_SIZE + 1] = "0"; /* for what begins with its point */
  size_t n = 0;
  struct weir__json_number decimal;
  uint64_t scaled = 0;
  uint64_t ns = 0;
  trim_spaces(&text, &size);
  while (n < size && n < NUMBER_SIZE && (is_digit(text[n]) || text[n] == '.')) {
    n++;
  }
  memcpy(number + 1, text, n);
  const size_t skipped = n > 0 && text[0] == '.' ? 0 : 1;
  const char *unit = text + n;
  size_t unit_size = size - n;
  trim_spaces(&unit, &unit_size);
  const int64_t factor_ns = unit_ns(unit, unit_size);
  if (factor_ns == 0 || !weir__json_number_parse(number + skipped, n + 1 - skipped, &decimal) ||
      !weir__json_number_scale(&decimal, FRACTION_DIGITS, &scaled) || scaled == UINT64_MAX ||
      !scaled_to_ns(scaled, factor_ns, &ns) || ns > INT64_MAX) {
    return false;
  }
  weir__duration_print((int64_t)ns, suggestion_out);
  return true;
}
