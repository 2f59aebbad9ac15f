/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/compression.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/string_util.h>

#include "src/channel/channel.h"
#include "src/queue/queue.h"
#include "test/e2e/fixture.h"
#include "test/e2e/shared_server.h"
#include "test/e2e/support/bare_call.h"
#include "test/e2e/support/metadata.h"

#define TEXT_SIZE 128

#define NOT_NOW \
  { .code = GRPC_STATUS_UNAVAILABLE, .text = "not now" }
#define WORKS \
  { .code = GRPC_STATUS_OK }

static weir_call *call_new(weir_channel *channel, weir_completion_queue *queue) {
  weir_call *call =
      weir_channel_create_call(channel, NULL, 0, queue, grpc_slice_from_static_string(METHOD), NULL,
                               gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  assert_non_null(call);
  return call;
}

/* --- credentials --- */

/* A plugin that makes a new token each time that it is asked, and counts. */
struct tokens {
  atomic_uint n_made;
  atomic_uint n_gone; /* plugins that the core has let go of */
};

static int make_token(void *state, grpc_auth_metadata_context context,
                      grpc_credentials_plugin_metadata_cb cb, void *user_data,
                      grpc_metadata creds_md[GRPC_METADATA_CREDENTIALS_PLUGIN_SYNC_MAX],
                      size_t *num_creds_md, grpc_status_code *status, const char **error_details) {
  struct tokens *tokens = state;
  char text[TEXT_SIZE];
  (void)context;
  (void)cb;
  (void)user_data;
  (void)snprintf(text, sizeof text, "token %u", atomic_fetch_add(&tokens->n_made, 1) + 1);
  memset(&creds_md[0], 0, sizeof creds_md[0]);
  creds_md[0].key = grpc_slice_from_static_string("authorization");
  creds_md[0].value = grpc_slice_from_copied_string(text);
  *num_creds_md = 1;
  *status = GRPC_STATUS_OK;
  *error_details = NULL;
  return 1;
}

static char *describe_tokens(void *state) {
  (void)state;
  return gpr_strdup("tokens");
}

static void note_gone(void *state) {
  struct tokens *tokens = state;
  atomic_fetch_add(&tokens->n_gone, 1);
}

static grpc_call_credentials *tokens_new(struct tokens *tokens) {
  grpc_metadata_credentials_plugin plugin = {.get_metadata = make_token,
                                             .debug_string = describe_tokens,
                                             .destroy = note_gone,
                                             .state = tokens,
                                             .type = "tokens"};
  return grpc_metadata_credentials_create_from_plugin(plugin, GRPC_SECURITY_NONE, NULL);
}

/* The core's own shares of a call may outlast it by a moment. */
static void wait_until_gone(struct tokens *tokens) {
  int64_t limit_ns = now_ns() + SECONDS(10);
  while (atomic_load(&tokens->n_gone) == 0) {
    assert_true(now_ns() < limit_ns);
    (void)sched_yield();
  }
}

/* What the server's calls were authorised with, by number. */
struct authorised {
  struct script script;
  char tokens[4][TEXT_SIZE];
};

static void note_token(void *context, const struct weir__test_served *served,
                       struct weir__test_reply *reply) {
  struct authorised *authorised = context;
  grpc_metadata_array metadata = *served->metadata;
  (void)weir__metadata_copy_text(&metadata, "authorization",
                                 authorised->tokens[(served->number - 1) % 4], TEXT_SIZE);
  answer_by_script(&authorised->script, served, reply);
}

static void each_attempt_is_sent_with_credentials_of_its_own(void **state) {
  (void)state;
  struct authorised authorised = {.script = SCRIPT(NOT_NOW, NOT_NOW, WORKS)};
  static struct tokens tokens; /* the core asks from threads of its own */
  weir__test_server *server = weir__test_server_new(note_token, &authorised, 0);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_RETRY);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  weir_call *call = call_new(channel, queue);
  grpc_call_credentials *creds = tokens_new(&tokens);
  assert_int_equal(weir_call_set_credentials(call, creds), GRPC_CALL_OK);
  grpc_call_credentials_release(creds);
  struct unary unary;
  unary_start_on(&unary, call, NULL);
  unary_wait(&unary, queue);

  assert_int_equal(unary.code, GRPC_STATUS_OK);
  assert_int_equal(unary.report.n_attempts, 3);
  assert_int_equal(atomic_load(&tokens.n_gone), 0);
  unary_fini(&unary);
  wait_until_gone(&tokens);
  queue_end(queue);
  weir_channel_destroy(channel);
  weir__test_server_release(server); /* its threads have written the tokens */
  assert_string_equal(authorised.tokens[0], "token 1");
  assert_string_equal(authorised.tokens[1], "token 2");
  assert_string_equal(authorised.tokens[2], "token 3");
}

