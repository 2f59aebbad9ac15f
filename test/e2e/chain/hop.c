/* SPDX-License-Identifier: Apache-2.0 */
/* hop: one process of a chain. It takes orders on standard input, until that ends, and tells what
 * happens to it on standard output.
 *
 *   hop PARENT-PID last
 *   hop PARENT-PID weir POLICY
 *   hop PARENT-PID bare */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <grpc/grpc.h>

#include "test/e2e/chain/journal.h"
#include "test/e2e/chain/next.h"
#include "test/e2e/chain/protocol.h"
#include "test/e2e/chain/service.h"

enum { ARG_PARENT = 1, ARG_KIND, ARG_POLICY };

#define EXIT_USAGE 2

/* A test that was killed takes its hops with it, also one that died before we could ask for it. */
static void die_with(pid_t parent) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _Exit(EXIT_FAILURE);
  }
}

static bool read_order(struct chain_order *order_out) {
  return read(STDIN_FILENO, order_out, sizeof *order_out) == (ssize_t)sizeof *order_out;
}

static struct next *find_next(const char *policy, struct journal *journal) {
  struct chain_order order;
  return read_order(&order) ? next_new(order.next_port, policy, journal) : NULL;
}

static void take_orders(struct service *service, struct journal *journal) {
  struct chain_order order;
  while (read_order(&order)) {
    service_set_order(service, &order);
    journal_write(journal, &(struct chain_event){.kind = CHAIN_ORDERED});
  }
}

int main(int argc, char **argv) {
  struct journal journal;
  struct next *next = NULL;
  if (argc <= ARG_KIND) {
    return EXIT_USAGE;
  }
  die_with((pid_t)strtol(argv[ARG_PARENT], NULL, 10));
  (void)signal(SIGPIPE, SIG_IGN);
  journal_init(&journal, STDOUT_FILENO);
  grpc_init();
  if (strcmp(argv[ARG_KIND], "last") != 0) {
    next = find_next(argc > ARG_POLICY ? argv[ARG_POLICY] : NULL, &journal);
  }
  struct service *service = service_new(next, &journal);
  journal_write(&journal,
                &(struct chain_event){.kind = CHAIN_READY, .port = service_port(service)});
  take_orders(service, &journal);
  service_release(service);
  next_release(next);
  grpc_shutdown_blocking(); /* its threads are gone before the process looks for leaks */
  return EXIT_SUCCESS;
}
