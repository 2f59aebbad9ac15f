/* Each fault of the proxy does what it says, seen from both ends of real connections.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "test/soak/proxy.h"

#define MS(n) ((n)*INT64_C(1000000))
#define SECONDS(n) ((n)*INT64_C(1000000000))
#define LIMIT_S 20 /* of any wait, on a busy machine */
#define PLANS_MAX 4
#define NEVER UINT64_MAX

/* A proxy, who is behind it, and a connection through it. */
struct fixture {
  struct proxy *proxy;
  struct proxy_planner planner;
  struct proxy_plan plans[PLANS_MAX]; /* the first connection's, then none */
  size_t n_plans;
  struct proxy_gap gap; /* the first, then none */
  int listener;         /* upstream */
  int port;
  int client;
  int server;
};

static int64_t now_ns(void) {
  struct timespec now;
  assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
  return (int64_t)now.tv_sec * SECONDS(1) + now.tv_nsec;
}

/* --- sockets --- */

static void limit_waits(int fd) {
  const struct timeval limit = {.tv_sec = LIMIT_S};
  assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
  assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), 0);
}

static int listen_on_loopback(int *port_out) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t size = sizeof address;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_true(fd >= 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
  assert_int_equal(listen(fd, 16), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
  limit_waits(fd);
  *port_out = ntohs(address.sin_port);
  return fd;
}

/* -1, and errno, when it is refused. */
static int connect_to(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_true(fd >= 0);
  limit_waits(fd);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
    int error = errno;
    (void)close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

static void say(int fd, const char *text) {
  assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Reads exactly this. */
static void hears(int fd, const char *text) {
  char heard[256];
  size_t size = strlen(text);
  assert_true(size < sizeof heard);
  assert_int_equal(recv(fd, heard, size, MSG_WAITALL), size);
  assert_memory_equal(heard, text, size);
}

static void sees_the_end(int fd) {
  char byte;
  assert_int_equal(recv(fd, &byte, 1, 0), 0);
}

static void sees_a_reset(int fd) {
  char byte;
  ssize_t size = recv(fd, &byte, 1, 0);
  if (size >= 0) {
    fail_msg("%d bytes and no reset", (int)size);
  }
  assert_int_equal(errno, ECONNRESET);
}

static void hears_nothing_yet(int fd) {
  char byte;
  assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
  assert_int_equal(errno, EAGAIN);
}

static bool is_asked(const struct fixture *f) {
  assert_int_equal(fcntl(f->listener, F_SETFL, O_NONBLOCK), 0);
  int fd = accept(f->listener, NULL, NULL);
  if (fd >= 0) {
    (void)close(fd);
  }
  return fd >= 0;
}

static uint64_t n_faults(const struct fixture *f, enum proxy_fault fault) {
  struct proxy_counts counts;
  proxy_read_counts(f->proxy, &counts);
  return counts.n_faults[fault];
}

/* --- the fixture --- */

static void plan(void *context, uint64_t number, bool accepting, struct proxy_plan *plan_out) {
  const struct fixture *f = context;
  (void)accepting;
  if (number < f->n_plans) {
    *plan_out = f->plans[number];
  }
}

static void plan_gap(void *context, uint64_t number, struct proxy_gap *gap_out) {
  const struct fixture *f = context;
  gap_out->after_ns = SECONDS(3600);
  if (number == 0 && f->gap.lasts_ns > 0) {
    *gap_out = f->gap;
  }
}

static void open_proxy(struct fixture *f) {
  f->planner = (struct proxy_planner){.plan = plan, .gap = plan_gap, .context = f};
  f->proxy = proxy_new(f->port, &f->planner);
  proxy_storm(f->proxy);
}

static void connect_through(struct fixture *f) {
  f->client = connect_to(proxy_port(f->proxy));
  assert_true(f->client >= 0);
  f->server = accept(f->listener, NULL, NULL);
  assert_true(f->server >= 0);
  limit_waits(f->server);
}

/* With one plan. */
static void open_with(struct fixture *f, struct proxy_plan first) {
  f->plans[0] = first;
  f->n_plans = 1;
  open_proxy(f);
}

static int setup(void **state) {
  struct fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  f->client = -1;
  f->server = -1;
  f->listener = listen_on_loopback(&f->port);
  *state = f;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  if (f->proxy != NULL) {
    proxy_release(f->proxy);
  }
  (void)close(f->client);
  (void)close(f->server);
  (void)close(f->listener);
  free(f);
  return 0;
}

/* --- without faults --- */

#define LARGE_SIZE 60000

static void hands_bytes_on_unchanged(void **state) {
  struct fixture *f = *state;
  static unsigned char sent[LARGE_SIZE];
  static unsigned char heard[LARGE_SIZE];
  for (size_t i = 0; i < sizeof sent; i++) {
    sent[i] = (unsigned char)(i * i >> 3);
  }
  open_proxy(f);
  connect_through(f);
  assert_int_equal(send(f->client, sent, sizeof sent, MSG_NOSIGNAL), sizeof sent);
  assert_int_equal(recv(f->server, heard, sizeof heard, MSG_WAITALL), sizeof heard);
  assert_memory_equal(heard, sent, sizeof sent);
  memset(heard, 0, sizeof heard);
  assert_int_equal(send(f->server, sent, sizeof sent, MSG_NOSIGNAL), sizeof sent);
  assert_int_equal(recv(f->client, heard, sizeof heard, MSG_WAITALL), sizeof heard);
  assert_memory_equal(heard, sent, sizeof sent);
}

static void hands_the_end_of_one_direction_on(void **state) {
  struct fixture *f = *state;
  open_proxy(f);
  connect_through(f);
  say(f->client, "last words");
  assert_int_equal(shutdown(f->client, SHUT_WR), 0);
  hears(f->server, "last words");
  sees_the_end(f->server);
  say(f->server, "an answer");
  hears(f->client, "an answer");
  assert_int_equal(shutdown(f->server, SHUT_WR), 0);
  sees_the_end(f->client);
}

static void hands_a_reset_on(void **state) {
  struct fixture *f = *state;
  const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
  open_proxy(f);
  connect_through(f);
  assert_int_equal(setsockopt(f->client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
  (void)close(f->client);
  f->client = -1;
  sees_a_reset(f->server);
}

static void resets_who_asks_for_nobody(void **state) {
  struct fixture *f = *state;
  open_proxy(f);
  (void)close(f->listener);
  f->listener = -1;
  f->client = connect_to(proxy_port(f->proxy));
  sees_a_reset(f->client);
}

static size_t count_descriptors(void) {
  size_t n = 0;
  DIR *folder = opendir("/proc/self/fd");
  assert_non_null(folder);
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else reads this one */
  while (readdir(folder) != NULL) {
    n++;
  }
  (void)closedir(folder);
  return n;
}

static void gives_all_descriptors_back(void **state) {
  struct fixture *f = *state;
  size_t n_before = count_descriptors();
  open_with(f, (struct proxy_plan){.fault = PROXY_FAULT_BLACKHOLE, .lasts_ns = SECONDS(3600)});
  connect_through(f);
  proxy_release(f->proxy);
  f->proxy = NULL;
  sees_a_reset(f->client);
  (void)close(f->client);
  (void)close(f->server);
  f->client = f->server = -1;
  assert_int_equal(count_descriptors(), n_before);
}

/* --- what comes late --- */

static void delays_what_it_hands_on(void **state) {
  struct fixture *f = *state;
  open_with(f, (struct proxy_plan){.fault = PROXY_FAULT_DELAY,
                                   .after_bytes = 2,
                                   .delay_ns = MS(40),
                                   .lasts_ns = SECONDS(3600)});
  connect_through(f);
  say(f->client, "ab");
  hears(f->server, "ab");
  int64_t began_at_ns = now_ns();
  say(f->client, "cd");
  hears(f->server, "cd");
  assert_true(now_ns() - began_at_ns >= MS(40));
  began_at_ns = now_ns();
  say(f->server, "ef");
  hears(f->client, "ef");
  assert_true(now_ns() - began_at_ns >= MS(40));
  assert_int_equal(n_faults(f, PROXY_FAULT_DELAY), 1);
}

static void throttles_to_so_many_bytes_an_interval(void **state) {
  struct fixture *f = *state;
  open_with(f, (struct proxy_plan){.fault = PROXY_FAULT_THROTTLE,
                                   .delay_ns = MS(5),
                                   .n_bytes = 3,
                                   .lasts_ns = SECONDS(3600)});
  connect_through(f);
  int64_t began_at_ns = now_ns();
  say(f->client, "0123456789abcdef");
  hears(f->server, "0123456789abcdef");
  assert_true(now_ns() - began_at_ns >= 5 * MS(5)); /* 6 times 3 bytes */
  struct proxy_counts counts;
  proxy_read_counts(f->proxy, &counts);
  assert_int_equal(counts.n_writes, 6);
}

static void writes_each_byte_for_itself(void **state) {
  struct fixture *f = *state;
  struct proxy_counts counts;
  open_with(f, (struct proxy_plan){.fault = PROXY_FAULT_TRICKLE, .lasts_ns = SECONDS(3600)});
  connect_through(f);
  say(f->client, "0123456789abcdef");
  hears(f->server, "0123456789abcdef");
  proxy_read_counts(f->proxy, &counts);
  assert_int_equal(counts.n_writes, 16);
  assert_int_equal(counts.n_bytes, 16);
}

/* --- what does not come for a time --- */

static void a_blackhole_holds_both_directions_and_gives_all_back(void **state) {
  struct fixture *f = *state;
  open_with(
      f, (struct proxy_plan){.fault = PROXY_FAULT_BLACKHOLE, .after_bytes = 2, .lasts_ns = MS(60)});
  connect_through(f);
  int64_t began_at_ns = now_ns();
  say(f->client, "abcd");
  hears(f->server, "ab");
  say(f->server, "an answer");
  hears(f->server, "cd");
  assert_true(now_ns() - began_at_ns >= MS(60));
  hears(f->client, "an answer");
  assert_int_equal(n_faults(f, PROXY_FAULT_BLACKHOLE), 1);
}

static void a_blackhole_tells_nobody_of_an_end(void **state) {
  struct fixture *f = *state;
  open_with(
      f, (struct proxy_plan){.fault = PROXY_FAULT_BLACKHOLE, .after_bytes = 2, .lasts_ns = MS(60)});
  connect_through(f);
  int64_t began_at_ns = now_ns();
  say(f->client, "ab");
  hears(f->server, "ab");
  (void)close(f->client);
  f->client = -1;
  sees_the_end(f->server);
  assert_true(now_ns() - began_at_ns >= MS(60));
}

static void one_way_holds_one_direction(void **state) {
  struct fixture *f = *state;
  open_with(f, (struct proxy_plan){.fault = PROXY_FAULT_ONE_WAY,
                                   .direction = PROXY_BACK,
                                   .after_bytes = 2,
                                   .lasts_ns = SECONDS(3600)});
  connect_through(f);
  say(f->client, "ab");
  hears(f->server, "ab");
  say(f->server, "unheard");
  say(f->client, "a long story");
  hears(f->server, "a long story");
  hears_nothing_yet(f->client);
}

static void one_way_goes_on_afterwards(void **state) {
  struct fixture *f = *state;
  open_with(f, (struct proxy_plan){.fault = PROXY_FAULT_ONE_WAY,
                                   .direction = PROXY_FORTH,
                                   .after_bytes = 2,
                                   .lasts_ns = MS(60)});
  connect_through(f);
  int64_t began_at_ns = now_ns();
  say(f->client, "abcd");
  hears(f->server, "ab");
  say(f->server, "meanwhile");
  hears(f->client, "meanwhile");
  hears(f->server, "cd");
  assert_true(now_ns() - began_at_ns >= MS(60));
}

static void resets_when_its_time_is_over_if_so_planned(void **state) {
  struct fixture *f = *state;
  open_with(
      f, (struct proxy_plan){
             .fault = PROXY_FAULT_BLACKHOLE, .after_bytes = 2, .lasts_ns = MS(30), .resets = true});
  connect_through(f);
  int64_t began_at_ns = now_ns();
  say(f->client, "ab");
  hears(f->server, "ab");
  sees_a_reset(f->client);
  sees_a_reset(f->server);
  assert_true(now_ns() - began_at_ns >= MS(30));
}

static void accepts_and_never_answers(void **state) {
  struct fixture *f = *state;
  open_with(f, (struct proxy_plan){.fault = PROXY_FAULT_SILENCE, .lasts_ns = MS(60)});
  int64_t began_at_ns = now_ns();
  f->client = connect_to(proxy_port(f->proxy));
  assert_true(f->client >= 0);
  say(f->client, "is anybody there?");
  sees_a_reset(f->client);
  assert_true(now_ns() - began_at_ns >= MS(60));
  assert_false(is_asked(f));
  assert_int_equal(n_faults(f, PROXY_FAULT_SILENCE), 1);
}

/* --- cuts --- */

static void closes_both_ends_at_the_byte(void **state) {
  struct fixture *f = *state;
  open_with(f, (struct proxy_plan){.fault = PROXY_FAULT_FIN, .after_bytes = 7});
  connect_through(f);
  say(f->client, "0123456789abcdef");
  hears(f->server, "0123456");
  sees_the_end(f->server);
  sees_the_end(f->client);
  assert_int_equal(n_faults(f, PROXY_FAULT_FIN), 1);
}

static void counts_the_bytes_of_both_directions(void **state) {
  struct fixture *f = *state;
  open_with(f, (struct proxy_plan){.fault = PROXY_FAULT_FIN, .after_bytes = 7});
  connect_through(f);
  say(f->client, "0123");
  hears(f->server, "0123");
  say(f->server, "0123");
  hears(f->client, "012");
  sees_the_end(f->client);
  sees_the_end(f->server);
}

static void resets_both_ends_at_the_byte(void **state) {
  struct fixture *f = *state;
  open_with(f, (struct proxy_plan){.fault = PROXY_FAULT_RST, .after_bytes = 7});
  connect_through(f);
  say(f->client, "0123456");
  hears(f->server, "0123456");
  sees_a_reset(f->server);
  sees_a_reset(f->client);
  assert_int_equal(n_faults(f, PROXY_FAULT_RST), 1);
}

static void resets_at_accept(void **state) {
  struct fixture *f = *state;
  open_with(f, (struct proxy_plan){.fault = PROXY_FAULT_RST_AT_ACCEPT});
  f->client = connect_to(proxy_port(f->proxy));
  assert_true(f->client >= 0);
  sees_a_reset(f->client);
  assert_false(is_asked(f));
  assert_int_equal(n_faults(f, PROXY_FAULT_RST_AT_ACCEPT), 1);
}

/* --- the port --- */

static void refuses_while_the_port_is_closed(void **state) {
  struct fixture *f = *state;
  open_proxy(f);
  connect_through(f);
  proxy_close_port(f->proxy);
  assert_int_equal(connect_to(proxy_port(f->proxy)), -1);
  assert_int_equal(errno, ECONNREFUSED);
  say(f->client, "still there");
  hears(f->server, "still there");
  proxy_open_port(f->proxy);
  (void)close(f->client);
  (void)close(f->server);
  connect_through(f);
  say(f->client, "again");
  hears(f->server, "again");
  assert_int_equal(n_faults(f, PROXY_FAULT_REFUSAL), 1);
}

static void await_gap(const struct fixture *f) {
  int64_t limit_at_ns = now_ns() + SECONDS(LIMIT_S);
  while (n_faults(f, PROXY_FAULT_REFUSAL) == 0 && now_ns() < limit_at_ns) {
  }
  assert_int_equal(n_faults(f, PROXY_FAULT_REFUSAL), 1);
}

static void closes_the_port_as_planned(void **state) {
  struct fixture *f = *state;
  f->gap = (struct proxy_gap){.after_ns = MS(5), .lasts_ns = SECONDS(3600)};
  open_proxy(f);
  await_gap(f);
  assert_int_equal(connect_to(proxy_port(f->proxy)), -1);
  assert_int_equal(errno, ECONNREFUSED);
}

static void opens_the_port_as_planned(void **state) {
  struct fixture *f = *state;
  f->gap = (struct proxy_gap){.after_ns = MS(5), .lasts_ns = MS(20)};
  open_proxy(f);
  await_gap(f);
  int64_t limit_at_ns = now_ns() + SECONDS(LIMIT_S);
  while (f->client < 0 && now_ns() < limit_at_ns) {
    f->client = connect_to(proxy_port(f->proxy));
  }
  assert_true(f->client >= 0);
}

/* --- one after the other --- */

static void heals_and_goes_by_the_next_plan(void **state) {
  struct fixture *f = *state;
  f->plans[0] =
      (struct proxy_plan){.fault = PROXY_FAULT_BLACKHOLE, .after_bytes = 2, .lasts_ns = MS(5)};
  f->plans[1] = (struct proxy_plan){.fault = PROXY_FAULT_NONE, .after_bytes = 3};
  f->plans[2] = (struct proxy_plan){.fault = PROXY_FAULT_FIN, .after_bytes = 4};
  f->n_plans = 3;
  open_proxy(f);
  connect_through(f);
  say(f->client, "0123456789abcdef");
  hears(f->server, "012345678");
  sees_the_end(f->server);
}

static void calm_resets_what_has_a_fault_and_nothing_else(void **state) {
  struct fixture *f = *state;
  f->plans[0] = (struct proxy_plan){
      .fault = PROXY_FAULT_BLACKHOLE, .after_bytes = 2, .lasts_ns = SECONDS(3600)};
  f->plans[1] = (struct proxy_plan){.fault = PROXY_FAULT_NONE, .after_bytes = NEVER};
  f->n_plans = 2;
  open_proxy(f);
  connect_through(f);
  int stuck = f->client;
  int stuck_server = f->server;
  say(stuck, "ab");
  hears(stuck_server, "ab");
  connect_through(f);
  proxy_calm(f->proxy);
  sees_a_reset(stuck);
  sees_a_reset(stuck_server);
  (void)close(stuck);
  (void)close(stuck_server);
  say(f->client, "well");
  hears(f->server, "well");
}

static void is_calm_at_first_and_after_calm(void **state) {
  struct fixture *f = *state;
  f->plans[0] = (struct proxy_plan){.fault = PROXY_FAULT_RST, .after_bytes = 1};
  f->n_plans = 1;
  f->planner = (struct proxy_planner){.plan = plan, .context = f};
  f->proxy = proxy_new(f->port, &f->planner);
  connect_through(f);
  say(f->client, "well");
  hears(f->server, "well");
  proxy_close_port(f->proxy);
  proxy_calm(f->proxy);
  (void)close(f->client);
  (void)close(f->server);
  connect_through(f);
  say(f->client, "well");
  hears(f->server, "well");
}

static void a_storm_reaches_what_was_open_before(void **state) {
  struct fixture *f = *state;
  f->plans[0] = (struct proxy_plan){.fault = PROXY_FAULT_FIN, .after_bytes = 2};
  f->n_plans = 1;
  f->planner = (struct proxy_planner){.plan = plan, .context = f};
  f->proxy = proxy_new(f->port, &f->planner);
  connect_through(f);
  say(f->client, "well");
  hears(f->server, "well");
  proxy_storm(f->proxy);
  say(f->client, "abcd");
  hears(f->server, "ab");
  sees_the_end(f->server);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(hands_bytes_on_unchanged),
      TEST(hands_the_end_of_one_direction_on),
      TEST(hands_a_reset_on),
      TEST(resets_who_asks_for_nobody),
      TEST(gives_all_descriptors_back),
      TEST(delays_what_it_hands_on),
      TEST(throttles_to_so_many_bytes_an_interval),
      TEST(writes_each_byte_for_itself),
      TEST(a_blackhole_holds_both_directions_and_gives_all_back),
      TEST(a_blackhole_tells_nobody_of_an_end),
      TEST(one_way_holds_one_direction),
      TEST(one_way_goes_on_afterwards),
      TEST(resets_when_its_time_is_over_if_so_planned),
      TEST(accepts_and_never_answers),
      TEST(closes_both_ends_at_the_byte),
      TEST(counts_the_bytes_of_both_directions),
      TEST(resets_both_ends_at_the_byte),
      TEST(resets_at_accept),
      TEST(refuses_while_the_port_is_closed),
      TEST(closes_the_port_as_planned),
      TEST(opens_the_port_as_planned),
      TEST(heals_and_goes_by_the_next_plan),
      TEST(calm_resets_what_has_a_fault_and_nothing_else),
      TEST(is_calm_at_first_and_after_calm),
      TEST(a_storm_reaches_what_was_open_before),
  };
  return cmocka_run_group_tests_name("proxy", tests, NULL, NULL);
}
