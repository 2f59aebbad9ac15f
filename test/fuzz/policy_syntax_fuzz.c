/* The reader of JSON against another one, Jansson: they accept the same documents.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "src/base/allocator.h"
#include "src/policy/json.h"
#include "test/fuzz/fuzz_target.h"

static bool has_duplicates(const struct weir__json *json) {
  for (uint32_t i = 0; i < json->n_values; i++) {
    if (json->values[i].duplicate) {
      return true;
    }
  }
  return false;
}

/* Jansson reads numbers into a double, and refuses those that do not fit, and keys that hold a NUL:
 * that is no question of syntax. */
static bool is_beyond_jansson(const json_error_t *error) {
  const enum json_error_code code = json_error_code(error);
  return code == json_error_numeric_overflow || code == json_error_null_byte_in_key;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *text = (const char *)data;
  struct weir__json own;
  struct weir_diagnostic fault;
  json_error_t error;
  if (size > 0 && memchr(text, '\0', size) != NULL) {
    return 0; /* Jansson takes it for the end of the document */
  }
  json_t *other = json_loadb(
      text, size,
      JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
  const enum weir_error own_error =
      weir__json_init(&own, text, size, weir__allocator_or_default(NULL), &fault);
  const bool accepted = own_error == WEIR_OK && !has_duplicates(&own);
  const bool too_deep = own_error != WEIR_OK && strstr(fault.message, "64 levels") != NULL;
  if (accepted != (other != NULL) && !too_deep && !(other == NULL && is_beyond_jansson(&error))) {
    fprintf(stderr, "weir: %s, jansson: %s\n", accepted ? "accepted" : fault.message,
            other != NULL ? "accepted" : error.text);
    abort();
  }
  json_decref(other);
  weir__json_fini(&own);
  return 0;
}
