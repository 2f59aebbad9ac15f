/* judge – what the report of any call must be like, whatever happened to it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_JUDGE_H
#define WEIR_TEST_SOAK_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include <weir/weir.h>

#include "test/soak/ledger.h"
#include "test/soak/policies.h"

/* A call that has ended, as who made it sees it. */
struct judged {
  struct ledger *ledger;
  int64_t id;
  enum ledger_who who;
  const struct policy_facts
      *policy; /* that it went by; NULL = one of them, it is not known which */
  const struct weir_call_report *report;
  grpc_status_code code; /* that came out of the call */
  grpc_slice details;
  int64_t took_ns; /* on the maker's clock, from before its first batch to after its last tag */
  bool one_batch;
};

/* How many requests a server may see of such a call. */
uint32_t judge_max_attempts(const struct policy_facts *policy);

/* Whether more attempts than one were made for a reason that is no retry: the first of them was lost
 * before a server saw it. */
bool judge_was_replayed(const struct weir_call_report *report);

/* Blames what does not fit together. */
void judge_call(const struct judged *judged);

#endif /* WEIR_TEST_SOAK_JUDGE_H */
