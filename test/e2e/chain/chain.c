/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/chain/chain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/e2e/fixture.h"

/* Where Bazel puts it, from where it starts tests. */
#define PROGRAM "test/e2e/chain/hop"

/* For anything that a hop is to do soon, on a busy machine under a sanitizer. */
#define TELL_LIMIT SECONDS(20)

/* "Soon after": nothing is under way. */
#define IDLE_LIMIT SECONDS(5)

/* A deadline goes from hop to hop as the time that is left, so what a request takes on its way is
 * added to it; and a machine may be busy. */
#define LATE_LIMIT SECONDS(2)

#define NUMBER_SIZE 24
#define READ_AT_ONCE 64

static const char *const names[N_HOPS] = {"A", "B", "C"};

extern char **environ;

/* --- processes --- */

static void pipe_open(int fds[2]) {
  assert_int_equal(pipe(fds), 0);
  for (int i = 0; i < 2; i++) { /* a hop must not hold another's pipe open */
    assert_int_not_equal(fcntl(fds[i], F_SETFD, FD_CLOEXEC), -1);
  }
}

static void spawn(struct hop *hop, const char *const arguments[]) {
  int orders[2];
  int events[2];
  posix_spawn_file_actions_t actions;
  pipe_open(orders);
  pipe_open(events);
  assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
  assert_int_equal(posix_spawn_file_actions_adddup2(&actions, orders[0], STDIN_FILENO), 0);
  assert_int_equal(posix_spawn_file_actions_adddup2(&actions, events[1], STDOUT_FILENO), 0);
  /* Not const in POSIX, but only read. */
  char **argv = (char **)(uintptr_t)arguments;
  int error = posix_spawn(&hop->pid, PROGRAM, &actions, NULL, argv, environ);
  (void)posix_spawn_file_actions_destroy(&actions);
  (void)close(orders[0]);
  (void)close(events[1]);
  hop->orders_fd = orders[1];
  hop->events_fd = events[0];
  if (error != 0) {
    fail_msg("%s: errno %d", PROGRAM, error);
  }
}

static void hop_start(struct chain *chain, enum hop_name name, const char *kind,
                      const char *policy) {
  char parent[NUMBER_SIZE];
  const char *const arguments[] = {PROGRAM, parent, kind, policy, NULL};
  (void)snprintf(parent, sizeof parent, "%d", (int)getpid());
  spawn(&chain->hops[name], arguments);
  chain->hops[name].state = HOP_RUNNING;
}

static void hop_tell(const struct chain *chain, enum hop_name name,
                     const struct chain_order *order) {
  assert_int_equal(write(chain->hops[name].orders_fd, order, sizeof *order), sizeof *order);
}

static void hop_await_ready(struct chain *chain, enum hop_name name) {
  chain_await(chain, name, CHAIN_READY, 1);
  chain->hops[name].port = chain_event(chain, name, CHAIN_READY, 0)->port;
}

/* All are started at once, since that takes its time; then each is told of the one behind it. */
void chain_open(struct chain *chain, const struct chain_policies *policies) {
  memset(chain, 0, sizeof *chain);
  hop_start(chain, HOP_C, "last", NULL);
  hop_start(chain, HOP_B, policies->b != NULL ? "weir" : "bare", policies->b);
  hop_start(chain, HOP_A, policies->a != NULL ? "weir" : "bare", policies->a);
  hop_await_ready(chain, HOP_C);
  hop_tell(chain, HOP_B, &(struct chain_order){.next_port = chain->hops[HOP_C].port});
  hop_await_ready(chain, HOP_B);
  hop_tell(chain, HOP_A, &(struct chain_order){.next_port = chain->hops[HOP_B].port});
  hop_await_ready(chain, HOP_A);
}

static void hop_signal(struct chain *chain, enum hop_name name, int number, enum hop_state state) {
  assert_int_equal(kill(chain->hops[name].pid, number), 0);
  chain->hops[name].state = state;
}

void hop_kill(struct chain *chain, enum hop_name name) {
  hop_signal(chain, name, SIGKILL, HOP_KILLED);
}

