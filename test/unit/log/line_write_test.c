/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/log/line_write.h"

#define LINE "{\"weir\":\"call_failed\"}\n"
#define LINE_SIZE (sizeof LINE - 1)

/* --- writes by a script --- */

#define ANSWERS_MAX 16

/* A write's result; a negative one is the errno of a failure. Beyond the script, the real one. */
static struct {
  int answers[ANSWERS_MAX];
  size_t n_answers;
  size_t n_writes;
} script;

ssize_t __real_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);

ssize_t __wrap_write(int fd, const void *bytes, size_t size) {
  if (script.n_writes >= script.n_answers) {
    script.n_writes++;
    return __real_write(fd, bytes, size);
  }
  int answer = script.answers[script.n_writes++];
  if (answer < 0) {
    errno = -answer;
    return -1;
  }
  return __real_write(fd, bytes, (size_t)answer);
}

struct script_row {
  const char *why;
  int answers[ANSWERS_MAX];
  size_t n_answers;
  enum weir__line_fate fate;
  size_t n_writes;
  size_t n_written; /* bytes */
};

static void run_script(const struct script_row *row) {
  char read_back[2 * LINE_SIZE];
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  memcpy(script.answers, row->answers, sizeof script.answers);
  script.n_answers = row->n_answers;
  script.n_writes = 0;
  errno = ENOTTY;
  enum weir__line_fate fate = weir__line_write(ends[1], LINE, LINE_SIZE);
  int error = errno;
  script.n_answers = 0;

  (void)close(ends[1]);
  ssize_t n = read(ends[0], read_back, sizeof read_back);
  (void)close(ends[0]);
  if (fate != row->fate || script.n_writes != row->n_writes || n != (ssize_t)row->n_written ||
      memcmp(read_back, LINE, (size_t)n) != 0) {
    fail_msg("%s: fate %d, %zu writes, %zd bytes", row->why, (int)fate, script.n_writes, n);
  }
  assert_int_equal(error, ENOTTY);
}

static void writes_are_gone_on_with_but_not_for_ever(void **state) {
  (void)state;
  static const struct script_row rows[] = {
      {"at once", {0}, 0, WEIR__LINE_WRITTEN, 1, LINE_SIZE},
      {"interrupted", {-EINTR}, 1, WEIR__LINE_WRITTEN, 2, LINE_SIZE},
      {"interrupted again", {-EINTR, -EINTR, -EINTR}, 3, WEIR__LINE_WRITTEN, 4, LINE_SIZE},
      {"short", {5}, 1, WEIR__LINE_WRITTEN, 2, LINE_SIZE},
      {"short, byte by byte", {1, 1, 1}, 3, WEIR__LINE_WRITTEN, 4, LINE_SIZE},
      {"short and interrupted", {5, -EINTR, 7}, 3, WEIR__LINE_WRITTEN, 4, LINE_SIZE},
      {"no room", {-EAGAIN}, 1, WEIR__LINE_DROPPED, 1, 0},
      {"no room in the middle", {5, -EAGAIN}, 2, WEIR__LINE_TORN, 2, 5},
      {"no room on the disk", {-ENOSPC}, 1, WEIR__LINE_DROPPED, 1, 0},
      {"nothing, said as success", {0}, 1, WEIR__LINE_DROPPED, 1, 0},
      {"interrupted for ever",
       {-EINTR, -EINTR, -EINTR, -EINTR, -EINTR, -EINTR, -EINTR, -EINTR, -EINTR, -EINTR},
       10,
       WEIR__LINE_DROPPED,
       8,
       0},
      {"a byte at a time, for too long", {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 10, WEIR__LINE_TORN, 8, 8},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    run_script(&rows[i]);
  }
}

/* --- descriptors that take nothing --- */

static void fill(int fd) {
  static const char bytes[4096] = "";
  int flags = fcntl(fd, F_GETFL);
  assert_int_equal(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
  while (write(fd, bytes, sizeof bytes) > 0) {
    /* on */
  }
  assert_int_equal(fcntl(fd, F_SETFL, flags), 0);
}

/* Were it to wait, the test would not end. */
static void a_full_pipe_is_not_waited_for(void **state) {
  (void)state;
  static const int flags[] = {0, O_NONBLOCK};
  for (size_t i = 0; i < 2; i++) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, flags[i]), 0);
    fill(ends[1]);

    assert_int_equal(weir__line_write(ends[1], LINE, LINE_SIZE), WEIR__LINE_DROPPED);
    (void)close(ends[0]);
    (void)close(ends[1]);
  }
}

