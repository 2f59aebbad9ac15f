/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/shaped_call.h"
#include "test/e2e/support/bare_call.h"
#include "test/e2e/support/metadata.h"
#include "test/e2e/support/odd_peer.h"
#include "test/e2e/support/test_server.h"
#include "test/support/counting_allocator.h"

#define SECRET "users_table at 10.0.0.7"
#define FAILS \
  { .code = GRPC_STATUS_UNAVAILABLE, .text = "not now" }

/* Three attempts, of the core's own; and of weir's. */
#define CORE_RETRIES_CONFIG "{" METHODS(RETRY("3", "0.005s", UNAVAILABLE)) "}"

/* --- a log that counts --- */

struct counting_log {
  struct weir_log_sink base;
  pthread_mutex_t mutex;
  size_t n_failed;
  size_t n_wrapped;
  char target[64]; /* of the last channel that was wrapped */
  char text[512];
  int64_t at_ns;
};

static void count_record(void *context, const struct weir_log_record *record) {
  struct counting_log *log = context;
  (void)pthread_mutex_lock(&log->mutex);
  switch (record->event) {
  case WEIR_LOG_CALL_FAILED:
    log->n_failed++;
    break;
  case WEIR_LOG_CHANNEL_WRAPPED:
    log->n_wrapped++;
    (void)snprintf(log->target, sizeof log->target, "%s", record->target);
    (void)snprintf(log->text, sizeof log->text, "%s", record->text);
    log->at_ns = record->at_ns;
    break;
  case WEIR_LOG_BREAKER_CHANGED:
  case WEIR_LOG_CORE_CONFIG_KEPT:
  case WEIR_LOG_POLICY_REFUSED:
  case WEIR_LOG_POLICY_APPLIED:
  case WEIR_LOG_POLICY_MISSING:
  case WEIR_LOG_POLICY_UNREADABLE:
  case WEIR_LOG_POLICY_POLLED:
    break;
  }
  (void)pthread_mutex_unlock(&log->mutex);
}

static void counting_log_init(struct counting_log *log) {
  memset(log, 0, sizeof *log);
  (void)pthread_mutex_init(&log->mutex, NULL);
  log->base =
      (struct weir_log_sink){.size = sizeof log->base, .write = count_record, .context = log};
}

/* --- a server, and the core's channel to it, wrapped --- */

struct wrapping {
  struct counting_log log;
  weir__test_server *server;
  grpc_channel *core;
  weir_channel *channel;
};

static weir_policy *policy_new(const char *document) {
  struct weir_diagnostic diagnostic;
  weir_policy *policy = NULL;
  if (weir_policy_from_json(document, strlen(document), NULL, NULL, &policy, &diagnostic) !=
      WEIR_OK) {
    fail_msg("%s: %s", diagnostic.path, diagnostic.message);
  }
  return policy;
}

static enum weir_error wrap(grpc_channel *core, const char *policy,
                            enum weir_core_retries core_retries, struct counting_log *log,
                            weir_channel **channel_out) {
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  options.policy = policy_new(policy);
  options.core_retries = core_retries;
  options.log = &log->base;
  enum weir_error error = weir_channel_wrap(core, &options, channel_out);
  weir_policy_unref(options.policy);
  return error;
}

static void wrapping_open(struct wrapping *w, const struct script *script, const char *policy,
                          enum weir_core_retries core_retries) {
  counting_log_init(&w->log);
  w->server = weir__test_server_new(answer_by_script, (void *)(uintptr_t)script, 0);
  w->core =
      weir__bare_channel_create(weir__test_server_port(w->server), WEIR__CORE_RETRIES_OFF, NULL);
  assert_int_equal(wrap(w->core, policy, core_retries, &w->log, &w->channel), WEIR_OK);
}

static void wrapping_close(struct wrapping *w) {
  if (w->channel != NULL) {
    weir_channel_destroy(w->channel);
  }
  weir__test_server_release(w->server);
  (void)pthread_mutex_destroy(&w->log.mutex);
}

/* --- the layers --- */

static const enum weir_core_retries both[] = {WEIR_CORE_RETRIES_UNKNOWN, WEIR_CORE_RETRIES_OFF};

