/* breaker_news – a change of a breaker's state on its way to the channel's listener and log.
 *
 * The layer says in the plan that it has made one. What is to be told is taken from there while the
 * call is its thread's own, and told when nothing is held.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_BREAKER_NEWS_H
#define WEIR_SRC_CALL_BREAKER_NEWS_H

#include <stdbool.h>

#include <weir/breaker_change.h>
#include <weir/call.h>
#include <weir/outcome.h>

#include "interceptors/breaker/breaker_layer.h"
#include "src/call/environment.h"

/* `change.name` is set when it is told. */
struct weir__breaker_news {
  struct weir_breaker_change change;
  struct weir__breaker_name name;
};

/* Takes what the hook that has just returned has changed; false: nothing. `outcome`: of the call's
 * end or its first message, NULL = the call begins. */
bool weir__breaker_news_take(weir_call *call, const struct weir_outcome *outcome, int64_t at_ns,
                             struct weir__breaker_news *news_out);

void weir__breaker_news_tell(const struct weir__environment *environment,
                             struct weir__breaker_news *news);

/* Takes and tells what the hook that has just returned has changed; the plan says that it has. */
void weir__breaker_news_pass_on(weir_call *call, const struct weir_outcome *outcome, int64_t at_ns);

#endif /* WEIR_SRC_CALL_BREAKER_NEWS_H */
