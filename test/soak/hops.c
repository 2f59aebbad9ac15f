/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/hops.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <grpc/grpc.h>

#include <weir/clock.h>

#include "test/soak/answerer.h"
#include "test/soak/asker.h"
#include "test/soak/footprint.h"
#include "test/soak/live_memory.h"
#include "test/soak/service.h"

/* Until the last request has ended, once the network is well and nobody asks. */
#define QUIET_LIMIT_NS (60 * WEIR_SECOND_NS)
#define TELL_LIMIT_MS 120000
#define SWAP_EACH_MS 30

enum order_kind {
  ORDER_CONNECT = 0,
  ORDER_STORM,
  ORDER_CALM,
  ORDER_BE_QUIET,
  ORDER_LOOK,
  ORDER_END
};

struct order {
  enum order_kind kind;
  int port; /* with CONNECT, of the next hop */
};

/* One of them, seen from inside. */
struct inside {
  enum hop hop;
  int fd;
  struct ledger *ledger;
  const struct plans *plans;
  bool storming;
  struct footprint before; /* all that follows */
  struct proxy *proxy;
  struct service *service;
  struct asker *asker;
};

static void check(bool fine, const char *what) {
  if (!fine) {
    fprintf(stderr, "soak: hops: %s: errno %d\n", what, errno);
    abort();
  }
}

const char *hop_name(enum hop hop) {
  static const char *const names[N_HOPS] = {"proxy before A", "A", "proxy before B", "B"};
  return names[hop];
}

/* --- inside: proxies --- */

static unsigned proxy_number(const struct inside *inside) {
  return inside->hop == HOP_PROXY_A ? 0 : 1;
}

static void next_fault(void *context, uint64_t number, bool accepting,
                       struct proxy_plan *plan_out) {
  const struct inside *inside = context;
  plan_fault(inside->plans->seed, proxy_number(inside), number, accepting, plan_out);
}

static void next_gap(void *context, uint64_t number, struct proxy_gap *gap_out) {
  const struct inside *inside = context;
  plan_gap(inside->plans->seed, proxy_number(inside), number, gap_out);
}

/* --- inside: what each does --- */

static bool is_proxy(enum hop hop) {
  return hop == HOP_PROXY_A || hop == HOP_PROXY_B;
}

static int begin(struct inside *inside, const struct proxy_planner *planner, int next_port) {
  if (is_proxy(inside->hop)) {
    inside->proxy = proxy_new(next_port, planner);
    return proxy_port(inside->proxy);
  }
  grpc_init();
  if (inside->hop == HOP_A) {
    inside->asker = asker_new(inside->ledger, inside->plans, next_port);
    inside->service = service_new(inside->ledger, LEDGER_A, asker_serve, inside->asker);
  } else {
    inside->service = service_new(inside->ledger, LEDGER_B, answerer_serve,
                                  (void *)(uintptr_t)inside->plans); /* only read */
  }
  return service_port(inside->service);
}

static void set_storm(struct inside *inside, bool storming) {
  inside->storming = storming;
  if (inside->proxy != NULL) {
    (storming ? proxy_storm : proxy_calm)(inside->proxy);
  }
  if (inside->asker != NULL && !storming) {
    asker_calm(inside->asker);
  }
}

static void look(struct inside *inside, struct hop_answer *answer) {
  answer->quiet = true;
  if (inside->proxy != NULL) {
    proxy_read_counts(inside->proxy, &answer->counts);
  } else {
    answer->quiet = service_await_quiet(inside->service, inside->storming ? 0 : QUIET_LIMIT_NS);
  }
  if (inside->asker != NULL && answer->quiet && !inside->storming) {
    asker_judge(inside->asker);
  }
}

/* All has become well. */
static void look_at_breakers(struct inside *inside) {
  if (inside->asker != NULL && !inside->storming) {
    asker_blame_open_breakers(inside->asker);
  }
}

static void finish(struct inside *inside, struct hop_answer *answer) {
  if (inside->proxy != NULL) {
    proxy_release(inside->proxy);
  } else {
    service_release(inside->service);
    if (inside->asker != NULL) {
      asker_release(inside->asker);
    }
    grpc_shutdown_blocking();
  }
  answer->before = inside->before;
  footprint_take_last(inside->before.n_threads, &answer->last);
}

