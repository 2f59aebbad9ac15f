/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include "test/e2e/support/metadata.h"
#include "test/support/silent_log.h"

#define TARGET_SIZE 32
#define WAIT_LIMIT_S 10

int start_core(void **state) {
  (void)state;
  grpc_init();
  return 0;
}

int stop_core(void **state) {
  (void)state;
  grpc_shutdown_blocking(); /* its threads are gone before the process looks for leaks */
  return 0;
}

int64_t now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * WEIR_SECOND_NS + now.tv_nsec;
}

/* --- channels --- */

static weir_policy *policy_of(const char *document) {
  struct weir_diagnostic diagnostic;
  weir_policy *policy = NULL;
  if (weir_policy_from_json(document, strlen(document), NULL, NULL, &policy, &diagnostic) !=
      WEIR_OK) {
    fail_msg("%s: %s", diagnostic.path, diagnostic.message);
  }
  return policy;
}

static grpc_arg own_connection_arg(void) {
  static const char key[] = GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL;
  const char *name = key;
  grpc_arg arg;
  memset(&arg, 0, sizeof arg);
  arg.type = GRPC_ARG_INTEGER;
  memcpy(&arg.key, &name, sizeof arg.key); /* not const, but not written to */
  arg.value.integer = 1;
  return arg;
}

static weir_channel *wrap(grpc_channel *core, const struct weir_channel_options *options) {
  weir_channel *channel = NULL;
  assert_int_equal(weir_channel_wrap(core, options, &channel), WEIR_OK);
  return channel;
}

weir_channel *channel_new(const struct channel_setup *setup) {
  grpc_arg own_connection = own_connection_arg();
  const grpc_channel_args own_args = {.num_args = 1, .args = &own_connection};
  assert_true(!setup->own_connection || setup->args == NULL);
  char loopback[TARGET_SIZE];
  (void)snprintf(loopback, sizeof loopback, "127.0.0.1:%d", setup->port);
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  options.policy = setup->policy != NULL ? policy_of(setup->policy) : NULL;
  options.random = setup->random;
  options.fallback = setup->fallback;
  options.breaker_listener = setup->breaker_listener;
  options.log = setup->log != NULL ? setup->log : &silent_log;
  if (setup->default_log) {
    options.log = NULL;
  }
  grpc_channel_credentials *creds =
      setup->creds != NULL ? setup->creds : grpc_insecure_credentials_create();
  const char *target = setup->target != NULL ? setup->target : loopback;
  weir_throttle_forget(); /* of a port that a test before had too */
  const grpc_channel_args *args = setup->own_connection ? &own_args : setup->args;
  weir_channel *channel = setup->wrapped ? wrap(grpc_channel_create(target, creds, args), &options)
                                         : weir_channel_create(target, creds, args, &options);
  if (setup->creds == NULL) {
    grpc_channel_credentials_release(creds);
  }
  weir_policy_unref(options.policy);
  assert_non_null(channel);
  return channel;
}

weir_channel *channel_to(int port, const char *policy) {
  return channel_new(&(struct channel_setup){.port = port, .policy = policy});
}

static uint64_t count_and_say_middle(void *context) {
  struct counted_random *random = context;
  (void)pthread_mutex_lock(&random->mutex);
  random->n_asked++;
  (void)pthread_cond_broadcast(&random->asked);
  (void)pthread_mutex_unlock(&random->mutex);
  return UINT64_C(1) << 63;
}

