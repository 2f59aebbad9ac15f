/* SPDX-License-Identifier: Apache-2.0 */
#include "test/stack/batches.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

#include "src/time/timespec.h"

void open_retrying(struct fixture *f, grpc_status_code code, uint32_t max_attempts) {
  f->method.retry.retryable_codes = CODE_BIT(code);
  f->method.retry.max_attempts = max_attempts;
  f->method.retry.backoff_multiplier = 1.0;
  fixture_open_raw(f);
}

struct batched_call *batches_new_for(struct fixture *f, int64_t deadline_at_ns,
                                     weir_inbound *inbound) {
  struct weir_call_options options = WEIR_CALL_OPTIONS_INIT;
  options.inbound = inbound;
  return batched_call_new(
      weir_channel_create_call(f->channel, NULL, 0, f->queue, grpc_slice_from_static_string(METHOD),
                               NULL, weir__instant_to_timespec(deadline_at_ns), &options));
}

struct batched_call *batches_new_until(struct fixture *f, int64_t deadline_at_ns) {
  return batches_new_for(f, deadline_at_ns, NULL);
}

struct batched_call *batches_new(struct fixture *f) {
  return batches_new_until(f, WEIR_NO_DEADLINE);
}

void batches_say(struct fixture *f, struct batched_call *call, const char *text) {
  grpc_slice slice = scripted_transport_slice(&f->transport, text, strlen(text));
  batched_call_say_buffer(call, grpc_raw_byte_buffer_create(&slice, 1));
  grpc_slice_unref(slice);
}

static void take_all(struct fixture *f, int64_t until_ns) {
  while (awaited_tag_take(f->queue, weir__instant_to_timespec(until_ns))) {
    /* noted */
  }
}

void drain_until(struct fixture *f, int64_t at_ns) {
  take_all(f, at_ns);
  take_all(f, at_ns); /* a timer of the very instant fires now */
}

void drain(struct fixture *f) {
  take_all(f, WEIR_NO_DEADLINE);
}
