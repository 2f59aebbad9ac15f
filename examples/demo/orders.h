/* orders – the demo's messages between protobuf-c and the core's byte buffers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_EXAMPLES_DEMO_ORDERS_H
#define WEIR_EXAMPLES_DEMO_ORDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>
#include <grpc/status.h>

#define ORDERS_METHOD "/weir.demo.Orders/Get"
#define ORDERS_TEXT_SIZE 256

/* A request for an order; the caller's to destroy. */
grpc_byte_buffer *orders_request_encode(const char *id);

/* The id that a request asks for; false when the message is not one. */
bool orders_request_decode(grpc_byte_buffer *message, char id_out[ORDERS_TEXT_SIZE]);

/* An order; the caller's to destroy. */
grpc_byte_buffer *orders_reply_encode(const char *id, const char *state);

/* The state of an order; false when the message is not one. */
bool orders_reply_decode(grpc_byte_buffer *message, char state_out[ORDERS_TEXT_SIZE]);

/* A google.rpc.Status, as grpc-status-details-bin holds it. Returns its size, at most `size`; 0 =
 * it does not fit. */
size_t orders_details_encode(grpc_status_code code, const char *text, uint8_t *bytes_out,
                             size_t size);

/* The message of a google.rpc.Status; false when the bytes are not one. */
bool orders_details_decode(const uint8_t *bytes, size_t size, char text_out[ORDERS_TEXT_SIZE]);

#endif /* WEIR_EXAMPLES_DEMO_ORDERS_H */
