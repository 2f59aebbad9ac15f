/* What many calls at once take: while they are under way, and while they wait for a retry.
 *
 *   many bytes N       prints "NAME BYTES" of one of N calls that wait for a connection: what weir
 *                      takes beside the core, and what the core takes beside with its own retries
 *   many backoff N     prints "NAME VALUE" of N calls that wait for a retry at once: bytes of one,
 *                      nanoseconds to bring one there, to cancel it, and to have it retried when its
 *                      time has come; and how many threads there are more than before
 *   many core_backoff N    the same of the core's own retries, but for the time that has come
 *
 * Nobody listens where the calls go to, so each attempt is over at once, and no peer takes part.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include <weir/weir.h>

#include "bench/counted_memory.h"
#include "bench/exchange.h"
#include "bench/require.h"
#include "bench/side.h"

#define TARGET "ipv4:127.0.0.1:1"
#define METHOD "/bench.Service/Unary"
#define BACKOFF_NS (INT64_C(3600) * WEIR_SECOND_NS)

/* One round is enough of so many calls; of fewer, the least of as many rounds as make so many. */
#define N_CALLS_TIMED 5000

/* Longer than what is on its way in the process takes, and shorter than any backoff. */
#define SETTLE_MS 200
#define CONNECT_S 20

#define STATUS_LINE_SIZE 256

#define POLICY                                                                     \
  "{\"methodConfig\":[{\"name\":[{}],\"retryPolicy\":{\"maxAttempts\":2,"          \
  "\"initialBackoff\":\"3600s\",\"maxBackoff\":\"3600s\",\"backoffMultiplier\":1," \
  "\"retryableStatusCodes\":[\"UNAVAILABLE\"]}}]"
#define POLICY_WEIR                                                                 \
  POLICY ",\"deadline\":{\"defaultTimeout\":\"86400s\",\"maxTimeout\":\"86400s\"}," \
         "\"breaker\":{\"enabled\":false}}"

static int64_t clock_ns(clockid_t clock) {
  struct timespec now;
  (void)clock_gettime(clock, &now);
  return now.tv_sec * WEIR_SECOND_NS + now.tv_nsec;
}

/* What the thread has had of its processor: nothing here is waited for, and on a machine that others
 * use too so long a series is always interrupted. */
static int64_t worked_ns(void) {
  return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* --- a clock that can be put forward --- */

static int64_t ahead_ns;

static int64_t shifted_now_ns(void *context) {
  (void)context;
  return clock_ns(CLOCK_MONOTONIC) + ahead_ns;
}

static const struct weir_clock shifted_clock = {.size = sizeof(struct weir_clock),
                                                .now_ns = shifted_now_ns};

static void *shifted_queue_create(void) {
  struct weir_completion_queue_options options = WEIR_COMPLETION_QUEUE_OPTIONS_INIT;
  options.allocator = &counted_memory;
  options.clock = &shifted_clock;
  return weir_completion_queue_create_for_next(&options);
}

/* --- what there is --- */

static size_t all_bytes(void) {
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

static double n_threads(void) {
  static const char key[] = "Threads:";
  char line[STATUS_LINE_SIZE];
  long n = 0;
  FILE *status = fopen("/proc/self/status", "re");
  require(status != NULL, "the threads can't be counted");
  while (n == 0 && fgets(line, sizeof line, status) != NULL) {
    n = strncmp(line, key, sizeof key - 1) == 0 ? strtol(line + sizeof key - 1, NULL, 10) : 0;
  }
  (void)fclose(status);
  require(n > 0, "the threads can't be counted");
  return (double)n;
}

/* --- many calls --- */

struct many {
  struct client client;
  struct exchange *exchanges;
  int n;
};

static gpr_timespec from_now(int64_t ms) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(ms, GPR_TIMESPAN));
}

static void start_one(const struct many *many, int i, uint32_t flags) {
  struct exchange *exchange = &many->exchanges[i];
  exchange_init(exchange, &many->client, METHOD, gpr_inf_future(GPR_CLOCK_MONOTONIC),
                grpc_raw_byte_buffer_create(NULL, 0));
  exchange->ops[SEND_HEADERS].flags = flags;
  exchange_start(exchange, &many->client, SEND_HEADERS, N_OPS);
}