/* Waits for an order; meanwhile A changes its policies. False at the end. */
static bool take_order(struct inside *inside, struct order *order_out) {
  for (;;) {
    bool swaps = inside->asker != NULL && inside->storming;
    struct pollfd fd = {.fd = inside->fd, .events = POLLIN};
    int n_ready = poll(&fd, 1, swaps ? SWAP_EACH_MS : -1);
    if (n_ready > 0) {
      return recv(inside->fd, order_out, sizeof *order_out, 0) == (ssize_t)sizeof *order_out;
    }
    if (n_ready == 0) {
      asker_swap(inside->asker);
    }
  }
}

static void do_order(struct inside *inside, const struct proxy_planner *planner,
                     const struct order *order, struct hop_answer *answer) {
  struct footprint now;
  switch (order->kind) {
  case ORDER_CONNECT:
    answer->port = begin(inside, planner, order->port);
    break;
  case ORDER_STORM:
    set_storm(inside, true);
    break;
  case ORDER_CALM:
    set_storm(inside, false);
    break;
  case ORDER_BE_QUIET:
    look(inside, answer);
    break;
  case ORDER_LOOK:
    look(inside, answer);
    look_at_breakers(inside);
    break;
  case ORDER_END:
    finish(inside, answer);
    break;
  }
  answer->n_live_blocks = live_memory_blocks();
  answer->n_live_bytes = live_memory_bytes();
  footprint_take(&now);
  answer->n_heap_bytes = now.heap_bytes;
}

static int live(struct inside *inside) {
  const struct proxy_planner planner = {.plan = next_fault, .gap = next_gap, .context = inside};
  struct order order = {.kind = ORDER_LOOK};
  footprint_take(&inside->before);
  while (order.kind != ORDER_END && take_order(inside, &order)) {
    struct hop_answer answer = {.quiet = false};
    do_order(inside, &planner, &order, &answer);
    if (send(inside->fd, &answer, sizeof answer, MSG_NOSIGNAL) != (ssize_t)sizeof answer) {
      return EXIT_FAILURE;
    }
  }
  (void)close(inside->fd);
  return EXIT_SUCCESS;
}

/* --- outside --- */

/* One that was left behind ends with us, also if we died before it could ask for that. */
static void die_with(pid_t parent) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _Exit(EXIT_FAILURE);
  }
}

static void spawn(struct hops *hops, enum hop hop, struct ledger *ledger,
                  const struct plans *plans) {
  int fds[2];
  pid_t parent = getpid();
  check(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) == 0, "socketpair");
  (void)fflush(NULL); /* or the child writes it too */
  pid_t pid = fork();
  check(pid >= 0, "fork");
  if (pid == 0) {
    struct inside inside = {.hop = hop, .fd = fds[1], .ledger = ledger, .plans = plans};
    die_with(parent);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)close(fds[0]);
    for (enum hop other = HOP_PROXY_A; other < N_HOPS; other++) {
      if (hops->each[other].fd >= 0) {
        (void)close(hops->each[other].fd);
      }
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): its threads have ended */
    exit(live(&inside));
  }
  (void)close(fds[1]);
  hops->each[hop].pid = pid;
  hops->each[hop].fd = fds[0];
}

static bool tell(struct hops *hops, enum hop hop, const struct order *order,
                 struct hop_answer *answer_out) {
  struct pollfd fd = {.fd = hops->each[hop].fd, .events = POLLIN};
  memset(answer_out, 0, sizeof *answer_out);
  return send(fd.fd, order, sizeof *order, MSG_NOSIGNAL) == (ssize_t)sizeof *order &&
         poll(&fd, 1, TELL_LIMIT_MS) == 1 &&
         recv(fd.fd, answer_out, sizeof *answer_out, 0) == (ssize_t)sizeof *answer_out;
}

