/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <grpc/grpc.h>

#include <weir/weir.h>

#include "test/e2e/captured.h"
#include "test/e2e/fixture.h"
#include "test/e2e/seen.h"
#include "test/e2e/support/test_server.h"

static void every_code_is_told_by_the_table(void **state) {
  (void)state;
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    const struct answer answer = {.code = (grpc_status_code)code, .text = "row 17"};
    const struct script script = {.answers = &answer, .n_answers = 1};
    weir__test_server *server =
        weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
    weir_channel *channel = channel_to(weir__test_server_port(server), "{}");
    struct unary unary;
    unary_run(&unary, channel, NULL);
    assert_int_equal(unary.code, boundary_codes[code]);
    assert_int_equal(unary.report.code, boundary_codes[code]);
    assert_int_equal(unary.report.raw_code, code);
    unary_fini(&unary);
    weir_channel_destroy(channel);
    weir__test_server_release(server);
  }
}

/* Breaker and retry see the raw code: what translation makes of it does not trip or retry
 * anything. */
static void layers_below_see_the_raw_code(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_INVALID_ARGUMENT});
  weir__test_server *server =
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
  weir_channel *channel = channel_to(weir__test_server_port(server),
                                     "{" METHODS(RETRY("3", "0.001s", "\"INTERNAL\"")) "}");
  struct unary unary;
  unary_run(&unary, channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_INTERNAL);
  assert_int_equal(weir__test_server_n_calls(server), 1);
  unary_fini(&unary);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

static void kept_keys_pass_and_references_can_be_left_out(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_NOT_FOUND,
                                       .text = "row 17",
                                       .trailing = {{"x-request-id", "abc"}, {"x-secret", "def"}}});
  weir__test_server *server =
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
  weir_channel *channel =
      channel_to(weir__test_server_port(server),
                 "{\"translation\":{\"messageRef\":false,\"keepMetadata\":[\"x-request-id\"]}}");
  struct unary unary;
  unary_run(&unary, channel, NULL);
  assert_text(unary.details, "downstream service: NOT_FOUND");
  assert_string_equal(unary.error_string, "downstream service: NOT_FOUND");
  assert_string_equal(unary.report.reference, "");
  assert_int_equal(unary.trailing_metadata.count, 1);
  assert_text(unary.trailing_metadata.metadata[0].value, "abc");
  unary_fini(&unary);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

/* --- the default log --- */

static void the_default_log_is_one_line_of_json_whatever_the_server_writes(void **state) {
  (void)state;
  static const char *const texts[] = {
      "plain",        "\"quotes\" \\ and {braces}", "two\nlines\ttab",
      "\x01\x1f\x7f", "\xff\xfe no UTF-8 \xc3",     "\xe2\x82\xac"};
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    const struct answer answer = {.code = GRPC_STATUS_INTERNAL, .text = texts[i]};
    const struct script script = {.answers = &answer, .n_answers = 1};
    weir__test_server *server =
        weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 2);
    weir_channel *channel = channel_new(&(struct channel_setup){
        .port = weir__test_server_port(server), .policy = "{}", .default_log = true});
    static struct captured captured;
    struct unary unary;
    capture_begin(&captured);
    unary_run(&unary, channel, NULL);
    capture_end(&captured);
    assert_int_equal(count_in(captured.text, captured.size, "\n"), 1);
    assert_int_equal(captured.text[captured.size - 1], '\n');
    if (!captured_is_json(&captured)) {
      fail_msg("no JSON: %s", captured.text);
    }
    assert_int_equal(count_in(captured.text, captured.size, unary.report.reference), 1);
    unary_fini(&unary);
    weir_channel_destroy(channel);
    weir__test_server_release(server);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_code_is_told_by_the_table),
      cmocka_unit_test(layers_below_see_the_raw_code),
      cmocka_unit_test(kept_keys_pass_and_references_can_be_left_out),
      cmocka_unit_test(the_default_log_is_one_line_of_json_whatever_the_server_writes),
  };
  return cmocka_run_group_tests_name("translation", tests, start_core, stop_core);
}
