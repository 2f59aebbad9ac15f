/* SPDX-License-Identifier: Apache-2.0 */
#include "test/stack/schedule_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>

#include <weir/report.h>

#include "test/stack/schedule_trace.h"
#include "test/stack/schedule_world.h"

static bool has_op(const struct schedule_batch *batch, grpc_op_type type) {
  return (batch->op_types & SCHEDULE_OP_BIT(type)) != 0;
}

/* --- success --- */

/* Which message of the call the batch sends. */
static size_t message_of(const struct schedule_call *call, const struct schedule_batch *batch) {
  size_t nth = 0;
  for (const struct schedule_batch *other = call->batches; other != batch; other++) {
    nth += has_op(other, GRPC_OP_SEND_MESSAGE) ? 1 : 0;
  }
  return nth;
}

static enum sent_result result_of(const struct schedule_call *call,
                                  const struct schedule_batch *batch,
                                  const struct sent_attempt *attempt, grpc_op_type type) {
  return type == GRPC_OP_SEND_MESSAGE ? attempt->message_results[message_of(call, batch)]
                                      : attempt->results[type];
}

static bool succeeded_once(const struct schedule_call *call, const struct schedule_batch *batch,
                           grpc_op_type type) {
  const struct sent_attempt *last = schedule_call_last(call);
  if (type == GRPC_OP_SEND_CLOSE_FROM_CLIENT && last != NULL && last->ended && !last->ended_here) {
    return true; /* once the peer has ended the call, there is nothing to close */
  }
  for (size_t i = 0; i < call->n_attempts; i++) {
    if (result_of(call, batch, call->attempts[i], type) == SENT_OK) {
      return true;
    }
  }
  return false;
}

/* Whether something of this process's own decided how the call ended, or may have. */
static bool was_touched(const struct schedule_world *world, const struct schedule_call *call) {
  const struct sent_attempt *last = schedule_call_last(call);
  return call->is_over || world->faulty || world->queues[call->queue].shut_down ||
         (call->has_parent && world->parent_cancelled) || last == NULL || last->ended_here ||
         world->clock.now_ns >= call->deadline_at_ns;
}

static bool has_limits(const struct schedule_world *world) {
  return world->policy->max_response_bytes != WEIR_NO_LIMIT_BYTES ||
         world->policy->max_request_bytes != WEIR_NO_LIMIT_BYTES;
}

/* Of a batch without the status, which failed. When the peer has ended the call, only a message
 * can't be sent any more. */
static void check_failure(const struct schedule_world *world, const struct schedule_call *call,
                          const struct schedule_batch *batch) {
  const struct sent_attempt *last = schedule_call_last(call);
  if (was_touched(world, call) || has_limits(world) || last->never_sent) {
    return;
  }
  assert_true(has_op(batch, GRPC_OP_SEND_MESSAGE));
  assert_int_not_equal(result_of(call, batch, last, GRPC_OP_SEND_MESSAGE), SENT_OK);
}

/* Of a batch without the status, which succeeded: each of its operations did, on some attempt. */
static void check_success(const struct schedule_call *call, const struct schedule_batch *batch) {
  for (unsigned type = 0; type < GRPC_OP_RECV_CLOSE_ON_SERVER; type++) {
    assert_true(!has_op(batch, (grpc_op_type)type) ||
                succeeded_once(call, batch, (grpc_op_type)type));
  }
}

/* Beside a unary call weir says what the core would, as far as it knows. */
static bool is_beside(const struct schedule_call *call, const struct schedule_batch *batch) {
  return call->is_one_batch && batch != call->batches;
}

/* --- what was received --- */

/* Everything that a peer says carries the call and the attempt: it is to be the last one's. */
static void check_from(const struct schedule_call *call, const char *said) {
  assert_true(call->n_attempts > 0);
  assert_int_equal(said[0], 'a' + (int)call->index);
  assert_int_equal(said[1], '0' + (int)call->n_attempts);
}

static void check_metadata(const struct schedule_call *call, const grpc_metadata_array *array) {
  if (call->call == NULL) {
    return; /* the elements went with the call */
  }
  for (size_t i = 0; i < array->count; i++) {
    if (grpc_slice_str_cmp(array->metadata[i].key, "x-from") == 0) {
      assert_true(GRPC_SLICE_LENGTH(array->metadata[i].value) >= 2);
      check_from(call, (const char *)GRPC_SLICE_START_PTR(array->metadata[i].value));
    }
  }
}

static bool is_stood_in(const struct schedule_call *call) {
  struct weir_call_report report = WEIR_CALL_REPORT_INIT;
  return call->call != NULL && weir_call_get_report(call->call, &report) == WEIR_OK &&
         report.fallback_result == WEIR_FALLBACK_HIT;
}

