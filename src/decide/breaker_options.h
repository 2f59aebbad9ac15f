/* breaker_options – whether a circuit breaker can be run with given numbers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_DECIDE_BREAKER_OPTIONS_H
#define WEIR_SRC_DECIDE_BREAKER_OPTIONS_H

#include <weir/breaker.h>
#include <weir/error.h>

/* Every failure reads all buckets, every refusal while HALF_OPEN all places: more of them would
 * cost time and buy nothing. */
#define WEIR__BREAKER_MAX_BUCKETS 60
#define WEIR__BREAKER_MAX_PROBES 1024

/* WEIR_ERROR_INVALID_ARGUMENT when a value is out of range; `diagnostic`, if not NULL, then
 * names the field as a policy document spells it ("failureRatio"), without what leads to it. */
WEIR_MUST_CHECK enum weir_error
weir__breaker_options_check(const struct weir_breaker_options *options,
                            struct weir_diagnostic *diagnostic);

#endif /* WEIR_SRC_DECIDE_BREAKER_OPTIONS_H */
