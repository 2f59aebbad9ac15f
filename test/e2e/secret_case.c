/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/secret_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>

#include "test/e2e/odd_case.h"
#include "test/e2e/planter.h"
#include "test/e2e/shaped_call.h"

/* --- the ways to call --- */

static const struct {
  const char *why;
  enum shape shape;
  bool registered;
} ways[N_ALL_WAYS] = {
    [WAY_ONE_BATCH] = {"one batch", SHAPE_ONE_BATCH, false},
    [WAY_BLOCKING] = {"the blocking call", SHAPE_ONE_BATCH, false},
    [WAY_SERVER_STREAM] = {"server stream", SHAPE_SERVER_STREAM, false},
    [WAY_SIX_BATCHES] = {"six batches", SHAPE_SIX_BATCHES, false},
    [WAY_TWO_BATCHES] = {"two batches", SHAPE_TWO_BATCHES, false},
    [WAY_FOUR_BATCHES] = {"four batches", SHAPE_FOUR_BATCHES, false},
    [WAY_METADATA_APART] = {"metadata apart", SHAPE_METADATA_APART, false},
    [WAY_METADATA_LAST] = {"metadata last", SHAPE_METADATA_LAST, false},
    [WAY_STREAM_METADATA_LAST] = {"stream, metadata last", SHAPE_STREAM_METADATA_LAST, false},
    [WAY_REGISTERED] = {"registered", SHAPE_ONE_BATCH, true},
    [WAY_REGISTERED_STREAM] = {"registered stream", SHAPE_SERVER_STREAM, true},
};

const char *way_name(enum way way) {
  return ways[way].why;
}

/* --- channels --- */

#define RETRIES METHODS(RETRY("2", "0.001s", CODES_ALL))
#define BOUNDARY(is) "\"translation\":{\"boundary\":" is "}"
#define SMALL METHODS("\"maxResponseMessageBytes\":8")

static const struct front_kind kinds[N_ALL_FRONTS] = {
    [FRONT_OPEN] = {.why = "no boundary", .fields = NO_BOUNDARY},
    [FRONT_OPEN_RETRIES] = {.why = "no boundary, retries",
                            .fields = NO_BOUNDARY,
                            .methods = RETRIES,
                            .retries = true},
    [FRONT_BOUNDARY] = {.why = "boundary", .is_boundary = true},
    [FRONT_BOUNDARY_RETRIES] = {.why = "boundary, retries",
                                .methods = RETRIES,
                                .is_boundary = true,
                                .retries = true},
    [FRONT_KEEPS] = {.why = "boundary that keeps",
                     .fields = "\"translation\":{\"keepMetadata\":[\"" KEPT_KEY
                               "\",\"" KEPT_HEADER_KEY "\"],\"keepDetails\":[\"" KEPT_TYPE "\"]}",
                     .is_boundary = true,
                     .keeps = true},
    [FRONT_METHOD_OPEN] = {.why = "boundary, but not for the method",
                           .methods = METHODS(BOUNDARY("false"))},
    [FRONT_METHOD_BOUNDARY] = {.why = "boundary for the method",
                               .fields = NO_BOUNDARY,
                               .methods = METHODS(BOUNDARY("true")),
                               .is_boundary = true},
    [FRONT_WRAPPED] = {.why = "boundary on a channel of the core's",
                       .is_boundary = true,
                       .wraps = true},
    [FRONT_WAITS] = {.why = "boundary, long backoff",
                     .methods = METHODS("\"timeout\":\"60s\"," RETRY("2", "30s", CODES_ALL)),
                     .is_boundary = true,
                     .retries = true},
    [FRONT_HURRIES] = {.why = "boundary, short timeout",
                       .methods = METHODS("\"timeout\":\"0.1s\""),
                       .is_boundary = true},
    [FRONT_BREAKS] = {.why = "boundary, breaker",
                      .breaker = "\"breaker\":{\"minRequests\":1}",
                      .is_boundary = true},
    [FRONT_RETRIES_LATE] = {.why = "no boundary, retries after headers",
                            .fields = NO_BOUNDARY ",\"retry\":{\"retryAfterHeaders\":true}",
                            .methods = RETRIES,
                            .retries = true},
    [FRONT_SMALL] = {.why = "boundary, small responses", .methods = SMALL, .is_boundary = true},
    [FRONT_SMALL_OPEN] = {.why = "no boundary, small responses",
                          .fields = NO_BOUNDARY,
                          .methods = SMALL},
};

struct front *front_open(enum front_name name, const struct channel_setup *where) {
  char policy[512];
  const struct front_kind *kind = &kinds[name];
  struct front *front = calloc(1, sizeof *front);
  assert_non_null(front);
  front->kind = kind;
  (void)snprintf(policy, sizeof policy, "{%s%s%s%s%s}",
                 kind->breaker != NULL ? kind->breaker : NO_BREAKER,
                 kind->fields != NULL ? "," : "", kind->fields != NULL ? kind->fields : "",
                 kind->methods != NULL ? "," : "", kind->methods != NULL ? kind->methods : "");
  kept_log_init(&front->log);
  struct channel_setup setup = *where;
  setup.policy = policy;
  setup.log = &front->log.base;
  setup.wrapped = kind->wraps;
  front->channel = channel_new(&setup);
  front->registered = weir_channel_register_call(front->channel, METHOD, NULL, NULL);
  assert_non_null(front->registered);
  return front;
}

