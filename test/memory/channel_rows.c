/* Channels. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include <weir/channel.h>

#include "test/memory/lame.h"
#include "test/memory/policies.h"
#include "test/memory/trial.h"
#include "test/support/silent_log.h"

/* Nobody is asked for a connection. */
#define TARGET "ipv4:127.0.0.1:9"

static struct weir_channel_options options_of(weir_policy *policy) {
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  options.policy = policy;
  options.log = &silent_log;
  return options;
}

/* --- made --- */

static void check_channel(struct trial *trial, weir_channel *channel) {
  trial_check_not_null(trial, channel);
  if (channel != NULL) {
    char *target = weir_channel_get_target(channel);
    assert_non_null(target);
    gpr_free(target);
    weir_channel_destroy(channel);
  }
}

/* A fallback of the application's is the channel's only once there is one. */
static enum weir_fallback_found find_nothing(void *context,
                                             const struct weir_fallback_request *request,
                                             struct weir_fallback_answer *answer) {
  (void)context;
  (void)request;
  (void)answer;
  return WEIR_FALLBACK_FOUND_NOTHING;
}

static void count_release(void *context) {
  unsigned *n_released = context;
  ++*n_released;
}

static void make_channel(struct trial *trial) {
  weir_policy *policy = policy_of(policy_rich);
  unsigned n_released = 0;
  struct weir_fallback fallback = WEIR_FALLBACK_INIT;
  fallback.ask = find_nothing;
  fallback.release = count_release;
  fallback.context = &n_released;
  struct weir_channel_options options = options_of(policy);
  options.fallback = &fallback;
  grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
  trial_begin(trial);
  weir_channel *channel = weir_channel_create(TARGET, credentials, NULL, &options);
  trial_end(trial);
  const bool was_made = channel != NULL;
  assert_int_equal(n_released, 0);
  check_channel(trial, channel);
  assert_int_equal(n_released, was_made ? 1 : 0);
  grpc_channel_credentials_release(credentials);
  weir_policy_unref(policy);
}

static void make_from_fd(struct trial *trial) {
  int fds[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  struct weir_channel_options options = options_of(NULL);
  grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
  trial_begin(trial);
  weir_channel *channel = weir_channel_create_from_fd("pair", fds[0], credentials, NULL, &options);
  trial_end(trial);
  if (channel == NULL) {
    assert_int_equal(close(fds[0]), 0); /* it is the application's still */
  }
  check_channel(trial, channel);
  grpc_channel_credentials_release(credentials);
  (void)close(fds[1]);
}

static void make_lame(struct trial *trial) {
  weir_policy *policy = policy_of(policy_rich);
  struct weir_channel_options options = options_of(policy);
  trial_begin(trial);
  weir_channel *channel =
      weir_lame_client_channel_create("lame.test", GRPC_STATUS_INTERNAL, "words", &options);
  trial_end(trial);
  check_channel(trial, channel);
  weir_policy_unref(policy);
}

static void wrap_channel(struct trial *trial) {
  weir_policy *policy = policy_of(policy_rich);
  struct weir_channel_options options = options_of(policy);
  grpc_channel *core = grpc_lame_client_channel_create("lame.test", GRPC_STATUS_INTERNAL, "words");
  weir_channel *channel = NULL;
  trial_begin(trial);
  enum weir_error error = weir_channel_wrap(core, &options, &channel);
  trial_end(trial);
  trial_check_made(trial, error, channel);
  if (channel == NULL) { /* it is the application's still, and can be wrapped yet */
    assert_int_equal(weir_channel_wrap(core, &options, &channel), WEIR_OK);
  }
  weir_channel_destroy(channel);
  weir_policy_unref(policy);
}

static void make_under_an_organisation(struct trial *trial) {
  char path[256];
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
  const char *directory = getenv("TEST_TMPDIR");
  (void)snprintf(path, sizeof path, "%s/org-XXXXXX", directory != NULL ? directory : "/tmp");
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, policy_organisation, strlen(policy_organisation)),
                   strlen(policy_organisation));
  (void)close(fd);
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
  assert_int_equal(setenv("WEIR_ORG_POLICY", path, 1), 0);
  make_lame(trial);
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
  assert_int_equal(unsetenv("WEIR_ORG_POLICY"), 0);
  (void)unlink(path);
}