/* The core refuses to send them, whoever asks. */
static void secret_credentials_are_not_sent_in_the_clear(void **state) {
  (void)state;
  struct authorised authorised = {.script = SCRIPT(WORKS)};
  weir__test_server *server = weir__test_server_new(note_token, &authorised, 0);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_RETRY);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  weir_call *call = call_new(channel, queue);
  grpc_call_credentials *creds = grpc_access_token_credentials_create("secret", NULL);
  assert_int_equal(weir_call_set_credentials(call, creds), GRPC_CALL_OK);
  grpc_call_credentials_release(creds);
  struct unary unary;
  unary_start_on(&unary, call, NULL);
  unary_wait(&unary, queue);
  assert_int_equal(unary.code, GRPC_STATUS_UNAUTHENTICATED);
  assert_int_equal(weir__test_server_n_calls(server), 0);
  unary_fini(&unary);
  queue_end(queue);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

/* --- a secure channel, and who is at its other end --- */

static bool auth_context_says(const weir_call *call, const char *name, const char *value) {
  grpc_auth_context *context = weir_call_auth_context((weir_call *)(uintptr_t)call);
  assert_non_null(context);
  grpc_auth_property_iterator iterator = grpc_auth_context_find_properties_by_name(context, name);
  const grpc_auth_property *property = grpc_auth_property_iterator_next(&iterator);
  bool same = property != NULL && strcmp(property->value, value) == 0;
  grpc_auth_context_release(context);
  return same;
}

static void the_auth_context_tells_of_the_connection_at_a_boundary_too(void **state) {
  (void)state;
  static struct tokens tokens; /* the core asks from threads of its own */
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct shared_server server;
  grpc_server_credentials *server_creds = grpc_local_server_credentials_create(LOCAL_TCP);
  shared_server_open(&server, queue, server_creds, NULL);
  grpc_server_credentials_release(server_creds);
  grpc_channel_credentials *creds = grpc_local_credentials_create(LOCAL_TCP);
  weir_channel *channel = channel_new(
      &(struct channel_setup){.port = server.port,
                              .creds = creds,
                              .policy = "{" METHODS(RETRY("3", "0.005s", UNAVAILABLE)) "}"});
  grpc_channel_credentials_release(creds);
  weir_call *call = call_new(channel, queue);
  grpc_call_credentials *call_creds = tokens_new(&tokens);
  assert_int_equal(weir_call_set_credentials(call, call_creds), GRPC_CALL_OK);
  grpc_call_credentials_release(call_creds);
  assert_null(weir_call_auth_context(call));

  struct unary unary;
  unary_start_on(&unary, call, NULL);
  for (int nth = 1; nth <= 2; nth++) {
    char token[TEXT_SIZE];
    char expected[TEXT_SIZE];
    shared_server_next(&server);
    (void)snprintf(expected, sizeof expected, "token %d", nth);
    assert_true(weir__metadata_copy_text(&server.metadata, "authorization", token, sizeof token));
    assert_string_equal(token, expected);
    shared_server_answer(&server, nth == 1 ? GRPC_STATUS_UNAVAILABLE : GRPC_STATUS_NOT_FOUND,
                         "not here", NULL);
  }
  shared_server_wait(&server, &unary);
  assert_int_equal(unary.code, GRPC_STATUS_NOT_FOUND);
  assert_true(auth_context_says(call, GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME, "local"));
  unary_fini(&unary);
  weir_channel_destroy(channel);
  shared_server_close(&server);
  queue_end(queue);
}

/* --- the peer --- */