void front_close(struct front *front) {
  weir_channel_destroy(front->channel);
  kept_log_fini(&front->log);
  free(front);
}

/* --- a call --- */

static void call_blocking(const struct front *front, struct secret_result *result) {
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  request.method = METHOD;
  request.message = message_of("hello");
  assert_int_equal(weir_unary(front->channel, &request, &reply), WEIR_OK);
  result->code = reply.code;
  result->report = reply.report;
  see_reply(&result->seen, &reply);
  see_peer(&result->seen, reply.call, front->channel);
  weir_unary_reply_fini(&reply);
  grpc_byte_buffer_destroy(request.message);
}

static void call_shaped(struct secret_result *result) {
  const struct front *front = result->front;
  const struct unary_setup setup = {.registered =
                                        ways[result->way].registered ? front->registered : NULL};
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct shaped_call call;
  shaped_create(&call, ways[result->way].shape, front->channel, queue, &setup);
  see_peer(&result->seen, call.unary.call, front->channel);
  shaped_begin(&call, &setup);
  see_peer(&result->seen, call.unary.call, front->channel);
  shaped_wait(&call, queue);
  secret_end(&call, result);
  shaped_fini(&call);
  queue_end(queue);
}

void secret_begin(struct front *front, enum way way, const char *why,
                  struct secret_result *result) {
  front->log.n_records = 0;
  result->why = why;
  result->front = front;
  result->way = way;
  result->seen.size = 0;
  result->seen.n_behind = 0;
  result->metadata_early = false;
}

static bool is_scrubbed(const struct secret_result *result) {
  return result->front->kind->is_boundary && result->code != GRPC_STATUS_OK;
}

void secret_end(const struct shaped_call *call, struct secret_result *result) {
  result->code = call->unary.code;
  result->report = call->unary.report;
  result->metadata_early = call->metadata_early;
  see_peer(&result->seen, call->unary.call, result->front->channel);
  if (is_scrubbed(result)) {
    see_shaped(&result->seen, call);
  } else {
    see_unary(&result->seen, &call->unary);
  }
}

void secret_call(struct front *front, enum way way, const char *why, struct secret_result *result) {
  secret_begin(front, way, why, result);
  if (way == WAY_BLOCKING) {
    call_blocking(front, result);
  } else {
    call_shaped(result);
  }
  if (is_scrubbed(result) && result->seen.n_behind > 0) {
    secret_fail(result, "something is left", "behind metadata");
  }
}

bool way_is_one_batch(enum way way) {
  enum shape shape = ways[way].shape;
  return shape == SHAPE_ONE_BATCH || shape == SHAPE_METADATA_APART || shape == SHAPE_METADATA_LAST;
}

/* --- what is asked --- */

void secret_fail(const struct secret_result *result, const char *what, const char *more) {
  fail_msg("%s (%s, %s): %s: %s; %s came, seen as %s, from %s, %u attempts", result->why,
           result->front->kind->why, way_name(result->way), what, more,
           weir_status_code_name(result->report.raw_code), weir_status_code_name(result->code),
           weir_origin_name(result->report.origin), result->report.n_attempts);
}

void assert_secret_seen(const struct secret_result *result, const struct secret *secret,
                        bool wanted, const char *place) {
  const char *form = secret_find(secret, result->seen.bytes, result->seen.size);
  if (form != NULL && !wanted) {
    secret_fail(result, place, form);
  }
  if (form == NULL && wanted) {
    secret_fail(result, place, "not seen");
  }
}

/* The caller has it in the message, in the core's error where that can be asked for, and in text and
 * slice of the answer to his own caller; and in details that are kept. */
static void assert_reference(const struct secret_result *result, const char *reference) {
  char text[WEIR_REFERENCE_LENGTH + 8];
  size_t wanted = result->way == WAY_BLOCKING ? 3 : 4;
  (void)snprintf(text, sizeof text, "[ref %s]", result->report.reference);
  if (strlen(reference) != WEIR_REFERENCE_LENGTH ||
      strcmp(reference, result->report.reference) != 0 ||
      count_seen(&result->seen, text) < wanted) {
    secret_fail(result, "reference", reference);
  }
}

const struct kept_record *assert_logged_once(const struct secret_result *result) {
  const struct kept_log *log = &result->front->log;
  if (log->n_records != (is_scrubbed(result) ? 1 : 0)) {
    secret_fail(result, "records", log->n_records == 0 ? "none" : "too many");
  }
  if (!is_scrubbed(result)) {
    return NULL;
  }
  const struct kept_record *record = &log->records[0];
  assert_reference(result, record->reference);
  if (record->code != result->code || record->raw_code != result->report.raw_code ||
      record->n_attempts != result->report.n_attempts) {
    secret_fail(result, "record", "of another end");
  }
  return record;
}

/* A text is cut at KEPT_TEXT, and may hold zeros. */
static size_t count_logged(const char text[KEPT_TEXT], const struct secret *secret) {
  return count_in(text, KEPT_TEXT, secret->text);
}

void assert_secret_logged(const struct secret_result *result, const struct secret *secret,
                          const char text[KEPT_TEXT], size_t n_times, const char *place) {
  if (count_logged(text, secret) != n_times) {
    secret_fail(result, place, n_times == 0 ? "logged" : "not logged, or more than once");
  }
}
