/* SPDX-License-Identifier: Apache-2.0 */
#include "src/policy/passed_on.h"

#include <string.h>

const char *const weir__passed_on_fields[WEIR__N_PASSED_ON] = {
    [WEIR__PASSED_ON_POLICY] = "load_balancing_policy",
    [WEIR__PASSED_ON_CONFIG] = "load_balancing_config",
    [WEIR__PASSED_ON_HEALTH_CHECK] = "health_check_config"};
const char *const weir__passed_on_keys[WEIR__N_PASSED_ON] = {
    [WEIR__PASSED_ON_POLICY] = "loadBalancingPolicy",
    [WEIR__PASSED_ON_CONFIG] = "loadBalancingConfig",
    [WEIR__PASSED_ON_HEALTH_CHECK] = "healthCheckConfig"};

/* Appends to `out`, unless it is NULL, and returns the size of what was, or would be, written. */
static size_t put(char *out, const char *text, size_t size) {
  if (out != NULL) {
    memcpy(out, text, size);
  }
  return size;
}

static size_t print(const struct weir__passed_on *passed_on, char *out) {
  size_t n = 0;
  for (size_t i = 0; i < WEIR__N_PASSED_ON; i++) {
    const struct weir__json_text *value = &passed_on->values[i];
    if (value->text != NULL) {
      n += put(out == NULL ? NULL : out + n, n == 0 ? "{\"" : ",\"", 2);
      n += put(out == NULL ? NULL : out + n, weir__passed_on_keys[i],
               strlen(weir__passed_on_keys[i]));
      n += put(out == NULL ? NULL : out + n, "\":", 2);
      n += put(out == NULL ? NULL : out + n, value->text, value->size);
    }
  }
  if (passed_on->others.size > 0) {
    n += put(out == NULL ? NULL : out + n, n == 0 ? "{" : ",", 1);
    n += put(out == NULL ? NULL : out + n, passed_on->others.text, passed_on->others.size);
  }
  if (n > 0) {
    n += put(out == NULL ? NULL : out + n, "}", 2); /* with its terminating zero */
  }
  return n;
}

bool weir__passed_on_print(const struct weir__passed_on *passed_on, upb_Arena *arena,
                           const char **text_out) {
  const size_t size = print(passed_on, NULL);
  *text_out = NULL;
  if (size == 0) {
    return true;
  }
  char *text = upb_Arena_Malloc(arena, size);
  if (text != NULL) {
    (void)print(passed_on, text);
  }
  *text_out = text;
  return text != NULL;
}