static void a_failure_is_translated_and_logged(void **state) {
  (void)state;
  const struct script script =
      SCRIPT({.code = GRPC_STATUS_PERMISSION_DENIED, .text = SECRET, .trailing = {{"x", SECRET}}});
  for (size_t i = 0; i < COUNT_OF(both); i++) {
    for (int shape = 0; shape < N_SHAPES; shape++) {
      struct wrapping w;
      struct shaped_call call;
      wrapping_open(&w, &script, "{\"translation\":{\"messageRef\":false}}", both[i]);
      shaped_run(&call, (enum shape)shape, w.channel, NULL);
      assert_int_equal(call.unary.code, GRPC_STATUS_INTERNAL);
      assert_text(call.unary.details, "downstream service error");
      assert_null(weir__metadata_find(&call.unary.trailing_metadata, "x"));
      assert_int_equal(call.unary.report.raw_code, GRPC_STATUS_PERMISSION_DENIED);
      assert_int_equal(w.log.n_failed, 1);
      shaped_fini(&call);
      wrapping_close(&w);
    }
  }
}

static void a_call_has_a_deadline_and_tells_its_budget(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_OK}, {.delay_ns = SECONDS(60)});
  for (size_t i = 0; i < COUNT_OF(both); i++) {
    struct wrapping w;
    struct unary unary;
    struct weir__test_record record;
    wrapping_open(&w, &script, "{}", both[i]);
    unary_run(&unary, w.channel, NULL);
    assert_int_equal(unary.code, GRPC_STATUS_OK);
    unary_fini(&unary);
    assert_true(weir__test_server_record(w.server, 0, &record));
    assert_in_range(record.budget_us, 1, 10 * 1000 * 1000); /* defaultTimeout */

    unary_run(&unary, w.channel, &(struct unary_setup){.timeout_ns = MS(50)});
    assert_int_equal(unary.code, GRPC_STATUS_DEADLINE_EXCEEDED);
    assert_int_equal(unary.report.origin, WEIR_ORIGIN_LOCAL_DEADLINE);
    unary_fini(&unary);
    wrapping_close(&w);
  }
}

static void the_breaker_opens(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  for (size_t i = 0; i < COUNT_OF(both); i++) {
    struct wrapping w;
    struct unary unary;
    wrapping_open(&w, &script, "{}", both[i]);
    for (int n = 0; n < 5; n++) {
      unary_run(&unary, w.channel, NULL);
      unary_fini(&unary);
    }
    unary_run(&unary, w.channel, NULL);
    assert_int_equal(unary.report.reason, WEIR_REASON_BREAKER_OPEN);
    assert_int_equal(weir__test_server_n_calls(w.server), 5);
    unary_fini(&unary);
    wrapping_close(&w);
  }
}

static void the_blocking_call_goes_through_it(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_UNAUTHENTICATED, .text = SECRET});
  struct wrapping w;
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  wrapping_open(&w, &script, "{}", WEIR_CORE_RETRIES_OFF);
  request.method = METHOD;
  request.message = message_of("hello");
  assert_int_equal(weir_unary(w.channel, &request, &reply), WEIR_OK);
  assert_int_equal(reply.code, GRPC_STATUS_INTERNAL);
  weir_unary_reply_fini(&reply);
  grpc_byte_buffer_destroy(request.message);
  wrapping_close(&w);
}

/* --- the request that is over --- */

/* A service in the middle, whose calls go over a channel that was wrapped. */
struct middle {
  weir_channel *next;
  bool is_late; /* it begins to work once its client has gone away */
  pthread_mutex_t mutex;
  weir__test_server *server;
  size_t n_reports;
  struct weir_call_report reports[N_SHAPES];
};

static weir__test_server *middle_server(struct middle *middle) {
  (void)pthread_mutex_lock(&middle->mutex);
  weir__test_server *server = middle->server;
  (void)pthread_mutex_unlock(&middle->mutex);
  return server;
}

static void middle_call(struct middle *middle, enum shape shape) {
  struct shaped_call call;
  shaped_run(&call, shape, middle->next, NULL);
  (void)pthread_mutex_lock(&middle->mutex);
  middle->reports[middle->n_reports++] = call.unary.report;
  (void)pthread_mutex_unlock(&middle->mutex);
  shaped_fini(&call);
}