void counted_random_init(struct counted_random *random) {
  pthread_condattr_t monotonic;
  memset(random, 0, sizeof *random);
  (void)pthread_mutex_init(&random->mutex, NULL);
  (void)pthread_condattr_init(&monotonic);
  (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  (void)pthread_cond_init(&random->asked, &monotonic);
  (void)pthread_condattr_destroy(&monotonic);
  random->base.size = sizeof random->base;
  random->base.next = count_and_say_middle;
  random->base.context = random;
}

void counted_random_fini(struct counted_random *random) {
  (void)pthread_cond_destroy(&random->asked);
  (void)pthread_mutex_destroy(&random->mutex);
}

unsigned counted_random_n_asked(struct counted_random *random) {
  (void)pthread_mutex_lock(&random->mutex);
  unsigned n_asked = random->n_asked;
  (void)pthread_mutex_unlock(&random->mutex);
  return n_asked;
}

bool counted_random_wait(struct counted_random *random, unsigned n_asked) {
  struct timespec until;
  int error = clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += WAIT_LIMIT_S;
  (void)pthread_mutex_lock(&random->mutex);
  while (random->n_asked < n_asked && error == 0) {
    error = pthread_cond_timedwait(&random->asked, &random->mutex, &until);
  }
  bool reached = random->n_asked >= n_asked;
  (void)pthread_mutex_unlock(&random->mutex);
  return reached;
}

/* --- servers --- */

static size_t pairs_copy(const struct pair *pairs, grpc_metadata *metadata_out) {
  size_t count = 0;
  while (count < PAIRS_MAX && pairs[count].key != NULL) {
    metadata_out[count] = weir__metadata_from_text(pairs[count].key, pairs[count].value);
    count++;
  }
  return count;
}

void answer_with(const struct answer *answer, const struct weir__test_served *served,
                 struct weir__test_reply *reply) {
  weir__test_reply_status(reply, answer->code, answer->text != NULL ? answer->text : "");
  if (answer->body != NULL) {
    reply->message = message_of(answer->body);
  } else if (answer->code == GRPC_STATUS_OK && served->message != NULL) {
    reply->message = grpc_byte_buffer_copy(served->message);
  }
  reply->n_initial_metadata = pairs_copy(answer->initial, reply->initial_metadata);
  reply->n_trailing_metadata = pairs_copy(answer->trailing, reply->trailing_metadata);
  reply->delay_ns = answer->delay_ns;
  reply->headers_apart = answer->headers_apart;
}

void answer_by_script(void *context, const struct weir__test_served *served,
                      struct weir__test_reply *reply) {
  const struct script *script = context;
  size_t index = (size_t)served->number - 1;
  answer_with(&script->answers[index < script->n_answers ? index : script->n_answers - 1], served,
              reply);
}

/* --- unary calls --- */

static void unary_init(struct unary *unary, const struct unary_setup *setup) {
  memset(unary, 0, sizeof *unary);
  unary->details = grpc_empty_slice();
  unary->code = (grpc_status_code)-1; /* to be written before the tag comes */
  unary->owns_request = setup->message == NULL;
  unary->request = setup->message != NULL ? setup->message
                                          : message_of(setup->text != NULL ? setup->text : "hello");
}

static gpr_timespec deadline_of(const struct unary_setup *setup) {
  if (setup->timeout_ns == 0) {
    return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  }
  gpr_clock_type clock = setup->clock != NULL ? *setup->clock : GPR_CLOCK_MONOTONIC;
  gpr_timespec span = gpr_time_from_nanos(setup->timeout_ns, GPR_TIMESPAN);
  return clock == GPR_TIMESPAN ? span : gpr_time_add(gpr_now(clock), span);
}

static weir_call *call_create_named(weir_channel *channel, weir_completion_queue *queue,
                                    const struct unary_setup *setup,
                                    const struct weir_call_options *options) {
  grpc_slice method = grpc_slice_from_copied_string(setup->method != NULL ? setup->method : METHOD);
  grpc_slice host = grpc_slice_from_copied_string(setup->host != NULL ? setup->host : "");
  weir_call *call =
      weir_channel_create_call(channel, setup->parent, setup->propagation_mask, queue, method,
                               setup->host != NULL ? &host : NULL, deadline_of(setup), options);
  grpc_slice_unref(host);
  grpc_slice_unref(method);
  return call;
}

static weir_call *call_create(weir_channel *channel, weir_completion_queue *queue,
                              const struct unary_setup *setup) {
  struct weir_call_options options = WEIR_CALL_OPTIONS_INIT;
  options.inbound = setup->inbound;
  weir_call *call = setup->registered == NULL
                        ? call_create_named(channel, queue, setup, &options)
                        : weir_channel_create_registered_call(
                              channel, setup->parent, setup->propagation_mask, queue,
                              setup->registered, deadline_of(setup), &options);
  assert_non_null(call);
  return call;
}

void unary_create(struct unary *unary, weir_channel *channel, weir_completion_queue *queue,
                  const struct unary_setup *setup) {
  unary_init(unary, setup);
  unary->call = call_create(channel, queue, setup);
}

void unary_ops(struct unary *unary, const struct unary_setup *setup, grpc_op ops[UNARY_OPS]) {
  memset(ops, 0, UNARY_OPS * sizeof ops[0]);
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[0].flags = setup->metadata_flags;
  ops[0].data.send_initial_metadata.count = setup->n_metadata;
  ops[0].data.send_initial_metadata.metadata = (grpc_metadata *)(uintptr_t)setup->metadata;
  ops[1].op = GRPC_OP_SEND_MESSAGE;
  ops[1].flags = setup->message_flags;
  ops[1].data.send_message.send_message = unary->request;
  ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
  ops[3].data.recv_initial_metadata.recv_initial_metadata = &unary->initial_metadata;
  ops[4].op = GRPC_OP_RECV_MESSAGE;
  ops[4].data.recv_message.recv_message = &unary->message;
  ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  ops[5].data.recv_status_on_client.trailing_metadata = &unary->trailing_metadata;
  ops[5].data.recv_status_on_client.status = &unary->code;
  ops[5].data.recv_status_on_client.status_details = &unary->details;
  ops[5].data.recv_status_on_client.error_string = &unary->error_string;
}

static const struct unary_setup default_setup = {.method = NULL};

void unary_start_on(struct unary *unary, weir_call *call, const struct unary_setup *setup) {
  const struct unary_setup *known = setup != NULL ? setup : &default_setup;
  unary_init(unary, known);
  unary->call = call;
  grpc_op ops[UNARY_OPS];
  unary_ops(unary, known, ops);
  assert_int_equal(weir_call_start_batch(call, ops, UNARY_OPS, unary, NULL), GRPC_CALL_OK);
}

void unary_start(struct unary *unary, weir_channel *channel, weir_completion_queue *queue,
                 const struct unary_setup *setup) {
  const struct unary_setup *known = setup != NULL ? setup : &default_setup;
  unary_start_on(unary, call_create(channel, queue, known), known);
}

void unary_read_report(struct unary *unary) {
  unary->report.size = sizeof unary->report;
  assert_int_equal(weir_call_get_report(unary->call, &unary->report), WEIR_OK);
}

void unary_wait(struct unary *unary, weir_completion_queue *queue) {
  assert_ptr_equal(next_tag(queue), unary);
  unary_read_report(unary);
}

void unary_fini(struct unary *unary) {
  void *error_string = NULL;
  memcpy(&error_string, &unary->error_string, sizeof error_string);
  gpr_free(error_string);
  grpc_metadata_array_destroy(&unary->initial_metadata);
  grpc_metadata_array_destroy(&unary->trailing_metadata);
  grpc_byte_buffer_destroy(unary->message);
  grpc_slice_unref(unary->details);
  if (unary->owns_request) {
    grpc_byte_buffer_destroy(unary->request);
  }
  if (unary->call != NULL) {
    weir_call_unref(unary->call);
  }
}

void unary_run(struct unary *unary, weir_channel *channel, const struct unary_setup *setup) {
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  unary_start(unary, channel, queue, setup);
  unary_wait(unary, queue);
  queue_end(queue);
}

void queue_end(weir_completion_queue *queue) {
  weir_completion_queue_shutdown(queue);
  assert_null(next_tag(queue));
  weir_completion_queue_destroy(queue);
}

void *next_tag(weir_completion_queue *queue) {
  gpr_timespec limit =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(WAIT_LIMIT_S, GPR_TIMESPAN));
  grpc_event event = weir_completion_queue_next(queue, limit, NULL);
  assert_int_not_equal(event.type, GRPC_QUEUE_TIMEOUT);
  return event.type == GRPC_OP_COMPLETE ? event.tag : NULL;
}