/* More lines than any terminal keeps. */
#define MANY_LINES 100000

/* Its poll says yes while there is room for a byte. Were the rest waited for, the test would not
 * end. */
static void a_terminal_that_nobody_reads_is_not_waited_for(void **state) {
  (void)state;
  int shown = -1;
  int terminal = -1;
  assert_int_equal(openpty(&shown, &terminal, NULL, NULL, NULL), 0);
  enum weir__line_fate fate = WEIR__LINE_WRITTEN;
  for (size_t i = 0; i < MANY_LINES && fate == WEIR__LINE_WRITTEN; i++) {
    fate = weir__line_write(terminal, LINE, LINE_SIZE);
  }

  assert_int_not_equal(fate, WEIR__LINE_WRITTEN);
  assert_int_equal(fcntl(terminal, F_GETFL) & O_NONBLOCK, 0); /* as it was */
  (void)close(terminal);
  (void)close(shown);
}

/* Were it a signal, the test would end. */
static void a_reader_that_has_gone_costs_no_signal(void **state) {
  (void)state;
  sigset_t pending;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  (void)close(ends[0]);

  assert_int_equal(weir__line_write(ends[1], LINE, LINE_SIZE), WEIR__LINE_DROPPED);
  assert_int_equal(sigpending(&pending), 0);
  assert_int_equal(sigismember(&pending, SIGPIPE), 0);
  (void)close(ends[1]);
}

static void a_signal_of_the_applications_stays_pending(void **state) {
  (void)state;
  sigset_t set;
  int ends[2];
  int number = 0;
  assert_int_equal(pipe(ends), 0);
  (void)close(ends[0]);
  assert_int_equal(sigemptyset(&set), 0);
  assert_int_equal(sigaddset(&set, SIGPIPE), 0);
  assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
  assert_int_equal(raise(SIGPIPE), 0);

  assert_int_equal(weir__line_write(ends[1], LINE, LINE_SIZE), WEIR__LINE_DROPPED);

  assert_int_equal(sigwait(&set, &number), 0);
  assert_int_equal(number, SIGPIPE);
  sigset_t blocked;
  assert_int_equal(pthread_sigmask(SIG_UNBLOCK, &set, &blocked), 0);
  assert_int_equal(sigismember(&blocked, SIGPIPE), 1); /* as it was */
  (void)close(ends[1]);
}

static void what_is_no_descriptor_takes_nothing(void **state) {
  (void)state;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  (void)close(ends[1]);
  assert_int_equal(weir__line_write(ends[1], LINE, LINE_SIZE), WEIR__LINE_DROPPED);
  assert_int_equal(weir__line_write(ends[0], LINE, LINE_SIZE), WEIR__LINE_DROPPED);
  (void)close(ends[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(writes_are_gone_on_with_but_not_for_ever),
      cmocka_unit_test(a_full_pipe_is_not_waited_for),
      cmocka_unit_test(a_terminal_that_nobody_reads_is_not_waited_for),
      cmocka_unit_test(a_reader_that_has_gone_costs_no_signal),
      cmocka_unit_test(a_signal_of_the_applications_stays_pending),
      cmocka_unit_test(what_is_no_descriptor_takes_nothing),
  };
  return cmocka_run_group_tests_name("line_write", tests, NULL, NULL);
}