static void serve_middle(void *context, const struct weir__test_served *served,
                         struct weir__test_reply *reply) {
  struct middle *middle = context;
  struct weir_inbound_scope scope;
  weir_inbound *inbound = NULL;
  assert_int_equal(
      weir_inbound_new(served->details, served->metadata, served->call, NULL, &inbound), WEIR_OK);
  assert_true(!middle->is_late || weir__test_server_wait_cancelled(middle_server(middle), 1));
  weir_inbound_enter(inbound, &scope);
  weir_inbound_release(inbound);
  for (int shape = 0; shape < N_SHAPES; shape++) {
    middle_call(middle, (enum shape)shape);
  }
  weir_inbound_leave(&scope);
  weir__test_reply_status(reply, GRPC_STATUS_CANCELLED, "too late");
}

static void have_served(struct middle *middle) {
  struct unary unary;
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  (void)pthread_mutex_lock(&middle->mutex);
  middle->server = weir__test_server_new(serve_middle, middle, 0);
  (void)pthread_mutex_unlock(&middle->mutex);
  weir_channel *root = channel_to(weir__test_server_port(middle->server), POLICY_PLAIN);
  unary_start(&unary, root, queue, NULL);
  assert_true(weir__test_server_wait_calls(middle->server, 1));
  if (middle->is_late) {
    assert_int_equal(weir_call_cancel(unary.call, NULL), GRPC_CALL_OK);
  }
  unary_wait(&unary, queue);
  unary_fini(&unary);
  queue_end(queue);
  weir_channel_destroy(root);
  weir__test_server_release(middle->server); /* its handler has ended */
}

/* It is no answer of the peer's, which would let a breaker close. */
static void calls_for_a_request_that_is_over_are_cancelled(void **state) {
  (void)state;
  static const enum weir__core_retries cores[] = {WEIR__CORE_RETRIES_OFF, WEIR__CORE_RETRIES_ON};
  const struct script script = SCRIPT({.code = GRPC_STATUS_OK});
  for (size_t i = 0; i < COUNT_OF(cores); i++) {
    struct counting_log log;
    struct middle middle;
    struct weir_breaker_snapshot breaker = {.size = sizeof breaker};
    memset(&middle, 0, sizeof middle);
    middle.is_late = true;
    counting_log_init(&log);
    (void)pthread_mutex_init(&middle.mutex, NULL);
    weir__test_server *last =
        weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
    grpc_channel *core = weir__bare_channel_create(weir__test_server_port(last), cores[i], NULL);
    assert_int_equal(wrap(core, "{}", WEIR_CORE_RETRIES_UNKNOWN, &log, &middle.next), WEIR_OK);
    have_served(&middle);

    assert_int_equal(middle.n_reports, N_SHAPES);
    for (size_t nth = 0; nth < N_SHAPES; nth++) {
      assert_int_equal(middle.reports[nth].code, GRPC_STATUS_CANCELLED);
      assert_int_equal(middle.reports[nth].origin, WEIR_ORIGIN_LOCAL_CANCEL);
      assert_int_equal(middle.reports[nth].reason, WEIR_REASON_CANCELLED);
    }
    assert_int_equal(weir_channel_breaker_snapshot(middle.next, METHOD, &breaker), WEIR_OK);
    assert_int_equal(breaker.n_requests, 0);
    assert_int_equal(weir__test_server_n_calls(last), 0);
    weir_channel_destroy(middle.next);
    weir__test_server_release(last);
    (void)pthread_mutex_destroy(&middle.mutex);
    (void)pthread_mutex_destroy(&log.mutex);
  }
}