void drain_into_backoff(weir_completion_queue *queue, struct counted_random *random,
                        unsigned n_backoffs) {
  int64_t limit_ns = now_ns() + SECONDS(WAIT_LIMIT_S);
  while (counted_random_n_asked(random) < n_backoffs) {
    gpr_timespec soon =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(1, GPR_TIMESPAN));
    grpc_event event = weir_completion_queue_next(queue, soon, NULL);
    assert_int_equal(event.type, GRPC_QUEUE_TIMEOUT);
    assert_true(now_ns() < limit_ns);
  }
}

/* --- slices and messages --- */

grpc_byte_buffer *message_of(const char *text) {
  grpc_slice slice = grpc_slice_from_copied_string(text);
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  return message;
}

static grpc_slice bytes_of(grpc_byte_buffer *message) {
  grpc_byte_buffer_reader reader;
  if (message == NULL || grpc_byte_buffer_reader_init(&reader, message) == 0) {
    return grpc_empty_slice();
  }
  grpc_slice bytes = grpc_byte_buffer_reader_readall(&reader);
  grpc_byte_buffer_reader_destroy(&reader);
  return bytes;
}

bool message_is(grpc_byte_buffer *message, const char *text) {
  grpc_slice bytes = bytes_of(message);
  bool same = message != NULL && grpc_slice_str_cmp(bytes, text) == 0;
  grpc_slice_unref(bytes);
  return same;
}

