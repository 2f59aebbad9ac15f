/* captured – what is written to standard error for a while.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_CAPTURED_H
#define WEIR_TEST_E2E_CAPTURED_H

#include <stdbool.h>
#include <stddef.h>

/* As much as a pipe holds at least: nobody reads meanwhile. */
#define CAPTURED_SIZE 65536

struct captured {
  int saved;
  int reads;
  size_t size;
  char text[CAPTURED_SIZE + 1]; /* terminated */
};

/* Standard error is a pipe from here on, and then what it was; nothing may be written in between but
 * by one thread. */
void capture_begin(struct captured *captured);
void capture_end(struct captured *captured);

/* Whether it is one object of JSON. */
bool captured_is_json(const struct captured *captured);

#endif /* WEIR_TEST_E2E_CAPTURED_H */