/* With the core's retries on, nothing of the peer's shows of it but the core's words. */
static void a_peers_reset_is_no_cancellation_of_the_requests(void **state) {
  (void)state;
  static const struct odd_script reset = ODD_SCRIPT(ODD_RST(8)); /* CANCEL */
  static const enum weir__core_retries cores[] = {WEIR__CORE_RETRIES_OFF, WEIR__CORE_RETRIES_ON};
  for (size_t i = 0; i < COUNT_OF(cores); i++) {
    struct counting_log log;
    struct middle middle;
    memset(&middle, 0, sizeof middle);
    counting_log_init(&log);
    (void)pthread_mutex_init(&middle.mutex, NULL);
    struct odd_peer *peer = odd_peer_answering(&reset);
    grpc_channel *core = weir__bare_channel_create(odd_peer_port(peer), cores[i], NULL);
    assert_int_equal(wrap(core, "{}", WEIR_CORE_RETRIES_UNKNOWN, &log, &middle.next), WEIR_OK);
    have_served(&middle);

    assert_int_equal(middle.n_reports, N_SHAPES);
    for (size_t nth = 0; nth < N_SHAPES; nth++) {
      assert_int_equal(middle.reports[nth].code, GRPC_STATUS_INTERNAL);
      assert_int_equal(middle.reports[nth].origin, WEIR_ORIGIN_PEER);
    }
    weir_channel_destroy(middle.next);
    odd_peer_release(peer);
    (void)pthread_mutex_destroy(&middle.mutex);
    (void)pthread_mutex_destroy(&log.mutex);
  }
}

/* --- whose retries --- */

struct retries_row {
  const char *why;
  enum weir__core_retries core;
  const char *service_config;
  enum weir_core_retries said;
  uint64_t n_calls;
  uint32_t n_attempts; /* by weir's report */
  enum weir_reason reason;
  const char *owner;
};

static const struct retries_row retries_rows[] = {
    {"the core retries, and nobody says so", WEIR__CORE_RETRIES_ON, CORE_RETRIES_CONFIG,
     WEIR_CORE_RETRIES_UNKNOWN, 3, 1, WEIR_REASON_NOT_OWNER, ""},
    {"the core could, but has no policy", WEIR__CORE_RETRIES_ON, NULL, WEIR_CORE_RETRIES_UNKNOWN, 1,
     1, WEIR_REASON_NOT_OWNER, ""},
    {"the core can't, and nobody says so", WEIR__CORE_RETRIES_OFF, CORE_RETRIES_CONFIG,
     WEIR_CORE_RETRIES_UNKNOWN, 1, 1, WEIR_REASON_NOT_OWNER, ""},
    {"the core can't, as was said", WEIR__CORE_RETRIES_OFF, CORE_RETRIES_CONFIG,
     WEIR_CORE_RETRIES_OFF, 3, 3, WEIR_REASON_ATTEMPTS_EXHAUSTED, "weir"},
};

/* 3 and never 9, in a policy that would retry whatever the inbound says, too. */
static void attempts_of_the_core_and_weirs_do_not_multiply(void **state) {
  (void)state;
  static const char *const policies[] = {
      POLICY_RETRY, "{" NO_BOUNDARY "," NO_BREAKER
                    ",\"retry\":{\"owner\":\"ALWAYS\",\"retryAfterHeaders\":true}," METHODS(
                        RETRY("3", "0.005s", UNAVAILABLE)) "}"};
  const struct script script = SCRIPT(FAILS);
  for (size_t i = 0; i < COUNT_OF(retries_rows) * COUNT_OF(policies); i++) {
    const struct retries_row *row = &retries_rows[i / COUNT_OF(policies)];
    for (int shape = 0; shape < N_SHAPES; shape++) {
      struct counting_log log;
      struct weir__test_record record;
      struct shaped_call call;
      weir_channel *channel = NULL;
      counting_log_init(&log);
      weir__test_server *server =
          weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
      grpc_channel *core =
          weir__bare_channel_create(weir__test_server_port(server), row->core, row->service_config);
      assert_int_equal(wrap(core, policies[i % COUNT_OF(policies)], row->said, &log, &channel),
                       WEIR_OK);
      shaped_run(&call, (enum shape)shape, channel, NULL);
      uint64_t n_calls = weir__test_server_n_calls(server);
      if (n_calls != row->n_calls || call.unary.report.n_attempts != row->n_attempts ||
          call.unary.report.reason != row->reason || call.unary.code != GRPC_STATUS_UNAVAILABLE) {
        fail_msg("%s, %s: %d calls, %d attempts, %s", row->why, shape_name((enum shape)shape),
                 (int)n_calls, (int)call.unary.report.n_attempts,
                 weir_reason_name(call.unary.report.reason));
      }
      assert_true(weir__test_server_record(server, 0, &record));
      assert_string_equal(record.retry_owner, row->owner);
      shaped_fini(&call);
      weir_channel_destroy(channel);
      weir__test_server_release(server);
    }
  }
}

