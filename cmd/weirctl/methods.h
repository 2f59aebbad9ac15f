/* methods – the worst case of each name in a policy, as a table and as JSON.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_WEIRCTL_METHODS_H
#define WEIR_CMD_WEIRCTL_METHODS_H

#include <jansson.h>

#include "cmd/weirctl/output.h"
#include "cmd/weirctl/policy_view.h"

/* A line for each name, and one for methods that no entry covers. */
void methods_print(const struct policy_view *view, const struct output *output);

/* A list, likewise. */
json_t *methods_json(const struct policy_view *view);

#endif /* WEIR_CMD_WEIRCTL_METHODS_H */
