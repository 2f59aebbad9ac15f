/* message – what calls of a soak carry: who it belongs to, and bytes that only it has.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_MESSAGE_H
#define WEIR_TEST_SOAK_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include <grpc/grpc.h>

enum message_kind {
  MESSAGE_REQUEST = 0,
  MESSAGE_REPLY, /* B's */
  MESSAGE_KEPT   /* a fallback's */
};

struct message {
  enum message_kind kind;
  uint32_t id;
  uint32_t number; /* from 0, of the call's messages in its direction */
  uint32_t size;   /* of the bytes behind this */
};

/* Ended by grpc_byte_buffer_destroy. */
grpc_byte_buffer *message_new(const struct message *message);

/* Reads one, and leaves it as it is. False = it is not, byte by byte, what message_new makes. */
bool message_read(grpc_byte_buffer *buffer, struct message *message_out);

#endif /* WEIR_TEST_SOAK_MESSAGE_H */
