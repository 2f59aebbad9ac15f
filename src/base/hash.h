/* hash – 64 bits of keys that others choose: who does not know the secret can't make two keys meet.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_BASE_HASH_H
#define WEIR_SRC_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include <weir/clock.h>

#define WEIR__HASH_SECRET_WORDS 24

struct weir__hash_secret {
  uint64_t words[WEIR__HASH_SECRET_WORDS];
};

void weir__hash_secret_init(struct weir__hash_secret *secret, const struct weir_random *random);

uint64_t weir__hash(const struct weir__hash_secret *secret, const void *bytes, size_t size);

#endif /* WEIR_SRC_BASE_HASH_H */
