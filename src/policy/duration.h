/* duration – a length of time as proto3 writes it in JSON: "1.5s".
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_DURATION_H
#define WEIR_SRC_POLICY_DURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest that google.protobuf.Duration can say: about 10,000 years. */
#define WEIR__DURATION_MAX_SECONDS INT64_C(315576000000)

struct weir__duration {
  int64_t seconds;
  int32_t nanos; /* of the same sign as the seconds */
};

/* Digits, a point with up to nine digits perhaps, and an "s"; a sign before it. False: it is none,
 * or out of range. */
bool weir__duration_parse(const char *text, size_t size, struct weir__duration *duration_out);

/* Negative ones too; beyond what nanoseconds can say it is WEIR_NO_LIMIT_NS, or its negative. */
int64_t weir__duration_to_ns(const struct weir__duration *duration);

#define WEIR__DURATION_TEXT_SIZE 32

/* "0.5s", for a message. `ns` is not negative. */
void weir__duration_print(int64_t ns, char text_out[WEIR__DURATION_TEXT_SIZE]);

/* What someone who wrote "500ms", ".5s", "1m" or "5" most likely meant, as a duration. False: it
 * can't be told. */
bool weir__duration_suggest(const char *text, size_t size,
                            char suggestion_out[WEIR__DURATION_TEXT_SIZE]);

#endif /* WEIR_SRC_POLICY_DURATION_H */
