/* Policies that differ in all that a call can show, swapped as fast as it goes under 64 calls at
 * once: each call, each attempt that the server sees and each record of the log has to fit one of
 * them, and no memory may be left of the others.
 *
 * An argument says how often they are swapped: 60000 times at more than a thousand a second, say, and
 * 200000 for about a minute.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/shaped_call.h"
#include "test/e2e/support/metadata.h"
#include "test/e2e/support/test_server.h"

#define N_CALLERS 64
#define N_SWAPPERS 2
#define N_REGISTERED 40

/* Before memory is looked at first, and in all, unless an argument says otherwise. */
#define FIRST_SWAPS 300
#define ALL_SWAPS 1200

/* What queues of blocking calls keep, and what a thread of a fallback has not given back yet. */
#define SLACK_BYTES (256 * 1024)

static unsigned n_all_swaps = ALL_SWAPS;

/* --- the policies --- */

/* Methods whose names begin so have an entry of their service's. */
#define OTHER_SERVICE "/test.Other/"

#define MAX_BREAKER "\"minRequests\":1000000"

#define ENTRY(names, timeout, more) "{\"name\":[" names "],\"timeout\":\"" timeout "s\"" more "}"
#define TRIES(attempts) "," RETRY(attempts, "0.001s", UNAVAILABLE)
#define KEEP(key) "\"keepMetadata\":[\"x-owner\",\"x-trace\",\"x-budget\",\"" key "\"]"
#define CODE(code) "\"codes\":{\"UNAVAILABLE\":\"" code "\"}"
#define LONGEST(seconds) \
  "\"deadline\":{\"maxTimeout\":\"" seconds "s\",\"maxStreamTimeout\":\"" seconds "s\"}"
#define POLICY(name, trace, longest, breaker, translation, fallback, entry, other_entry)        \
  "{\"name\":\"" name "\",\"passTrace\":" trace                                                 \
  "," LONGEST(longest) ",\"breaker\":{" breaker "},\"translation\":{" translation               \
                       "},\"fallback\":{" fallback "},\"methodConfig\":[" entry "," other_entry \
                       "]}"

struct kind {
  const char *document;
  const char *name;
  const char *kept; /* the key of trailing metadata that only this one lets through */
  grpc_status_code code;
  uint32_t n_attempts[2]; /* of methods, and of the other service's */
  int64_t timeout_s[2];
  bool passes_trace;
  bool has_reference;
  bool asks_fallback;
  const char *breaker; /* NULL = the method's path */
};

static const struct kind kinds[] = {
    {POLICY("amber", "true", "2000", "\"scope\":\"CHANNEL\"," MAX_BREAKER,
            CODE("ABORTED") "," KEEP("x-amber"), "", ENTRY("{}", "1000", TRIES("3")),
            ENTRY("{\"service\":\"test.Other\"}", "900", TRIES("2"))),
     "amber",
     "x-amber",
     GRPC_STATUS_ABORTED,
     {3, 2},
     {1000, 900},
     true,
     true,
     false,
     "amber"},
    {POLICY("blue", "false", "200", "\"enabled\":false",
            "\"messageRef\":false," CODE("DATA_LOSS") "," KEEP("x-blue"), "",
            ENTRY("{}", "100", ""), ENTRY("{\"service\":\"test.Other\"}", "90", TRIES("4"))),
     "blue",
     "x-blue",
     GRPC_STATUS_DATA_LOSS,
     {1, 4},
     {100, 90},
     false,
     false,
     false,
     ""},
    {POLICY("coral", "true", "20000", "\"scope\":\"METHOD\"," MAX_BREAKER,
            CODE("RESOURCE_EXHAUSTED") "," KEEP("x-coral"),
            "\"onFailure\":true,\"maxConcurrent\":2", ENTRY("{}", "10000", TRIES("2")),
            ENTRY("{\"service\":\"test.Other\"}", "9000", TRIES("5"))),
     "coral",
     "x-coral",
     GRPC_STATUS_RESOURCE_EXHAUSTED,
     {2, 5},
     {10000, 9000},
     true,
     true,
     true,
     NULL},
};