/* --- other policies, methods, breakers --- */

static void swap_policy(struct trial *trial) {
  weir_channel *channel = lame_channel(policy_rich);
  weir_completion_queue *queue = lame_queue(GRPC_CQ_NEXT);
  weir_policy *before = weir_channel_policy(channel);
  weir_policy *after = policy_of(policy_retrying);
  struct lame_call call; /* it is under way meanwhile, and goes by what was before */
  lame_call_init(&call, lame_call_make(channel, queue), false);
  assert_non_null(weir_channel_register_call(channel, LAME_METHOD, NULL, NULL));
  trial_begin(trial);
  enum weir_error error = weir_channel_set_policy(channel, after, NULL);
  trial_end(trial);
  trial_check_error(trial, error);
  weir_policy *now = weir_channel_policy(channel);
  assert_ptr_equal(now, error == WEIR_OK ? after : before);
  weir_policy_unref(now);
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  assert_int_equal(weir_channel_get_counters(channel, &counters), WEIR_OK);
  assert_int_equal(counters.n_policy_swaps, error == WEIR_OK ? 1 : 0);
  assert_int_equal(counters.n_policy_refusals, error == WEIR_OK ? 0 : 1);
  assert_int_equal(lame_call_start(&call, 0, LAME_OPS), GRPC_CALL_OK);
  lame_call_wait(&call, queue, GRPC_CQ_NEXT);
  lame_call_fini(&call);
  lame_call_run(channel, queue, GRPC_CQ_NEXT);
  weir_policy_unref(before);
  weir_policy_unref(after);
  lame_queue_end(queue, GRPC_CQ_NEXT);
  weir_channel_destroy(channel);
}

static void register_method(struct trial *trial) {
  weir_channel *channel = lame_channel(policy_rich);
  weir_completion_queue *queue = lame_queue(GRPC_CQ_NEXT);
  trial_begin(trial);
  void *handle = weir_channel_register_call(channel, LAME_METHOD, "host.test", NULL);
  trial_end(trial);
  trial_check_not_null(trial, handle);
  void *again = weir_channel_register_call(channel, LAME_METHOD, "host.test", NULL);
  assert_non_null(again);
  assert_true(handle == NULL || handle == again);
  struct lame_call call;
  lame_call_init(&call,
                 weir_channel_create_registered_call(channel, NULL, 0, queue, again,
                                                     gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL),
                 false);
  assert_int_equal(lame_call_start(&call, 0, LAME_OPS), GRPC_CALL_OK);
  lame_call_wait(&call, queue, GRPC_CQ_NEXT);
  lame_call_fini(&call);
  lame_queue_end(queue, GRPC_CQ_NEXT);
  weir_channel_destroy(channel);
}

static void override_breakers(struct trial *trial) {
  weir_channel *channel = lame_channel(policy_rich);
  struct weir_breaker_snapshot snapshot = WEIR_BREAKER_SNAPSHOT_INIT;
  trial_begin(trial);
  enum weir_error error =
      weir_channel_set_breaker_override(channel, LAME_METHOD, WEIR_BREAKER_OVERRIDE_OPEN);
  enum weir_error all_error =
      weir_channel_set_breaker_override(channel, NULL, WEIR_BREAKER_OVERRIDE_OPEN);
  trial_end(trial);
  trial_check_error(trial, error);
  trial_check_error(trial, all_error);
  assert_int_equal(
      weir_channel_set_breaker_override(channel, LAME_METHOD, WEIR_BREAKER_OVERRIDE_NONE), WEIR_OK);
  assert_int_equal(weir_channel_breaker_snapshot(channel, LAME_METHOD, &snapshot), WEIR_OK);
  assert_int_equal(snapshot.state, WEIR_BREAKER_CLOSED);
  weir_channel_destroy(channel);
}

/* --- looked at --- */

