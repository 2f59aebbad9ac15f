/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include "test/e2e/fixture.h"
#include "test/e2e/shared_server.h"
#include "test/e2e/support/bare_call.h"
#include "test/e2e/support/odd_peer.h"

#define WAIT_LIMIT_S 10

static gpr_timespec in_seconds(int64_t seconds) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(seconds, GPR_TIMESPAN));
}

/* --- connectivity --- */

struct watched {
  weir_channel *channel;
  weir_completion_queue *queue;
};

static struct watched watched_open(const struct channel_setup *setup) {
  return (struct watched){.channel = channel_new(setup),
                          .queue = weir_completion_queue_create_for_next(NULL)};
}

static void watched_close(struct watched *watched) {
  weir_channel_destroy(watched->channel);
  queue_end(watched->queue);
}

/* Waits until the channel is no longer in `state`; says what it is then. */
static grpc_connectivity_state leave(struct watched *watched, grpc_connectivity_state state,
                                     int try_to_connect) {
  char tag;
  weir_channel_watch_connectivity_state(watched->channel, state, in_seconds(WAIT_LIMIT_S),
                                        watched->queue, &tag);
  grpc_event event = weir_completion_queue_next(watched->queue, in_seconds(2 * WAIT_LIMIT_S), NULL);
  assert_int_equal(event.type, GRPC_OP_COMPLETE);
  assert_ptr_equal(event.tag, &tag);
  assert_int_not_equal(event.success, 0);
  return weir_channel_check_connectivity_state(watched->channel, try_to_connect);
}

/* Connecting, until it is in `wanted`. */
static void reach(struct watched *watched, grpc_connectivity_state wanted) {
  grpc_connectivity_state state = weir_channel_check_connectivity_state(watched->channel, 1);
  for (int i = 0; state != wanted; i++) {
    assert_true(i < 20);
    state = leave(watched, state, 1);
  }
}

static const struct answer works = {.code = GRPC_STATUS_OK};
static const struct script always_works = {.answers = &works, .n_answers = 1};

static weir__test_server *server_new(void) {
  return weir__test_server_new(answer_by_script, (void *)(uintptr_t)&always_works, 0);
}

static void the_state_follows_the_server(void **state) {
  (void)state;
  weir__test_server *server = server_new();
  struct watched watched =
      watched_open(&(struct channel_setup){.port = weir__test_server_port(server)});
  assert_int_equal(weir_channel_check_connectivity_state(watched.channel, 0), GRPC_CHANNEL_IDLE);
  assert_int_equal(weir_channel_check_connectivity_state(watched.channel, 0), GRPC_CHANNEL_IDLE);
  reach(&watched, GRPC_CHANNEL_READY);
  weir__test_server_stop(server);
  assert_int_not_equal(leave(&watched, GRPC_CHANNEL_READY, 0), GRPC_CHANNEL_READY);
  reach(&watched, GRPC_CHANNEL_TRANSIENT_FAILURE);
  weir__test_server_start(server);
  reach(&watched, GRPC_CHANNEL_READY);
  watched_close(&watched);
  weir__test_server_release(server);
}

static void a_silent_peer_is_being_connected_to(void **state) {
  (void)state;
  static const struct odd_script silence = ODD_SCRIPT(ODD_MUTE);
  struct odd_peer *peer =
      odd_peer_new(&(struct odd_setup){.greetings = &silence, .n_greetings = 1});
  struct watched watched = watched_open(&(struct channel_setup){.port = odd_peer_port(peer)});
  assert_int_equal(weir_channel_check_connectivity_state(watched.channel, 1), GRPC_CHANNEL_IDLE);
  assert_int_equal(leave(&watched, GRPC_CHANNEL_IDLE, 0), GRPC_CHANNEL_CONNECTING);
  watched_close(&watched);
  odd_peer_release(peer);
}