/* Nothing comes back: all wait. */
static void require_silence(const struct many *many, gpr_timespec until) {
  require(exchange_await_until(&many->client, until) == NULL, "a call does not wait");
}

static void take_back(const struct many *many, grpc_status_code status) {
  for (int i = 0; i < many->n; i++) {
    require(exchange_await(&many->client)->status == status, "a call ended in another way");
  }
}

static void cancel(const struct many *many) {
  for (int i = 0; i < many->n; i++) {
    many->client.side->on->call_cancel(many->exchanges[i].call);
  }
}

static void finish(const struct many *many) {
  for (int i = 0; i < many->n; i++) {
    exchange_fini(&many->exchanges[i], &many->client);
  }
}

static struct many many_new(const struct side *side, int n) {
  struct many many = {.n = n, .exchanges = require_memory((size_t)n, sizeof *many.exchanges)};
  client_init(&many.client, side, TARGET);
  return many;
}

static void many_free(struct many *many) {
  client_fini(&many->client);
  free(many->exchanges);
}

/* --- under way --- */

struct bytes {
  double weir; /* of its allocator */
  double all;
};

/* Of one of `n` calls that have been started and wait for a connection. */
static struct bytes bytes_under_way(const char *side, int n) {
  struct many many = many_new(side_find(side), n);
  size_t weir_before = counted_memory_n_bytes();
  size_t all_before = all_bytes();
  for (int i = 0; i < n; i++) {
    start_one(&many, i, GRPC_INITIAL_METADATA_WAIT_FOR_READY);
  }
  require_silence(&many, from_now(SETTLE_MS));
  struct bytes bytes = {.weir = (double)(counted_memory_n_bytes() - weir_before) / n,
                        .all = (double)(all_bytes() - all_before) / n};
  cancel(&many);
  take_back(&many, GRPC_STATUS_CANCELLED);
  finish(&many);
  many_free(&many);
  return bytes;
}

static void run_bytes(int n) {
  struct bytes bare = bytes_under_way("bare", n);
  struct bytes retries = bytes_under_way("core_retries", n);
  struct bytes weir = bytes_under_way("weir", n);
  printf("call.bytes %.0f\n", weir.weir);
  printf("call.bytes_over_bare %.0f\n", weir.all - bare.all);
  printf("call.bytes_bare %.0f\n", bare.all);
  printf("peer.core_retries.call.bytes_over_bare %.0f\n", retries.all - bare.all);
}

/* --- in backoff --- */

/* Of one call. */
struct cost {
  double start_ns;
  double end_ns;
  double weir_bytes;
  double all_bytes;
  double n_threads; /* of all */
};

enum ending { CANCELLED, DUE };

static void await_failing_connection(const struct many *many, bool is_core) {
  grpc_channel *core = is_core ? many->client.channel : weir_channel_core(many->client.channel);
  gpr_timespec deadline = from_now(CONNECT_S * 1000);
  while (grpc_channel_check_connectivity_state(core, 1) != GRPC_CHANNEL_TRANSIENT_FAILURE) {
    (void)exchange_await_until(&many->client, from_now(1));
    require(gpr_time_cmp(gpr_now(GPR_CLOCK_MONOTONIC), deadline) < 0, "somebody listens");
  }
}

/* All to their backoffs: to each the queue is asked once whether there is something to do, as a
 * program that is at work asks. */
static double start_all_ns(const struct many *many) {
  int64_t before_ns = worked_ns();
  for (int i = 0; i < many->n; i++) {
    start_one(many, i, 0);
    require_silence(many, gpr_inf_past(GPR_CLOCK_MONOTONIC));
  }
  return (double)(worked_ns() - before_ns) / many->n;
}

