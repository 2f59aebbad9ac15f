/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/policy/document_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

void document_writer_init(struct document_writer *writer) {
  writer->size = 0;
  writer->text[0] = '\0';
}

void document_writer_put(struct document_writer *writer, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int n =
      vsnprintf(writer->text + writer->size, sizeof writer->text - writer->size, format, arguments);
  va_end(arguments);
  assert_true(n >= 0 && (size_t)n < sizeof writer->text - writer->size);
  writer->size += (size_t)n;
}

void document_writer_next(struct document_writer *writer) {
  const char last = writer->size > 0 ? writer->text[writer->size - 1] : '{';
  if (last != '{' && last != '[') {
    document_writer_put(writer, ",");
  }
}

void document_writer_key(struct document_writer *writer, const char *key) {
  document_writer_next(writer);
  document_writer_put(writer, "\"%s\":", key);
}
