/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* memmem */

#include "test/e2e/secret.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

#include <cmocka.h>

#define HALF_LENGTH (SECRET_LENGTH / 2)

#define BITS_PER_BYTE 8
#define BITS_PER_DIGIT 6

/* The longest are percent-encoded and hexadecimal with spaces: three bytes for one. */
#define FORM_SIZE (SECRET_PERCENT_LENGTH + 1)

static const char hex_digits[] = "0123456789abcdef";

static void put_hex(char out[2], char byte) {
  out[0] = hex_digits[(unsigned char)byte >> 4];
  out[1] = hex_digits[(unsigned char)byte & 0xf];
}

void secret_make(struct secret *secret) {
  char bytes[HALF_LENGTH];
  assert_int_equal(getrandom(bytes, sizeof bytes, 0), sizeof bytes);
  for (size_t i = 0; i < sizeof bytes; i++) {
    put_hex(secret->text + 2 * i, bytes[i]);
  }
  secret->text[SECRET_LENGTH] = '\0';
}

/* --- the forms of a text --- */

static unsigned bit_of(const char *text, size_t index) {
  unsigned char byte = (unsigned char)text[index / BITS_PER_BYTE];
  return (unsigned)(byte >> (BITS_PER_BYTE - 1 - index % BITS_PER_BYTE)) & 1u;
}

/* What is sure of the text's base64 when it begins `offset` bytes into a group of three, whatever is
 * around it: the digits that hold bits of the text alone. */
static void base64_of(const char *text, size_t length, size_t offset, char *out) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  size_t first = offset * BITS_PER_BYTE;
  size_t end = first + length * BITS_PER_BYTE;
  size_t at = (first + BITS_PER_DIGIT - 1) / BITS_PER_DIGIT * BITS_PER_DIGIT;
  for (; at + BITS_PER_DIGIT <= end; at += BITS_PER_DIGIT) {
    unsigned digit = 0;
    for (size_t i = 0; i < BITS_PER_DIGIT; i++) {
      digit = digit << 1 | bit_of(text, at + i - first);
    }
    *out++ = digits[digit];
  }
  *out = '\0';
}

/* The codes of hexadecimal digits have no letters in them, so capitals make no difference. `before`
 * stands before each, 0 = nothing does. */
static void codes_of(const char *text, size_t length, char before, char *out) {
  for (size_t i = 0; i < length; i++) {
    if (before != 0) {
      *out++ = before;
    }
    put_hex(out, text[i]);
    out += 2;
  }
  *out = '\0';
}

static void plain_form(const char *text, size_t length, char *out) {
  memcpy(out, text, length);
  out[length] = '\0';
}

static void base64_form(const char *text, size_t length, char *out) {
  base64_of(text, length, 0, out);
}

static void base64_form_1(const char *text, size_t length, char *out) {
  base64_of(text, length, 1, out);
}

static void base64_form_2(const char *text, size_t length, char *out) {
  base64_of(text, length, 2, out);
}

static void percent_form(const char *text, size_t length, char *out) {
  codes_of(text, length, '%', out);
}

static void hex_form(const char *text, size_t length, char *out) {
  codes_of(text, length, 0, out);
}

static void dump_form(const char *text, size_t length, char *out) {
  codes_of(text, length, ' ', out);
  memmove(out, out + 1, strlen(out)); /* none before the first */
}

static const struct {
  const char *why;
  void (*make)(const char *text, size_t length, char *out);
} forms[] = {
    {"as it is", plain_form},      {"in base64", base64_form},        {"in base64", base64_form_1},
    {"in base64", base64_form_2},  {"percent-encoded", percent_form}, {"in hexadecimal", hex_form},
    {"in hexadecimal", dump_form},
};

const char *secret_find(const struct secret *secret, const void *bytes, size_t size) {
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
    for (size_t half = 0; half < 2; half++) {
      char form[FORM_SIZE];
      forms[i].make(secret->text + half * HALF_LENGTH, HALF_LENGTH, form);
      if (size > 0 && memmem(bytes, size, form, strlen(form)) != NULL) {
        return forms[i].why;
      }
    }
  }
  return NULL;
}

void secret_to_base64(const struct secret *secret, char out[SECRET_BASE64_LENGTH + 1]) {
  base64_of(secret->text, SECRET_LENGTH, 0, out);
}

void secret_to_percent(const struct secret *secret, char out[SECRET_PERCENT_LENGTH + 1]) {
  codes_of(secret->text, SECRET_LENGTH, '%', out);
}
