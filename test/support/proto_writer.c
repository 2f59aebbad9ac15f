/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/proto_writer.h"

#include <stdlib.h>
#include <string.h>

enum wire_type { WIRE_VARINT = 0, WIRE_LENGTH = 2 };

void proto_writer_fini(struct proto_writer *writer) {
  free(writer->bytes);
  memset(writer, 0, sizeof *writer);
}

void proto_write_raw(struct proto_writer *writer, const void *bytes, size_t size) {
  if (writer->size + size > writer->capacity) {
    size_t capacity = 2 * (writer->size + size);
    char *grown = realloc(writer->bytes, capacity);
    if (grown == NULL) {
      abort();
    }
    writer->bytes = grown;
    writer->capacity = capacity;
  }
  if (size > 0) {
    memcpy(writer->bytes + writer->size, bytes, size);
  }
  writer->size += size;
}

static void write_varint(struct proto_writer *writer, uint64_t number) {
  do {
    uint8_t byte = (uint8_t)(number & 0x7f);
    number >>= 7;
    byte = (uint8_t)(byte | (number != 0 ? 0x80 : 0));
    proto_write_raw(writer, &byte, 1);
  } while (number != 0);
}

void proto_write_number(struct proto_writer *writer, uint32_t field, uint64_t number) {
  write_varint(writer, (uint64_t)field << 3 | WIRE_VARINT);
  write_varint(writer, number);
}

void proto_write_bytes(struct proto_writer *writer, uint32_t field, const void *bytes,
                       size_t size) {
  write_varint(writer, (uint64_t)field << 3 | WIRE_LENGTH);
  write_varint(writer, size);
  proto_write_raw(writer, bytes, size);
}

void proto_write_text(struct proto_writer *writer, uint32_t field, const char *text) {
  proto_write_bytes(writer, field, text, strlen(text));
}

void proto_write_detail(struct proto_writer *writer, const char *type_url, const void *value,
                        size_t value_size) {
  struct proto_writer any = {NULL, 0, 0};
  if (type_url[0] != '\0') {
    proto_write_text(&any, 1, type_url);
  }
  if (value_size > 0) {
    proto_write_bytes(&any, 2, value, value_size);
  }
  proto_write_bytes(writer, 3, any.bytes, any.size);
  proto_writer_fini(&any);
}
