/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/breaker_news.h"

#include <stddef.h>

#include "src/call/call.h"
#include "src/time/clock.h"

_Static_assert(sizeof((struct weir__breaker_name){0}.text) == WEIR_REPORT_NAME_BYTES,
               "a name fits into a report");

bool weir__breaker_news_take(weir_call *call, const struct weir_outcome *outcome, int64_t at_ns,
                             struct weir__breaker_news *news_out) {
  struct weir_plan *plan = &call->plan;
  if (!plan->breaker_changed) {
    return false;
  }
  plan->breaker_changed = false;
  news_out->change = (struct weir_breaker_change){
      .size = sizeof news_out->change,
      .from = plan->breaker_changed_from,
      .to = plan->breaker_state,
      .generation = plan->breaker_generation,
      .next_probe_in_ns = plan->next_probe_in_ns,
      .at_ns = at_ns,
      .by_outcome = outcome != NULL,
      .code = outcome != NULL ? outcome->code : GRPC_STATUS_OK,
      .origin = outcome != NULL ? outcome->origin : WEIR_ORIGIN_PEER,
      .override = WEIR_BREAKER_OVERRIDE_NONE, /* under any other, no call changes anything */
  };
  weir__breaker_name_set(&news_out->name,
                         weir__breaker_layer_name(call->rules->stack.breaker, plan));
  return true;
}

static const char *text_of_states(enum weir_breaker_state from, enum weir_breaker_state to) {
  switch (to) {
  case WEIR_BREAKER_CLOSED:
    return "there is service again: calls are let through";
  case WEIR_BREAKER_OPEN:
    if (from == WEIR_BREAKER_HALF_OPEN) {
      return "a probe has failed: calls are refused until others are let through";
    }
    return "too many calls have failed: further ones are refused until probes are let through";
  case WEIR_BREAKER_HALF_OPEN:
    return "a few calls are let through, to see whether there is service again";
  }
  return "";
}

static const char *text_of(const struct weir_breaker_change *change) {
  switch (change->override) {
  case WEIR_BREAKER_OVERRIDE_NONE:
    break;
  case WEIR_BREAKER_OVERRIDE_OPEN:
    return "set by hand: every call is refused until that is taken back";
  case WEIR_BREAKER_OVERRIDE_DISABLED:
    return "set by hand: every call is let through, and none is counted, until that is taken back";
  }
  if (change->by_policy) {
    return "another policy has switched it off or on, or has breakers of another scope: it begins "
           "anew";
  }
  if (!change->by_outcome && change->to == WEIR_BREAKER_CLOSED) {
    return "what was set by hand is taken back: it begins anew";
  }
  return text_of_states(change->from, change->to);
}

static void log_change(const struct weir__environment *environment,
                       const struct weir_breaker_change *change) {
  const struct weir_log_record record = {
      .reference = "",
      .target = environment->target,
      .raw_code = change->code,
      .origin = change->origin,
      .event = WEIR_LOG_BREAKER_CHANGED,
      .at_ns = change->at_ns,
      .time_unix_ns = weir__wall_clock_now_ns(),
      .text = text_of(change),
      .fallback_source = "",
      .breaker = {.data = change->name, .size = change->name_size},
      .breaker_from = change->from,
      .breaker_to = change->to,
      .breaker_generation = change->generation,
      .breaker_override = change->override,
      .next_probe_in_ns = change->next_probe_in_ns,
  };
  environment->log->write(environment->log->context, &record);
}

void weir__breaker_news_tell(const struct weir__environment *environment,
                             struct weir__breaker_news *news) {
  const struct weir_breaker_listener *listener = environment->breaker_listener;
  news->change.name = news->name.text;
  news->change.name_size = news->name.size;
  if (listener != NULL) {
    listener->changed(listener->context, &news->change);
  }
  log_change(environment, &news->change);
}

void weir__breaker_news_pass_on(weir_call *call, const struct weir_outcome *outcome,
                                int64_t at_ns) {
  struct weir__breaker_news news;
  if (weir__breaker_news_take(call, outcome, at_ns, &news)) {
    weir__breaker_news_tell(call->environment, &news);
  }
}