static weir_policy *policy_of(const struct kind *kind, const struct weir_allocator *allocator) {
  struct weir_diagnostic diagnostic;
  weir_policy *policy = NULL;
  if (weir_policy_from_json(kind->document, strlen(kind->document), NULL, allocator, &policy,
                            &diagnostic) != WEIR_OK) {
    fail_msg("%s: %s", diagnostic.path, diagnostic.message);
  }
  return policy;
}

/* --- memory that is counted by many threads --- */

struct counted_bytes {
  struct weir_allocator base;
  _Atomic int64_t n_bytes;
};

/* As large as what malloc's memory is aligned to. */
struct counted_block {
  size_t size;
  size_t unused;
};

static void *counted_allocate(void *context, size_t size) {
  struct counted_bytes *counted = context;
  struct counted_block *block = malloc(sizeof *block + size);
  if (block == NULL) {
    return NULL;
  }
  block->size = size;
  (void)atomic_fetch_add(&counted->n_bytes, (int64_t)size);
  return block + 1;
}

static void counted_release(void *context, void *memory) {
  struct counted_bytes *counted = context;
  struct counted_block *block = (struct counted_block *)memory - 1;
  (void)atomic_fetch_sub(&counted->n_bytes, (int64_t)block->size);
  free(block);
}

static void counted_bytes_init(struct counted_bytes *counted) {
  counted->base = (struct weir_allocator){.size = sizeof counted->base,
                                          .allocate = counted_allocate,
                                          .release = counted_release,
                                          .context = counted};
  atomic_init(&counted->n_bytes, 0);
}

/* --- the test, as all threads see it --- */

struct storm {
  weir_channel *channel;
  weir__test_server *server;
  weir_inbound *inbound;
  struct counted_bytes policies;
  struct counted_bytes rest;

  /* What each caller's call has shown the server on its first attempt. */
  _Atomic uint64_t first_seen[N_CALLERS];
  atomic_uint n_odd_attempts;
  atomic_uint n_odd_records;
  atomic_uint n_odd_calls;
  atomic_uint n_seen[COUNT_OF(kinds)]; /* calls that have ended by each policy */

  atomic_uint n_swaps;
  atomic_uint n_swaps_wanted;

  pthread_mutex_t mutex; /* of what follows: a gate for the callers */
  pthread_cond_t changed;
  bool is_open;
  bool is_over;
  unsigned n_inside;
};

/* --- the server: fails all calls, and says what it was sent --- */

static void echo(struct weir__test_reply *reply, const struct weir__test_served *served,
                 const char *from, const char *to) {
  char value[64] = "";
  if (weir__metadata_copy_text(served->metadata, from, value, sizeof value)) {
    weir__test_reply_trailer(reply, to, value, strlen(value));
  }
}

/* Of a call's attempts, each has to be of the same policy as the first. */
static uint64_t mark_of(const struct weir__test_served *served) {
  char owner[64] = "";
  char trace[64] = "";
  char budget[64] = "";
  (void)weir__metadata_copy_text(served->metadata, "weir-retry-owner", owner, sizeof owner);
  (void)weir__metadata_copy_text(served->metadata, "traceparent", trace, sizeof trace);
  (void)weir__metadata_copy_text(served->metadata, "weir-budget-us", budget, sizeof budget);
  uint64_t budget_us = strtoull(budget, NULL, 10);
  uint64_t mark = (unsigned char)owner[0];
  mark = mark * 2 + (trace[0] != '\0');
  mark = mark * 2 + (budget_us > UINT64_C(200000000)); /* those of any two policies are far apart */
  return mark * 2 + (budget_us > UINT64_C(2000000000));
}

static void fail_call(void *context, const struct weir__test_served *served,
                      struct weir__test_reply *reply) {
  struct storm *storm = context;
  char caller[16] = "";
  char previous[16] = "";
  (void)weir__metadata_copy_text(served->metadata, "x-caller", caller, sizeof caller);
  (void)weir__metadata_copy_text(served->metadata, "grpc-previous-rpc-attempts", previous,
                                 sizeof previous);
  _Atomic uint64_t *first = &storm->first_seen[strtoul(caller, NULL, 10) % N_CALLERS];
  if (previous[0] == '\0') {
    atomic_store(first, mark_of(served));
  } else if (atomic_load(first) != mark_of(served)) {
    (void)atomic_fetch_add(&storm->n_odd_attempts, 1);
  }
  weir__test_reply_status(reply, GRPC_STATUS_UNAVAILABLE, "busy");
  echo(reply, served, "weir-retry-owner", "x-owner");
  echo(reply, served, "weir-budget-us", "x-budget");
  echo(reply, served, "traceparent", "x-trace");
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    weir__test_reply_trailer(reply, kinds[i].kept, "1", 1);
  }
}