/* An hour between two tries, unless somebody asks for one. */
static void resetting_the_backoff_connects_at_once(void **state) {
  (void)state;
  char min_key[] = GRPC_ARG_MIN_RECONNECT_BACKOFF_MS;
  char initial_key[] = GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS;
  char max_key[] = GRPC_ARG_MAX_RECONNECT_BACKOFF_MS;
  grpc_arg hour[] = {
      {.type = GRPC_ARG_INTEGER, .key = min_key, .value.integer = 3600000},
      {.type = GRPC_ARG_INTEGER, .key = initial_key, .value.integer = 3600000},
      {.type = GRPC_ARG_INTEGER, .key = max_key, .value.integer = 3600000},
  };
  grpc_channel_args args = {.num_args = COUNT_OF(hour), .args = hour};
  weir__test_server *server = server_new();
  struct watched watched =
      watched_open(&(struct channel_setup){.port = weir__test_server_port(server), .args = &args});
  weir__test_server_stop(server);
  reach(&watched, GRPC_CHANNEL_TRANSIENT_FAILURE);
  weir__test_server_start(server);
  weir_channel_reset_connect_backoff(watched.channel);
  reach(&watched, GRPC_CHANNEL_READY);
  watched_close(&watched);
  weir__test_server_release(server);
}

/* --- watches and queues --- */

static void a_watch_that_sees_no_change_ends_at_its_deadline(void **state) {
  (void)state;
  struct watched watched = watched_open(&(struct channel_setup){.port = 1});
  weir_channel_watch_connectivity_state(watched.channel, GRPC_CHANNEL_IDLE,
                                        gpr_now(GPR_CLOCK_MONOTONIC), watched.queue, &watched);
  grpc_event event = weir_completion_queue_next(watched.queue, in_seconds(WAIT_LIMIT_S), NULL);
  assert_int_equal(event.type, GRPC_OP_COMPLETE);
  assert_ptr_equal(event.tag, &watched);
  assert_int_equal(event.success, 0);
  watched_close(&watched);
}

static void a_watch_holds_the_queue_open_until_the_channel_ends_it(void **state) {
  (void)state;
  struct watched watched = watched_open(&(struct channel_setup){.port = 1});
  assert_int_equal(weir_channel_num_external_connectivity_watchers(watched.channel), 0);
  weir_channel_watch_connectivity_state(watched.channel, GRPC_CHANNEL_IDLE,
                                        gpr_inf_future(GPR_CLOCK_MONOTONIC), watched.queue,
                                        &watched);
  assert_int_equal(weir_channel_num_external_connectivity_watchers(watched.channel), 1);
  weir_completion_queue_shutdown(watched.queue);
  grpc_event event = weir_completion_queue_next(watched.queue, gpr_now(GPR_CLOCK_MONOTONIC), NULL);
  assert_int_equal(event.type, GRPC_QUEUE_TIMEOUT); /* not GRPC_QUEUE_SHUTDOWN */
  weir_channel_destroy(watched.channel);
  event = weir_completion_queue_next(watched.queue, in_seconds(WAIT_LIMIT_S), NULL);
  assert_int_equal(event.type, GRPC_OP_COMPLETE);
  assert_ptr_equal(event.tag, &watched);
  assert_int_not_equal(event.success, 0);
  event = weir_completion_queue_next(watched.queue, in_seconds(WAIT_LIMIT_S), NULL);
  assert_int_equal(event.type, GRPC_QUEUE_SHUTDOWN);
  weir_completion_queue_destroy(watched.queue);
}

