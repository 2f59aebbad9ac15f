/* proto_writer – protobuf's wire format by hand: what a peer may send, right or wrong.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SUPPORT_PROTO_WRITER_H
#define WEIR_TEST_SUPPORT_PROTO_WRITER_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed = empty. */
struct proto_writer {
  char *bytes;
  size_t size;
  size_t capacity;
};

void proto_writer_fini(struct proto_writer *writer);

/* Bytes as they are. */
void proto_write_raw(struct proto_writer *writer, const void *bytes, size_t size);

/* Fields of the two kinds that a google.rpc.Status has. */
void proto_write_number(struct proto_writer *writer, uint32_t field, uint64_t number);
void proto_write_bytes(struct proto_writer *writer, uint32_t field, const void *bytes, size_t size);
void proto_write_text(struct proto_writer *writer, uint32_t field, const char *text);

/* A detail of a google.rpc.Status: a google.protobuf.Any. */
void proto_write_detail(struct proto_writer *writer, const char *type_url, const void *value,
                        size_t value_size);

#endif /* WEIR_TEST_SUPPORT_PROTO_WRITER_H */