/* --- what one call shows --- */

static const struct kind *kind_of_code(grpc_status_code code) {
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    if (kinds[i].code == code) {
      return &kinds[i];
    }
  }
  return NULL;
}

/* Whether the trailing metadata are those that the kind lets through, as the server has seen the
 * last attempt. */
static bool metadata_fit(const struct kind *kind, const grpc_metadata_array *metadata,
                         bool is_other) {
  char value[64] = "";
  bool retries = kind->n_attempts[is_other] > 1;
  bool has_owner = weir__metadata_copy_text(metadata, "x-owner", value, sizeof value);
  bool fit = has_owner == retries && (!has_owner || strcmp(value, kind->name) == 0);
  fit = fit &&
        weir__metadata_copy_text(metadata, "x-trace", value, sizeof value) == kind->passes_trace;
  fit = fit && weir__metadata_copy_text(metadata, "x-budget", value, sizeof value);
  int64_t budget_us = strtoll(value, NULL, 10);
  int64_t timeout_us = kind->timeout_s[is_other] * 1000000;
  fit = fit && budget_us <= timeout_us && budget_us > timeout_us - 50000000; /* 50 s, of a call */
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    fit = fit && weir__metadata_copy_text(metadata, kinds[i].kept, value, sizeof value) ==
                     (&kinds[i] == kind);
  }
  return fit;
}

static bool report_fits(const struct kind *kind, const struct weir_call_report *report,
                        const char *path, bool is_other) {
  const char *breaker = kind->breaker != NULL ? kind->breaker : path;
  return report->raw_code == GRPC_STATUS_UNAVAILABLE && report->origin == WEIR_ORIGIN_PEER &&
         report->n_attempts == kind->n_attempts[is_other] &&
         report->deadline_bound == WEIR_DEADLINE_BOUND_POLICY &&
         (report->reference[0] != '\0') == kind->has_reference &&
         strcmp(report->breaker_name, breaker) == 0;
}

struct seen {
  const struct weir_call_report *report;
  const grpc_metadata_array *trailing;
  grpc_slice details;
  const char *path;
  bool in_one_batch;
};

static bool details_fit(const struct kind *kind, grpc_slice details) {
  const char *text = (const char *)GRPC_SLICE_START_PTR(details);
  size_t size = GRPC_SLICE_LENGTH(details);
  return (size > 0 && text[size - 1] == ']') == kind->has_reference; /* "... [ref 0123456789ab]" */
}

static bool fits(const struct kind *kind, const struct seen *seen) {
  const struct weir_call_report *report = seen->report;
  bool is_other = strncmp(seen->path, OTHER_SERVICE, strlen(OTHER_SERVICE)) == 0;
  bool was_asked = report->fallback_result != WEIR_FALLBACK_NOT_ASKED;
  if (!report_fits(kind, report, seen->path, is_other) ||
      was_asked != (kind->asks_fallback && seen->in_one_batch)) {
    return false;
  }
  if (report->fallback_result == WEIR_FALLBACK_HIT) {
    return report->code == GRPC_STATUS_OK;
  }
  return report->code == kind->code && details_fit(kind, seen->details) &&
         metadata_fit(kind, seen->trailing, is_other);
}

static void check_call(struct storm *storm, const struct seen *seen) {
  const struct kind *kind = kind_of_code(seen->report->code);
  if (seen->report->fallback_result == WEIR_FALLBACK_HIT) {
    kind = kind_of_code(GRPC_STATUS_RESOURCE_EXHAUSTED);
  }
  if (kind == NULL || !fits(kind, seen)) {
    if (atomic_fetch_add(&storm->n_odd_calls, 1) < 5) {
      print_message("odd: %s: code %d, attempts %u, reason %s, breaker \"%s\", fallback %d\n",
                    seen->path, (int)seen->report->code, seen->report->n_attempts,
                    weir_reason_name(seen->report->reason), seen->report->breaker_name,
                    (int)seen->report->fallback_result);
    }
    return;
  }
  (void)atomic_fetch_add(&storm->n_seen[kind - kinds], 1);
}

