/* A breaker around something that is no call of gRPC: connecting to a port of this machine.
 *
 *   knock PORT [TIMES]     knocks every 100 ms, and says what came of it
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <weir/decide.h>

#define PAUSE_MS 100

static int64_t now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * WEIR_SECOND_NS + now.tv_nsec;
}

/* 0, or an errno. */
static int knock(uint16_t port) {
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int error = 0;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) {
    return errno;
  }
  if (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
    error = errno;
  }
  (void)close(fd);
  return error;
}

static void tell_change(const struct weir_breaker_view *view) {
  if (view->changed) {
    printf("  %s is now %s\n", weir_breaker_state_name(view->changed_from),
           weir_breaker_state_name(view->state));
  }
}

static void knock_if_admitted(weir_breaker *breaker, uint16_t port) {
  struct weir_breaker_ticket ticket;
  struct weir_breaker_view view;
  enum weir_admission admission = weir_breaker_admit(breaker, now_ns(), NULL, &ticket, &view);
  tell_change(&view);
  if (admission == WEIR_ADMISSION_REFUSE) {
    printf("not tried: %s, again in %lld ms\n", weir_breaker_refusal_name(view.refusal),
           (long long)(view.next_probe_in_ns / WEIR_MS_NS));
    return;
  }
  char reason[64] = "connected";
  int error = knock(port);
  if (error != 0) {
    (void)strerror_r(error, reason, sizeof reason);
  }
  printf("%s\n", reason);
  weir_breaker_settle(breaker, &ticket,
                      error == 0 ? WEIR_BREAKER_VERDICT_SUCCESS : WEIR_BREAKER_VERDICT_FAILURE,
                      now_ns(), NULL, &view);
  tell_change(&view);
}

int main(int argc, char **argv) {
  struct weir_breaker_options options = WEIR_BREAKER_OPTIONS_INIT;
  weir_breaker *breaker = NULL;
  unsigned long port = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
  unsigned long times = argc > 2 ? strtoul(argv[2], NULL, 10) : 30;
  if (port == 0 || port > UINT16_MAX) {
    (void)fprintf(stderr, "usage: knock PORT [TIMES]\n");
    return 2;
  }
  options.open_for_ns = WEIR_SECOND_NS;
  if (weir_breaker_new(&options, NULL, &breaker) != WEIR_OK) {
    return 1;
  }
  for (unsigned long i = 0; i < times; i++) {
    knock_if_admitted(breaker, (uint16_t)port);
    (void)poll(NULL, 0, PAUSE_MS);
  }
  weir_breaker_free(breaker);
  return 0;
}
