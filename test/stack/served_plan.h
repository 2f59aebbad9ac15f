/* served_plan – a request that a service is given, as bytes tell it: all that its caller may have
 * written, and what the service makes of it.
 *
 * A word is planted in values that are to stay with the service.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_STACK_SERVED_PLAN_H
#define WEIR_TEST_STACK_SERVED_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test/stack/stack_fixture.h"

/* Not a name that a policy can have. */
#define SERVED_SECRET "Q hunter2"

#define SERVED_ENTRIES 24
#define SERVED_APP_ENTRIES 4
#define SERVED_TRACE_KEYS 10
#define SERVED_VALUE_BYTES 2100

/* An entry of the request's metadata: any bytes. */
struct served_entry {
  char key[32];
  size_t key_size;
  char value[SERVED_VALUE_BYTES];
  size_t value_size;
};

/* One that the service gives to its own call: legal ones. */
struct served_app_entry {
  const char *key;
  const char *value;
};

struct served_plan {
  const uint8_t *bytes; /* that are still to be read */
  size_t n_bytes;

  /* the request */
  bool has_details;
  gpr_timespec deadline;
  bool
      is_deadline_known; /* it is `deadline_in_ns` from when it was read; WEIR_NO_DEADLINE = none */
  int64_t deadline_in_ns; /* negative: past */
  bool has_metadata;
  struct served_entry entries[SERVED_ENTRIES];
  size_t n_entries;
  bool has_parent;
  bool has_trace_keys; /* of its own, instead of the usual two */
  const char *trace_keys[SERVED_TRACE_KEYS];
  size_t n_trace_keys;

  /* the call that is made for it */
  bool in_batches;
  bool is_detached;
  bool is_ambient;
  bool is_answered;   /* OK; else UNAVAILABLE, each attempt */
  int64_t timeout_ns; /* of the call; 0 = none */
  struct served_app_entry app[SERVED_APP_ENTRIES];
  size_t n_app;
};

/* Reads a plan, and sets the options of a fixture that is not open yet. */
void served_plan_read(struct served_plan *plan, const uint8_t *bytes, size_t size,
                      struct fixture *f);

#endif /* WEIR_TEST_STACK_SERVED_PLAN_H */
