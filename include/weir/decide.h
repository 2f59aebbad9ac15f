/* weir/decide.h – what weir decides by, without gRPC: breaker, throttle, backoff, budget.
 *
 * For programs that guard or retry something that is no gRPC call; link //:weir_decide. No decision
 * reads a clock, takes a lock or calls back: the time is a parameter, and chance is an object.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_DECIDE_H
#define WEIR_DECIDE_H

#include <weir/admission.h>
#include <weir/allocator.h>
#include <weir/backoff.h>
#include <weir/breaker.h>
#include <weir/budget.h>
#include <weir/clock.h>
#include <weir/error.h>
#include <weir/export.h>
#include <weir/random.h>
#include <weir/throttle.h>
#include <weir/version.h>

#endif /* WEIR_DECIDE_H */
