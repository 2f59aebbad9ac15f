/* weir/weir.h – all of weir.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include <weir/admission.h>
#include <weir/allocator.h>
#include <weir/backoff.h>
#include <weir/breaker.h>
#include <weir/breaker_change.h>
#include <weir/budget.h>
#include <weir/call.h>
#include <weir/channel.h>
#include <weir/clock.h>
#include <weir/completion_queue.h>
#include <weir/decide.h>
#include <weir/error.h>
#include <weir/export.h>
#include <weir/fallback.h>
#include <weir/inbound.h>
#include <weir/interceptor.h>
#include <weir/json_log.h>
#include <weir/log.h>
#include <weir/outcome.h>
#include <weir/policy.h>
#include <weir/policy_watch.h>
#include <weir/random.h>
#include <weir/reason.h>
#include <weir/reply.h>
#include <weir/report.h>
#include <weir/throttle.h>
#include <weir/unary.h>
#include <weir/version.h>

#endif /* WEIR_WEIR_H */
