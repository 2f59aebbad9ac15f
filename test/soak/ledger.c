/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/ledger.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <weir/clock.h>

/* The last events of all calls: at some 20 a call, the last 13,000 calls. */
#define EVENTS_MAX (UINT32_C(1) << 18)
#define BLAMES_MAX 32
#define BLAMES_TOLD 8
#define TEXT_SIZE 192

/* Words, so that who writes over an old event races nobody: what comes out is at worst mixed. */
struct event {
  _Atomic int64_t at_ns;
  _Atomic uint64_t id_and_kind; /* id << 16 | who << 8 | what */
  _Atomic int64_t one;
  _Atomic int64_t other;
};

struct blame {
  _Atomic bool written;
  int64_t id;
  enum ledger_who who;
  char text[TEXT_SIZE];
};

struct ledger {
  size_t size;
  uint32_t n_calls;
  int64_t began_at_ns;
  _Atomic uint32_t n_events;
  _Atomic uint32_t n_blames;
  struct blame blames[BLAMES_MAX];
  struct event events[EVENTS_MAX];
  struct ledger_entry entries[];
};

static const char *const who_names[LEDGER_N_WHO] = {"client", "A", "B"};

static const char *const what_names[LEDGER_N_WHAT] = {
    [LEDGER_MADE] = "made: shape %" PRId64 ", channel %" PRId64,
    [LEDGER_STARTED] = "started a batch: line %" PRId64 ", operations %" PRIx64,
    [LEDGER_CAME] = "a tag came: line %" PRId64 ", success %" PRId64,
    [LEDGER_RECEIVED] = "received message %" PRId64 " of kind %" PRId64,
    [LEDGER_CANCELLED] = "cancelled: code %" PRId64 "%.0" PRId64,
    [LEDGER_LET_GO] = "let go%.0" PRId64 "%.0" PRId64,
    [LEDGER_ENDED] = "ended: code %" PRId64 ", attempts %" PRId64,
    [LEDGER_EXPLAINED] = "  reason %" PRId64 ", raw code %" PRId64,
    [LEDGER_ARRIVED] = "arrived: request %" PRId64 ", previous attempts %" PRId64,
    [LEDGER_ASKS] = "asks: shape %" PRId64 ", channel %" PRId64,
    [LEDGER_ASKED] = "was answered: code %" PRId64 ", attempts %" PRId64,
    [LEDGER_ANSWERED] = "answered: code %" PRId64 ", caller gone %" PRId64,
};

int64_t ledger_now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * WEIR_SECOND_NS + now.tv_nsec;
}

struct ledger *ledger_new(uint32_t n_calls) {
  size_t size = sizeof(struct ledger) + ((size_t)n_calls + 1) * sizeof(struct ledger_entry);
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    perror("ledger");
    abort();
  }
  struct ledger *ledger = memory;
  ledger->size = size;
  ledger->n_calls = n_calls;
  ledger->began_at_ns = ledger_now_ns();
  return ledger;
}

void ledger_release(struct ledger *ledger) {
  (void)munmap(ledger, ledger->size);
}

struct ledger_entry *ledger_entry_of(struct ledger *ledger, int64_t id) {
  return id >= 1 && id <= (int64_t)ledger->n_calls ? &ledger->entries[id] : NULL;
}

/* Relaxed throughout: what is read while it is written is a story for a person. */
void ledger_note(struct ledger *ledger, int64_t id, enum ledger_who who, enum ledger_what what,
                 int64_t one, int64_t other) {
  uint32_t index = atomic_fetch_add_explicit(&ledger->n_events, 1, memory_order_relaxed);
  struct event *event = &ledger->events[index % EVENTS_MAX];
  uint64_t word = (uint64_t)id << 16 | (uint64_t)who << 8 | (uint64_t)what;
  atomic_store_explicit(&event->at_ns, ledger_now_ns(), memory_order_relaxed);
  atomic_store_explicit(&event->id_and_kind, word, memory_order_relaxed);
  atomic_store_explicit(&event->one, one, memory_order_relaxed);
  atomic_store_explicit(&event->other, other, memory_order_relaxed);
}

void ledger_blame(struct ledger *ledger, int64_t id, enum ledger_who who, const char *format, ...) {
  uint32_t index = atomic_fetch_add(&ledger->n_blames, 1);
  if (index >= BLAMES_MAX) {
    return;
  }
  struct blame *blame = &ledger->blames[index];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(blame->text, sizeof blame->text, format, arguments);
  va_end(arguments);
  blame->id = id;
  blame->who = who;
  atomic_store(&blame->written, true);
}

uint32_t ledger_n_blames(const struct ledger *ledger) {
  return atomic_load(&ledger->n_blames);
}

static void tell_event(const struct ledger *ledger, const struct event *event, uint64_t kind,
                       FILE *file) {
  int64_t at_ns = atomic_load_explicit(&event->at_ns, memory_order_relaxed);
  size_t what = kind & 0xff;
  size_t who = kind >> 8 & 0xff;
  if (what >= LEDGER_N_WHAT || who >= LEDGER_N_WHO) {
    return;
  }
  fprintf(file, "  %12.3f ms  %-6s ", (double)(at_ns - ledger->began_at_ns) / (double)WEIR_MS_NS,
          who_names[who]);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* one of what_names */
  fprintf(file, what_names[what], atomic_load_explicit(&event->one, memory_order_relaxed),
          atomic_load_explicit(&event->other, memory_order_relaxed));
#pragma GCC diagnostic pop
  fputc('\n', file);
}

static void tell_story(const struct ledger *ledger, int64_t id, FILE *file) {
  uint32_t n_events = atomic_load(&ledger->n_events);
  uint32_t n_told = n_events < EVENTS_MAX ? n_events : EVENTS_MAX;
  for (uint32_t i = n_events - n_told; i != n_events; i++) {
    const struct event *event = &ledger->events[i % EVENTS_MAX];
    uint64_t word = atomic_load_explicit(&event->id_and_kind, memory_order_relaxed);
    if (word >> 16 == (uint64_t)id) {
      tell_event(ledger, event, word & 0xffff, file);
    }
  }
}

void ledger_tell(const struct ledger *ledger, FILE *file) {
  uint32_t n_blames = ledger_n_blames(ledger);
  for (uint32_t i = 0; i < n_blames && i < BLAMES_TOLD; i++) {
    const struct blame *blame = &ledger->blames[i];
    if (!atomic_load(&blame->written)) {
      continue;
    }
    fprintf(file, "soak: broken, seen by %s, call %" PRId64 ": %s\n", who_names[blame->who],
            blame->id, blame->text);
    if (blame->id > 0) {
      tell_story(ledger, blame->id, file);
    }
  }
  if (n_blames > BLAMES_TOLD) {
    fprintf(file, "soak: and %u more\n", n_blames - BLAMES_TOLD);
  }
}