/* What the headers of the last attempt said is not lost. */
static void check_initial_metadata(const struct schedule_world *world,
                                   const struct schedule_call *call,
                                   const struct schedule_batch *batch) {
  const struct sent_attempt *last = schedule_call_last(call);
  bool passes = !world->policy->boundary && !was_touched(world, call) && !has_limits(world);
  if (batch->success && passes && last->has_headers && !is_stood_in(call)) {
    assert_int_equal(call->initial_metadata.count, 1);
  }
  check_metadata(call, &call->initial_metadata);
}

static bool is_scrubbed(const struct schedule_world *world, const struct schedule_call *call) {
  return world->policy->boundary && call->got_status && call->status != GRPC_STATUS_OK;
}

/* The next message of the last attempt. */
static void check_received(struct schedule_world *world, struct schedule_call *call,
                           const struct schedule_batch *batch) {
  grpc_byte_buffer_reader reader;
  assert_true(grpc_byte_buffer_reader_init(&reader, batch->received));
  grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
  grpc_byte_buffer_reader_destroy(&reader);
  size_t size = GRPC_SLICE_LENGTH(all);
  const char *bytes = (const char *)GRPC_SLICE_START_PTR(all);
  assert_true(batch->success);
  /* who plucks may look at the status first */
  bool may_be_older = world->queues[call->queue].type == GRPC_CQ_PLUCK && !batch->after_status;
  assert_true(may_be_older || !is_scrubbed(world, call));
  assert_false(call->got_nothing);
  check_from(call, bytes);
  const struct schedule_peer *peer = &call->peers[call->n_attempts - 1];
  while (call->may_lack && call->n_read < SCHEDULE_MESSAGES - 1 &&
         strncmp(bytes, peer->bodies[call->n_read], size) != 0) {
    call->n_read++;
  }
  const char *said = peer->bodies[call->n_read];
  assert_int_equal(size, strlen(said));
  assert_memory_equal(bytes, said, size);
  assert_true(size <= world->policy->max_response_bytes);
  grpc_slice_unref(all);
  call->n_read++;
  world->tally->n_messages++;
}

/* No message: the stream has ended, and nothing of it was lost. */
static void check_nothing_received(struct schedule_world *world, struct schedule_call *call,
                                   const struct schedule_batch *batch) {
  call->may_lack = call->may_lack || !batch->success;
  if (!batch->success || was_touched(world, call) || has_limits(world)) {
    return;
  }
  const struct sent_attempt *last = schedule_call_last(call);
  assert_true(last->ended);
  call->got_nothing = true;
  if (last->status == GRPC_STATUS_OK && !call->may_lack) {
    assert_int_equal(call->n_read, last->n_received);
  }
}

static grpc_status_code code_from_wire(int status) {
  return status >= 0 && status < WEIR_N_STATUS_CODES ? (grpc_status_code)status
                                                     : GRPC_STATUS_UNKNOWN;
}

/* A peer's words begin with a '~', and weir's have none. */
static bool holds_peers_words(grpc_slice slice) {
  return memchr(GRPC_SLICE_START_PTR(slice), '~', GRPC_SLICE_LENGTH(slice)) != NULL;
}

static void check_status(struct schedule_world *world, struct schedule_call *call) {
  const struct sent_attempt *last = schedule_call_last(call);
  SCHEDULE_NOTE("@ ends with #", (int)call->index, (int)call->status);
  call->got_status = true;
  assert_in_range(call->status, 0, WEIR_N_STATUS_CODES - 1);
  if (call->status != GRPC_STATUS_OK) {
    assert_non_null(call->error_string);
  } else {
    assert_null(call->error_string);
  }
  if (call->status == GRPC_STATUS_OK) {
    assert_non_null(last);
    assert_true(last->ended && !last->ended_here && last->status == GRPC_STATUS_OK);
    assert_int_equal(call->trailing_metadata.count, 1);
  } else if (!was_touched(world, call) && !has_limits(world)) {
    assert_int_not_equal(last->status, GRPC_STATUS_OK);
    if (!world->policy->boundary) {
      assert_int_equal(call->status, code_from_wire(last->status));
    }
  }
  if (is_scrubbed(world, call)) {
    assert_false(holds_peers_words(call->details));
    assert_true(call->error_string != NULL && strchr(call->error_string, '~') == NULL);
    assert_int_equal(call->trailing_metadata.count, 0);
  }
  check_metadata(call, &call->trailing_metadata);
}

/* --- what a fallback has found --- */

static bool is_stand_in(const struct schedule_batch *batch) {
  if (batch->received == NULL ||
      grpc_byte_buffer_length(batch->received) != sizeof SCHEDULE_STAND_IN - 1) {
    return false;
  }
  grpc_byte_buffer_reader reader;
  assert_true(grpc_byte_buffer_reader_init(&reader, batch->received));
  grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
  grpc_byte_buffer_reader_destroy(&reader);
  bool is_equal = grpc_slice_str_cmp(all, SCHEDULE_STAND_IN) == 0;
  grpc_slice_unref(all);
  return is_equal;
}

