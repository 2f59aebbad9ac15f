/* secret – random text that a downstream writes and no caller of a failed boundary call may see, and
 * the search for it in what he can read.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_SECRET_H
#define WEIR_TEST_E2E_SECRET_H

#include <stddef.h>

/* Hexadecimal digits: they may stand in a message, in the key of metadata, in the name of a socket
 * and in one of DNS. */
#define SECRET_LENGTH 24

struct secret {
  char text[SECRET_LENGTH + 1];
};

/* Another one each time. */
void secret_make(struct secret *secret);

/* Says how the secret stands in the bytes, if only a half of it: as it is, in base64,
 * percent-encoded or in hexadecimal. NULL = not at all. */
const char *secret_find(const struct secret *secret, const void *bytes, size_t size);

#define SECRET_BASE64_LENGTH 32
#define SECRET_PERCENT_LENGTH (3 * SECRET_LENGTH)

/* The whole secret in another form. */
void secret_to_base64(const struct secret *secret, char out[SECRET_BASE64_LENGTH + 1]);
void secret_to_percent(const struct secret *secret, char out[SECRET_PERCENT_LENGTH + 1]);

#endif /* WEIR_TEST_E2E_SECRET_H */
