/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/seen.h"
#include "test/e2e/status_peer.h"
#include "test/e2e/support/metadata.h"

#define FAIL_METHOD "/peer.Status/Fail"
#define CHECK_METHOD "/peer.Status/Check"
#define DETAILS_KEY "grpc-status-details-bin"
#define SECRET "hunter2"

static struct status_peer peer;

/* --- policies --- */

struct kept {
  const char *policy;
  const char *names[5];
};

#define N_NAMES (sizeof((const struct kept *)0)->names / sizeof(const char *))

static const struct kept kept_some = {
    .policy = "{" NO_BREAKER ",\"translation\":{\"keepDetails\":["
              "\"google.rpc.BadRequest\",\"google.rpc.RetryInfo\","
              "\"google.rpc.LocalizedMessage\"]}}",
    .names = {"google.rpc.BadRequest", "google.rpc.RetryInfo", "google.rpc.LocalizedMessage"},
};

static const struct kept kept_all = {
    .policy = "{" NO_BREAKER ",\"translation\":{\"messageRef\":false,\"keepDetails\":["
              "\"google.rpc.BadRequest\",\"google.rpc.RetryInfo\","
              "\"google.rpc.LocalizedMessage\",\"google.rpc.ErrorInfo\","
              "\"google.rpc.DebugInfo\"]}}",
    .names = {"google.rpc.BadRequest", "google.rpc.RetryInfo", "google.rpc.LocalizedMessage",
              "google.rpc.ErrorInfo", "google.rpc.DebugInfo"},
};

static const struct kept kept_none = {.policy = "{" NO_BREAKER "}", .names = {NULL}};

/* --- calls --- */

/* A call that the peer fails with the details of a case. */
static void call_failing(struct unary *unary, const char *policy, const char *name, int code) {
  char request[64];
  weir_channel *channel = channel_to(peer.port, policy);
  (void)snprintf(request, sizeof request, "%s %d", name, code);
  unary_run(unary, channel, &(struct unary_setup){.method = FAIL_METHOD, .text = request});
  weir_channel_destroy(channel);
}

#define CHECK_METADATA 8

static size_t metadata_for_check(const struct kept *kept, const struct unary *failed,
                                 const char *name, grpc_metadata metadata_out[CHECK_METADATA]) {
  char code[16];
  char message[128];
  size_t count = 0;
  const size_t size = GRPC_SLICE_LENGTH(failed->details);
  assert_true(size < sizeof message);
  memcpy(message, GRPC_SLICE_START_PTR(failed->details), size);
  message[size] = '\0';
  (void)snprintf(code, sizeof code, "%d", (int)failed->code);
  metadata_out[count++] = weir__metadata_from_text("case", name);
  metadata_out[count++] = weir__metadata_from_text("code", code);
  metadata_out[count++] = weir__metadata_from_text("message", message);
  for (size_t i = 0; i < N_NAMES && kept->names[i] != NULL; i++) {
    metadata_out[count++] = weir__metadata_from_text("kept", kept->names[i]);
  }
  return count;
}

static void fail_with(const char *name, grpc_byte_buffer *message) {
  grpc_byte_buffer_reader reader;
  char said[256];
  assert_true(grpc_byte_buffer_reader_init(&reader, message));
  grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
  (void)snprintf(said, sizeof said, "%.*s", (int)GRPC_SLICE_LENGTH(all),
                 (const char *)GRPC_SLICE_START_PTR(all));
  grpc_slice_unref(all);
  grpc_byte_buffer_reader_destroy(&reader);
  fail_msg("%s: %s", name, said);
}

/* Python reads what was made of the details: it is what Python would have made of them. */
static void assert_python_agrees(const struct kept *kept, const struct unary *failed,
                                 const char *name, grpc_slice made) {
  struct unary unary;
  grpc_metadata metadata[CHECK_METADATA];
  const size_t n_metadata = metadata_for_check(kept, failed, name, metadata);
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&made, 1);
  weir_channel *channel = channel_to(peer.port, POLICY_PLAIN);
  unary_run(&unary, channel,
            &(struct unary_setup){.method = CHECK_METHOD,
                                  .message = message,
                                  .metadata = metadata,
                                  .n_metadata = n_metadata});
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  if (!message_is(unary.message, "ok")) {
    fail_with(name, unary.message);
  }
  unary_fini(&unary);
  weir_channel_destroy(channel);
  grpc_byte_buffer_destroy(message);
  for (size_t i = 0; i < n_metadata; i++) {
    grpc_slice_unref(metadata[i].key);
    grpc_slice_unref(metadata[i].value);
  }
}