static void assert_peer(weir_call *call, const char *expected) {
  char *peer = weir_call_get_peer(call);
  assert_string_equal(peer, expected);
  gpr_free(peer);
}

static void the_peer_is_told_unless_it_is_behind_a_boundary(void **state) {
  (void)state;
  const struct script script = SCRIPT(NOT_NOW, WORKS);
  for (int boundary = 0; boundary <= 1; boundary++) {
    weir__test_server *server =
        weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
    char target[TEXT_SIZE];
    char peer[TEXT_SIZE];
    (void)snprintf(target, sizeof target, "127.0.0.1:%d", weir__test_server_port(server));
    (void)snprintf(peer, sizeof peer, "ipv4:127.0.0.1:%d", weir__test_server_port(server));
    weir_channel *channel =
        channel_to(weir__test_server_port(server), boundary != 0 ? NULL : POLICY_RETRY);
    weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
    weir_call *call = call_new(channel, queue);
    assert_peer(call, target);
    struct unary unary;
    unary_start_on(&unary, call, NULL);
    unary_wait(&unary, queue);
    assert_int_equal(unary.code, boundary != 0 ? GRPC_STATUS_UNAVAILABLE : GRPC_STATUS_OK);
    assert_peer(call, boundary != 0 ? target : peer);
    unary_fini(&unary);
    queue_end(queue);
    weir_channel_destroy(channel);
    weir__test_server_release(server);
  }
}

/* --- registered methods --- */

struct hosts {
  struct script script;
  char hosts[4][TEXT_SIZE];
  char paths[4][TEXT_SIZE];
};

static void note_host(void *context, const struct weir__test_served *served,
                      struct weir__test_reply *reply) {
  struct hosts *hosts = context;
  size_t index = (size_t)(served->number - 1) % 4;
  char *host = grpc_slice_to_c_string(served->details->host);
  (void)snprintf(hosts->hosts[index], TEXT_SIZE, "%s", host);
  (void)snprintf(hosts->paths[index], TEXT_SIZE, "%s", served->path);
  gpr_free(host);
  answer_by_script(&hosts->script, served, reply);
}

static void a_registered_call_is_retried_as_any_other(void **state) {
  (void)state;
  struct hosts hosts = {.script = SCRIPT(NOT_NOW, NOT_NOW, WORKS)};
  weir__test_server *server = weir__test_server_new(note_host, &hosts, 0);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_RETRY);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  void *handle = weir_channel_register_call(channel, OTHER_METHOD, "till.example", NULL);
  struct unary unary;
  unary_start_on(&unary,
                 weir_channel_create_registered_call(channel, NULL, 0, queue, handle,
                                                     gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL),
                 NULL);
  unary_wait(&unary, queue);
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  assert_int_equal(unary.report.n_attempts, 3);
  for (size_t i = 0; i < 3; i++) {
    struct weir__test_record record;
    assert_true(weir__test_server_record(server, i, &record));
    assert_int_equal(record.previous_attempts, i == 0 ? -1 : (int64_t)i);
  }
  unary_fini(&unary);
  queue_end(queue);
  weir_channel_destroy(channel);
  weir__test_server_release(server); /* its threads have written the hosts */
  for (size_t i = 0; i < 3; i++) {
    assert_string_equal(hosts.hosts[i], "till.example");
    assert_string_equal(hosts.paths[i], OTHER_METHOD);
  }
}

/* --- census --- */

/* The core, with its calls kept: what is set on each can be asked for. */
struct kept_calls {
  struct weir__transport base;
  grpc_call *calls[8];
  size_t n_calls;
};

static grpc_call *keep_call(void *context, const struct weir__call_target *target) {
  struct kept_calls *kept = context;
  const struct weir__transport *core = weir__transport_core();
  grpc_call *call = core->call_create(core->context, target);
  assert_true(kept->n_calls < COUNT_OF(kept->calls));
  core->call_ref(core->context, call);
  kept->calls[kept->n_calls++] = call;
  return call;
}

