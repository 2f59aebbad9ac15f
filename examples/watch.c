/* watch – asks a server how it is, every second, by a policy file that may change meanwhile:
 * watch TARGET POLICY.json. Ends with SIGTERM or SIGINT; SIGHUP has it look at the file.
 * SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include <weir/weir.h>

static void on_change(void *context, weir_policy *policy, uint64_t generation) {
  (void)context;
  (void)policy;
  printf("policy %" PRIu64 "\n", generation);
}

/* Tells what the server answers; false: the library had no memory. */
static bool ask(weir_channel *channel) {
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  request.method = "/grpc.health.v1.Health/Check";
  request.message = grpc_raw_byte_buffer_create(NULL, 0);
  const bool asked = weir_unary(channel, &request, &reply) == WEIR_OK;
  if (asked) {
    printf("%s after %" PRIu32 " attempts\n", weir_status_code_name(reply.code),
           reply.report.n_attempts);
  }
  weir_unary_reply_fini(&reply);
  grpc_byte_buffer_destroy(request.message);
  return asked;
}

/* Until a signal says otherwise. */
static void ask_every_second(weir_channel *channel, weir_policy_watcher *watcher,
                             const sigset_t *signals) {
  const struct timespec second = {.tv_sec = 1};
  int number = 0;
  while (number != SIGTERM && number != SIGINT && ask(channel)) {
    number = sigtimedwait(signals, NULL, &second);
    if (number == SIGHUP) {
      weir_policy_watcher_reload(watcher);
    }
  }
}

int main(int argc, char **argv) {
  struct weir_policy_watch_options watch_options = WEIR_POLICY_WATCH_OPTIONS_INIT;
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  struct weir_diagnostic diagnostic = {.message = "usage: watch TARGET POLICY.json"};
  weir_policy_watcher *watcher = NULL;
  sigset_t signals;
  watch_options.on_change = on_change;
  if (argc != 3 || weir_policy_watch(argv[2], &watch_options, &watcher, &diagnostic) != WEIR_OK) {
    fprintf(stderr, "%s %s (line %" PRIu32 ")\n", diagnostic.path, diagnostic.message,
            diagnostic.line);
    return 2;
  }
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
  grpc_init();
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  options.policy = weir_policy_watcher_policy(watcher);
  weir_channel *channel = weir_channel_create(argv[1], creds, NULL, &options);
  weir_policy_unref(options.policy);
  if (channel != NULL) {
    if (weir_policy_watcher_add_channel(watcher, channel, NULL) == WEIR_OK) {
      ask_every_second(channel, watcher, &signals);
    }
    weir_channel_destroy(channel);
  }
  weir_policy_watcher_free(watcher);
  grpc_channel_credentials_release(creds);
  grpc_shutdown();
  return 0;
}
