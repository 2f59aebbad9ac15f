/* SPDX-License-Identifier: Apache-2.0 */
#include <weir/breaker.h>

#define UNKNOWN_NAME "UNKNOWN"

const char *weir_breaker_state_name(enum weir_breaker_state state) {
  switch (state) {
  case WEIR_BREAKER_CLOSED:
    return "CLOSED";
  case WEIR_BREAKER_OPEN:
    return "OPEN";
  case WEIR_BREAKER_HALF_OPEN:
    return "HALF_OPEN";
  }
  return UNKNOWN_NAME;
}

const char *weir_breaker_refusal_name(enum weir_breaker_refusal refusal) {
  switch (refusal) {
  case WEIR_BREAKER_REFUSAL_NONE:
    return "NONE";
  case WEIR_BREAKER_REFUSAL_OPEN:
    return "OPEN";
  case WEIR_BREAKER_REFUSAL_PROBES_TAKEN:
    return "PROBES_TAKEN";
  case WEIR_BREAKER_REFUSAL_RAMP:
    return "RAMP";
  case WEIR_BREAKER_REFUSAL_FORCED_OPEN:
    return "FORCED_OPEN";
  }
  return UNKNOWN_NAME;
}
