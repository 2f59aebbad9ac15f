/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/odd_case.h"
#include "test/e2e/shaped_call.h"
#include "test/e2e/support/odd_peer.h"

#define ENDS_WELL ODD_TRAILERS(ODD_STATUS(0))

/* --- compression --- */

/* INTERNAL by gRPC's compression.md. The core hands the bytes over as they are and publishes
 * neither the flag nor the encoding, so there is nothing to tell it by. */
#define TAKEN_AS_IT_IS(words, encoding)                                                         \
  {                                                                                             \
    .why = words,                                                                               \
    .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK encoding), ODD_DATA("\1\0\0\0\5hello"), ENDS_WELL), \
    .code = GRPC_STATUS_OK, .origin = WEIR_ORIGIN_PEER, .n_requests = 1                         \
  }

static const struct odd_case compressed_cases[] = {
    TAKEN_AS_IT_IS("compressed, without an encoding", ""),
    TAKEN_AS_IT_IS("compressed, with identity", "grpc-encoding identity\n"),
    TAKEN_AS_IT_IS("compressed, with an encoding that there is not", "grpc-encoding zork\n"),
    /* UNKNOWN says the core, INTERNAL statuscodes.md. */
    {.why = "compressed, but not with gzip",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK "grpc-encoding gzip\n"), ODD_DATA("\1\0\0\0\6" SECRET),
                          ENDS_WELL),
     .code = GRPC_STATUS_INTERNAL,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1},
    {.why = "compressed, but not with gzip, and a failure",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK "grpc-encoding gzip\n"), ODD_DATA("\1\0\0\0\6" SECRET),
                          ODD_TRAILERS(ODD_STATUS(14))),
     .code = GRPC_STATUS_INTERNAL,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1},
};

static void what_cannot_be_decompressed_is_internal_where_it_can_be_told(void **state) {
  (void)state;
  odd_cases_assert(compressed_cases, COUNT_OF(compressed_cases));
}

/* --- prefixes and lengths --- */

#define CUT_SHORT(words, bytes)                                                               \
  {.why = words ", and OK",                                                                   \
   .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_DATA(bytes), ENDS_WELL),                     \
   .code = GRPC_STATUS_OK,                                                                    \
   .origin = WEIR_ORIGIN_PEER,                                                                \
   .n_requests = 1},                                                                          \
  {                                                                                           \
    .why = words ", and a failure",                                                           \
    .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_DATA(bytes), ODD_TRAILERS(ODD_STATUS(14))), \
    .code = GRPC_STATUS_UNAVAILABLE, .origin = WEIR_ORIGIN_PEER, .n_requests = 1              \
  }

/* An OK behind a message that is not whole looks to the surface of the core like an OK without one,
 * which an application of the core has to expect. */
static const struct odd_case length_cases[] = {
    CUT_SHORT("half of a prefix", "\0\0\0"),
    CUT_SHORT("half of a message", "\0\0\0\0\6ses"),
    CUT_SHORT("a length of 4 GiB", "\0\377\377\377\377x"),
    CUT_SHORT("a flag that there is not", "\2\0\0\0\6" SECRET),
    {.why = "no message, and OK",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ENDS_WELL),
     .code = GRPC_STATUS_OK,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1},
    {.why = "an empty message",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_DATA("\0\0\0\0\0"), ENDS_WELL),
     .code = GRPC_STATUS_OK,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1},
    {.why = "a frame of 16 MiB",
     .script = ODD_SCRIPT(ODD_BYTES("\377\377\377\0\0\0\0\0\1" SECRET)),
     .code = GRPC_STATUS_INTERNAL,
     .origin = WEIR_ORIGIN_TRANSPORT_RESET,
     .n_requests = ALL_ATTEMPTS,
     .closes = true},
};

static void a_message_that_is_not_whole_is_none(void **state) {
  (void)state;
  odd_cases_assert(length_cases, COUNT_OF(length_cases));
}

/* --- size --- */

#define MIB (1024 * 1024)

static const struct odd_case size_cases[] = {
    {.why = "5 MiB, and OK",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_MESSAGE_OF(5 * MIB), ENDS_WELL),
     .code = GRPC_STATUS_RESOURCE_EXHAUSTED,
     .origin = WEIR_ORIGIN_LOCAL_LIMIT,
     .n_requests = 1},
    {.why = "5 MiB, and a failure",
     .script =
         ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_MESSAGE_OF(5 * MIB), ODD_TRAILERS(ODD_STATUS(14))),
     .code = GRPC_STATUS_RESOURCE_EXHAUSTED,
     .origin = WEIR_ORIGIN_LOCAL_LIMIT,
     .n_requests = 1},
};

static void a_message_over_the_cores_limit_is_ours_to_refuse(void **state) {
  (void)state;
  odd_cases_assert(size_cases, COUNT_OF(size_cases));
}

