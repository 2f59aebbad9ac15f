/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/status_peer.h"

#include <fcntl.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

extern char **environ;

#define PYTHON "/usr/bin/python3"

enum { READS = 0, WRITES = 1 };

/* No other process that is started shares it. */
static void open_pipe(int ends[2]) {
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(fcntl(ends[READS], F_SETFD, FD_CLOEXEC), 0);
  assert_int_equal(fcntl(ends[WRITES], F_SETFD, FD_CLOEXEC), 0);
}

static pid_t spawn(const char *script, int input, int output) {
  char *const arguments[] = {(char *)(uintptr_t)PYTHON, (char *)(uintptr_t)script, NULL};
  posix_spawn_file_actions_t actions;
  pid_t process = 0;
  assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
  assert_int_equal(posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO), 0);
  assert_int_equal(posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO), 0);
  assert_int_equal(posix_spawn(&process, PYTHON, &actions, NULL, arguments, environ), 0);
  (void)posix_spawn_file_actions_destroy(&actions);
  return process;
}

/* The line that the script begins with. */
static int read_port(int output) {
  char line[16] = "";
  FILE *stream = fdopen(output, "r");
  assert_non_null(stream);
  const char *read = fgets(line, sizeof line, stream);
  (void)fclose(stream);
  if (read == NULL) {
    fail_msg("the script has ended: are python3-grpcio and python3-protobuf installed?");
  }
  return (int)strtol(line, NULL, 10);
}

void status_peer_start(struct status_peer *peer, const char *script) {
  int input[2];
  int output[2];
  open_pipe(input);
  open_pipe(output);
  peer->process = spawn(script, input[READS], output[WRITES]);
  (void)close(input[READS]);
  (void)close(output[WRITES]);
  peer->lifeline = input[WRITES];
  peer->port = read_port(output[READS]);
  assert_true(peer->port > 0);
}

void status_peer_release(struct status_peer *peer) {
  int status = 0;
  (void)close(peer->lifeline);
  assert_int_equal(waitpid(peer->process, &status, 0), peer->process);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