/* What says that a server never saw a call was learnt with the core's retries off. */
static void what_was_refused_is_repeated_for_free_only_if_the_core_does_not(void **state) {
  (void)state;
  static const struct odd_script refusal = ODD_SCRIPT(ODD_RST(7)); /* REFUSED_STREAM */
  static const struct {
    enum weir_core_retries said;
    size_t n_requests;
  } rows[] = {{WEIR_CORE_RETRIES_UNKNOWN, 1}, {WEIR_CORE_RETRIES_OFF, 2}};
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    for (int shape = 0; shape < N_SHAPES; shape++) {
      struct counting_log log;
      struct shaped_call call;
      weir_channel *channel = NULL;
      counting_log_init(&log);
      struct odd_peer *peer = odd_peer_answering(&refusal);
      grpc_channel *core =
          weir__bare_channel_create(odd_peer_port(peer), WEIR__CORE_RETRIES_OFF, NULL);
      assert_int_equal(wrap(core, POLICY_PLAIN, rows[i].said, &log, &channel), WEIR_OK);
      shaped_run(&call, (enum shape)shape, channel, NULL);
      assert_int_equal(call.unary.code, GRPC_STATUS_UNAVAILABLE);
      assert_int_equal(odd_peer_count(peer, ODD_REQUESTS), rows[i].n_requests);
      shaped_fini(&call);
      weir_channel_destroy(channel);
      odd_peer_release(peer);
    }
  }
}

static void what_is_not_held_is_said_once(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_NOT_FOUND});
  static const struct {
    enum weir_core_retries said;
    size_t n_wrapped;
  } rows[] = {{WEIR_CORE_RETRIES_UNKNOWN, 1}, {WEIR_CORE_RETRIES_OFF, 0}};
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    struct wrapping w;
    int64_t before_ns = now_ns();
    wrapping_open(&w, &script, POLICY_RETRY, rows[i].said);
    int64_t after_ns = now_ns();
    assert_int_equal(w.log.n_wrapped, rows[i].n_wrapped);
    for (int n = 0; n < 20; n++) {
      struct unary unary;
      unary_run(&unary, w.channel, NULL);
      unary_fini(&unary);
    }
    assert_int_equal(w.log.n_wrapped, rows[i].n_wrapped);
    if (rows[i].n_wrapped > 0) {
      char *target = weir_channel_get_target(w.channel);
      assert_string_equal(w.log.target, target);
      gpr_free(target);
      assert_non_null(strstr(w.log.text, "grpc.enable_retries 0"));
      assert_non_null(strstr(w.log.text, "WEIR_CORE_RETRIES_OFF"));
      assert_in_range(w.log.at_ns, before_ns, after_ns);
    }
    wrapping_close(&w);
  }
}

/* --- what is refused --- */

static void assert_refused(grpc_channel *core) {
  weir_channel *channel = (weir_channel *)(uintptr_t)1;
  assert_int_equal(weir_channel_wrap(core, NULL, &channel), WEIR_ERROR_INVALID_ARGUMENT);
  assert_null(channel);
}

static void a_wrapped_channel_is_not_wrapped_again(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_OK});
  struct wrapping w;
  struct unary unary;
  wrapping_open(&w, &script, "{}", WEIR_CORE_RETRIES_UNKNOWN);
  assert_refused(w.core);
  assert_refused(weir_channel_core(w.channel));
  assert_int_equal(w.log.n_wrapped, 1);

  unary_run(&unary, w.channel, NULL); /* it was not harmed */
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  unary_fini(&unary);
  wrapping_close(&w);
}

static void a_channel_of_weirs_is_not_wrapped(void **state) {
  (void)state;
  weir_channel *channels[] = {
      channel_to(odd_closed_port(), NULL),
      weir_lame_client_channel_create("lame.example", GRPC_STATUS_UNKNOWN, "", NULL),
      channel_to(odd_closed_port(), NULL),
  };
  for (size_t i = 0; i < COUNT_OF(channels); i++) {
    assert_refused(weir_channel_core(channels[i]));
  }
  weir_channel_destroy(channels[1]); /* from the middle of those that are known */
  assert_refused(weir_channel_core(channels[0]));
  assert_refused(weir_channel_core(channels[2]));
  weir_channel_destroy(channels[0]);
  assert_refused(weir_channel_core(channels[2]));
  weir_channel_destroy(channels[2]);
}

