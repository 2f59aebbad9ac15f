/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/sent_attempt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>
#include <grpc/slice_buffer.h>

struct sent_attempt *sent_attempt_new(void) {
  struct sent_attempt *attempt = malloc(sizeof *attempt);
  if (attempt != NULL) {
    memset(attempt, 0, offsetof(struct sent_attempt, metadata));
  }
  return attempt;
}

void sent_attempt_free(struct sent_attempt *attempt) {
  free(attempt->message);
  free(attempt->values);
  free(attempt);
}

void sent_attempt_copy_text(char out[SENT_TEXT], grpc_slice slice) {
  size_t size = GRPC_SLICE_LENGTH(slice);
  assert_true(size < SENT_TEXT);
  memcpy(out, GRPC_SLICE_START_PTR(slice), size);
  out[size] = '\0';
}

const char *sent_attempt_value(const struct sent_attempt *attempt, const char *key) {
  const char *value = NULL;
  for (size_t i = 0; i < attempt->n_metadata; i++) {
    if (strcmp(attempt->metadata[i].key, key) == 0) {
      assert_null(value);
      value = attempt->metadata[i].value;
    }
  }
  return value;
}

/* Room for all values, each terminated. */
static char *values_new(const grpc_metadata *metadata, size_t count) {
  size_t size = 1;
  for (size_t i = 0; i < count; i++) {
    size += GRPC_SLICE_LENGTH(metadata[i].value) + 1;
  }
  char *values = calloc(1, size);
  assert_non_null(values);
  return values;
}

void sent_attempt_note_metadata(struct sent_attempt *attempt, const grpc_op *op) {
  const grpc_metadata *metadata = op->data.send_initial_metadata.metadata;
  size_t count = op->data.send_initial_metadata.count;
  assert_true(count <= SENT_PAIRS);
  free(attempt->values);
  attempt->values = values_new(metadata, count);
  char *value = attempt->values;
  for (size_t i = 0; i < count; i++) {
    const grpc_metadata *entry = &metadata[i];
    const size_t size = GRPC_SLICE_LENGTH(entry->value);
    assert_true(grpc_header_key_is_legal(entry->key));
    assert_true(grpc_is_binary_header(entry->key) ||
                grpc_header_nonbin_value_is_legal(entry->value));
    sent_attempt_copy_text(attempt->metadata[i].key, entry->key);
    memcpy(value, GRPC_SLICE_START_PTR(entry->value), size);
    attempt->metadata[i].value = value;
    attempt->metadata[i].value_size = size;
    value += size + 1;
  }
  attempt->n_metadata = count;
  attempt->metadata_flags = op->flags;
}

/* The core moves the slices out of the buffer. */
void sent_attempt_take_message(struct sent_attempt *attempt, const grpc_op *op) {
  grpc_byte_buffer *buffer = op->data.send_message.send_message;
  assert_non_null(buffer);
  size_t size = grpc_byte_buffer_length(buffer);
  grpc_byte_buffer_reader reader;
  assert_true(grpc_byte_buffer_reader_init(&reader, buffer));
  attempt->message = realloc(attempt->message, attempt->message_size + size + 1);
  assert_non_null(attempt->message);
  grpc_slice slice;
  while (grpc_byte_buffer_reader_next(&reader, &slice)) {
    memcpy(attempt->message + attempt->message_size, GRPC_SLICE_START_PTR(slice),
           GRPC_SLICE_LENGTH(slice));
    attempt->message_size += GRPC_SLICE_LENGTH(slice);
    grpc_slice_unref(slice);
  }
  grpc_byte_buffer_reader_destroy(&reader);
  attempt->message[attempt->message_size] = '\0';
  if (attempt->n_messages < SENT_MESSAGES) {
    attempt->message_ends[attempt->n_messages] = attempt->message_size;
  }
  attempt->n_messages++;
  attempt->message_flags = op->flags;
  attempt->compression = buffer->data.raw.compression;
  grpc_slice_buffer_reset_and_unref(&buffer->data.raw.slice_buffer);
}
