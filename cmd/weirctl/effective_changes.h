/* effective_changes – what holds in one policy and not in another, value by value.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_WEIRCTL_EFFECTIVE_CHANGES_H
#define WEIR_CMD_WEIRCTL_EFFECTIVE_CHANGES_H

#include <stdbool.h>
#include <stddef.h>

#include "cmd/weirctl/effective.h"
#include "cmd/weirctl/effective_values.h"

/* One value. Where a side has no such message as it is of, its value is the message's, null
 * ("retryPolicy" for "retryPolicy.maxAttempts"), or NULL. */
struct effective_change {
  const struct effective_value *old_value;
  const struct effective_value *new_value;
};

/* What differs for a path, or channel-wide. The values stay until it is filled anew. Zeroed at
 * first. */
struct effective_changes {
  struct effective_values old_values;
  struct effective_values new_values;
  struct effective_change *list;
  size_t n;
  size_t capacity;
};

/* Of the value itself. */
const char *effective_change_path(const struct effective_change *change);

void effective_changes_fini(struct effective_changes *changes);

/* Of all that is the channel's. */
void effective_changes_channel(struct effective_changes *changes,
                               const struct effective *old_policy,
                               const struct effective *new_policy);

/* Of the `nth` of the paths that both have held, but for what has changed channel-wide, the same,
 * as `channel` says. */
void effective_changes_method(struct effective_changes *changes, const struct effective *old_policy,
                              const struct effective *new_policy, const char *path, size_t nth,
                              const struct effective_changes *channel);

#endif /* WEIR_CMD_WEIRCTL_EFFECTIVE_CHANGES_H */