static struct hop_answer order_kind(struct hops *hops, enum hop hop, enum order_kind kind) {
  struct hop_answer answer;
  (void)tell(hops, hop, &(struct order){.kind = kind}, &answer);
  return answer;
}

/* From the last to the first, each of which is told of the one behind it. */
void hops_start(struct hops *hops, struct ledger *ledger, const struct plans *plans) {
  for (size_t i = 0; i < N_HOPS; i++) {
    hops->each[i].fd = -1;
  }
  for (size_t i = 0; i < N_HOPS; i++) {
    spawn(hops, (enum hop)i, ledger, plans);
  }
  hops->port = 0;
  for (size_t i = N_HOPS; i > 0; i--) {
    struct hop_answer answer;
    const struct order order = {.kind = ORDER_CONNECT, .port = hops->port};
    check(tell(hops, (enum hop)(i - 1), &order, &answer) && answer.port > 0, "a hop won't start");
    hops->port = answer.port;
  }
}

bool hops_calm(struct hops *hops, struct ledger *ledger) {
  bool quiet = true;
  (void)order_kind(hops, HOP_PROXY_A, ORDER_CALM);
  (void)order_kind(hops, HOP_PROXY_B, ORDER_CALM);
  (void)order_kind(hops, HOP_A, ORDER_CALM);
  for (enum hop hop = HOP_A; hop < N_HOPS; hop++) {
    if (!is_proxy(hop) && !order_kind(hops, hop, ORDER_BE_QUIET).quiet) {
      ledger_blame(ledger, 0, LEDGER_CLIENT, "%s serves requests that nobody waits for",
                   hop_name(hop));
      quiet = false;
    }
  }
  return quiet;
}

void hops_storm(struct hops *hops) {
  (void)order_kind(hops, HOP_A, ORDER_STORM);
  (void)order_kind(hops, HOP_PROXY_A, ORDER_STORM);
  (void)order_kind(hops, HOP_PROXY_B, ORDER_STORM);
}

struct hop_answer hops_look(struct hops *hops, enum hop hop) {
  return order_kind(hops, hop, ORDER_LOOK);
}

static void end_one(struct hops *hops, enum hop hop, struct ledger *ledger) {
  struct hop_answer answer;
  int status = -1;
  bool told = tell(hops, hop, &(struct order){.kind = ORDER_END}, &answer);
  (void)close(hops->each[hop].fd);
  hops->each[hop].fd = -1;
  if (!told) {
    (void)kill(hops->each[hop].pid, SIGKILL);
  }
  (void)waitpid(hops->each[hop].pid, &status, 0);
  hops->each[hop].pid = 0;
  if (!told || status != 0) {
    ledger_blame(ledger, 0, LEDGER_CLIENT, "%s ended with status %d", hop_name(hop), status);
  } else if (answer.n_live_blocks != 0) {
    ledger_blame(ledger, 0, LEDGER_CLIENT,
                 "%s leaves %" PRIu64 " blocks of weir's behind, %" PRIu64 " bytes", hop_name(hop),
                 answer.n_live_blocks, answer.n_live_bytes);
  }
  if (told) {
    footprint_judge(&answer.before, &answer.last, hop_name(hop), ledger);
  }
}

/* From the first to the last, so that nobody loses whom he asks. */
void hops_end(struct hops *hops, struct ledger *ledger) {
  for (size_t i = 0; i < N_HOPS; i++) {
    end_one(hops, (enum hop)i, ledger);
  }
  if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD) {
    ledger_blame(ledger, 0, LEDGER_CLIENT, "a process is left behind");
  }
}

void hops_kill(struct hops *hops) {
  for (size_t i = 0; i < N_HOPS; i++) {
    if (hops->each[i].pid > 0) {
      (void)kill(hops->each[i].pid, SIGKILL);
      (void)waitpid(hops->each[i].pid, NULL, 0);
      hops->each[i].pid = 0;
    }
  }
}

bool hops_one_is_gone(struct hops *hops) {
  for (size_t i = 0; i < N_HOPS; i++) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    if (hops->each[i].pid > 0 &&
        waitid(P_PID, (id_t)hops->each[i].pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid != 0) {
      return true;
    }
  }
  return false;
}