static double end_all_ns(const struct many *many, enum ending ending) {
  int64_t before_ns = worked_ns();
  if (ending == CANCELLED) {
    cancel(many);
    take_back(many, GRPC_STATUS_CANCELLED);
  } else {
    ahead_ns += 2 * BACKOFF_NS;
    take_back(many, GRPC_STATUS_UNAVAILABLE);
  }
  return (double)(worked_ns() - before_ns) / many->n;
}

static struct cost backoff_once(const struct many *many, enum ending ending) {
  struct cost cost = {.n_threads = n_threads()};
  size_t weir_before = counted_memory_n_bytes();
  size_t all_before = all_bytes();
  cost.start_ns = start_all_ns(many);
  require_silence(many, many->n > 1 ? from_now(SETTLE_MS) : gpr_inf_past(GPR_CLOCK_MONOTONIC));
  cost.n_threads = n_threads() - cost.n_threads;
  cost.weir_bytes = (double)(counted_memory_n_bytes() - weir_before) / many->n;
  cost.all_bytes = (double)(all_bytes() - all_before) / many->n;
  cost.end_ns = end_all_ns(many, ending);
  finish(many);
  return cost;
}

static double least(double left, double right) {
  return left < right ? left : right;
}

/* Times are the least of all rounds; memory is what the first takes, of which later ones have some
 * already. */
static struct cost backoff(const struct side *side, int n, enum ending ending) {
  struct many many = many_new(side, n);
  await_failing_connection(&many, side->on == side_find("bare")->on);
  struct cost cost = backoff_once(&many, ending);
  for (int i = 1; i < N_CALLS_TIMED / n; i++) {
    struct cost again = backoff_once(&many, ending);
    cost.start_ns = least(cost.start_ns, again.start_ns);
    cost.end_ns = least(cost.end_ns, again.end_ns);
  }
  many_free(&many);
  return cost;
}

static void run_backoff(int n) {
  struct side_functions on_shifted_queue = *side_find("weir")->on;
  on_shifted_queue.queue_create = shifted_queue_create;
  struct side weir = *side_find("weir");
  weir.policy = POLICY_WEIR;
  weir.on = &on_shifted_queue;
  struct cost cancelled = backoff(&weir, n, CANCELLED);
  struct cost due = backoff(&weir, n, DUE);
  printf("backoff_%d.start_ns %.0f\n", n, least(cancelled.start_ns, due.start_ns));
  printf("backoff_%d.cancel_ns %.0f\n", n, cancelled.end_ns);
  printf("backoff_%d.due_ns %.0f\n", n, due.end_ns);
  printf("backoff_%d.bytes_per_call %.0f\n", n, cancelled.all_bytes);
  printf("backoff_%d.weir_bytes_per_call %.0f\n", n, cancelled.weir_bytes);
  printf("backoff_%d.threads %.0f\n", n, cancelled.n_threads);
}

/* The core's own, of which a call waits with all that it has. */
static void run_core_backoff(int n) {
  struct side core = *side_find("core_retries");
  core.policy = POLICY "}";
  struct cost cancelled = backoff(&core, n, CANCELLED);
  printf("peer.core_retries.backoff_%d.start_ns %.0f\n", n, cancelled.start_ns);
  printf("peer.core_retries.backoff_%d.cancel_ns %.0f\n", n, cancelled.end_ns);
  printf("peer.core_retries.backoff_%d.bytes_per_call %.0f\n", n, cancelled.all_bytes);
  printf("peer.core_retries.backoff_%d.threads %.0f\n", n, cancelled.n_threads);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(int n);
  } verbs[] = {{"bytes", run_bytes}, {"backoff", run_backoff}, {"core_backoff", run_core_backoff}};
  const long n = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
  for (size_t i = 0; i < sizeof verbs / sizeof verbs[0] && n > 0 && n <= INT32_MAX; i++) {
    if (strcmp(argv[1], verbs[i].name) == 0) {
      grpc_init();
      verbs[i].run((int)n);
      grpc_shutdown();
      return 0;
    }
  }
  (void)fprintf(stderr, "usage: many bytes N | backoff N | core_backoff N\n");
  return 2;
}
