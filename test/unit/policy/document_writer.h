/* document_writer – writes a JSON document, key by key, for tests that make many.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_UNIT_POLICY_DOCUMENT_WRITER_H
#define WEIR_TEST_UNIT_POLICY_DOCUMENT_WRITER_H

#include <stddef.h>

struct document_writer {
  char text[16384];
  size_t size;
};

void document_writer_init(struct document_writer *writer);

/* Text as it is. */
__attribute__((format(printf, 2, 3))) void document_writer_put(struct document_writer *writer,
                                                               const char *format, ...);

/* A comma, if there is something that it has to stand behind. */
void document_writer_next(struct document_writer *writer);

/* The same, and a key. */
void document_writer_key(struct document_writer *writer, const char *key);

#endif /* WEIR_TEST_UNIT_POLICY_DOCUMENT_WRITER_H */
