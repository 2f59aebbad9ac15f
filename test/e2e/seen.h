/* seen – all that a caller can read of a call that has ended, in one place to search.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_SEEN_H
#define WEIR_TEST_E2E_SEEN_H

#include <stddef.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/shaped_call.h"

#define SEEN_SIZE 65536

struct seen {
  size_t size;
  /* entries behind the last one of some metadata, and not blank: what was dropped, or what the
   * memory held before; the core leaves the latter there */
  size_t n_behind;
  char bytes[SEEN_SIZE];
};

void see_bytes(struct seen *seen, const void *bytes, size_t size);

/* Metadata, messages, texts, the report, and what is made of it. */
void see_unary(struct seen *seen, const struct unary *unary);
void see_reply(struct seen *seen, const struct weir_unary_reply *reply);

/* The same, but for what came before the call's end. */
void see_shaped(struct seen *seen, const struct shaped_call *call);

/* Whom the call names as its peer, unless that is the channel's target, which the application itself
 * has given. */
void see_peer(struct seen *seen, weir_call *call, weir_channel *channel);

size_t count_in(const char *bytes, size_t size, const char *text);
size_t count_seen(const struct seen *seen, const char *text);

/* What the caller of a boundary sees of a peer's code. */
extern const grpc_status_code boundary_codes[WEIR_N_STATUS_CODES];

#endif /* WEIR_TEST_E2E_SEEN_H */
