/* SPDX-License-Identifier: Apache-2.0 */
#include "test/stack/served_plan.h"

#include <limits.h>
#include <string.h>

#include <grpc/support/time.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* A run of bytes is no longer. */
#define LONGEST_RUN 31

/* --- bytes --- */

/* Behind the end there are zeros, which are made to mean what is simplest. */
static uint8_t next(struct served_plan *plan) {
  if (plan->n_bytes == 0) {
    return 0;
  }
  plan->n_bytes--;
  return *plan->bytes++;
}

static uint64_t next_number(struct served_plan *plan, size_t n_bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < n_bytes; i++) {
    number = number << 8 | next(plan);
  }
  return number;
}

/* Any bytes, without what marks the planted word. */
static size_t next_run(struct served_plan *plan, char *out, size_t most) {
  const size_t size = next(plan) % (most + 1);
  for (size_t i = 0; i < size; i++) {
    const char byte = (char)next(plan);
    out[i] = byte == 'Q' ? 'q' : byte;
  }
  return size;
}

static size_t next_from(struct served_plan *plan, char *out, const char *alphabet) {
  const size_t size = next(plan) % (LONGEST_RUN + 1);
  for (size_t i = 0; i < size; i++) {
    out[i] = alphabet[next(plan) % strlen(alphabet)];
  }
  return size;
}

static size_t copy_text(char *out, const char *text) {
  size_t size = 0;
  for (; text[size] != '\0'; size++) {
    out[size] = text[size];
  }
  return size;
}

/* --- the request's deadline --- */

static void read_raw_deadline(struct served_plan *plan) {
  const uint64_t seconds = next_number(plan, 8);
  const uint32_t nanoseconds = (uint32_t)next_number(plan, 4);
  const int clock = next(plan) - 4;
  memcpy(&plan->deadline.tv_sec, &seconds, sizeof seconds);
  memcpy(&plan->deadline.tv_nsec, &nanoseconds, sizeof nanoseconds);
  memcpy(&plan->deadline.clock_type, &clock, sizeof clock);
}

static void read_deadline(struct served_plan *plan) {
  static const gpr_clock_type clocks[] = {GPR_CLOCK_MONOTONIC, GPR_CLOCK_REALTIME,
                                          GPR_CLOCK_PRECISE, GPR_TIMESPAN};
  const uint8_t byte = next(plan);
  const gpr_clock_type clock = clocks[byte >> 3 & 3];
  plan->has_details = (byte & 7) != 1;
  plan->is_deadline_known = true;
  plan->deadline_in_ns = WEIR_NO_DEADLINE;
  plan->deadline = gpr_inf_future(clock);
  if ((byte & 7) == 2) {
    plan->deadline = gpr_inf_past(clock);
    plan->deadline_in_ns = INT64_MIN;
  } else if ((byte & 7) == 3) {
    plan->is_deadline_known = false;
    read_raw_deadline(plan);
  } else if ((byte & 7) > 3) {
    const int64_t seconds =
        ((int64_t)next(plan) - 128) * 4; /* never so near that it matters how busy it is */
    const gpr_timespec ahead = gpr_time_from_seconds(seconds, GPR_TIMESPAN);
    plan->deadline_in_ns = SECONDS(seconds);
    plan->deadline = clock == GPR_TIMESPAN ? ahead : gpr_time_add(gpr_now(clock), ahead);
  }
}

/* --- its metadata --- */

static const char *const request_keys[] = {
    "weir-budget-us", "weir-retry-owner",     "grpc-previous-rpc-attempts",
    "traceparent",    "tracestate",           "grpc-timeout",
    "x-id",           "x-trace-bin",          "grpc-trace-bin",
    "Weir-Budget-Us", "weir-budget-us-bin",   "weir-budget-u",
    "Traceparent",    "weir-retry-owner-bin", "",
};

static const char *const request_values[] = {
    "",
    "0",
    "9223372036854775",
    "9223372036854776",
    "18446744073709551616",
    "00000000000000000000000000000000000000000000000000000000000000000007",
    " 5",
    "+5",
    "5u",
    "orders",
    "upstream",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
};

/* Around what is as long as may be. */
static const size_t long_sizes[] = {63, 64, 65, 255, 511, 512, 513, 2047};

