/* schedule_bytes – the bytes that a schedule is told by, read one after the other.
 *
 * Behind their end there are zeros, which are made to mean what is simplest.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_STACK_SCHEDULE_BYTES_H
#define WEIR_TEST_STACK_SCHEDULE_BYTES_H

#include <stddef.h>
#include <stdint.h>

struct schedule_bytes {
  const uint8_t *bytes;
  size_t size;
  size_t at;
};

static inline uint8_t schedule_bytes_next(struct schedule_bytes *in) {
  return in->at < in->size ? in->bytes[in->at++] : 0;
}

#endif /* WEIR_TEST_STACK_SCHEDULE_BYTES_H */