void hop_stop(struct chain *chain, enum hop_name name) {
  int status = 0;
  hop_signal(chain, name, SIGSTOP, HOP_STOPPED);
  /* From here on it does nothing: the signal alone comes some time later. */
  assert_int_equal(waitpid(chain->hops[name].pid, &status, WUNTRACED), chain->hops[name].pid);
  assert_true(WIFSTOPPED(status));
}

void hop_continue(struct chain *chain, enum hop_name name) {
  chain->hops[name].continued_at_ns = now_ns();
  hop_signal(chain, name, SIGCONT, HOP_RUNNING);
}

/* --- what they tell --- */

/* Takes what a hop has told; false at its end. */
static bool take_events(struct chain *chain, enum hop_name name) {
  struct chain_event events[READ_AT_ONCE];
  struct hop *hop = &chain->hops[name];
  ssize_t size = read(hop->events_fd, events, sizeof events);
  assert_true(size >= 0);
  assert_int_equal((size_t)size % sizeof events[0], 0); /* each was written at once */
  for (size_t i = 0; i < (size_t)size / sizeof events[0]; i++) {
    assert_true(chain->n_told < CHAIN_EVENTS_MAX);
    chain->told[chain->n_told].hop = name;
    chain->told[chain->n_told++].event = events[i];
    hop->n_under_way = events[i].n_under_way;
  }
  if (size == 0) {
    (void)close(hop->events_fd);
    hop->events_fd = -1;
  }
  return size > 0;
}

static void print_told(const struct chain *chain) {
  static const char *const kinds[] = {"ready", "ordered", "arrived", "tried", "asked", "ended"};
  int64_t began_at_ns = chain->n_told > 0 ? chain->told[0].event.at_ns : 0;
  for (size_t i = 0; i < chain->n_told; i++) {
    const struct chain_event *event = &chain->told[i].event;
    print_error("%8.1f ms %s: %s, root %d, code %d, %u under way\n",
                (double)(event->at_ns - began_at_ns) / (double)MS(1), names[chain->told[i].hop],
                kinds[event->kind], (int)event->root, (int)event->code, event->n_under_way);
  }
}

/* Takes what hops have told, or waits until one tells something; false when the time is over. */
static bool listen_until(struct chain *chain, int64_t limit_at_ns) {
  struct pollfd fds[N_HOPS];
  for (size_t i = 0; i < N_HOPS; i++) {
    bool open = chain->hops[i].state != HOP_GONE && chain->hops[i].events_fd >= 0;
    fds[i].fd = open ? chain->hops[i].events_fd : -1; /* which poll passes over */
    fds[i].events = POLLIN;
    fds[i].revents = 0;
  }
  int64_t left_ns = limit_at_ns - now_ns();
  int n_ready = poll(fds, N_HOPS, left_ns > 0 ? (int)(left_ns / MS(1)) + 1 : 0);
  for (size_t i = 0; i < N_HOPS && n_ready > 0; i++) {
    if (fds[i].revents != 0) {
      (void)take_events(chain, (enum hop_name)i);
    }
  }
  return n_ready > 0 || (n_ready < 0 && errno == EINTR);
}

size_t chain_count(const struct chain *chain, enum hop_name name, enum chain_event_kind kind) {
  size_t count = 0;
  for (size_t i = 0; i < chain->n_told; i++) {
    count += chain->told[i].hop == name && chain->told[i].event.kind == kind;
  }
  return count;
}

const struct chain_event *chain_event(const struct chain *chain, enum hop_name name,
                                      enum chain_event_kind kind, size_t index) {
  for (size_t i = 0; i < chain->n_told; i++) {
    if (chain->told[i].hop == name && chain->told[i].event.kind == kind && index-- == 0) {
      return &chain->told[i].event;
    }
  }
  fail_msg("%s has not told that", names[name]);
  return NULL;
}

void chain_await(struct chain *chain, enum hop_name name, enum chain_event_kind kind,
                 size_t n_events) {
  int64_t limit_at_ns = now_ns() + TELL_LIMIT;
  while (chain_count(chain, name, kind) < n_events) {
    if (!listen_until(chain, limit_at_ns)) {
      print_told(chain);
      fail_msg("%s has not told %zu of them", names[name], n_events);
    }
  }
}

