/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <weir/v1/policy.upbdefs.h>

#include "cmd/weirctl/memory.h"
#include "cmd/weirctl/warnings.h"
#include "src/base/allocator.h"
#include "src/policy/json.h"
#include "src/policy/passed_on.h"

/* The only policy of the core's that takes a server from its configuration: grpclb's balancers are
 * the resolver's to name, and xds policies have what a target with xds: brings along. */
static const char route_lookup[] = "rls_experimental";

static bool is_route_lookup(struct weir__json_text key) {
  return key.size == sizeof route_lookup - 1 && memcmp(key.text, route_lookup, key.size) == 0;
}

/* Whether an object under `index` has the policy for its key: other policies have it as a child. */
static bool has_route_lookup(const struct weir__json *json, uint32_t index) {
  const enum weir__json_kind kind = (enum weir__json_kind)json->values[index].kind;
  const uint32_t end = weir__json_next(json, index);
  if (kind < WEIR__JSON_ARRAY) {
    return false;
  }
  for (uint32_t i = index + 1; i < end; i = weir__json_next(json, i)) {
    if (kind == WEIR__JSON_OBJECT && is_route_lookup(weir__json_string(json, i++))) {
      return true;
    }
    if (has_route_lookup(json, i)) {
      return true;
    }
  }
  return false;
}

static bool asks_a_server(const struct weir__json_text *config) {
  struct weir__json json;
  struct weir_diagnostic fault;
  const enum weir_error error =
      weir__json_init(&json, config->text, config->size, weir__allocator_or_default(NULL), &fault);
  memory_check(error);
  const bool found = error == WEIR_OK && has_route_lookup(&json, 0);
  weir__json_fini(&json);
  return found;
}

void balancing_warning_add(const struct policy_view *view, struct findings *findings) {
  const struct weir__json_text *config =
      &view->layered.whole->passed_on.values[WEIR__PASSED_ON_CONFIG];
  if (config->text == NULL || !asks_a_server(config)) {
    return;
  }
  const struct warning warning = {.id = "balancing-asks-server",
                                  .path = "",
                                  .json_name = weir__passed_on_keys[WEIR__PASSED_ON_CONFIG],
                                  .field = {.message = view->layered.policy,
                                            .def = weir_v1_Policy_getmsgdef(view->layered.schema),
                                            .name = weir__passed_on_fields[WEIR__PASSED_ON_CONFIG]},
                                  .index = VIEW_WHOLE};
  warn(view, findings, &warning,
       "%s asks a server that this document names where each call goes, with headers of the call",
       route_lookup);
}
