/* enforced – what an organisation's document enforces on values, whoever they are from.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_WEIRCTL_ENFORCED_H
#define WEIR_CMD_WEIRCTL_ENFORCED_H

#include <stddef.h>

#include <weir/v1/policy.upb.h>

#include "cmd/weirctl/effective_values.h"

/* What is enforced: by the organisation's document, or by one that is used alone; NULL: nothing. */
const weir_v1_Policy *enforced_of(const struct effective *effective);

/* Whether one of an entry's names is the method's, its service's or everything's. */
bool enforced_covers(const weir_v1_MethodConfig *config, const char *path);

/* Fills `bound` of the values from `from` on. `path` NULL: they are the channel's. */
void enforced_note(struct effective_values *values, size_t from, const struct effective *effective,
                   const char *path);

/* "at most ", "at least ", "", … */
const char *enforced_words(const struct effective_value *value);

#endif /* WEIR_CMD_WEIRCTL_ENFORCED_H */
