/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <weir/outcome.h>
#include <weir/policy.h>

#include "interceptors/translation/translation.h"

/* A folded failure does not tell its code: INTERNAL is not what the downstream said. */
static const char *const messages[WEIR_N_STATUS_CODES] = {[GRPC_STATUS_INTERNAL] =
                                                              "downstream service error"};

static const char *message_of(grpc_status_code visible) {
  int index = (int)visible;
  return index >= 0 && index < WEIR_N_STATUS_CODES ? messages[index] : NULL;
}

/* Appends as much of `text` as fits; `length` of `out` is in use. Returns the new length. */
static size_t text_append(char *out, size_t out_size, size_t length, const char *text) {
  size_t room = out_size - 1 - length;
  size_t size = strnlen(text, room);
  memcpy(out + length, text, size);
  out[length + size] = '\0';
  return length + size;
}

size_t weir__translation_message(grpc_status_code visible, const char *reference, char *out,
                                 size_t out_size) {
  if (out_size == 0) {
    return 0;
  }
  const char *message = message_of(visible);
  size_t length = text_append(out, out_size, 0, message != NULL ? message : "downstream service: ");
  if (message == NULL) {
    length = text_append(out, out_size, length, weir_status_code_name(visible));
  }
  if (reference != NULL) {
    length = text_append(out, out_size, length, " [ref ");
    length = text_append(out, out_size, length, reference);
    length = text_append(out, out_size, length, "]");
  }
  return length;
}

static bool is_continuation(char byte) {
  return ((unsigned char)byte & 0xc0) == 0x80;
}

/* The most bytes of a UTF-8 character that follow its first. */
#define MAX_CONTINUATIONS 3

size_t weir__translation_message_fit(const char *message, size_t size, size_t max_bytes) {
  const size_t cut_size = sizeof WEIR__TRANSLATION_CUT - 1;
  if (size <= max_bytes) {
    return size;
  }
  size_t fit = max_bytes > cut_size ? max_bytes - cut_size : 0;
  for (size_t i = 0; i <= MAX_CONTINUATIONS && i < fit; i++) {
    if (!is_continuation(message[fit - i])) {
      return fit - i;
    }
  }
  return fit; /* no UTF-8, so there is no character to keep whole */
}

void weir__reference_make(uint64_t random, char reference_out[WEIR_REFERENCE_LENGTH + 1]) {
  static const char digits[] = "0123456789abcdef";
  for (size_t i = WEIR_REFERENCE_LENGTH; i > 0; i--) {
    reference_out[i - 1] = digits[random & 0xf];
    random >>= 4;
  }
  reference_out[WEIR_REFERENCE_LENGTH] = '\0';
}