/* --- the log, and the fallback --- */

static void check_record(void *context, const struct weir_log_record *record) {
  struct storm *storm = context;
  if (record->event != WEIR_LOG_CALL_FAILED) {
    return;
  }
  bool is_other = record->path.size > strlen(OTHER_SERVICE) &&
                  memcmp(record->path.data, OTHER_SERVICE, strlen(OTHER_SERVICE)) == 0;
  bool is_hit = record->fallback_result == WEIR_FALLBACK_HIT;
  const struct kind *kind = kind_of_code(is_hit ? GRPC_STATUS_RESOURCE_EXHAUSTED : record->code);
  if (kind == NULL || record->n_attempts != kind->n_attempts[is_other] ||
      (record->reference[0] != '\0') != kind->has_reference) {
    (void)atomic_fetch_add(&storm->n_odd_records, 1);
  }
}

static enum weir_fallback_found find_kept(void *context,
                                          const struct weir_fallback_request *request,
                                          struct weir_fallback_answer *answer) {
  (void)context;
  (void)request;
  answer->message = message_of("kept");
  answer->source = "store";
  return WEIR_FALLBACK_FOUND;
}

/* --- callers --- */

struct caller {
  struct storm *storm;
  pthread_t thread;
  unsigned nth;
  unsigned n_calls;
};

/* False: it is over. */
static bool gate_enter(struct storm *storm) {
  (void)pthread_mutex_lock(&storm->mutex);
  while (!storm->is_open && !storm->is_over) {
    (void)pthread_cond_wait(&storm->changed, &storm->mutex);
  }
  bool goes_on = !storm->is_over;
  storm->n_inside += goes_on;
  (void)pthread_mutex_unlock(&storm->mutex);
  return goes_on;
}

static void gate_leave(struct storm *storm) {
  (void)pthread_mutex_lock(&storm->mutex);
  storm->n_inside--;
  (void)pthread_cond_broadcast(&storm->changed);
  (void)pthread_mutex_unlock(&storm->mutex);
}

static void gate_set(struct storm *storm, bool is_open) {
  (void)pthread_mutex_lock(&storm->mutex);
  storm->is_open = is_open;
  (void)pthread_cond_broadcast(&storm->changed);
  while (!is_open && storm->n_inside > 0) {
    (void)pthread_cond_wait(&storm->changed, &storm->mutex);
  }
  (void)pthread_mutex_unlock(&storm->mutex);
}

static void call_blocking(struct caller *caller, const char *path, const grpc_metadata *mark) {
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  request.method = path;
  request.message = message_of("hello");
  request.metadata = mark;
  request.n_metadata = 1;
  request.inbound = caller->storm->inbound;
  if (weir_unary(caller->storm->channel, &request, &reply) == WEIR_OK) {
    check_call(caller->storm, &(struct seen){.report = &reply.report,
                                             .trailing = &reply.trailing_metadata,
                                             .details = reply.details,
                                             .path = path,
                                             .in_one_batch = true});
  } else {
    (void)atomic_fetch_add(&caller->storm->n_odd_calls, 1);
  }
  weir_unary_reply_fini(&reply);
  grpc_byte_buffer_destroy(request.message);
}

/* A call that may be started when a few swaps have been since it was made. */
static void call_in_batches(struct caller *caller, const char *path, void *registered,
                            const grpc_metadata *mark) {
  const struct unary_setup setup = {.method = path,
                                    .registered = registered,
                                    .metadata = mark,
                                    .n_metadata = 1,
                                    .inbound = caller->storm->inbound};
  static const enum shape shapes[] = {SHAPE_SIX_BATCHES, SHAPE_TWO_BATCHES, SHAPE_ONE_BATCH};
  enum shape shape = shapes[caller->n_calls % COUNT_OF(shapes)];
  struct shaped_call call;
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  shaped_create(&call, shape, caller->storm->channel, queue, &setup);
  (void)sched_yield();
  shaped_begin(&call, &setup);
  shaped_wait(&call, queue);
  check_call(caller->storm, &(struct seen){.report = &call.unary.report,
                                           .trailing = &call.unary.trailing_metadata,
                                           .details = call.unary.details,
                                           .path = path,
                                           .in_one_batch = shape == SHAPE_ONE_BATCH});
  shaped_fini(&call);
  queue_end(queue);
}

