/* SPDX-License-Identifier: Apache-2.0 */
#include "src/time/timespec.h"

#include "src/time/instant.h"

#define NS_PER_SECOND INT64_C(1000000000)

gpr_timespec weir__instant_to_timespec(int64_t at_ns) {
  if (at_ns == WEIR_NO_DEADLINE) {
    return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  }
  gpr_timespec time = {.tv_sec = at_ns / NS_PER_SECOND,
                       .tv_nsec = (int32_t)(at_ns % NS_PER_SECOND),
                       .clock_type = GPR_CLOCK_MONOTONIC};
  if (time.tv_nsec < 0) {
    time.tv_nsec += (int32_t)NS_PER_SECOND;
    time.tv_sec -= 1;
  }
  return time;
}

static int64_t span_ns(gpr_timespec time) {
  int64_t ns = 0;
  if (__builtin_mul_overflow(time.tv_sec, NS_PER_SECOND, &ns)) {
    return time.tv_sec > 0 ? WEIR_NO_LIMIT_NS : INT64_MIN;
  }
  return weir__instant_add(ns, time.tv_nsec);
}

int64_t weir__instant_from_timespec(gpr_timespec time, int64_t now_ns) {
  int64_t ns = span_ns(time); /* INT64_MAX and INT64_MIN seconds, the core's infinities, saturate */
  if (ns == WEIR_NO_LIMIT_NS || ns == INT64_MIN || time.clock_type == GPR_CLOCK_MONOTONIC) {
    return ns;
  }
  if (time.clock_type == GPR_TIMESPAN) {
    return weir__instant_add(now_ns, ns);
  }
  if (time.clock_type != GPR_CLOCK_REALTIME && time.clock_type != GPR_CLOCK_PRECISE) {
    return WEIR_NO_DEADLINE; /* of no clock: the core aborts when it is asked for its time */
  }
  int64_t wall_now_ns = span_ns(gpr_now(time.clock_type));
  int64_t ahead_ns = 0;
  if (__builtin_sub_overflow(ns, wall_now_ns, &ahead_ns)) {
    return ns > 0 ? WEIR_NO_DEADLINE : INT64_MIN;
  }
  return weir__instant_add(now_ns, ahead_ns);
}
