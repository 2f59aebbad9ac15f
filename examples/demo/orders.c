/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/demo/orders.h"

#include <stdio.h>
#include <stdlib.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>

#include "orders.pb-c.h"

/* protobuf-c's structs take what they only read as char *. */
static char *text_field(const char *text) {
  return (char *)(uintptr_t)text;
}

static grpc_byte_buffer *pack(const ProtobufCMessage *message) {
  grpc_slice slice = grpc_slice_malloc(protobuf_c_message_get_packed_size(message));
  (void)protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
  grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  return buffer;
}

static ProtobufCMessage *unpack(const ProtobufCMessageDescriptor *type, grpc_byte_buffer *buffer) {
  grpc_byte_buffer_reader reader;
  if (buffer == NULL || grpc_byte_buffer_reader_init(&reader, buffer) == 0) {
    return NULL;
  }
  grpc_slice slice = grpc_byte_buffer_reader_readall(&reader);
  grpc_byte_buffer_reader_destroy(&reader);
  ProtobufCMessage *message =
      protobuf_c_message_unpack(type, NULL, GRPC_SLICE_LENGTH(slice), GRPC_SLICE_START_PTR(slice));
  grpc_slice_unref(slice);
  return message;
}

grpc_byte_buffer *orders_request_encode(const char *id) {
  Weir__Demo__OrderRequest request;
  weir__demo__order_request__init(&request);
  request.id = text_field(id);
  return pack(&request.base);
}

bool orders_request_decode(grpc_byte_buffer *message, char id_out[ORDERS_TEXT_SIZE]) {
  Weir__Demo__OrderRequest *request =
      (Weir__Demo__OrderRequest *)unpack(&weir__demo__order_request__descriptor, message);
  id_out[0] = '\0';
  if (request == NULL) {
    return false;
  }
  (void)snprintf(id_out, ORDERS_TEXT_SIZE, "%s", request->id);
  weir__demo__order_request__free_unpacked(request, NULL);
  return true;
}

grpc_byte_buffer *orders_reply_encode(const char *id, const char *state) {
  Weir__Demo__Order order;
  weir__demo__order__init(&order);
  order.id = text_field(id);
  order.state = text_field(state);
  return pack(&order.base);
}

bool orders_reply_decode(grpc_byte_buffer *message, char state_out[ORDERS_TEXT_SIZE]) {
  Weir__Demo__Order *order = (Weir__Demo__Order *)unpack(&weir__demo__order__descriptor, message);
  state_out[0] = '\0';
  if (order == NULL) {
    return false;
  }
  (void)snprintf(state_out, ORDERS_TEXT_SIZE, "%s", order->state);
  weir__demo__order__free_unpacked(order, NULL);
  return true;
}

size_t orders_details_encode(grpc_status_code code, const char *text, uint8_t *bytes_out,
                             size_t size) {
  Weir__Demo__RichStatus status;
  weir__demo__rich_status__init(&status);
  status.code = (int32_t)code;
  status.message = text_field(text);
  if (weir__demo__rich_status__get_packed_size(&status) > size) {
    return 0;
  }
  return weir__demo__rich_status__pack(&status, bytes_out);
}

bool orders_details_decode(const uint8_t *bytes, size_t size, char text_out[ORDERS_TEXT_SIZE]) {
  Weir__Demo__RichStatus *status = weir__demo__rich_status__unpack(NULL, size, bytes);
  text_out[0] = '\0';
  if (status == NULL) {
    return false;
  }
  (void)snprintf(text_out, ORDERS_TEXT_SIZE, "%s", status->message);
  weir__demo__rich_status__free_unpacked(status, NULL);
  return true;
}