/* Some that were registered long ago, and some that just were. */
static void call_registered(struct caller *caller, const grpc_metadata *mark) {
  char path[64];
  (void)snprintf(path, sizeof path, "%sM%u",
                 caller->n_calls % 2 == 0 ? OTHER_SERVICE : "/test.Service/",
                 caller->n_calls % (N_REGISTERED / 2));
  void *handle = weir_channel_register_call(caller->storm->channel, path, NULL, NULL);
  assert_non_null(handle);
  call_in_batches(caller, path, handle, mark);
}

static void *run_caller(void *argument) {
  struct caller *caller = argument;
  char nth[16];
  (void)snprintf(nth, sizeof nth, "%u", caller->nth);
  grpc_metadata mark = weir__metadata_from_text("x-caller", nth);
  while (gate_enter(caller->storm)) {
    switch ((caller->nth + caller->n_calls) % 4) {
    case 0:
      call_blocking(caller, METHOD, &mark);
      break;
    case 1:
      call_blocking(caller, OTHER_SERVICE "Method", &mark);
      break;
    case 2:
      call_in_batches(caller, METHOD, NULL, &mark);
      break;
    default:
      call_registered(caller, &mark);
      break;
    }
    caller->n_calls++;
    gate_leave(caller->storm);
  }
  grpc_slice_unref(mark.key);
  grpc_slice_unref(mark.value);
  return NULL;
}

/* --- swaps --- */

static void swap_to(struct storm *storm, const struct kind *kind) {
  weir_policy *policy = policy_of(kind, &storm->policies.base);
  assert_int_equal(weir_channel_set_policy(storm->channel, policy, NULL), WEIR_OK);
  weir_policy_unref(policy);
  weir_policy_unref(weir_channel_policy(storm->channel));
}

static void *run_swapper(void *argument) {
  struct storm *storm = argument;
  for (;;) {
    unsigned nth = atomic_fetch_add(&storm->n_swaps, 1);
    if (nth >= atomic_load(&storm->n_swaps_wanted)) {
      (void)atomic_fetch_sub(&storm->n_swaps, 1);
      return NULL;
    }
    swap_to(storm, &kinds[nth % COUNT_OF(kinds)]);
  }
}

struct memory {
  int64_t of_policies;
  int64_t of_rest;
};

/* So many swaps in all, while callers call; then nobody does, and the first policy is in force. */
static struct memory swap_until(struct storm *storm, unsigned n_swaps) {
  pthread_t swappers[N_SWAPPERS];
  atomic_store(&storm->n_swaps_wanted, n_swaps - 1);
  gate_set(storm, true);
  for (size_t i = 0; i < N_SWAPPERS; i++) {
    assert_int_equal(pthread_create(&swappers[i], NULL, run_swapper, storm), 0);
  }
  for (size_t i = 0; i < N_SWAPPERS; i++) {
    assert_int_equal(pthread_join(swappers[i], NULL), 0);
  }
  gate_set(storm, false);
  swap_to(storm, &kinds[0]);
  (void)atomic_fetch_add(&storm->n_swaps, 1);
  return (struct memory){.of_policies = atomic_load(&storm->policies.n_bytes),
                         .of_rest = atomic_load(&storm->rest.n_bytes)};
}

/* --- the whole --- */

static weir_inbound *traced_inbound(void) {
  grpc_call_details details;
  grpc_call_details_init(&details);
  details.deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC);
  grpc_metadata entry = weir__metadata_from_text(
      "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  grpc_metadata_array metadata = {.count = 1, .capacity = 1, .metadata = &entry};
  weir_inbound *inbound = NULL;
  assert_int_equal(weir_inbound_new(&details, &metadata, NULL, NULL, &inbound), WEIR_OK);
  grpc_slice_unref(entry.key);
  grpc_slice_unref(entry.value);
  return inbound;
}