static void any_tag_comes_back_as_it_was(void **state) {
  (void)state;
  struct watched watched = watched_open(&(struct channel_setup){.port = 1});
  weir_call *call = weir_channel_create_call(watched.channel, NULL, 0, watched.queue,
                                             grpc_slice_from_static_string(METHOD), NULL,
                                             gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  void *const tags[] = {NULL, call, watched.queue, watched.channel, (void *)(uintptr_t)7};
  for (size_t i = 0; i < COUNT_OF(tags); i++) {
    weir_channel_watch_connectivity_state(watched.channel, GRPC_CHANNEL_IDLE,
                                          gpr_now(GPR_CLOCK_MONOTONIC), watched.queue, tags[i]);
    grpc_event event = weir_completion_queue_next(watched.queue, in_seconds(WAIT_LIMIT_S), NULL);
    assert_int_equal(event.type, GRPC_OP_COMPLETE);
    assert_ptr_equal(event.tag, tags[i]);
  }
  weir_call_unref(call);
  watched_close(&watched);
}

static void a_watch_can_be_plucked(void **state) {
  (void)state;
  weir_channel *channel = channel_to(1, NULL);
  weir_completion_queue *queue = weir_completion_queue_create_for_pluck(NULL);
  char first;
  char second;
  weir_channel_watch_connectivity_state(channel, GRPC_CHANNEL_IDLE, gpr_now(GPR_CLOCK_MONOTONIC),
                                        queue, &first);
  weir_channel_watch_connectivity_state(channel, GRPC_CHANNEL_READY,
                                        gpr_inf_future(GPR_CLOCK_MONOTONIC), queue, &second);
  grpc_event event = weir_completion_queue_pluck(queue, &second, in_seconds(WAIT_LIMIT_S), NULL);
  assert_int_equal(event.type, GRPC_OP_COMPLETE);
  assert_int_not_equal(event.success, 0); /* it is idle, and not ready */
  event = weir_completion_queue_pluck(queue, &first, in_seconds(WAIT_LIMIT_S), NULL);
  assert_int_equal(event.type, GRPC_OP_COMPLETE);
  assert_int_equal(event.success, 0);
  weir_completion_queue_shutdown(queue);
  event = weir_completion_queue_pluck(queue, NULL, in_seconds(WAIT_LIMIT_S), NULL);
  assert_int_equal(event.type, GRPC_QUEUE_SHUTDOWN);
  weir_completion_queue_destroy(queue);
  weir_channel_destroy(channel);
}

/* The call keeps the core's channel, which ends the watch when it ends. */
static void a_watch_outlasts_the_channel_while_a_call_is_held(void **state) {
  (void)state;
  weir__test_server *server = server_new();
  struct watched watched =
      watched_open(&(struct channel_setup){.port = weir__test_server_port(server)});
  struct unary unary;
  unary_start(&unary, watched.channel, watched.queue, NULL);
  unary_wait(&unary, watched.queue);
  weir_channel_watch_connectivity_state(watched.channel, GRPC_CHANNEL_READY,
                                        gpr_inf_future(GPR_CLOCK_MONOTONIC), watched.queue,
                                        &watched);
  weir_channel_destroy(watched.channel);
  unary_fini(&unary);
  assert_ptr_equal(next_tag(watched.queue), &watched);
  queue_end(watched.queue);
  weir__test_server_release(server);
}

/* --- what is asked of a channel --- */

static void the_target_is_as_the_core_tells_it(void **state) {
  (void)state;
  static const char *const targets[] = {"127.0.0.1:1", "dns:///localhost:1", "ipv4:127.0.0.1:1",
                                        "unix:/nowhere"};
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  for (size_t i = 0; i < COUNT_OF(targets); i++) {
    weir_channel *ours = channel_new(&(struct channel_setup){.target = targets[i]});
    grpc_channel *cores = grpc_channel_create(targets[i], creds, NULL);
    char *our_target = weir_channel_get_target(ours);
    char *cores_target = grpc_channel_get_target(cores);
    assert_string_equal(our_target, cores_target);
    gpr_free(our_target);
    gpr_free(cores_target);
    grpc_channel_destroy(cores);
    weir_channel_destroy(ours);
  }
  grpc_channel_credentials_release(creds);
}

static void assert_lb_policy(const char *policy, const grpc_channel_args *args,
                             const char *expected) {
  weir__test_server *server = server_new();
  struct watched watched = watched_open(&(struct channel_setup){
      .port = weir__test_server_port(server), .policy = policy, .args = args});
  reach(&watched, GRPC_CHANNEL_READY);
  char *lb_policy_name = NULL;
  char *service_config = NULL;
  grpc_channel_info info = {.lb_policy_name = &lb_policy_name,
                            .service_config_json = &service_config};
  weir_channel_get_info(watched.channel, &info);
  assert_string_equal(lb_policy_name, expected);
  assert_non_null(service_config);
  gpr_free(lb_policy_name);
  gpr_free(service_config);
  watched_close(&watched);
  weir__test_server_release(server);
}

static void the_load_balancing_policy_is_told(void **state) {
  (void)state;
  assert_lb_policy(NULL, NULL, "pick_first");
  assert_lb_policy("{\"loadBalancingConfig\":[{\"round_robin\":{}}]}", NULL, "round_robin");
}

/* What the application gives the core itself stands before what the policy passes on. */
static void a_service_config_of_the_applications_own_is_left_alone(void **state) {
  (void)state;
  char config_key[] = GRPC_ARG_SERVICE_CONFIG;
  char config[] = "{\"loadBalancingConfig\":[{\"pick_first\":{}}]}";
  char resolution_key[] = GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION;
  grpc_arg own[] = {
      {.type = GRPC_ARG_STRING, .key = config_key, .value.string = config},
      {.type = GRPC_ARG_INTEGER, .key = resolution_key, .value.integer = 1},
  };
  const grpc_channel_args args = {.num_args = COUNT_OF(own), .args = own};
  assert_lb_policy("{\"loadBalancingConfig\":[{\"round_robin\":{}}]}", &args, "pick_first");
}

/* --- other ways to make a channel --- */

static weir_channel *lame_new(grpc_status_code code, const char *policy_document) {
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  struct weir_diagnostic diagnostic;
  assert_int_equal(weir_policy_from_json(policy_document, strlen(policy_document), NULL, NULL,
                                         &options.policy, &diagnostic),
                   WEIR_OK);
  weir_channel *channel =
      weir_lame_client_channel_create("lame.example", code, "by the application", &options);
  weir_policy_unref(options.policy);
  assert_non_null(channel);
  return channel;
}

static void calls_of_a_lame_channel_end_with_its_status(void **state) {
  (void)state;
  struct unary unary;
  weir_channel *channel = lame_new(GRPC_STATUS_NOT_FOUND, POLICY_RETRY);
  unary_run(&unary, channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_NOT_FOUND);
  assert_text(unary.details, "by the application");
  unary_fini(&unary);
  assert_int_equal(weir_channel_check_connectivity_state(channel, 1),
                   GRPC_CHANNEL_TRANSIENT_FAILURE);
  assert_int_equal(weir_channel_support_connectivity_watcher(channel), 0);
  assert_int_equal(weir_channel_num_external_connectivity_watchers(channel), 0);
  char *lb_policy_name = NULL;
  weir_channel_get_info(channel, &(grpc_channel_info){.lb_policy_name = &lb_policy_name});
  assert_null(lb_policy_name);
  weir_channel_destroy(channel);

  channel = lame_new(GRPC_STATUS_OK, POLICY_PLAIN); /* which the core makes UNKNOWN of */
  unary_run(&unary, channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_UNKNOWN);
  unary_fini(&unary);
  weir_channel_destroy(channel);
}

static void a_channel_over_a_socket_works_as_any_other(void **state) {
  (void)state;
  int ends[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct shared_server server;
  shared_server_open(&server, queue, NULL, NULL);
  shared_server_add_fd(&server, ends[1]);
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  assert_int_equal(
      weir_policy_from_json(POLICY_RETRY, strlen(POLICY_RETRY), NULL, NULL, &options.policy, NULL),
      WEIR_OK);
  weir_channel *channel =
      weir_channel_create_from_fd("socket.example", ends[0], creds, NULL, &options);
  weir_policy_unref(options.policy);
  grpc_channel_credentials_release(creds);
  assert_non_null(channel);
  assert_int_equal(weir_channel_support_connectivity_watcher(channel), 0);

  struct unary unary;
  unary_start(&unary, channel, queue, NULL);
  shared_server_next(&server);
  assert_true(message_is(server.message, "hello"));
  shared_server_answer(&server, GRPC_STATUS_UNAVAILABLE, "not now", NULL);
  shared_server_next(&server); /* the retry, on the same connection */
  shared_server_answer(&server, GRPC_STATUS_OK, "", "there you are");
  shared_server_wait(&server, &unary);
  unary_read_report(&unary);
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  assert_true(message_is(unary.message, "there you are"));
  assert_int_equal(unary.report.n_attempts, 2);
  unary_fini(&unary);
  weir_channel_destroy(channel);
  shared_server_close(&server);
  queue_end(queue);
}

/* --- past weir --- */

static void calls_on_the_cores_channel_pass_weir_by(void **state) {
  (void)state;
  const struct script refuses =
      SCRIPT({.code = GRPC_STATUS_INVALID_ARGUMENT, .text = "the price is negative"});
  weir__test_server *server =
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&refuses, 0);
  weir_channel *channel = channel_to(weir__test_server_port(server), NULL);
  struct unary unary;
  unary_run(&unary, channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_INTERNAL);
  unary_fini(&unary);

  struct weir__bare_reply reply;
  grpc_byte_buffer *message = message_of("hello");
  weir__bare_unary(weir_channel_core(channel),
                   &(struct weir__bare_request){.method = METHOD,
                                                .message = message,
                                                .deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC)},
                   &reply);
  grpc_byte_buffer_destroy(message);
  assert_int_equal(reply.code, GRPC_STATUS_INVALID_ARGUMENT);
  assert_text(reply.details, "the price is negative");
  weir__bare_reply_fini(&reply);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

static void options_of_a_newer_program_make_no_channel(void **state) {
  (void)state;
  struct {
    struct weir_channel_options known;
    void *unknown;
  } newer = {.known = WEIR_CHANNEL_OPTIONS_INIT, .unknown = state};
  newer.known.size = sizeof newer;
  int ends[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  assert_null(weir_channel_create_from_fd("x", ends[0], NULL, NULL, &newer.known));
  assert_null(weir_lame_client_channel_create("x", GRPC_STATUS_UNKNOWN, "", &newer.known));
  assert_null(weir_lame_client_channel_create(NULL, GRPC_STATUS_UNKNOWN, "", NULL));
  assert_int_equal(close(ends[0]), 0); /* it was not taken */
  assert_int_equal(close(ends[1]), 0);
}

static void a_log_that_can_not_be_written_to_makes_no_channel(void **state) {
  (void)state;
  const struct weir_log_sink logs[] = {{.size = sizeof logs[0], .write = NULL},
                                       {.size = 0, .write = NULL}};
  for (size_t i = 0; i < COUNT_OF(logs); i++) {
    struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
    grpc_channel *core = grpc_lame_client_channel_create("x", GRPC_STATUS_UNKNOWN, "");
    weir_channel *channel = NULL;
    options.log = &logs[i];
    assert_null(weir_lame_client_channel_create("x", GRPC_STATUS_UNKNOWN, "", &options));
    assert_int_equal(weir_channel_wrap(core, &options, &channel), WEIR_ERROR_INVALID_ARGUMENT);
    assert_null(channel);
    grpc_channel_destroy(core); /* it was not taken */
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_state_follows_the_server),
      cmocka_unit_test(a_silent_peer_is_being_connected_to),
      cmocka_unit_test(resetting_the_backoff_connects_at_once),
      cmocka_unit_test(a_watch_that_sees_no_change_ends_at_its_deadline),
      cmocka_unit_test(a_watch_holds_the_queue_open_until_the_channel_ends_it),
      cmocka_unit_test(any_tag_comes_back_as_it_was),
      cmocka_unit_test(a_watch_can_be_plucked),
      cmocka_unit_test(a_watch_outlasts_the_channel_while_a_call_is_held),
      cmocka_unit_test(the_target_is_as_the_core_tells_it),
      cmocka_unit_test(the_load_balancing_policy_is_told),
      cmocka_unit_test(a_service_config_of_the_applications_own_is_left_alone),
      cmocka_unit_test(calls_of_a_lame_channel_end_with_its_status),
      cmocka_unit_test(a_channel_over_a_socket_works_as_any_other),
      cmocka_unit_test(calls_on_the_cores_channel_pass_weir_by),
      cmocka_unit_test(options_of_a_newer_program_make_no_channel),
      cmocka_unit_test(a_log_that_can_not_be_written_to_makes_no_channel),
  };
  return cmocka_run_group_tests_name("channel surface", tests, start_core, stop_core);
}
