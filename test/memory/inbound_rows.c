/* Requests being served. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/slice.h>

#include <weir/inbound.h>

#include "test/memory/trial.h"

static void make_inbound(struct trial *trial) {
  grpc_metadata entry;
  memset(&entry, 0, sizeof entry);
  entry.key = grpc_slice_from_static_string("traceparent");
  entry.value = grpc_slice_from_static_string("00-4bf92f3577b34da6a3ce929d0e0e4736-00f0-01");
  const grpc_metadata_array metadata = {.count = 1, .capacity = 1, .metadata = &entry};
  weir_inbound *inbound = NULL;
  trial_begin(trial);
  enum weir_error error = weir_inbound_new(NULL, &metadata, NULL, NULL, &inbound);
  trial_end(trial);
  trial_check_made(trial, error, inbound);
  weir_inbound_release(inbound);
}

static void enter_inbound(struct trial *trial) {
  weir_inbound *inbound = NULL;
  struct weir_inbound_scope scope;
  assert_int_equal(weir_inbound_new(NULL, NULL, NULL, NULL, &inbound), WEIR_OK);
  trial_begin(trial);
  weir_inbound_enter(inbound, &scope);
  weir_inbound_release(inbound);
  weir_inbound *share = weir_inbound_ref(weir_inbound_current());
  weir_inbound_leave(&scope);
  weir_inbound_release(share);
  trial_end(trial);
  assert_ptr_equal(share, inbound);
  assert_null(weir_inbound_current());
}

const struct trial_row inbound_rows[] = {
    {"weir_inbound_new", TAKES_MEMORY, make_inbound},
    {"weir_inbound_current", TAKES_NOTHING, enter_inbound},
    {"weir_inbound_enter", TAKES_NOTHING, enter_inbound},
    {"weir_inbound_leave", TAKES_NOTHING, enter_inbound},
    {"weir_inbound_ref", TAKES_NOTHING, enter_inbound},
    {"weir_inbound_release", TAKES_NOTHING, enter_inbound},
    TRIAL_ROWS_END,
};