static void a_channel_is_weirs_until_its_last_call_has_ended(void **state) {
  (void)state;
  const struct script script = SCRIPT({.delay_ns = SECONDS(60)});
  struct wrapping w;
  struct unary unary;
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  wrapping_open(&w, &script, "{}", WEIR_CORE_RETRIES_UNKNOWN);
  unary_start(&unary, w.channel, queue, NULL);
  assert_true(weir__test_server_wait_calls(w.server, 1));
  weir_channel_destroy(w.channel);
  w.channel = NULL;
  assert_refused(w.core);

  assert_int_equal(weir_call_cancel(unary.call, NULL), GRPC_CALL_OK);
  unary_wait(&unary, queue);
  assert_int_equal(unary.code, GRPC_STATUS_CANCELLED);
  unary_fini(&unary);
  queue_end(queue);
  wrapping_close(&w);
}

static void what_can_not_be_is_refused_and_nothing_is_taken(void **state) {
  (void)state;
  struct {
    struct weir_channel_options known;
    void *unknown;
  } newer = {.known = WEIR_CHANNEL_OPTIONS_INIT, .unknown = state};
  struct weir_channel_options odd = WEIR_CHANNEL_OPTIONS_INIT;
  weir_channel *channel = (weir_channel *)(uintptr_t)1;
  grpc_channel *core = weir__bare_channel_create(odd_closed_port(), WEIR__CORE_RETRIES_OFF, NULL);
  newer.known.size = sizeof newer;
  odd.core_retries = (enum weir_core_retries)2;

  assert_refused(NULL);
  assert_int_equal(weir_channel_wrap(core, &odd, &channel), WEIR_ERROR_INVALID_ARGUMENT);
  assert_null(channel);
  channel = (weir_channel *)(uintptr_t)1;
  assert_int_equal(weir_channel_wrap(core, &newer.known, &channel), WEIR_ERROR_UNSUPPORTED);
  assert_null(channel);

  struct weir_channel_options old = WEIR_CHANNEL_OPTIONS_INIT; /* without the field: unknown */
  struct counting_log log;
  counting_log_init(&log);
  old.size = offsetof(struct weir_channel_options, core_retries);
  old.core_retries = WEIR_CORE_RETRIES_OFF;
  old.log = &log.base;
  assert_int_equal(weir_channel_wrap(core, &old, &channel), WEIR_OK);
  assert_int_equal(log.n_wrapped, 1);
  weir_channel_destroy(channel);
}

static void running_out_of_memory_leaves_the_channel_as_it_was(void **state) {
  (void)state;
  struct counting_allocator counting;
  struct counting_log log;
  weir_channel *channel = NULL;
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  grpc_channel *core = weir__bare_channel_create(odd_closed_port(), WEIR__CORE_RETRIES_OFF, NULL);
  enum weir_error error = WEIR_ERROR_NO_MEMORY;
  size_t n = 0;
  counting_log_init(&log);
  counting_allocator_init(&counting);
  options.allocator = &counting.base;
  options.log = &log.base;
  while (error != WEIR_OK) {
    counting_allocator_fail_nth(&counting, ++n);
    error = weir_channel_wrap(core, &options, &channel);
    assert_int_equal(error, channel == NULL ? WEIR_ERROR_NO_MEMORY : WEIR_OK);
    assert_true(channel != NULL || counting.n_outstanding == 0);
  }
  assert_true(n > 2);
  assert_int_equal(log.n_wrapped, 1);
  weir_channel_destroy(channel);
  assert_int_equal(counting.n_outstanding, 0);
}

/* --- several threads --- */

#define N_THREADS 4

struct race {
  grpc_channel *core;
  pthread_barrier_t barrier;
  _Atomic(weir_channel *) winner;
  atomic_int n_won;
};

static void *wrap_at_once(void *argument) {
  struct race *race = argument;
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  weir_channel *channel = NULL;
  options.core_retries = WEIR_CORE_RETRIES_OFF;
  (void)pthread_barrier_wait(&race->barrier);
  if (weir_channel_wrap(race->core, &options, &channel) == WEIR_OK) {
    atomic_store(&race->winner, channel);
    (void)atomic_fetch_add(&race->n_won, 1);
  }
  return NULL;
}