static void the_census_context_is_on_every_attempt(void **state) {
  (void)state;
  char place;
  const struct script script = SCRIPT(NOT_NOW, NOT_NOW, WORKS);
  struct kept_calls kept = {.base = *weir__transport_core(), .n_calls = 0};
  kept.base.context = &kept;
  kept.base.call_create = keep_call;
  weir__test_server *server =
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_RETRY);
  weir_completion_queue *queue =
      weir__queue_new(&(struct weir__queue_options){.transport = &kept.base, .type = GRPC_CQ_NEXT});
  weir_call *call = call_new(channel, queue);
  weir_census_call_set_context(call, (struct census_context *)(void *)&place);
  struct unary unary;
  unary_start_on(&unary, call, NULL);
  unary_wait(&unary, queue);
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  assert_ptr_equal(weir_census_call_get_context(call), &place);
  unary_fini(&unary);
  assert_int_equal(kept.n_calls, 3);
  for (size_t i = 0; i < kept.n_calls; i++) {
    assert_ptr_equal(grpc_census_call_get_context(kept.calls[i]), &place);
    grpc_call_unref(kept.calls[i]);
  }
  queue_end(queue);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

/* --- parents --- */

struct mask_row {
  const char *why;
  uint32_t mask;
  bool inherits_census;
};

static const struct mask_row mask_rows[] = {
    {"everything", GRPC_PROPAGATE_DEFAULTS, true},
    {"nothing", 0, false},
    {"all but cancellation", GRPC_PROPAGATE_DEFAULTS & ~GRPC_PROPAGATE_CANCELLATION, true},
    {"statistics alone", GRPC_PROPAGATE_CENSUS_STATS_CONTEXT, false},
    {"tracing alone", GRPC_PROPAGATE_CENSUS_TRACING_CONTEXT, false},
};