static void read_value(struct served_plan *plan, struct served_entry *entry) {
  enum { PLANTED, DIGITS, NAME, RUN, LONG, LONG_DIGITS };
  const uint8_t byte = next(plan);
  switch (byte & 7) {
  case PLANTED:
    entry->value_size = copy_text(entry->value, SERVED_SECRET);
    entry->value_size += next_run(plan, entry->value + entry->value_size, byte >> 4);
    break;
  case DIGITS:
    entry->value_size = next_from(plan, entry->value, "0123456789");
    break;
  case NAME:
    entry->value_size = next_from(plan, entry->value, "abcXYZ019._-");
    break;
  case RUN:
    entry->value_size = next_run(plan, entry->value, LONGEST_RUN);
    break;
  case LONG:
  case LONG_DIGITS:
    entry->value_size = long_sizes[byte >> 3 & 7];
    memset(entry->value, (byte & 7) == LONG ? 'x' : '0', entry->value_size);
    break;
  default:
    entry->value_size =
        copy_text(entry->value, request_values[(byte >> 3) % COUNT_OF(request_values)]);
  }
}

static void read_metadata(struct served_plan *plan) {
  const uint8_t n_entries = next(plan) % (SERVED_ENTRIES + 1);
  plan->has_metadata = n_entries > 0;
  while (plan->n_entries < n_entries) {
    struct served_entry *entry = &plan->entries[plan->n_entries++];
    const uint8_t byte = next(plan) & 31;
    entry->key_size = byte < COUNT_OF(request_keys) ? copy_text(entry->key, request_keys[byte])
                      : byte < 24                   ? copy_text(entry->key, request_keys[byte % 5])
                                                    : next_run(plan, entry->key, LONGEST_RUN);
    read_value(plan, entry);
  }
}

static void read_trace_keys(struct served_plan *plan) {
  static const char *const keys[] = {
      "traceparent", "x-id", "x-trace-bin", "tracestate",   "x-a",    "x-b", "x-c", "x-d", "x-e",
      "x-id",        "",     "Upper",       "grpc-timeout", "weir-x", "a b", NULL,
  };
  plan->has_trace_keys = true;
  plan->n_trace_keys = next(plan) % (SERVED_TRACE_KEYS + 1);
  for (size_t i = 0; i < plan->n_trace_keys; i++) {
    const uint8_t byte = next(plan);
    plan->trace_keys[i] = keys[byte < 224 ? byte % 10 : byte % COUNT_OF(keys)]; /* mostly legal */
  }
}

/* --- the service's call --- */

static void read_app(struct served_plan *plan) {
  static const char *const keys[] = {"x-app",          "traceparent",
                                     "tracestate",     "weir-retry-owner",
                                     "weir-budget-us", "grpc-previous-rpc-attempts",
                                     "x-id",           "x-trace-bin"};
  static const char *const values[] = {"mine", "", "7", "no name", "front-door"};
  plan->n_app = next(plan) % (SERVED_APP_ENTRIES + 1);
  for (size_t i = 0; i < plan->n_app; i++) {
    const uint8_t byte = next(plan);
    plan->app[i] = (struct served_app_entry){.key = keys[byte & 7],
                                             .value = values[(byte >> 3) % COUNT_OF(values)]};
  }
}

static void read_policy(struct served_plan *plan, struct fixture *f) {
  const uint8_t byte = next(plan);
  f->translation.boundary = false;
  f->breaker.enabled = false;
  f->retry.owner = (enum weir_retry_owner)(next(plan) % 3);
  f->deadline.inherits_parent = (byte & 1) == 0;
  f->deadline.margin_ns = (byte & 2) != 0 ? MS(700) : 0;
  f->method.timeout_ns = (byte & 4) != 0 ? SECONDS(3) : WEIR_NO_LIMIT_NS;
  f->policy_options.pass_trace = (byte & 8) == 0;
  f->deadline.max_timeout_ns = (byte & 16) != 0 ? SECONDS(20) : SECONDS(60);
  f->method.retry.max_attempts = 1 + (byte >> 5) % WEIR_MAX_ATTEMPTS;
}

void served_plan_read(struct served_plan *plan, const uint8_t *bytes, size_t size,
                      struct fixture *f) {
  memset(plan, 0, sizeof *plan);
  plan->bytes = bytes;
  plan->n_bytes = size;
  const uint8_t byte = next(plan);
  plan->in_batches = (byte & 1) != 0;
  plan->is_detached = (byte & 2) != 0;
  plan->is_ambient = (byte & 4) != 0;
  plan->is_answered = (byte & 8) != 0;
  plan->timeout_ns = (byte & 16) != 0 ? SECONDS(2) : 0;
  plan->has_parent = (byte & 32) != 0;
  read_policy(plan, f);
  read_deadline(plan);
  if ((byte & 64) != 0) {
    read_trace_keys(plan);
  }
  if ((byte & 128) != 0) {
    read_app(plan);
  }
  read_metadata(plan);
}