static void look_at_channel(struct trial *trial) {
  weir_channel *channel = lame_channel(policy_rich);
  assert_int_equal(
      weir_channel_set_breaker_override(channel, LAME_METHOD, WEIR_BREAKER_OVERRIDE_OPEN), WEIR_OK);
  struct weir_breaker_snapshot breaker = WEIR_BREAKER_SNAPSHOT_INIT;
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  struct weir_replay_snapshot replay = WEIR_REPLAY_SNAPSHOT_INIT;
  char *policy_name = NULL;
  const grpc_channel_info info = {.lb_policy_name = &policy_name, .service_config_json = NULL};
  trial_begin(trial);
  enum weir_error errors[] = {weir_channel_breaker_snapshot(channel, LAME_METHOD, &breaker),
                              weir_channel_get_counters(channel, &counters),
                              weir_channel_replay_snapshot(channel, &replay)};
  weir_policy_unref(weir_channel_policy(channel));
  char *target = weir_channel_get_target(channel);
  weir_channel_get_info(channel, &info);
  (void)weir_channel_core(channel);
  (void)weir_channel_check_connectivity_state(channel, 0);
  const int can_watch = weir_channel_support_connectivity_watcher(channel);
  weir_channel_reset_connect_backoff(channel);
  weir_channel_destroy(channel);
  trial_end(trial);
  for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
    assert_int_equal(errors[i], WEIR_OK);
  }
  assert_int_equal(can_watch, 0);
  gpr_free(target);
  gpr_free(policy_name);
}

static void watch_connectivity(struct trial *trial) {
  grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
  struct weir_channel_options options = options_of(NULL);
  weir_channel *channel = weir_channel_create(TARGET, credentials, NULL, &options);
  weir_completion_queue *queue = lame_queue(GRPC_CQ_NEXT);
  trial_begin(trial);
  weir_channel_watch_connectivity_state(channel, GRPC_CHANNEL_IDLE,
                                        gpr_inf_past(GPR_CLOCK_MONOTONIC), queue, &options);
  (void)weir_channel_num_external_connectivity_watchers(channel);
  const grpc_event event =
      weir_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  trial_end(trial);
  assert_int_equal(event.type, GRPC_OP_COMPLETE);
  assert_ptr_equal(event.tag, &options);
  weir_channel_destroy(channel);
  lame_queue_end(queue, GRPC_CQ_NEXT);
  grpc_channel_credentials_release(credentials);
}

const struct trial_row channel_rows[] = {
    {"weir_channel_create", TAKES_MEMORY, make_channel},
    {"weir_channel_create_from_fd", TAKES_MEMORY, make_from_fd},
    {"weir_lame_client_channel_create", TAKES_MEMORY, make_lame},
    {"weir_lame_client_channel_create", TAKES_MEMORY, make_under_an_organisation},
    {"weir_channel_wrap", TAKES_MEMORY, wrap_channel},
    {"weir_channel_set_policy", TAKES_MEMORY, swap_policy},
    {"weir_channel_register_call", TAKES_MEMORY, register_method},
    {"weir_channel_set_breaker_override", TAKES_MEMORY, override_breakers},
    {"weir_channel_breaker_snapshot", TAKES_NOTHING, look_at_channel},
    {"weir_channel_check_connectivity_state", TAKES_NOTHING, look_at_channel},
    {"weir_channel_core", TAKES_NOTHING, look_at_channel},
    {"weir_channel_destroy", TAKES_NOTHING, look_at_channel},
    {"weir_channel_get_counters", TAKES_NOTHING, look_at_channel},
    {"weir_channel_get_info", TAKES_NOTHING, look_at_channel},
    {"weir_channel_get_target", TAKES_NOTHING, look_at_channel},
    {"weir_channel_policy", TAKES_NOTHING, look_at_channel},
    {"weir_channel_replay_snapshot", TAKES_NOTHING, look_at_channel},
    {"weir_channel_reset_connect_backoff", TAKES_NOTHING, look_at_channel},
    {"weir_channel_support_connectivity_watcher", TAKES_NOTHING, look_at_channel},
    {"weir_channel_num_external_connectivity_watchers", TAKES_NOTHING, watch_connectivity},
    {"weir_channel_watch_connectivity_state", TAKES_NOTHING, watch_connectivity},
    TRIAL_ROWS_END,
};
