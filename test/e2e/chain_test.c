/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/support/metadata.h"
#include "test/e2e/support/test_server.h"

#define FAILS \
  { .code = GRPC_STATUS_UNAVAILABLE, .text = "not now" }
#define WORKS \
  { .code = GRPC_STATUS_OK }

/* A service in the middle: it asks the next one over the channel that is its context, and says what
 * came of it. */
static void relay(void *context, const struct weir__test_served *served,
                  struct weir__test_reply *reply) {
  weir_channel *next = context;
  weir_inbound *inbound = NULL;
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply answer = WEIR_UNARY_REPLY_INIT;
  if (weir_inbound_new(served->details, served->metadata, served->call, NULL, &inbound) !=
      WEIR_OK) {
    return;
  }
  request.method = OTHER_METHOD;
  request.message = message_of("from the middle");
  request.inbound = inbound;
  if (weir_unary(next, &request, &answer) == WEIR_OK) {
    char *text = grpc_slice_to_c_string(answer.details);
    weir__test_reply_status(reply, answer.code, text);
    gpr_free(text);
    reply->n_trailing_metadata = weir_reply_metadata(&answer.report, reply->trailing_metadata);
  }
  weir_unary_reply_fini(&answer);
  weir_inbound_release(inbound);
  grpc_byte_buffer_destroy(request.message);
}

/* A client, the service in the middle, and the last one; weir between each two. */
struct chain {
  weir__test_server *last;
  weir_channel *to_last;
  weir__test_server *middle;
  weir_channel *to_middle;
};

static struct chain chain_open(const struct script *script, const char *root_policy,
                               const char *middle_policy) {
  struct chain chain;
  chain.last = weir__test_server_new(answer_by_script, (void *)(uintptr_t)script, 0);
  chain.to_last = channel_to(weir__test_server_port(chain.last), middle_policy);
  chain.middle = weir__test_server_new(relay, chain.to_last, 0);
  chain.to_middle = channel_to(weir__test_server_port(chain.middle), root_policy);
  return chain;
}

static void chain_close(struct chain *chain) {
  weir_channel_destroy(chain->to_middle);
  weir__test_server_release(chain->middle);
  weir_channel_destroy(chain->to_last);
  weir__test_server_release(chain->last);
}

static void assert_calls(const struct chain *chain, uint64_t n_middle, uint64_t n_last) {
  assert_int_equal(weir__test_server_n_calls(chain->middle), n_middle);
  assert_int_equal(weir__test_server_n_calls(chain->last), n_last);
}

static void attempts_of_two_layers_do_not_multiply(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct chain chain = chain_open(&script, POLICY_RETRY, POLICY_RETRY);
  struct weir__test_record record;
  struct unary unary;
  unary_run(&unary, chain.to_middle, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary.report.n_attempts, 3);
  assert_calls(&chain, 3, 3);
  for (size_t i = 0; i < 3; i++) {
    assert_true(weir__test_server_record(chain.last, i, &record));
    assert_string_equal(record.retry_owner, "weir"); /* the root's policy has the default name */
    assert_int_equal(record.previous_attempts, -1);
  }
  unary_fini(&unary);
  chain_close(&chain);
}

static void the_middle_retries_for_a_root_that_does_not(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS, FAILS, WORKS);
  struct chain chain = chain_open(&script, POLICY_PLAIN, POLICY_RETRY);
  struct unary unary;
  unary_run(&unary, chain.to_middle, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  assert_calls(&chain, 1, 3);
  unary_fini(&unary);
  chain_close(&chain);
}

/* A service's timeout on a slow one, told to its caller as UNAVAILABLE, would be retried there, and
 * the slow one would get three times the load. */
static void a_slow_service_is_not_asked_again_by_the_root(void **state) {
  (void)state;
  const struct script script = SCRIPT({.delay_ns = SECONDS(60)});
  struct chain chain =
      chain_open(&script, POLICY_RETRY, "{" NO_BREAKER "," METHODS("\"timeout\":\"0.1s\"") "}");
  struct unary unary;
  unary_run(&unary, chain.to_middle, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary.report.reason, WEIR_REASON_PUSHBACK);
  assert_calls(&chain, 1, 1);
  unary_fini(&unary);
  chain_close(&chain);
}

static void an_open_breaker_in_the_middle_is_not_asked_again_by_the_root(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct chain chain = chain_open(&script, POLICY_RETRY, "{}");
  struct unary unary;
  unary_run(&unary, chain.to_middle, NULL);
  unary_fini(&unary);
  unary_run(&unary, chain.to_middle, NULL);
  unary_fini(&unary);
  assert_calls(&chain, 6, 5); /* the fifth opened it, and the sixth was refused */
  unary_run(&unary, chain.to_middle, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary.report.reason, WEIR_REASON_PUSHBACK);
  assert_calls(&chain, 7, 5);
  unary_fini(&unary);
  chain_close(&chain);
}

static void the_roots_client_gets_no_blame_for_the_middles_mistakes(void **state) {
  (void)state;
  static const grpc_status_code codes[] = {
      GRPC_STATUS_INVALID_ARGUMENT, GRPC_STATUS_UNAUTHENTICATED, GRPC_STATUS_PERMISSION_DENIED,
      GRPC_STATUS_FAILED_PRECONDITION};
  for (size_t i = 0; i < COUNT_OF(codes); i++) {
    const struct answer answer = {.code = codes[i], .text = "table users at 10.0.0.7"};
    const struct script script = {.answers = &answer, .n_answers = 1};
    struct chain chain =
        chain_open(&script, POLICY_PLAIN, "{\"translation\":{\"messageRef\":false}}");
    struct unary unary;
    unary_run(&unary, chain.to_middle, NULL);
    assert_int_equal(unary.code, GRPC_STATUS_INTERNAL);
    assert_text(unary.details, "downstream service error");
    unary_fini(&unary);
    chain_close(&chain);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(attempts_of_two_layers_do_not_multiply),
      cmocka_unit_test(the_middle_retries_for_a_root_that_does_not),
      cmocka_unit_test(a_slow_service_is_not_asked_again_by_the_root),
      cmocka_unit_test(an_open_breaker_in_the_middle_is_not_asked_again_by_the_root),
      cmocka_unit_test(the_roots_client_gets_no_blame_for_the_middles_mistakes),
  };
  return cmocka_run_group_tests_name("chain", tests, start_core, stop_core);
}