/* What the core says of a call that is never sent, made with such a mask. */
static grpc_status_code cores_status(grpc_channel *channel, grpc_call *parent, uint32_t mask) {
  grpc_completion_queue *queue = grpc_completion_queue_create_for_pluck(NULL);
  grpc_call *call =
      grpc_channel_create_call(channel, parent, mask, queue, grpc_slice_from_static_string(METHOD),
                               NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  grpc_metadata_array trailing;
  grpc_status_code status = GRPC_STATUS_OK;
  grpc_slice details = grpc_empty_slice();
  grpc_op op;
  memset(&op, 0, sizeof op);
  grpc_metadata_array_init(&trailing);
  op.op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  op.data.recv_status_on_client.trailing_metadata = &trailing;
  op.data.recv_status_on_client.status = &status;
  op.data.recv_status_on_client.status_details = &details;
  assert_int_equal(grpc_call_start_batch(call, &op, 1, &op, NULL), GRPC_CALL_OK);
  (void)grpc_call_cancel_with_status(call, GRPC_STATUS_ABORTED, "not the mask's", NULL);
  (void)grpc_completion_queue_pluck(queue, &op, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  grpc_metadata_array_destroy(&trailing);
  grpc_slice_unref(details);
  grpc_call_unref(call);
  grpc_completion_queue_shutdown(queue);
  grpc_completion_queue_destroy(queue);
  return status;
}

/* The same call of weir's; also tells the census context that it had. */
static grpc_status_code our_status(weir_channel *channel, grpc_call *parent, uint32_t mask,
                                   struct census_context **census_out) {
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  weir_call *call =
      weir_channel_create_call(channel, parent, mask, queue, grpc_slice_from_static_string(METHOD),
                               NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  struct unary unary;
  (void)weir_call_cancel_with_status(call, GRPC_STATUS_ABORTED, "not the mask's", NULL);
  *census_out = weir_census_call_get_context(call);
  unary_start_on(&unary, call, NULL);
  unary_wait(&unary, queue);
  grpc_status_code status = unary.code;
  unary_fini(&unary);
  queue_end(queue);
  return status;
}

static void what_a_parent_hands_on_is_as_the_core_has_it(void **state) {
  (void)state;
  char place;
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct shared_server server;
  grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
  shared_server_open(&server, queue, creds, NULL);
  grpc_server_credentials_release(creds);
  weir_channel *channel = channel_to(server.port, POLICY_PLAIN);
  struct unary unary;
  unary_start(&unary, channel, queue, NULL);
  shared_server_next(&server);
  grpc_census_call_set_context(server.call, (struct census_context *)(void *)&place);
  for (size_t i = 0; i < COUNT_OF(mask_rows); i++) {
    struct census_context *census = NULL;
    grpc_status_code ours = our_status(channel, server.call, mask_rows[i].mask, &census);
    grpc_status_code cores =
        cores_status(weir_channel_core(channel), server.call, mask_rows[i].mask);
    if (ours != cores || (census != NULL) != mask_rows[i].inherits_census) {
      fail_msg("%s: %d from weir, %d from the core", mask_rows[i].why, (int)ours, (int)cores);
    }
  }
  shared_server_answer(&server, GRPC_STATUS_OK, "", NULL);
  shared_server_wait(&server, &unary);
  unary_fini(&unary);
  weir_channel_destroy(channel);
  shared_server_close(&server);
  queue_end(queue);
}

/* --- compression --- */

static const char long_text[] =
    "the same words again, the same words again, the same words again, the same words again";

struct compressed_row {
  const char *why;
  const char *asked; /* of the call, by metadata; NULL = the channel's */
  uint32_t message_flags;
  grpc_compression_algorithm expected; /* the channel's is gzip */
};

static const struct compressed_row compressed_rows[] = {
    {"as the channel", NULL, 0, GRPC_COMPRESS_GZIP},
    {"not this message", NULL, GRPC_WRITE_NO_COMPRESS, GRPC_COMPRESS_NONE},
    {"with other flags", NULL, GRPC_WRITE_THROUGH | GRPC_WRITE_BUFFER_HINT, GRPC_COMPRESS_GZIP},
    {"as the call", "deflate", 0, GRPC_COMPRESS_DEFLATE},
    {"not this call", "identity", 0, GRPC_COMPRESS_NONE},
};

/* `asked` is valid until the call has ended. */
static void start_compressed(struct unary *unary, weir_channel *channel,
                             weir_completion_queue *queue, const struct compressed_row *row,
                             grpc_metadata *asked) {
  memset(asked, 0, sizeof *asked);
  asked->key = grpc_slice_from_static_string(GRPC_COMPRESSION_REQUEST_ALGORITHM_MD_KEY);
  asked->value = grpc_slice_from_static_string(row->asked != NULL ? row->asked : "");
  unary_start(unary, channel, queue,
              &(struct unary_setup){.text = long_text,
                                    .metadata = asked,
                                    .n_metadata = row->asked != NULL ? 1 : 0,
                                    .message_flags = row->message_flags});
}

static void each_attempt_compresses_as_the_first(void **state) {
  (void)state;
  char algorithm_key[] = GRPC_COMPRESSION_CHANNEL_DEFAULT_ALGORITHM;
  char decompress_key[] = GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION;
  grpc_arg gzip = {
      .type = GRPC_ARG_INTEGER, .key = algorithm_key, .value.integer = GRPC_COMPRESS_GZIP};
  grpc_arg as_it_comes = {.type = GRPC_ARG_INTEGER, .key = decompress_key, .value.integer = 0};
  grpc_channel_args channel_args = {.num_args = 1, .args = &gzip};
  grpc_channel_args server_args = {.num_args = 1, .args = &as_it_comes};
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct shared_server server;
  grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
  shared_server_open(&server, queue, creds, &server_args);
  grpc_server_credentials_release(creds);
  weir_channel *channel = channel_new(
      &(struct channel_setup){.port = server.port, .policy = POLICY_RETRY, .args = &channel_args});
  for (size_t i = 0; i < COUNT_OF(compressed_rows); i++) {
    const struct compressed_row *row = &compressed_rows[i];
    struct unary unary;
    grpc_metadata asked;
    start_compressed(&unary, channel, queue, row, &asked);
    for (int nth = 1; nth <= 2; nth++) {
      shared_server_next(&server);
      if (server.message->data.raw.compression != row->expected) {
        fail_msg("%s, attempt %d: algorithm %d", row->why, nth,
                 (int)server.message->data.raw.compression);
      }
      assert_int_equal(message_is(server.message, long_text), row->expected == GRPC_COMPRESS_NONE);
      shared_server_answer(&server, nth == 1 ? GRPC_STATUS_UNAVAILABLE : GRPC_STATUS_OK, "", NULL);
    }
    shared_server_wait(&server, &unary);
    assert_int_equal(unary.code, GRPC_STATUS_OK);
    unary_fini(&unary);
  }
  weir_channel_destroy(channel);
  shared_server_close(&server);
  queue_end(queue);
}

/* --- memory, and the rest --- */

static void memory_of_the_call_is_there_after_its_end(void **state) {
  (void)state;
  const struct script script = SCRIPT(NOT_NOW, WORKS);
  weir__test_server *server =
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_RETRY);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  weir_call *call = call_new(channel, queue);
  char *text = weir_call_arena_alloc(call, sizeof long_text);
  assert_non_null(text);
  memcpy(text, long_text, sizeof long_text);
  struct unary unary;
  unary_start_on(&unary, call, NULL);
  unary_wait(&unary, queue);
  assert_int_equal(unary.report.n_attempts, 2);
  assert_string_equal(text, long_text);
  unary_fini(&unary);
  queue_end(queue);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

/* The core lets a program leave the array out, and nothing else. */
static void trailing_metadata_need_not_be_asked_for(void **state) {
  (void)state;
  const struct script scripts[] = {
      SCRIPT({.code = GRPC_STATUS_OK, .trailing = {{"x-quota", "7"}}}),
      SCRIPT({.code = GRPC_STATUS_NOT_FOUND, .text = "no", .trailing = {{"x-quota", "7"}}}),
  };
  for (size_t i = 0; i < COUNT_OF(scripts); i++) {
    static const struct unary_setup setup = {.method = METHOD};
    weir__test_server *server =
        weir__test_server_new(answer_by_script, (void *)(uintptr_t)&scripts[i], 0);
    weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_PLAIN);
    weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
    struct unary unary;
    grpc_op ops[UNARY_OPS];
    unary_create(&unary, channel, queue, &setup);
    unary_ops(&unary, &setup, ops);
    ops[5].data.recv_status_on_client.trailing_metadata = NULL;
    ops[5].data.recv_status_on_client.error_string = NULL;
    assert_int_equal(weir_call_start_batch(unary.call, ops, UNARY_OPS, &unary, NULL), GRPC_CALL_OK);
    unary_wait(&unary, queue);
    assert_int_equal(unary.code, scripts[i].answers[0].code);
    unary_fini(&unary);
    queue_end(queue);
    weir_channel_destroy(channel);
    weir__test_server_release(server);
  }
}

static void whether_it_failed_before_a_message_is_the_cores_answer(void **state) {
  (void)state;
  const struct script scripts[] = {
      SCRIPT(WORKS),
      SCRIPT(NOT_NOW),
      SCRIPT({.code = GRPC_STATUS_NOT_FOUND, .text = "no", .headers_apart = true}),
  };
  for (size_t i = 0; i < COUNT_OF(scripts); i++) {
    weir__test_server *server =
        weir__test_server_new(answer_by_script, (void *)(uintptr_t)&scripts[i], 0);
    weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_PLAIN);
    struct unary unary;
    struct weir__bare_reply reply;
    grpc_byte_buffer *message = message_of("hello");
    unary_run(&unary, channel, NULL);
    weir__bare_unary(weir_channel_core(channel),
                     &(struct weir__bare_request){.method = METHOD,
                                                  .message = message,
                                                  .deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC)},
                     &reply);
    assert_int_equal(unary.code, reply.code);
    assert_int_equal(weir_call_failed_before_recv_message(unary.call),
                     grpc_call_failed_before_recv_message(reply.call));
    unary_fini(&unary);
    weir__bare_reply_fini(&reply);
    grpc_byte_buffer_destroy(message);
    weir_channel_destroy(channel);
    weir__test_server_release(server);
  }
}

