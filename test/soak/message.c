/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/message.h"

#include <stddef.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>

#include "test/soak/chance.h"

#define MAGIC UINT32_C(0x736f616b)

/* On the wire; all processes are of one machine. `checksum` is FNV-1a's of the bytes behind it. */
struct head {
  uint32_t magic;
  uint32_t kind;
  uint32_t id;
  uint32_t number;
  uint32_t size;
  uint32_t checksum;
};

static uint32_t checksum_of(const unsigned char *bytes, size_t size) {
  uint32_t hash = UINT32_C(2166136261);
  for (size_t i = 0; i < size; i++) {
    hash = (hash ^ bytes[i]) * UINT32_C(16777619);
  }
  return hash;
}

static void fill(const struct message *message, unsigned char *bytes) {
  struct chance chance =
      chance_of(message->kind, (uint64_t)message->id << 32 | (uint64_t)message->number);
  for (size_t i = 0; i < message->size; i += sizeof(uint64_t)) {
    uint64_t word = chance_next(&chance);
    size_t left = message->size - i;
    memcpy(bytes + i, &word, left < sizeof word ? left : sizeof word);
  }
}

static grpc_slice write_slice(const struct message *message) {
  grpc_slice slice = grpc_slice_malloc(sizeof(struct head) + message->size);
  unsigned char *bytes = GRPC_SLICE_START_PTR(slice);
  struct head head = {.magic = MAGIC,
                      .kind = message->kind,
                      .id = message->id,
                      .number = message->number,
                      .size = message->size};
  fill(message, bytes + sizeof head);
  head.checksum = checksum_of(bytes + sizeof head, message->size);
  memcpy(bytes, &head, sizeof head);
  return slice;
}

grpc_byte_buffer *message_new(const struct message *message) {
  grpc_slice slice = write_slice(message);
  grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  return buffer;
}

static bool read_slice(grpc_slice slice, struct message *message_out) {
  struct head head;
  if (GRPC_SLICE_LENGTH(slice) < sizeof head) {
    return false;
  }
  memcpy(&head, GRPC_SLICE_START_PTR(slice), sizeof head);
  if (head.magic != MAGIC || head.kind > MESSAGE_KEPT ||
      GRPC_SLICE_LENGTH(slice) - sizeof head != head.size) {
    return false;
  }
  *message_out = (struct message){.kind = (enum message_kind)head.kind,
                                  .id = head.id,
                                  .number = head.number,
                                  .size = head.size};
  grpc_slice expected = write_slice(message_out);
  bool same = grpc_slice_eq(slice, expected) != 0;
  grpc_slice_unref(expected);
  return same;
}

bool message_read(grpc_byte_buffer *buffer, struct message *message_out) {
  grpc_byte_buffer_reader reader;
  memset(message_out, 0, sizeof *message_out);
  if (grpc_byte_buffer_reader_init(&reader, buffer) == 0) {
    return false;
  }
  grpc_slice slice = grpc_byte_buffer_reader_readall(&reader);
  grpc_byte_buffer_reader_destroy(&reader);
  bool fine = read_slice(slice, message_out);
  grpc_slice_unref(slice);
  return fine;
}
