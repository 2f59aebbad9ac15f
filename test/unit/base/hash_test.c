/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "src/base/hash.h"
#include "src/base/random.h"

static struct weir__hash_secret secret_new(void) {
  struct weir__hash_secret secret;
  weir__hash_secret_init(&secret, weir__random_or_default(NULL));
  return secret;
}

static void the_same_bytes_have_the_same_hash(void **state) {
  (void)state;
  const struct weir__hash_secret secret = secret_new();
  char bytes[300];
  char copy[sizeof bytes + 1];
  memset(bytes, 'x', sizeof bytes);
  memcpy(copy + 1, bytes, sizeof bytes); /* at another alignment */
  for (size_t size = 0; size <= sizeof bytes; size++) {
    assert_true(weir__hash(&secret, bytes, size) == weir__hash(&secret, copy + 1, size));
  }
}

static void each_byte_and_the_size_count(void **state) {
  (void)state;
  const struct weir__hash_secret secret = secret_new();
  char bytes[300] = {0};
  for (size_t size = 1; size <= sizeof bytes; size++) {
    uint64_t hash = weir__hash(&secret, bytes, size);
    assert_true(hash != weir__hash(&secret, bytes, size - 1));
    for (size_t i = 0; i < size; i++) {
      bytes[i] = (char)0x80; /* the bit that a multiplication carries nowhere */
      assert_true(hash != weir__hash(&secret, bytes, size));
      bytes[i] = 0;
    }
  }
}

static void another_secret_hashes_otherwise(void **state) {
  (void)state;
  const struct weir__hash_secret one = secret_new();
  const struct weir__hash_secret other = secret_new();
  for (size_t size = 0; size < 64; size++) {
    static const char bytes[64] = "/pkg.Service/Method";
    assert_true(weir__hash(&one, bytes, size) != weir__hash(&other, bytes, size));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_same_bytes_have_the_same_hash),
      cmocka_unit_test(each_byte_and_the_size_count),
      cmocka_unit_test(another_secret_hashes_otherwise),
  };
  return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