static void check_stand_in(struct schedule_world *world, struct schedule_call *call,
                           const struct schedule_batch *batch) {
  SCHEDULE_NOTE("@ is answered by the fallback", (int)call->index);
  assert_true(world->has_fallback && call->is_one_batch && batch->success);
  assert_true(has_op(batch, GRPC_OP_RECV_STATUS_ON_CLIENT));
  assert_int_equal(call->status, GRPC_STATUS_OK);
  assert_int_equal(GRPC_SLICE_LENGTH(call->details), 0);
  assert_null(call->error_string);
  assert_int_equal(call->initial_metadata.count + call->trailing_metadata.count, 0);
  assert_true(call->call == NULL || is_stood_in(call));
  call->got_status = true;
  call->is_stood_in = true;
  world->tally->n_stood_in++;
}

void schedule_check_batch(struct schedule_world *world, struct schedule_call *call,
                          const struct schedule_batch *batch) {
  if (is_stand_in(batch)) {
    check_stand_in(world, call, batch);
    return;
  }
  if (has_op(batch, GRPC_OP_RECV_STATUS_ON_CLIENT)) {
    assert_true(batch->success);
    check_status(world, call);
  } else if (!is_beside(call, batch) && batch->success) {
    check_success(call, batch);
  } else if (!is_beside(call, batch)) {
    check_failure(world, call, batch);
  }
  if (has_op(batch, GRPC_OP_RECV_INITIAL_METADATA)) {
    check_initial_metadata(world, call, batch);
  }
  if (has_op(batch, GRPC_OP_RECV_MESSAGE)) {
    if (batch->received != NULL) {
      check_received(world, call, batch);
    } else {
      check_nothing_received(world, call, batch);
    }
  }
}

/* --- the end --- */

static void check_report(struct schedule_world *world, const struct schedule_call *call) {
  struct weir_call_report report = WEIR_CALL_REPORT_INIT;
  if (call->call == NULL || weir_call_get_report(call->call, &report) != WEIR_OK) {
    assert_true(call->call == NULL || !call->got_status);
    return;
  }
  /* The core does not send what is made under a parent that was cancelled, or has no metadata. */
  size_t n_unsent = report.n_attempts - call->n_attempts;
  size_t n_may_be = call->is_one_batch ? 0 : 1;
  assert_true(report.n_attempts >= call->n_attempts);
  assert_true(n_unsent <= n_may_be || (call->has_parent && world->parent_cancelled));
  assert_true(!call->got_status || report.code == call->status);
  assert_true(report.attempts_ns >= 0 && report.backoff_ns >= 0 && report.queued_ns >= 0 &&
              report.fallback_ns >= 0);
  assert_int_equal(report.attempts_ns + report.backoff_ns + report.queued_ns + report.fallback_ns,
                   report.total_ns);
  assert_int_equal(report.fallback_result == WEIR_FALLBACK_HIT, call->is_stood_in);
  world->tally->n_refused += report.reason == WEIR_REASON_BREAKER_OPEN ? 1 : 0;
  world->tally->n_ended_in_backoff +=
      report.reason == WEIR_REASON_CANCELLED && report.attempts[0].code != GRPC_STATUS_CANCELLED
          ? 1
          : 0;
}

void schedule_check_end(struct schedule_world *world, const struct schedule_call *call) {
  for (size_t i = 0; i < call->n_batches; i++) {
    if (call->batches[i].tag.n_came != 1) {
      fail_msg("batch %zu of call %c came %zu times", i, (int)('a' + call->index),
               call->batches[i].tag.n_came);
    }
  }
  assert_int_equal(call->empty.n_came, call->empty.n_owed);
  check_report(world, call);
}

/* Of a call that was let go before its status came nobody knows whether it has failed. */
void schedule_check_log(const struct schedule_world *world) {
  size_t n_failed = 0;
  size_t n_unknown = 0;
  for (size_t i = 0; i < world->n_calls; i++) {
    const struct schedule_call *call = &world->calls[i];
    struct weir_call_report report = WEIR_CALL_REPORT_INIT;
    if (call->got_status) {
      n_failed += call->status != GRPC_STATUS_OK || call->is_stood_in ? 1 : 0;
    } else if (call->call != NULL && weir_call_get_report(call->call, &report) == WEIR_OK) {
      n_failed += report.code != GRPC_STATUS_OK ? 1 : 0;
    } else {
      n_unknown++;
    }
  }
  if (world->policy->boundary) {
    assert_in_range(world->n_logged, n_failed, n_failed + n_unknown);
  }
}