/* The last share can be given back in any state; tags that are owed come all the same. */
static void a_call_can_be_let_go_in_any_state(void **state) {
  (void)state;
  const struct script script = SCRIPT(NOT_NOW);
  const struct script never = SCRIPT({.delay_ns = SECONDS(60)});
  weir__test_server *server =
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
  weir__test_server *silent = weir__test_server_new(answer_by_script, (void *)(uintptr_t)&never, 0);
  struct counted_random random;
  counted_random_init(&random);
  weir_channel *channel =
      channel_new(&(struct channel_setup){.port = weir__test_server_port(server),
                                          .policy = POLICY_LONG_BACKOFF,
                                          .random = &random.base});
  weir_channel *to_silent = channel_to(weir__test_server_port(silent), POLICY_LONG_BACKOFF);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);

  weir_call *call = call_new(channel, queue); /* not started */
  weir_call_ref(call);
  weir_call_unref(call);
  weir_call_unref(call);

  struct unary unary;
  unary_start(&unary, to_silent, queue, NULL); /* under way */
  weir_call_ref(unary.call);
  weir_call_unref(unary.call);
  weir_call_unref(unary.call);
  assert_ptr_equal(next_tag(queue), &unary);
  assert_int_equal(unary.code, GRPC_STATUS_CANCELLED);
  weir_call *kept = call_new(channel, queue); /* for unary_fini, which lets one go */
  unary.call = kept;
  unary_fini(&unary);

  unsigned n_asked = counted_random_n_asked(&random);
  unary_start(&unary, channel, queue, &(struct unary_setup){.timeout_ns = SECONDS(60)});
  /* in backoff */
  drain_into_backoff(queue, &random, n_asked + 1);
  weir_call_unref(unary.call);
  assert_ptr_equal(next_tag(queue), &unary);
  assert_int_equal(unary.code, GRPC_STATUS_CANCELLED);
  unary.call = call_new(channel, queue);
  unary_fini(&unary);

  queue_end(queue);
  weir_channel_destroy(to_silent);
  weir_channel_destroy(channel);
  counted_random_fini(&random);
  weir__test_server_release(silent);
  weir__test_server_release(server);
}

