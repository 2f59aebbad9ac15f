/* supposed – an end that no attempt has had, classified as one that had it would be.
 *
 * For tools that tell what would become of it. Whether there can be such an end is not decided here
 * either: it is made to look as it would on the wire, and the classifier says what it is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_OUTCOME_SUPPOSED_H
#define WEIR_SRC_OUTCOME_SUPPOSED_H

#include <stdbool.h>
#include <stdint.h>

#include <grpc/status.h>

#include <weir/error.h>
#include <weir/outcome.h>

struct weir__supposed_end {
  grpc_status_code code;
  enum weir_origin origin;
  enum weir_deadline_bound deadline_bound; /* the tightest bound of the call's time */
  bool attempted;       /* false: it ends before anything was sent, by an origin of this process */
  bool after_headers;   /* response headers had come */
  bool unprocessed;     /* the server provably never saw it */
  const char *pushback; /* the peer's grpc-retry-pushback-ms, as it is sent; NULL = none */
  int64_t started_at_ns;
  int64_t ended_at_ns;
  int64_t deadline_at_ns; /* WEIR_NO_DEADLINE = none */
};

/* False: nothing ends with such a code from such an origin; `*outcome_out` is then what the
 * classifier takes it for. */
WEIR_MUST_CHECK bool weir__outcome_suppose(const struct weir__supposed_end *end,
                                           struct weir_outcome *outcome_out);

#endif /* WEIR_SRC_OUTCOME_SUPPOSED_H */
