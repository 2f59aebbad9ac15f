/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include <weir/fallback.h>
#include <weir/interceptor.h>
#include <weir/outcome.h>
#include <weir/policy.h>
#include <weir/reason.h>

#define UNKNOWN_NAME "UNKNOWN"

static const char *const status_code_names[WEIR_N_STATUS_CODES] = {
    [GRPC_STATUS_OK] = "OK",
    [GRPC_STATUS_CANCELLED] = "CANCELLED",
    [GRPC_STATUS_UNKNOWN] = UNKNOWN_NAME,
    [GRPC_STATUS_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
    [GRPC_STATUS_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
    [GRPC_STATUS_NOT_FOUND] = "NOT_FOUND",
    [GRPC_STATUS_ALREADY_EXISTS] = "ALREADY_EXISTS",
    [GRPC_STATUS_PERMISSION_DENIED] = "PERMISSION_DENIED",
    [GRPC_STATUS_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
    [GRPC_STATUS_FAILED_PRECONDITION] = "FAILED_PRECONDITION",
    [GRPC_STATUS_ABORTED] = "ABORTED",
    [GRPC_STATUS_OUT_OF_RANGE] = "OUT_OF_RANGE",
    [GRPC_STATUS_UNIMPLEMENTED] = "UNIMPLEMENTED",
    [GRPC_STATUS_INTERNAL] = "INTERNAL",
    [GRPC_STATUS_UNAVAILABLE] = "UNAVAILABLE",
    [GRPC_STATUS_DATA_LOSS] = "DATA_LOSS",
    [GRPC_STATUS_UNAUTHENTICATED] = "UNAUTHENTICATED",
};

const char *weir_status_code_name(grpc_status_code code) {
  int index = (int)code;
  return index >= 0 && index < WEIR_N_STATUS_CODES ? status_code_names[index] : UNKNOWN_NAME;
}

const char *weir_origin_name(enum weir_origin origin) {
  switch (origin) {
  case WEIR_ORIGIN_PEER:
    return "PEER";
  case WEIR_ORIGIN_TRANSPORT_CONNECT:
    return "TRANSPORT_CONNECT";
  case WEIR_ORIGIN_TRANSPORT_RESET:
    return "TRANSPORT_RESET";
  case WEIR_ORIGIN_LOCAL_DEADLINE:
    return "LOCAL_DEADLINE";
  case WEIR_ORIGIN_LOCAL_CANCEL:
    return "LOCAL_CANCEL";
  case WEIR_ORIGIN_LOCAL_BREAKER:
    return "LOCAL_BREAKER";
  case WEIR_ORIGIN_LOCAL_LIMIT:
    return "LOCAL_LIMIT";
  case WEIR_ORIGIN_LOCAL_SHUTDOWN:
    return "LOCAL_SHUTDOWN";
  }
  return UNKNOWN_NAME;
}

const char *weir_blame_name(enum weir_blame blame) {
  switch (blame) {
  case WEIR_BLAME_NOBODY:
    return "NOBODY";
  case WEIR_BLAME_CLIENT:
    return "CLIENT";
  case WEIR_BLAME_SERVER:
    return "SERVER";
  case WEIR_BLAME_NETWORK:
    return "NETWORK";
  }
  return UNKNOWN_NAME;
}

const char *weir_deadline_bound_name(enum weir_deadline_bound bound) {
  switch (bound) {
  case WEIR_DEADLINE_BOUND_NONE:
    return "NONE";
  case WEIR_DEADLINE_BOUND_CALL:
    return "CALL";
  case WEIR_DEADLINE_BOUND_PARENT:
    return "PARENT";
  case WEIR_DEADLINE_BOUND_POLICY:
    return "POLICY";
  case WEIR_DEADLINE_BOUND_ATTEMPT:
    return "ATTEMPT";
  }
  return UNKNOWN_NAME;
}

const char *weir_reason_name(enum weir_reason reason) {
  switch (reason) {
  case WEIR_REASON_NONE:
    return "NONE";
  case WEIR_REASON_BREAKER_OPEN:
    return "BREAKER_OPEN";
  case WEIR_REASON_BUDGET:
    return "BUDGET";
  case WEIR_REASON_THROTTLED:
    return "THROTTLED";
  case WEIR_REASON_PUSHBACK:
    return "PUSHBACK";
  case WEIR_REASON_COMMITTED:
    return "COMMITTED";
  case WEIR_REASON_NOT_OWNER:
    return "NOT_OWNER";
  case WEIR_REASON_NOT_RETRYABLE:
    return "NOT_RETRYABLE";
  case WEIR_REASON_ATTEMPTS_EXHAUSTED:
    return "ATTEMPTS_EXHAUSTED";
  case WEIR_REASON_NO_RETRY_POLICY:
    return "NO_RETRY_POLICY";
  case WEIR_REASON_NOT_REPLAYABLE:
    return "NOT_REPLAYABLE";
  case WEIR_REASON_DEADLINE:
    return "DEADLINE";
  case WEIR_REASON_CANCELLED:
    return "CANCELLED";
  case WEIR_REASON_LIMIT:
    return "LIMIT";
  case WEIR_REASON_SHUTDOWN:
    return "SHUTDOWN";
  case WEIR_REASON_NO_MEMORY:
    return "NO_MEMORY";
  }
  return UNKNOWN_NAME;
}

const char *weir_fallback_result_name(enum weir_fallback_result result) {
  switch (result) {
  case WEIR_FALLBACK_NOT_ASKED:
    return "NOT_ASKED";
  case WEIR_FALLBACK_HIT:
    return "HIT";
  case WEIR_FALLBACK_MISS:
    return "MISS";
  case WEIR_FALLBACK_BROKEN:
    return "BROKEN";
  case WEIR_FALLBACK_TIMED_OUT:
    return "TIMED_OUT";
  case WEIR_FALLBACK_BUSY:
    return "BUSY";
  case WEIR_FALLBACK_NO_RESOURCES:
    return "NO_RESOURCES";
  case WEIR_FALLBACK_CANCELLED:
    return "CANCELLED";
  case WEIR_FALLBACK_SHUTDOWN:
    return "SHUTDOWN";
  }
  return UNKNOWN_NAME;
}