static void storm_open(struct storm *storm, const struct weir_log_sink *log) {
  struct weir_fallback fallback = WEIR_FALLBACK_INIT;
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  char target[32];
  fallback.ask = find_kept;
  (void)pthread_mutex_init(&storm->mutex, NULL);
  (void)pthread_cond_init(&storm->changed, NULL);
  counted_bytes_init(&storm->policies);
  counted_bytes_init(&storm->rest);
  storm->server = weir__test_server_new(fail_call, storm, 0);
  storm->inbound = traced_inbound();
  options.policy = policy_of(&kinds[0], &storm->policies.base);
  options.log = log;
  options.allocator = &storm->rest.base;
  options.fallback = &fallback;
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  (void)snprintf(target, sizeof target, "127.0.0.1:%d", weir__test_server_port(storm->server));
  storm->channel = weir_channel_create(target, creds, NULL, &options);
  grpc_channel_credentials_release(creds);
  weir_policy_unref(options.policy);
  assert_non_null(storm->channel);
}

static void storm_close(struct storm *storm) {
  weir_channel_destroy(storm->channel);
  weir_inbound_release(storm->inbound);
  weir__test_server_release(storm->server);
  (void)pthread_cond_destroy(&storm->changed);
  (void)pthread_mutex_destroy(&storm->mutex);
}

static void start_callers(struct storm *storm, struct caller callers[N_CALLERS]) {
  for (unsigned i = 0; i < N_CALLERS; i++) {
    callers[i] = (struct caller){.storm = storm, .nth = i};
    assert_int_equal(pthread_create(&callers[i].thread, NULL, run_caller, &callers[i]), 0);
  }
}

static unsigned end_callers(struct storm *storm, struct caller callers[N_CALLERS]) {
  unsigned n_calls = 0;
  (void)pthread_mutex_lock(&storm->mutex);
  storm->is_over = true;
  (void)pthread_cond_broadcast(&storm->changed);
  (void)pthread_mutex_unlock(&storm->mutex);
  for (unsigned i = 0; i < N_CALLERS; i++) {
    assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
    n_calls += callers[i].n_calls;
  }
  return n_calls;
}

static void no_call_sees_a_mix_of_two_policies(void **state) {
  (void)state;
  static struct storm storm;
  static struct caller callers[N_CALLERS];
  const struct weir_log_sink log = {.size = sizeof log, .write = check_record, .context = &storm};
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  storm_open(&storm, &log);
  start_callers(&storm, callers);
  struct memory first = swap_until(&storm, FIRST_SWAPS);
  int64_t from_ns = now_ns();
  struct memory last = swap_until(&storm, n_all_swaps);
  int64_t took_ms = (now_ns() - from_ns) / WEIR_MS_NS;
  unsigned n_calls = end_callers(&storm, callers);
  print_message("%u swaps in %lld ms, %u calls in all\n", n_all_swaps - FIRST_SWAPS,
                (long long)took_ms, n_calls);

  assert_int_equal(atomic_load(&storm.n_odd_calls), 0);
  assert_int_equal(atomic_load(&storm.n_odd_attempts), 0);
  assert_int_equal(atomic_load(&storm.n_odd_records), 0);
  unsigned n_seen = 0;
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    assert_true(atomic_load(&storm.n_seen[i]) > 0);
    n_seen += atomic_load(&storm.n_seen[i]);
  }
  assert_int_equal(n_seen, n_calls);
  assert_int_equal(weir_channel_get_counters(storm.channel, &counters), WEIR_OK);
  assert_int_equal(counters.n_policy_swaps, n_all_swaps);
  assert_int_equal(counters.n_policy_refusals, 0);
  assert_int_equal(last.of_policies, first.of_policies); /* one policy */
  assert_true(last.of_rest < first.of_rest + SLACK_BYTES);
  storm_close(&storm);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_call_sees_a_mix_of_two_policies),
  };
  if (argc > 1) {
    n_all_swaps = (unsigned)strtoul(argv[1], NULL, 10);
  }
  return cmocka_run_group_tests_name("swaps of the policy under calls", tests, start_core,
                                     stop_core);
}
