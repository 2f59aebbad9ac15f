/* timespec – instants as the core writes them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_TIME_TIMESPEC_H
#define WEIR_SRC_TIME_TIMESPEC_H

#include <stdint.h>

#include <grpc/support/time.h>

/* For the core: a time of GPR_CLOCK_MONOTONIC, or its infinite future. */
gpr_timespec weir__instant_to_timespec(int64_t at_ns);

/* A core's deadline of any clock type, seen at `now_ns`: a realtime one is converted here, once, so
 * that later steps of the wall clock change nothing; a GPR_TIMESPAN counts from now. Infinities
 * become WEIR_NO_DEADLINE and INT64_MIN, and a time of a clock that there is not is none. */
int64_t weir__instant_from_timespec(gpr_timespec time, int64_t now_ns);

#endif /* WEIR_SRC_TIME_TIMESPEC_H */