static bool is_idle(const struct chain *chain) {
  for (size_t i = 0; i < N_HOPS; i++) {
    if (chain->hops[i].state == HOP_RUNNING && chain->hops[i].n_under_way > 0) {
      return false;
    }
  }
  return true;
}

void chain_await_idle(struct chain *chain) {
  int64_t limit_at_ns = now_ns() + IDLE_LIMIT;
  while (listen_until(chain, now_ns())) {
    /* what has been told and not read */
  }
  while (!is_idle(chain)) {
    if (!listen_until(chain, limit_at_ns)) {
      print_told(chain);
      fail_msg("not idle");
    }
  }
}

void chain_order(struct chain *chain, const struct chain_order *order) {
  size_t n_before = chain_count(chain, HOP_C, CHAIN_ORDERED);
  hop_tell(chain, HOP_C, order);
  chain_await(chain, HOP_C, CHAIN_ORDERED, n_before + 1);
}

int64_t chain_new_root(struct chain *chain, int64_t timeout_ns) {
  assert_true(chain->n_roots < CHAIN_ROOTS_MAX);
  chain->root_deadlines_at_ns[chain->n_roots] = now_ns() + timeout_ns;
  return (int64_t)chain->n_roots++;
}

/* --- the end --- */

static void hop_reap(struct chain *chain, enum hop_name name) {
  struct hop *hop = &chain->hops[name];
  int status = 0;
  assert_int_equal(waitpid(hop->pid, &status, 0), hop->pid);
  bool killed = hop->state == HOP_KILLED;
  hop->state = HOP_GONE;
  if (!killed && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
    fail_msg("%s ended with status %#x", names[name], (unsigned)status);
  }
}

void chain_close(struct chain *chain) {
  for (size_t i = 0; i < N_HOPS; i++) {
    if (chain->hops[i].state == HOP_STOPPED) {
      hop_continue(chain, (enum hop_name)i);
    }
    (void)close(chain->hops[i].orders_fd); /* which it takes as the order to end */
    chain->hops[i].orders_fd = -1;
  }
  int64_t limit_at_ns = now_ns() + TELL_LIMIT;
  for (size_t i = 0; i < N_HOPS; i++) {
    while (chain->hops[i].events_fd >= 0) {
      if (!listen_until(chain, limit_at_ns)) {
        print_told(chain);
        fail_msg("%s does not end", names[i]);
      }
    }
    hop_reap(chain, (enum hop_name)i);
  }
}

void chain_kill(struct chain *chain) {
  for (size_t i = 0; i < N_HOPS; i++) {
    struct hop *hop = &chain->hops[i];
    if (hop->state == HOP_GONE) {
      continue;
    }
    (void)kill(hop->pid, SIGKILL);
    (void)waitpid(hop->pid, NULL, 0);
    if (hop->events_fd >= 0) {
      (void)close(hop->events_fd);
    }
    if (hop->orders_fd >= 0) {
      (void)close(hop->orders_fd);
    }
    hop->state = HOP_GONE;
  }
}

static bool is_late(const struct chain *chain, const struct told *told) {
  const struct chain_event *event = &told->event;
  int64_t deadline_at_ns = chain->root_deadlines_at_ns[event->root];
  int64_t continued_at_ns = chain->hops[told->hop].continued_at_ns;
  if (event->at_ns > deadline_at_ns + LATE_LIMIT) {
    return true;
  }
  return event->kind == CHAIN_TRIED && deadline_at_ns < continued_at_ns &&
         event->at_ns >= continued_at_ns;
}

void chain_assert_nothing_late(const struct chain *chain) {
  for (size_t i = 0; i < chain->n_told; i++) {
    const struct told *told = &chain->told[i];
    if (told->event.kind != CHAIN_ARRIVED && told->event.kind != CHAIN_TRIED) {
      continue;
    }
    assert_in_range(told->event.root, 0, chain->n_roots - 1);
    if (is_late(chain, told)) {
      print_told(chain);
      fail_msg("%s went on with root %d", names[told->hop], (int)told->event.root);
    }
  }
}