bool messages_equal(grpc_byte_buffer *one, grpc_byte_buffer *other) {
  grpc_slice bytes = bytes_of(one);
  grpc_slice others = bytes_of(other);
  bool same = (one == NULL) == (other == NULL) && grpc_slice_eq(bytes, others) != 0;
  grpc_slice_unref(bytes);
  grpc_slice_unref(others);
  return same;
}

void assert_text(grpc_slice slice, const char *text) {
  if (grpc_slice_str_cmp(slice, text) != 0) {
    fail_msg("\"%.*s\" is not \"%s\"", (int)GRPC_SLICE_LENGTH(slice),
             (const char *)GRPC_SLICE_START_PTR(slice), text);
  }
}

/* --- the log --- */

static void keep_text(char *out, const char *data, size_t size) {
  size_t kept = size < KEPT_TEXT ? size : KEPT_TEXT - 1;
  if (kept > 0) {
    memcpy(out, data, kept);
  }
  out[kept] = '\0';
}

/* Of calls: what a breaker's change is told with has tests of its own. */
static void kept_log_write(void *context, const struct weir_log_record *record) {
  struct kept_log *log = context;
  if (record->event != WEIR_LOG_CALL_FAILED) {
    return;
  }
  (void)pthread_mutex_lock(&log->mutex);
  if (log->n_records < KEPT_RECORDS) {
    struct kept_record *kept = &log->records[log->n_records];
    memset(kept, 0, sizeof *kept);
    (void)snprintf(kept->reference, sizeof kept->reference, "%s", record->reference);
    keep_text(kept->target, record->target, strlen(record->target));
    keep_text(kept->peer, record->peer.data, record->peer.size);
    keep_text(kept->message, record->message.data, record->message.size);
    keep_text(kept->details, record->details.data, record->details.size);
    keep_text(kept->error_string, record->error_string.data, record->error_string.size);
    kept->raw_code = record->raw_code;
    kept->code = record->code;
    kept->n_attempts = record->n_attempts;
  }
  log->n_records++;
  (void)pthread_mutex_unlock(&log->mutex);
}

void kept_log_init(struct kept_log *log) {
  memset(log, 0, sizeof *log);
  (void)pthread_mutex_init(&log->mutex, NULL);
  log->base.size = sizeof log->base;
  log->base.write = kept_log_write;
  log->base.context = log;
}

void kept_log_fini(struct kept_log *log) {
  (void)pthread_mutex_destroy(&log->mutex);
}