/* --- at a boundary --- */

enum fate { DROPPED = 0, KEPT };

static void assert_fate(const struct kept *kept, const char *name, int code, enum fate fate) {
  struct unary unary;
  call_failing(&unary, kept->policy, name, code);
  assert_int_equal(unary.code, boundary_codes[code]);
  const grpc_slice *made = weir__metadata_find(&unary.trailing_metadata, DETAILS_KEY);
  if ((made != NULL) != (fate == KEPT)) {
    fail_msg("%s: %s", name, made != NULL ? "kept" : "dropped");
  }
  assert_int_equal(unary.trailing_metadata.count, fate == KEPT ? 1 : 0);
  if (made != NULL) {
    assert_python_agrees(kept, &unary, name, *made);
  }
  if (kept != &kept_all) {
    static struct seen seen;
    memset(&seen, 0, sizeof seen);
    see_unary(&seen, &unary);
    assert_int_equal(count_seen(&seen, SECRET), 0);
  }
  unary_fini(&unary);
}

static const struct {
  const char *name;
  enum fate fate;
} cases[] = {
    {"no_details", DROPPED},  {"each_type", KEPT},       {"several_of_a_type", KEPT},
    {"empty_values", KEPT},   {"largest_numbers", KEPT}, {"none_of_a_kept_type", DROPPED},
    {"other_prefixes", KEPT}, {"unknown_fields", KEPT},  {"status_within", KEPT},
    {"large", KEPT},          {"too_large", DROPPED},    {"cut_short", DROPPED},
    {"no_message", DROPPED},  {"not_utf8", DROPPED},
};

static void kept_details_are_as_python_would_have_made_them(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    assert_fate(&kept_some, cases[i].name, GRPC_STATUS_INVALID_ARGUMENT, cases[i].fate);
  }
}

static void they_say_the_code_that_the_caller_sees(void **state) {
  (void)state;
  for (int code = 1; code < WEIR_N_STATUS_CODES; code++) {
    assert_fate(&kept_some, "each_type", code, KEPT);
  }
}

static void whatever_types_the_policy_names_are_kept(void **state) {
  (void)state;
  assert_fate(&kept_all, "each_type", GRPC_STATUS_RESOURCE_EXHAUSTED, KEPT);
  assert_fate(&kept_all, "none_of_a_kept_type", GRPC_STATUS_NOT_FOUND, KEPT);
  assert_fate(&kept_none, "each_type", GRPC_STATUS_NOT_FOUND, DROPPED);
}

/* --- no boundary --- */

static void within_a_boundary_they_pass_as_they_were_sent(void **state) {
  (void)state;
  static struct seen seen;
  struct unary unary;
  call_failing(&unary, POLICY_PLAIN, "each_type", GRPC_STATUS_NOT_FOUND);
  assert_int_equal(unary.code, GRPC_STATUS_NOT_FOUND);
  assert_non_null(weir__metadata_find(&unary.trailing_metadata, DETAILS_KEY));
  see_unary(&seen, &unary);
  assert_true(count_seen(&seen, SECRET) > 2); /* so it was there to be seen */
  unary_fini(&unary);
}

static const char *script;

static int start_peer(void **state) {
  status_peer_start(&peer, script);
  return start_core(state);
}

static int end_peer(void **state) {
  (void)stop_core(state);
  status_peer_release(&peer);
  return 0;
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kept_details_are_as_python_would_have_made_them),
      cmocka_unit_test(they_say_the_code_that_the_caller_sees),
      cmocka_unit_test(whatever_types_the_policy_names_are_kept),
      cmocka_unit_test(within_a_boundary_they_pass_as_they_were_sent),
  };
  if (argc != 2) {
    return 1;
  }
  script = argv[1];
  return cmocka_run_group_tests_name("details", tests, start_peer, end_peer);
}
