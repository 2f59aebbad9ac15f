/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/hash.h"

#define XXH_INLINE_ALL /* the header is all that is used of the library */
#include <xxhash.h>

_Static_assert(sizeof(struct weir__hash_secret) >= XXH3_SECRET_SIZE_MIN, "it is long enough");

void weir__hash_secret_init(struct weir__hash_secret *secret, const struct weir_random *random) {
  for (size_t i = 0; i < WEIR__HASH_SECRET_WORDS; i++) {
    secret->words[i] = random->next(random->context);
  }
}

uint64_t weir__hash(const struct weir__hash_secret *secret, const void *bytes, size_t size) {
  return XXH3_64bits_withSecret(bytes, size, secret->words, sizeof secret->words);
}