static void of_threads_that_wrap_one_channel_one_does(void **state) {
  (void)state;
  for (int round = 0; round < 20; round++) {
    struct race race = {
        .core = weir__bare_channel_create(odd_closed_port(), WEIR__CORE_RETRIES_OFF, NULL)};
    pthread_t threads[N_THREADS];
    assert_int_equal(pthread_barrier_init(&race.barrier, NULL, N_THREADS), 0);
    for (int i = 0; i < N_THREADS; i++) {
      assert_int_equal(pthread_create(&threads[i], NULL, wrap_at_once, &race), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
      (void)pthread_join(threads[i], NULL);
    }
    (void)pthread_barrier_destroy(&race.barrier);
    assert_int_equal(race.n_won, 1);
    weir_channel_destroy(race.winner);
  }
}

/* --- what was there before --- */

/* A raw call that began before the channel was handed over ends when the channel's other calls may
 * have ended long ago. */
static void a_call_that_was_under_way_goes_on(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_OK, .delay_ns = MS(20)});
  struct counting_log log;
  grpc_op op;
  grpc_status_code code = GRPC_STATUS_UNKNOWN;
  grpc_slice details = grpc_empty_slice();
  grpc_metadata_array trailing;
  weir_channel *channel = NULL;
  counting_log_init(&log);
  weir__test_server *server =
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
  grpc_channel *core =
      weir__bare_channel_create(weir__test_server_port(server), WEIR__CORE_RETRIES_OFF, NULL);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  grpc_call *call = grpc_channel_create_call(core, NULL, 0, weir_completion_queue_core(queue),
                                             grpc_slice_from_static_string(METHOD), NULL,
                                             gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  grpc_metadata_array_init(&trailing);
  memset(&op, 0, sizeof op);
  op.op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  op.data.recv_status_on_client.trailing_metadata = &trailing;
  op.data.recv_status_on_client.status = &code;
  op.data.recv_status_on_client.status_details = &details;
  assert_int_equal(grpc_call_start_batch(call, &op, 1, &code, NULL), GRPC_CALL_OK);

  assert_int_equal(wrap(core, "{}", WEIR_CORE_RETRIES_OFF, &log, &channel), WEIR_OK);
  struct unary unary;
  unary_run(&unary, channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  unary_fini(&unary);
  weir_channel_destroy(channel);

  assert_int_equal(grpc_call_cancel(call, NULL), GRPC_CALL_OK);
  assert_ptr_equal(next_tag(queue), &code);
  assert_int_equal(code, GRPC_STATUS_CANCELLED);
  grpc_call_unref(call);
  grpc_slice_unref(details);
  grpc_metadata_array_destroy(&trailing);
  queue_end(queue);
  weir__test_server_release(server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_failure_is_translated_and_logged),
      cmocka_unit_test(a_call_has_a_deadline_and_tells_its_budget),
      cmocka_unit_test(the_breaker_opens),
      cmocka_unit_test(the_blocking_call_goes_through_it),
      cmocka_unit_test(calls_for_a_request_that_is_over_are_cancelled),
      cmocka_unit_test(a_peers_reset_is_no_cancellation_of_the_requests),
      cmocka_unit_test(attempts_of_the_core_and_weirs_do_not_multiply),
      cmocka_unit_test(what_was_refused_is_repeated_for_free_only_if_the_core_does_not),
      cmocka_unit_test(what_is_not_held_is_said_once),
      cmocka_unit_test(a_wrapped_channel_is_not_wrapped_again),
      cmocka_unit_test(a_channel_of_weirs_is_not_wrapped),
      cmocka_unit_test(a_channel_is_weirs_until_its_last_call_has_ended),
      cmocka_unit_test(what_can_not_be_is_refused_and_nothing_is_taken),
      cmocka_unit_test(running_out_of_memory_leaves_the_channel_as_it_was),
      cmocka_unit_test(of_threads_that_wrap_one_channel_one_does),
      cmocka_unit_test(a_call_that_was_under_way_goes_on),
  };
  return cmocka_run_group_tests_name("wrap", tests, start_core, stop_core);
}
