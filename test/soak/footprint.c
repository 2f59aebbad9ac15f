/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/footprint.h"

#include <dirent.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/clock.h>

#define PATH_SIZE 64
#define LINE_SIZE 256

/* ThreadSanitizer begins a thread of its own with a process's first. */
#if defined(__SANITIZE_THREAD__)
#define KEPT_THREADS 1
#else
#define KEPT_THREADS 0
#endif

/* A thread that was joined is told of for some time yet. */
#define LAST_LIMIT_NS (WEIR_SECOND_NS * 10)
#define LAST_LOOK_MS 5

/* What the core sets up once and keeps: its poller's two descriptors, and some 54 KiB, however many
 * calls were made. */
#define KEPT_DESCRIPTORS 2
#define KEPT_HEAP_BYTES (UINT64_C(64) * 1024)

/* What malloc keeps for a thread counts as in use, unless that is switched off. */
#define CACHED_HEAP_BYTES (UINT64_C(512) * 1024)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_MALLOC 0
#else
#define OWN_MALLOC 1
#endif

static uint64_t status_number(const char *line, const char *key) {
  size_t size = strlen(key);
  return strncmp(line, key, size) == 0 ? strtoull(line + size, NULL, 10) : 0;
}

static void read_status(pid_t pid, struct footprint *footprint) {
  char path[PATH_SIZE];
  char line[LINE_SIZE];
  (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
  FILE *file = fopen(path, "re");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    footprint->rss_kib += status_number(line, "RssAnon:");
    footprint->n_threads += status_number(line, "Threads:");
  }
  if (file != NULL) {
    (void)fclose(file);
  }
}

static uint64_t count_descriptors(pid_t pid) {
  char path[PATH_SIZE];
  uint64_t n = 0;
  (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
  DIR *folder = opendir(path);
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else reads this one */
  while (folder != NULL && readdir(folder) != NULL) {
    n++;
  }
  if (folder != NULL) {
    (void)closedir(folder);
  }
  return n;
}

void footprint_look(pid_t pid, struct footprint *footprint_out) {
  memset(footprint_out, 0, sizeof *footprint_out);
  read_status(pid, footprint_out);
  footprint_out->n_descriptors = count_descriptors(pid);
}

static uint64_t heap_bytes(void) {
#if OWN_MALLOC
  (void)malloc_trim(0); /* so that what is resident is what is in use */
  return mallinfo2().uordblks;
#else
  return 0;
#endif
}

void footprint_take(struct footprint *footprint_out) {
  uint64_t n_bytes = heap_bytes();
  footprint_look(getpid(), footprint_out);
  footprint_out->heap_bytes = n_bytes;
}

void footprint_take_last(uint64_t n_threads, struct footprint *footprint_out) {
  int64_t limit_at_ns = ledger_now_ns() + LAST_LIMIT_NS;
  footprint_take(footprint_out);
  while (footprint_out->n_threads > n_threads + KEPT_THREADS && ledger_now_ns() < limit_at_ns) {
    (void)poll(NULL, 0, LAST_LOOK_MS);
    footprint_take(footprint_out);
  }
}

static uint64_t kept_bytes(void) {
  const char *tunables = getenv("GLIBC_TUNABLES"); /* NOLINT(concurrency-mt-unsafe): never set */
  bool is_off = tunables != NULL && strstr(tunables, "tcache_count=0") != NULL;
  return KEPT_HEAP_BYTES + (is_off ? 0 : CACHED_HEAP_BYTES);
}

void footprint_judge(const struct footprint *before, const struct footprint *now, const char *name,
                     struct ledger *ledger) {
  if (now->n_threads > before->n_threads + KEPT_THREADS ||
      now->n_descriptors > before->n_descriptors + KEPT_DESCRIPTORS ||
      now->heap_bytes > before->heap_bytes + kept_bytes()) {
    ledger_blame(ledger, 0, LEDGER_CLIENT,
                 "%s has not given all back: it ends with %" PRIu64 " threads and not %" PRIu64
                 ", %" PRIu64 " descriptors and not %" PRIu64 ", %" PRIu64
                 " bytes in use and not %" PRIu64,
                 name, now->n_threads, before->n_threads, now->n_descriptors, before->n_descriptors,
                 now->heap_bytes, before->heap_bytes);
  }
}
