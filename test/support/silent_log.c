/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/silent_log.h"

#include <stddef.h>

static void drop(void *context, const struct weir_log_record *record) {
  (void)context;
  (void)record;
}

const struct weir_log_sink silent_log = {
    .size = sizeof(struct weir_log_sink), .write = drop, .context = NULL};