/* --- from another thread --- */

struct asker {
  weir_call *call;
  atomic_bool stop;
  size_t n_rounds;
};

static void *ask(void *argument) {
  struct asker *asker = argument;
  while (!atomic_load(&asker->stop)) {
    gpr_free(weir_call_get_peer(asker->call));
    (void)weir_census_call_get_context(asker->call);
    if (asker->n_rounds++ % 64 == 0) {
      *(char *)weir_call_arena_alloc(asker->call, 1) = 1;
    }
    (void)sched_yield();
  }
  return NULL;
}

static void a_call_may_be_asked_while_attempts_change(void **state) {
  (void)state;
  const struct script script = SCRIPT(NOT_NOW, NOT_NOW, NOT_NOW, NOT_NOW, WORKS);
  weir__test_server *server =
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
  weir_channel *channel =
      channel_to(weir__test_server_port(server),
                 "{" NO_BOUNDARY "," NO_BREAKER "," METHODS(RETRY("5", "0.02s", UNAVAILABLE)) "}");
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct asker asker = {.call = call_new(channel, queue)};
  struct unary unary;
  pthread_t thread;
  unary_start_on(&unary, asker.call, NULL);
  assert_int_equal(pthread_create(&thread, NULL, ask, &asker), 0);
  unary_wait(&unary, queue);
  atomic_store(&asker.stop, true);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  assert_int_equal(unary.report.n_attempts, 5);
  unary_fini(&unary);
  queue_end(queue);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_attempt_is_sent_with_credentials_of_its_own),
      cmocka_unit_test(secret_credentials_are_not_sent_in_the_clear),
      cmocka_unit_test(the_auth_context_tells_of_the_connection_at_a_boundary_too),
      cmocka_unit_test(the_peer_is_told_unless_it_is_behind_a_boundary),
      cmocka_unit_test(a_registered_call_is_retried_as_any_other),
      cmocka_unit_test(the_census_context_is_on_every_attempt),
      cmocka_unit_test(what_a_parent_hands_on_is_as_the_core_has_it),
      cmocka_unit_test(each_attempt_compresses_as_the_first),
      cmocka_unit_test(memory_of_the_call_is_there_after_its_end),
      cmocka_unit_test(trailing_metadata_need_not_be_asked_for),
      cmocka_unit_test(whether_it_failed_before_a_message_is_the_cores_answer),
      cmocka_unit_test(a_call_can_be_let_go_in_any_state),
      cmocka_unit_test(a_call_may_be_asked_while_attempts_change),
  };
  return cmocka_run_group_tests_name("call surface", tests, start_core, stop_core);
}
