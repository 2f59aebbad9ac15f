/* odd case – what an odd peer does to every request, and what has to come of it, however the call
 * was started, at a boundary or not, with retries or without.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_ODD_CASE_H
#define WEIR_TEST_E2E_ODD_CASE_H

#include <stdbool.h>
#include <stddef.h>

#include <grpc/grpc.h>

#include <weir/weir.h>

#include "test/e2e/support/odd_peer.h"

/* Every failing code. */
#define CODES_ALL "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16"

/* What no caller may see of a boundary call that failed. Cases put it wherever a peer can write. */
#define SECRET "sesame"

/* Three attempts are made of what may be tried again. */
#define ALL_ATTEMPTS 3

struct odd_case {
  const char *why;
  struct odd_script script;
  struct odd_script greeting; /* without steps: as a server greets */
  grpc_status_code code;      /* as it came */
  enum weir_origin origin;
  size_t n_requests; /* that the peer sees, where every code is retried; 1: committed, or ours */
  bool replayed;     /* once for free: n_requests counts it */
  bool closes;       /* so that an attempt may find a lost connection and not get to the peer */
  bool shown_early;  /* the secret is in what comes before the status */
};

/* Tries each case in each way, and fails with what was different. */
void odd_cases_assert(const struct odd_case *cases, size_t n_cases);

#endif /* WEIR_TEST_E2E_ODD_CASE_H */