/* 5,000 zeros, compressed to 40 bytes. */
#define ZEROS                                                                                \
  "\1\0\0\0\50"                                                                              \
  "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xed\xc1\x31\x01\x00\x00\x00\xc2\xa0\xf5\x4f\x6d" \
  "\x0a\x3f\xa0\x00\x00\x00\x00\x80\xb7\x01\xa8\x0e\xe5\xd8\x88\x13\x00\x00"

static const struct odd_script inflating =
    ODD_SCRIPT(ODD_HEADERS(ODD_OK "grpc-encoding gzip\n"), ODD_DATA(ZEROS), ENDS_WELL);

#define POLICY_LIMIT(bytes) \
  "{" NO_BOUNDARY           \
  "," METHODS("\"maxResponseMessageBytes\":" bytes "," RETRY("3", "0.001s", CODES_ALL)) "}"

/* The policy's limit is on what the application gets, and not on what was on the wire. */
static void a_message_that_inflates_past_the_limit_is_refused_once(void **state) {
  (void)state;
  for (int shape = 0; shape < N_SHAPES; shape++) {
    struct odd_peer *peer = odd_peer_answering(&inflating);
    weir_channel *channel = channel_to(odd_peer_port(peer), POLICY_LIMIT("1000"));
    struct weir_breaker_snapshot snapshot = {.size = sizeof snapshot};
    struct shaped_call call;
    shaped_run(&call, (enum shape)shape, channel, NULL);
    assert_int_equal(call.unary.code, GRPC_STATUS_RESOURCE_EXHAUSTED);
    assert_int_equal(call.unary.report.origin, WEIR_ORIGIN_LOCAL_LIMIT);
    assert_int_equal(call.unary.report.reason, WEIR_REASON_LIMIT);
    assert_int_equal(odd_peer_count(peer, ODD_REQUESTS), 1);
    assert_null(call.unary.message);
    assert_int_equal(weir_channel_breaker_snapshot(channel, METHOD, &snapshot), WEIR_OK);
    assert_int_equal(snapshot.n_failures, 0);
    shaped_fini(&call);
    weir_channel_destroy(channel);
    odd_peer_release(peer);
  }
}

static void a_message_that_inflates_to_the_limit_is_taken(void **state) {
  (void)state;
  struct odd_peer *peer = odd_peer_answering(&inflating);
  weir_channel *channel = channel_to(odd_peer_port(peer), POLICY_LIMIT("5000"));
  struct unary unary;
  unary_run(&unary, channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  assert_int_equal(grpc_byte_buffer_length(unary.message), 5000);
  unary_fini(&unary);
  weir_channel_destroy(channel);
  odd_peer_release(peer);
}

/* --- number --- */

static const struct odd_script twice =
    ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_MESSAGE("one"), ODD_MESSAGE("two"), ENDS_WELL);

/* The core keeps the status back until the second message is asked for, which a call that asks for
 * one never does: its deadline ends it. */
static void a_second_message_keeps_a_unary_call_until_its_deadline(void **state) {
  (void)state;
  struct odd_peer *peer = odd_peer_answering(&twice);
  weir_channel *channel = channel_to(odd_peer_port(peer), POLICY_LIMIT("1000"));
  struct unary unary;
  unary_run(&unary, channel, &(struct unary_setup){.timeout_ns = MS(300)});
  assert_int_equal(unary.code, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(unary.report.origin, WEIR_ORIGIN_LOCAL_DEADLINE);
  assert_true(odd_peer_count(peer, ODD_REQUESTS) <= 1);
  unary_fini(&unary);
  weir_channel_destroy(channel);
  odd_peer_release(peer);
}

static void a_stream_gets_all_messages(void **state) {
  (void)state;
  struct odd_peer *peer = odd_peer_answering(&twice);
  weir_channel *channel = channel_to(odd_peer_port(peer), "{}");
  struct shaped_call call;
  shaped_run(&call, SHAPE_SERVER_STREAM, channel, NULL);
  assert_int_equal(call.unary.code, GRPC_STATUS_OK);
  assert_int_equal(call.n_messages, 2);
  assert_true(message_is(call.unary.message, "two"));
  shaped_fini(&call);
  weir_channel_destroy(channel);
  odd_peer_release(peer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_cannot_be_decompressed_is_internal_where_it_can_be_told),
      cmocka_unit_test(a_message_that_is_not_whole_is_none),
      cmocka_unit_test(a_message_over_the_cores_limit_is_ours_to_refuse),
      cmocka_unit_test(a_message_that_inflates_past_the_limit_is_refused_once),
      cmocka_unit_test(a_message_that_inflates_to_the_limit_is_taken),
      cmocka_unit_test(a_second_message_keeps_a_unary_call_until_its_deadline),
      cmocka_unit_test(a_stream_gets_all_messages),
  };
  return cmocka_run_group_tests_name("odd message", tests, start_core, stop_core);
}
