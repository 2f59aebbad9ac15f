/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <weir/outcome.h>
#include <weir/policy.h>

#include "interceptors/translation/translation.h"

struct text {
  const char *bytes;
  size_t size;
};

#define TEXT(literal) \
  { .bytes = (literal), .size = sizeof(literal) - 1 }
#define CODE_PREFIX "downstream service: "
#define REFERENCE_PREFIX " [ref "

/* At hand with their sizes: every refused call has one. A folded failure does not tell its code:
 * INTERNAL is not what the downstream said. */
static const struct text messages[WEIR_N_STATUS_CODES] = {
    [GRPC_STATUS_OK] = TEXT(CODE_PREFIX "OK"),
    [GRPC_STATUS_CANCELLED] = TEXT(CODE_PREFIX "CANCELLED"),
    [GRPC_STATUS_UNKNOWN] = TEXT(CODE_PREFIX "UNKNOWN"),
    [GRPC_STATUS_INVALID_ARGUMENT] = TEXT(CODE_PREFIX "INVALID_ARGUMENT"),
    [GRPC_STATUS_DEADLINE_EXCEEDED] = TEXT(CODE_PREFIX "DEADLINE_EXCEEDED"),
    [GRPC_STATUS_NOT_FOUND] = TEXT(CODE_PREFIX "NOT_FOUND"),
    [GRPC_STATUS_ALREADY_EXISTS] = TEXT(CODE_PREFIX "ALREADY_EXISTS"),
    [GRPC_STATUS_PERMISSION_DENIED] = TEXT(CODE_PREFIX "PERMISSION_DENIED"),
    [GRPC_STATUS_RESOURCE_EXHAUSTED] = TEXT(CODE_PREFIX "RESOURCE_EXHAUSTED"),
    [GRPC_STATUS_FAILED_PRECONDITION] = TEXT(CODE_PREFIX "FAILED_PRECONDITION"),
    [GRPC_STATUS_ABORTED] = TEXT(CODE_PREFIX "ABORTED"),
    [GRPC_STATUS_OUT_OF_RANGE] = TEXT(CODE_PREFIX "OUT_OF_RANGE"),
    [GRPC_STATUS_UNIMPLEMENTED] = TEXT(CODE_PREFIX "UNIMPLEMENTED"),
    [GRPC_STATUS_INTERNAL] = TEXT("downstream service error"),
    [GRPC_STATUS_UNAVAILABLE] = TEXT(CODE_PREFIX "UNAVAILABLE"),
    [GRPC_STATUS_DATA_LOSS] = TEXT(CODE_PREFIX "DATA_LOSS"),
    [GRPC_STATUS_UNAUTHENTICATED] = TEXT(CODE_PREFIX "UNAUTHENTICATED"),
};

static const struct text *message_of(grpc_status_code visible) {
  int index = (int)visible;
  return &messages[index >= 0 && index < WEIR_N_STATUS_CODES ? index : GRPC_STATUS_UNKNOWN];
}

_Static_assert(sizeof CODE_PREFIX "FAILED_PRECONDITION" REFERENCE_PREFIX "]" +
                       WEIR_REFERENCE_LENGTH <=
                   WEIR__TRANSLATION_MESSAGE_BYTES,
               "the longest message fits");

/* Returns where the next ones go. */
static char *bytes_put(char *out, const char *bytes, size_t size) {
  memcpy(out, bytes, size);
  return out + size;
}

size_t weir__translation_message(grpc_status_code visible, const char *reference,
                                 char out[WEIR__TRANSLATION_MESSAGE_BYTES]) {
  const struct text *message = message_of(visible);
  char *end = bytes_put(out, message->bytes, message->size);
  if (reference != NULL) {
    end = bytes_put(end, REFERENCE_PREFIX, sizeof REFERENCE_PREFIX - 1);
    end = bytes_put(end, reference, WEIR_REFERENCE_LENGTH);
    *end++ = ']';
  }
  *end = '\0';
  return (size_t)(end - out);
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

#define BYTES_OF(byte) (UINT64_C(0x0101010101010101) * (byte))

/* The digits of 32 bits in the bytes of a word, the first in the lowest, eight at a time: every
 * refused call has a reference. */
static uint64_t hex_digits(uint32_t value) {
  uint64_t word = __builtin_bswap32(value);
  word = (word | word << 16) & UINT64_C(0x0000ffff0000ffff);
  word = (word | word << 8) & UINT64_C(0x00ff00ff00ff00ff);
  uint64_t nibbles = (word >> 4 | word << 8) & BYTES_OF(0x0f);
  uint64_t letters = (nibbles + BYTES_OF(6)) >> 4 & BYTES_OF(1); /* 1 where a digit is above 9 */
  return nibbles + BYTES_OF('0') + letters * ('a' - '0' - 10);
}

static void digits_put(char *out, uint64_t digits, size_t n_digits) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  digits = __builtin_bswap64(digits);
#endif
  memcpy(out, &digits, n_digits);
}

void weir__reference_make(uint64_t random, char reference_out[WEIR_REFERENCE_LENGTH + 1]) {
  const size_t n_first = WEIR_REFERENCE_LENGTH - 8;
  digits_put(reference_out, hex_digits((uint32_t)(random >> 16 & 0xffff0000)), n_first);
  digits_put(reference_out + n_first, hex_digits((uint32_t)random), 8);
  reference_out[WEIR_REFERENCE_LENGTH] = '\0';
}
