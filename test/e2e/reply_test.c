/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/support/metadata.h"
#include "test/e2e/support/test_server.h"

#define SECRET "users_table at 10.0.0.7"

/* What the middle's call of the last service came to, for the test. */
struct middle {
  weir_channel *next;
  struct {
    pthread_mutex_t mutex;
    struct weir_call_report report;
  } guarded;
};

static void middle_note(struct middle *middle, const struct weir_call_report *report) {
  (void)pthread_mutex_lock(&middle->guarded.mutex);
  middle->guarded.report = *report;
  (void)pthread_mutex_unlock(&middle->guarded.mutex);
}

static struct weir_call_report middle_report(struct middle *middle) {
  (void)pthread_mutex_lock(&middle->guarded.mutex);
  struct weir_call_report report = middle->guarded.report;
  (void)pthread_mutex_unlock(&middle->guarded.mutex);
  return report;
}

/* A service in the middle, whose answer to a failure is one line. */
static void relay(void *context, const struct weir__test_served *served,
                  struct weir__test_reply *reply) {
  struct middle *middle = context;
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply answer = WEIR_UNARY_REPLY_INIT;
  (void)served;
  request.method = OTHER_METHOD;
  request.message = message_of("from the middle");
  request.timeout_ns = SECONDS(30);
  assert_int_equal(weir_unary(middle->next, &request, &answer), WEIR_OK);
  if (answer.code == GRPC_STATUS_OK) {
    reply->message = message_of("made of it");
  }
  weir_reply_status(&answer.report, &reply->weir, &reply->status);
  middle_note(middle, &answer.report);
  weir_unary_reply_fini(&answer); /* the reply points to nothing of it */
  grpc_byte_buffer_destroy(request.message);
}

struct chain {
  weir__test_server *last;
  struct middle middle;
  weir__test_server *server;
  weir_channel *root; /* sees all that the middle sends */
};

static void chain_open(struct chain *chain, const struct script *script, const char *policy,
                       const char *root_policy) {
  memset(chain, 0, sizeof *chain);
  (void)pthread_mutex_init(&chain->middle.guarded.mutex, NULL);
  chain->last = weir__test_server_new(answer_by_script, (void *)(uintptr_t)script, 0);
  chain->middle.next = channel_to(weir__test_server_port(chain->last), policy);
  chain->server = weir__test_server_new(relay, &chain->middle, 0);
  chain->root = channel_to(weir__test_server_port(chain->server), root_policy);
}

static void chain_close(struct chain *chain) {
  weir_channel_destroy(chain->root);
  weir__test_server_release(chain->server);
  weir_channel_destroy(chain->middle.next);
  weir__test_server_release(chain->last);
  (void)pthread_mutex_destroy(&chain->middle.guarded.mutex);
}

static void assert_secret_is_kept(const struct unary *unary) {
  char *text = grpc_slice_to_c_string(unary->details);
  assert_null(strstr(text, SECRET));
  gpr_free(text);
  assert_null(strstr(unary->error_string != NULL ? unary->error_string : "", SECRET));
}

/* The middle's channel is no boundary in the second half: its call has the downstream's words, and
 * the reply is without them all the same. */
static void every_code_is_answered_in_one_line(void **state) {
  (void)state;
  static const char *const policies[] = {"{" NO_BREAKER "}", "{" NO_BREAKER "," NO_BOUNDARY "}",
                                         "{" NO_BREAKER ",\"translation\":{\"messageRef\":false}}"};
  for (size_t p = 0; p < COUNT_OF(policies); p++) {
    for (int code = 1; code < WEIR_N_STATUS_CODES; code++) {
      const struct answer answer = {
          .code = (grpc_status_code)code, .text = SECRET, .trailing = {{"x-secret", SECRET}}};
      const struct script script = {.answers = &answer, .n_answers = 1};
      struct chain chain;
      struct unary unary;
      char reference[32] = "";
      char expected[128];
      chain_open(&chain, &script, policies[p], POLICY_PLAIN);
      unary_run(&unary, chain.root, NULL);

      const struct weir_call_report report = middle_report(&chain.middle);
      if (report.reference[0] != '\0') {
        (void)snprintf(reference, sizeof reference, " [ref %s]", report.reference);
      }
      assert_int_equal(reference[0] != '\0', p == 0);
      (void)snprintf(
          expected, sizeof expected, "%s%s%s",
          report.code == GRPC_STATUS_INTERNAL ? "downstream service error" : "downstream service: ",
          report.code == GRPC_STATUS_INTERNAL ? "" : weir_status_code_name(report.code), reference);
      assert_int_equal(unary.code, report.code);
      assert_text(unary.details, expected);
      assert_secret_is_kept(&unary);
      assert_null(weir__metadata_find(&unary.trailing_metadata, "x-secret"));
      const grpc_slice *stop =
          weir__metadata_find(&unary.trailing_metadata, "grpc-retry-pushback-ms");
      assert_int_equal(stop != NULL, report.do_not_retry);
      unary_fini(&unary);
      chain_close(&chain);
    }
  }
}

static void success_is_answered_in_the_same_line(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_OK});
  struct chain chain;
  struct unary unary;
  chain_open(&chain, &script, "{}", POLICY_PLAIN);
  unary_run(&unary, chain.root, NULL);

  assert_int_equal(unary.code, GRPC_STATUS_OK);
  assert_true(message_is(unary.message, "made of it"));
  assert_text(unary.details, "");
  assert_int_equal(unary.trailing_metadata.count, 0);
  unary_fini(&unary);
  chain_close(&chain);
}

/* The peer's own deadline: UNAVAILABLE for the middle's caller, who would ask again. */
static void the_caller_is_told_not_to_retry(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_DEADLINE_EXCEEDED, .text = SECRET});
  struct chain chain;
  struct unary unary;
  chain_open(&chain, &script, "{" NO_BREAKER "}", POLICY_RETRY);
  unary_run(&unary, chain.root, NULL);

  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary.report.reason, WEIR_REASON_PUSHBACK);
  assert_int_equal(weir__test_server_n_calls(chain.server), 1);
  assert_int_equal(weir__test_server_n_calls(chain.last), 1);
  unary_fini(&unary);
  chain_close(&chain);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_code_is_answered_in_one_line),
      cmocka_unit_test(success_is_answered_in_the_same_line),
      cmocka_unit_test(the_caller_is_told_not_to_retry),
  };
  return cmocka_run_group_tests_name("reply", tests, start_core, stop_core);
}
