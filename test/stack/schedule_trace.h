/* schedule_trace – what has happened in a schedule so far, to be read when it fails.
 *
 * A note costs a few stores; it is made into words when it is printed. With WEIR_SCHEDULE_TRACE in
 * the environment, each is printed at once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_STACK_SCHEDULE_TRACE_H
#define WEIR_TEST_STACK_SCHEDULE_TRACE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "test/support/fake_clock.h"

#define SCHEDULE_TRACE_NUMBERS 4
#define SCHEDULE_TRACE_VARIABLE "WEIR_SCHEDULE_TRACE"

/* Begins anew, for a schedule of these bytes; both are borrowed until schedule_trace_end. */
void schedule_trace_begin(const uint8_t *bytes, size_t size, const struct fake_clock *clock);

/* The schedule has kept its promises: there is nothing to tell. */
void schedule_trace_end(void);

/* Notes `text`, which is static. In it, '@' stands for a call, '#' for a number, '&' for a set of
 * operations: the numbers, in order. */
void schedule_trace_note(const char *text, const int numbers[SCHEDULE_TRACE_NUMBERS]);

#define SCHEDULE_NOTE(text, ...) \
  schedule_trace_note((text), (const int[SCHEDULE_TRACE_NUMBERS]){__VA_ARGS__})

/* Prints the bytes and what has happened, if a schedule has begun and not ended. */
void schedule_trace_print(FILE *out);

#endif /* WEIR_TEST_STACK_SCHEDULE_TRACE_H */
