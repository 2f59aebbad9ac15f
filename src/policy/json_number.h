/* json_number – the text of a JSON number, read without going through binary.
 *
 * "0.29" is 290 thousandths, not 289, and no locale has a say in it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_JSON_NUMBER_H
#define WEIR_SRC_POLICY_JSON_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A number of RFC 8259. `digits` points into the text that it was read from. */
struct weir__json_number {
  bool negative;
  const char *digits;    /* the significand, with a point perhaps; no leading zeros */
  size_t digits_size;    /* 0 = the number is zero */
  int64_t leading_power; /* of ten, that the first digit stands for */
};

/* False: `text` is not one number of RFC 8259, all of it. */
bool weir__json_number_parse(const char *text, size_t size, struct weir__json_number *number_out);

/* The magnitude times 10 to the `places`th, cut to an integer; UINT64_MAX when it is more. Says
 * whether nothing was cut off. */
bool weir__json_number_scale(const struct weir__json_number *number, uint32_t places,
                             uint64_t *scaled_out);

/* The nearest double; an infinity when it is too large. */
double weir__json_number_to_double(const struct weir__json_number *number);

#endif /* WEIR_SRC_POLICY_JSON_NUMBER_H */
