/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/scripted_fallback.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>

/* --- the fallback --- */

static void append(char out[SCRIPTED_TEXT], const void *data, size_t size) {
  size_t length = strlen(out);
  assert_true(length + size < SCRIPTED_TEXT);
  memcpy(out + length, data, size);
  out[length + size] = '\0';
}

static void append_slice(char out[SCRIPTED_TEXT], grpc_slice slice) {
  append(out, GRPC_SLICE_START_PTR(slice), GRPC_SLICE_LENGTH(slice));
}

static void note_request(struct scripted_fallback *fallback,
                         const struct weir_fallback_request *request) {
  fallback->request = *request;
  fallback->path[0] = '\0';
  fallback->message[0] = '\0';
  fallback->metadata[0] = '\0';
  assert_int_equal(request->path[request->path_size], '\0');
  append(fallback->path, request->path, request->path_size);
  fallback->had_message = request->message != NULL;
  if (request->message != NULL) {
    grpc_byte_buffer_reader reader;
    assert_true(grpc_byte_buffer_reader_init(&reader, request->message));
    grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
    append_slice(fallback->message, all);
    grpc_slice_unref(all);
    grpc_byte_buffer_reader_destroy(&reader);
  }
  for (size_t i = 0; i < request->n_metadata; i++) {
    append_slice(fallback->metadata, request->metadata[i].key);
    append(fallback->metadata, "=", 1);
    append_slice(fallback->metadata, request->metadata[i].value);
    append(fallback->metadata, ";", 1);
  }
}

static grpc_byte_buffer *message_of(const struct scripted_fallback *fallback) {
  grpc_slice slice = grpc_slice_from_copied_string(fallback->text);
  grpc_byte_buffer *message =
      fallback->compressed ? grpc_raw_compressed_byte_buffer_create(&slice, 1, GRPC_COMPRESS_GZIP)
                           : grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  return message;
}

static enum weir_fallback_found ask(void *context, const struct weir_fallback_request *request,
                                    struct weir_fallback_answer *answer) {
  struct scripted_fallback *fallback = context;
  assert_int_equal(fallback->n_released, 0);
  assert_int_equal(request->size, sizeof *request);
  assert_null(answer->message);
  fallback->n_asked++;
  note_request(fallback, request);
  if (fallback->gives_request_back) {
    answer->message = request->message;
  } else if (fallback->text != NULL) {
    answer->message = message_of(fallback);
  }
  answer->source = fallback->source;
  answer->empty_is_real = fallback->empty_is_real;
  return fallback->found;
}

static void release(void *context) {
  struct scripted_fallback *fallback = context;
  assert_int_equal(fallback->n_questions, 0);
  fallback->n_released++;
}

/* --- its threads --- */

static bool start(void *context, void *(*run)(void *argument), void *argument) {
  struct scripted_fallback *fallback = context;
  if (fallback->has_no_thread) {
    return false;
  }
  assert_true(fallback->n_questions < SCRIPTED_QUESTIONS);
  fallback->questions[fallback->n_questions].run = run;
  fallback->questions[fallback->n_questions].argument = argument;
  fallback->n_questions++;
  fallback->n_started++;
  return true;
}

void scripted_fallback_run_nth(struct scripted_fallback *fallback, size_t nth) {
  assert_true(nth < fallback->n_questions);
  void *(*run)(void *argument) = fallback->questions[nth].run;
  void *argument = fallback->questions[nth].argument;
  fallback->n_questions--;
  memmove(&fallback->questions[nth], &fallback->questions[nth + 1],
          (fallback->n_questions - nth) * sizeof fallback->questions[0]);
  (void)run(argument);
}

void scripted_fallback_run(struct scripted_fallback *fallback) {
  scripted_fallback_run_nth(fallback, 0);
}

void scripted_fallback_run_all(struct scripted_fallback *fallback) {
  while (fallback->n_questions > 0) {
    scripted_fallback_run(fallback);
  }
}

void scripted_fallback_init(struct scripted_fallback *fallback) {
  memset(fallback, 0, sizeof *fallback);
  fallback->base = (struct weir_fallback)WEIR_FALLBACK_INIT;
  fallback->base.ask = ask;
  fallback->base.release = release;
  fallback->base.context = fallback;
  fallback->threads.start = start;
  fallback->threads.context = fallback;
  fallback->found = WEIR_FALLBACK_FOUND;
  fallback->text = "cached";
  fallback->source = "cache";
}
