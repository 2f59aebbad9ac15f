/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <grpc/grpc.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/odd_case.h"
#include "test/e2e/support/odd_peer.h"

#define STATUS(value, as)                                                                          \
  {                                                                                                \
    .why = "grpc-status \"" value "\"",                                                            \
    .script = ODD_SCRIPT(ODD_TRAILERS(ODD_OK "grpc-status " value "\ngrpc-message " SECRET "\n")), \
    .code = as, .origin = WEIR_ORIGIN_PEER,                                                        \
    .n_requests = (as) == GRPC_STATUS_OK ? 1 : ALL_ATTEMPTS                                        \
  }
#define STATUS_LATE(value, as)                                                          \
  {                                                                                     \
    .why = "grpc-status \"" value "\" after headers",                                   \
    .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_TRAILERS("grpc-status " value "\n")), \
    .code = as, .origin = WEIR_ORIGIN_PEER, .n_requests = 1                             \
  }

/* gRPC's PROTOCOL-HTTP2.md wants decimal digits, statuscodes.md a number of 0 to 16. */
static const struct odd_case status_cases[] = {
    STATUS("16", GRPC_STATUS_UNAUTHENTICATED),
    STATUS("17", GRPC_STATUS_UNKNOWN),
    STATUS("999", GRPC_STATUS_UNKNOWN),
    STATUS("-1", GRPC_STATUS_UNKNOWN),
    STATUS("-14", GRPC_STATUS_UNKNOWN),
    STATUS("abc", GRPC_STATUS_UNKNOWN),
    STATUS("", GRPC_STATUS_UNKNOWN),
    STATUS("14x", GRPC_STATUS_UNKNOWN),
    STATUS("0x0", GRPC_STATUS_UNKNOWN),
    STATUS("2147483648", GRPC_STATUS_UNKNOWN),
    STATUS("4294967295", GRPC_STATUS_UNKNOWN),
    STATUS("4294967296", GRPC_STATUS_UNKNOWN),           /* 0, if 32 bits wrapped */
    STATUS("4294967310", GRPC_STATUS_UNKNOWN),           /* 14, likewise */
    STATUS("18446744073709551616", GRPC_STATUS_UNKNOWN), /* 0, if 64 bits did */
    STATUS("014", GRPC_STATUS_UNAVAILABLE),              /* digits, if one too many */
    STATUS("000", GRPC_STATUS_OK),
    STATUS_LATE("17", GRPC_STATUS_UNKNOWN),
    STATUS_LATE("-1", GRPC_STATUS_UNKNOWN),
    STATUS_LATE("abc", GRPC_STATUS_UNKNOWN),
    STATUS_LATE("4294967296", GRPC_STATUS_UNKNOWN),
};

static void a_status_that_there_is_not_is_unknown(void **state) {
  (void)state;
  odd_cases_assert(status_cases, COUNT_OF(status_cases));
}

static const struct odd_case twice_cases[] = {
    {.why = "two statuses in one block",
     .script = ODD_SCRIPT(ODD_TRAILERS(ODD_OK ODD_STATUS(14) ODD_STATUS(5))),
     .code = GRPC_STATUS_NOT_FOUND, /* the core keeps the last of two values */
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS},
    {.why = "a status in headers, and another in trailers",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK ODD_STATUS(14)), ODD_TRAILERS(ODD_STATUS(5))),
     .code = GRPC_STATUS_NOT_FOUND,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1},
    {.why = "trailers twice",
     .script = ODD_SCRIPT(
         ODD_ONLY(14), ODD_RAW_HEADERS(ODD_FLAG_END_STREAM | ODD_FLAG_END_HEADERS, ODD_STATUS(5))),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS},
    {.why = "headers twice",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_HEADERS("x " SECRET "\n"),
                          ODD_TRAILERS(ODD_STATUS(14))),
     .code = GRPC_STATUS_UNKNOWN,
     .origin = WEIR_ORIGIN_TRANSPORT_RESET,
     .n_requests = 1},
};

static void of_two_statuses_one_is_taken(void **state) {
  (void)state;
  odd_cases_assert(twice_cases, COUNT_OF(twice_cases));
}

/* The core decodes what it can of a message and passes on the rest: no harm at a boundary. */
static const struct odd_case message_cases[] = {
    {.why = "not percent-encoded rightly",
     .script = ODD_SCRIPT(ODD_TRAILERS(ODD_OK ODD_STATUS(14) "grpc-message %zz%1 " SECRET "\n")),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS},
    {.why = "a NUL and bytes that are no UTF-8",
     .script = ODD_SCRIPT(ODD_TRAILERS(ODD_OK ODD_STATUS(14) "grpc-message %00%FF" SECRET "\n")),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS},
    {.why = "the words of the core for a refused stream",
     .script = ODD_SCRIPT(ODD_TRAILERS(
         ODD_OK ODD_STATUS(14) "grpc-message Received RST_STREAM with error code 7\n")),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS}, /* no replay for nothing */
    {.why = "a key in capitals",
     .script = ODD_SCRIPT(ODD_TRAILERS(ODD_OK ODD_STATUS(14) "X-Debug " SECRET "\n")),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS},
};

static void whatever_is_in_the_message_the_code_counts(void **state) {
  (void)state;
  odd_cases_assert(message_cases, COUNT_OF(message_cases));
}

/* The peer's own, with time left: its code is not ours, so the policy decides (A6). */
static const struct odd_case remote_cases[] = {
    {.why = "the peer's DEADLINE_EXCEEDED",
     .script = ODD_SCRIPT(ODD_ONLY(4)),
     .code = GRPC_STATUS_DEADLINE_EXCEEDED,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS},
    {.why = "the peer's CANCELLED",
     .script = ODD_SCRIPT(ODD_ONLY(1)),
     .code = GRPC_STATUS_CANCELLED,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS},
    {.why = "the peer's quota",
     .script = ODD_SCRIPT(ODD_TRAILERS(ODD_OK ODD_STATUS(8) "grpc-message quota\n")),
     .code = GRPC_STATUS_RESOURCE_EXHAUSTED,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS},
    {.why = "the peer's quota after headers",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_TRAILERS(ODD_STATUS(8))),
     .code = GRPC_STATUS_RESOURCE_EXHAUSTED,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1},
};

static void the_peers_deadline_cancellation_and_quota_are_the_peers(void **state) {
  (void)state;
  odd_cases_assert(remote_cases, COUNT_OF(remote_cases));
}

/* A boundary tells its caller of the peer's deadline as UNAVAILABLE, and not to come again. */
static void the_peers_deadline_is_told_with_do_not_retry(void **state) {
  (void)state;
  const struct odd_script script = ODD_SCRIPT(ODD_ONLY(4));
  struct odd_peer *peer = odd_peer_answering(&script);
  weir_channel *channel = channel_to(odd_peer_port(peer), "{}");
  struct unary unary;
  unary_run(&unary, channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_true(unary.report.do_not_retry);
  unary_fini(&unary);
  weir_channel_destroy(channel);
  odd_peer_release(peer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_status_that_there_is_not_is_unknown),
      cmocka_unit_test(of_two_statuses_one_is_taken),
      cmocka_unit_test(whatever_is_in_the_message_the_code_counts),
      cmocka_unit_test(the_peers_deadline_cancellation_and_quota_are_the_peers),
      cmocka_unit_test(the_peers_deadline_is_told_with_do_not_retry),
  };
  return cmocka_run_group_tests_name("peer status", tests, start_core, stop_core);
}
