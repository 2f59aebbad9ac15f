/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/weirctl/explain_outcome.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/clock.h>

#include "src/policy/duration.h"

#define COLUMN 14

#define TOKEN_MILLI 1000

/* ---- words of the command line ---- */

static char upper(char letter) {
  return letter >= 'a' && letter <= 'z' ? (char)(letter - 'a' + 'A') : letter;
}

/* In any case, and with '-' for '_'. */
static bool is_same_name(const char *word, const char *name) {
  while (*word != '\0' && *name != '\0' &&
         (upper(*word) == *name || (*word == '-' && *name == '_'))) {
    word++;
    name++;
  }
  return *word == *name;
}

static bool parse_number(const char *word, uint32_t most, uint32_t *number_out) {
  uint32_t number = 0;
  if (word[0] == '\0' || strlen(word) > 9 || strspn(word, "0123456789") != strlen(word)) {
    return false;
  }
  for (; *word != '\0'; word++) {
    number = number * 10 + (uint32_t)(*word - '0');
  }
  *number_out = number;
  return number <= most;
}

static const char *code_name(uint32_t code) {
  return weir_status_code_name((grpc_status_code)code);
}

static const char *origin_name(uint32_t origin) {
  return weir_origin_name((enum weir_origin)origin);
}

static const char *bound_name(uint32_t bound) {
  return weir_deadline_bound_name((enum weir_deadline_bound)bound);
}

/* A name or a number of an enum that goes from 0 to `most`. */
static bool parse_enum(const char *word, const char *(*name_of)(uint32_t), uint32_t most,
                       uint32_t *value_out) {
  for (uint32_t value = 0; value <= most; value++) {
    if (is_same_name(word, name_of(value))) {
      *value_out = value;
      return true;
    }
  }
  return parse_number(word, most, value_out);
}

static bool parse_code(const char *word, grpc_status_code *code_out) {
  uint32_t code = 0;
  if (!parse_enum(word, code_name, WEIR_N_STATUS_CODES - 1, &code)) {
    complain("--code: '%s' is no status code; a name such as UNAVAILABLE, or 0 to 16", word);
    return false;
  }
  *code_out = (grpc_status_code)code;
  return true;
}

static bool parse_origin(const char *word, enum weir_origin *origin_out) {
  uint32_t origin = WEIR_ORIGIN_PEER;
  if (word != NULL && !parse_enum(word, origin_name, WEIR_ORIGIN_LOCAL_SHUTDOWN, &origin)) {
    complain("--origin: '%s' is none; PEER, TRANSPORT_CONNECT, TRANSPORT_RESET, LOCAL_DEADLINE, "
             "LOCAL_CANCEL, LOCAL_BREAKER, LOCAL_LIMIT or LOCAL_SHUTDOWN",
             word);
    return false;
  }
  *origin_out = (enum weir_origin)origin;
  return true;
}

static bool parse_bound(const char *word, enum weir_deadline_bound *bound_out) {
  uint32_t bound = WEIR_DEADLINE_BOUND_NONE;
  if (word != NULL && (!parse_enum(word, bound_name, WEIR_DEADLINE_BOUND_ATTEMPT, &bound) ||
                       bound == WEIR_DEADLINE_BOUND_NONE)) {
    complain("--bound: '%s' is none; CALL, PARENT, POLICY or ATTEMPT", word);
    return false;
  }
  *bound_out = (enum weir_deadline_bound)bound;
  return true;
}

static bool parse_attempt(const char *word, enum weir_origin origin, uint32_t *attempt_out) {
  *attempt_out = origin == WEIR_ORIGIN_LOCAL_BREAKER ? 0 : 1;
  if (word != NULL && !parse_number(word, 1000, attempt_out)) {
    complain("--attempt: '%s' is none; 1 for the first, 0 for an end before it", word);
    return false;
  }
  return true;
}

static enum simulation_caller caller_of(const struct explain_words *words) {
  if (words->is_outer_retrying) {
    return SIMULATION_CALLER_RETRYING;
  }
  return words->is_serving ? SIMULATION_CALLER_SERVING : SIMULATION_CALLER_ROOT;
}

bool explain_outcome_parse(const struct explain_words *words,
                           struct simulation_question *question_out) {
  question_out->shape = words->is_stream ? WEIR_CALL_SHAPE_STREAM : WEIR_CALL_SHAPE_ONE_BATCH;
  question_out->caller = caller_of(words);
  question_out->after_headers = words->after_headers;
  question_out->unprocessed = words->is_unprocessed;
  question_out->pushback = words->pushback;
  return parse_code(words->code, &question_out->code) &&
         parse_origin(words->origin, &question_out->origin) &&
         parse_bound(words->bound, &question_out->bound) &&
         parse_attempt(words->attempt, question_out->origin, &question_out->attempt);
}

/* ---- words for enums ---- */

static const char *verdict_name(enum weir_breaker_verdict verdict) {
  switch (verdict) {
  case WEIR_BREAKER_VERDICT_IGNORED:
    return "IGNORED";
  case WEIR_BREAKER_VERDICT_SUCCESS:
    return "SUCCESS";
  case WEIR_BREAKER_VERDICT_FAILURE:
    return "FAILURE";
  }
  return "IGNORED";
}

static const char *next_name(enum simulation_next next) {
  switch (next) {
  case SIMULATION_NEXT_END:
    return "END";
  case SIMULATION_NEXT_RETRY:
    return "RETRY";
  case SIMULATION_NEXT_REPLAY:
    return "REPLAY";
  }
  return "END";
}

static const char *sent_name(enum weir_sent_to_peer sent) {
  switch (sent) {
  case WEIR_SENT_TO_PEER_MAYBE:
    return "MAYBE";
  case WEIR_SENT_TO_PEER_NO:
    return "NO";
  case WEIR_SENT_TO_PEER_YES:
    return "YES";
  }
  return "MAYBE";
}

static const char *shape_name(enum weir_call_shape shape) {
  switch (shape) {
  case WEIR_CALL_SHAPE_STREAM:
    return "STREAM";
  case WEIR_CALL_SHAPE_ONE_BATCH:
    return "ONE_BATCH";
  }
  return "STREAM";
}

static const char *caller_name(enum simulation_caller caller) {
  switch (caller) {
  case SIMULATION_CALLER_ROOT:
    return "ROOT";
  case SIMULATION_CALLER_SERVING:
    return "SERVING";
  case SIMULATION_CALLER_RETRYING:
    return "SERVING_RETRIED";
  }
  return "ROOT";
}

/* What a person is told beside a reason's name. */
static const char *reason_words(enum weir_reason reason) {
  switch (reason) {
  case WEIR_REASON_NONE:
    return "the call succeeded";
  case WEIR_REASON_BREAKER_OPEN:
    return "the breaker is open";
  case WEIR_REASON_BUDGET:
    return "another attempt does not fit before the deadline";
  case WEIR_REASON_THROTTLED:
    return "half of the tokens or fewer are left";
  case WEIR_REASON_PUSHBACK:
    return "the peer said not to";
  case WEIR_REASON_COMMITTED:
    return "a part of the response had come";
  case WEIR_REASON_NOT_OWNER:
    return "retries of this chain are not this layer's";
  case WEIR_REASON_NOT_RETRYABLE:
    return "the method's retryableStatusCodes do not list it";
  case WEIR_REASON_ATTEMPTS_EXHAUSTED:
    return "it was the last attempt";
  case WEIR_REASON_NO_RETRY_POLICY:
    return "the method has no retries";
  case WEIR_REASON_NOT_REPLAYABLE:
    return "what was sent is not kept";
  case WEIR_REASON_DEADLINE:
    return "the call's own time is up";
  case WEIR_REASON_CANCELLED:
    return "this process cancelled it";
  case WEIR_REASON_LIMIT:
    return "a size limit of this process";
  case WEIR_REASON_SHUTDOWN:
    return "the queue was shut down";
  case WEIR_REASON_NO_MEMORY:
    return "there was no memory";
  }
  return "";
}

/* ---- as text ---- */

static void label(const struct output *output, const char *text) {
  output_text(output, STYLE_STRONG, "%-*s", COLUMN, text);
}

static void line_end(const struct output *output) {
  output_text(output, STYLE_PLAIN, "\n");
}

/* What is said of the layers outside a retry that goes on. */
static void print_if_last(const struct simulation_answer *answer, const struct output *output) {
  if (answer->retry.next != SIMULATION_NEXT_END) {
    output_text(output, STYLE_FAINT, "if no attempt followed: ");
  }
}

static void print_supposed(const struct simulation_question *question,
                           const struct simulation_answer *answer, const struct output *output) {
  label(output, "supposed");
  output_text(output, STYLE_PLAIN, "%s from %s, ", weir_status_code_name(question->code),
              weir_origin_name(question->origin));
  if (question->attempt == 0) {
    output_text(output, STYLE_PLAIN, "before the first attempt of ");
  } else {
    output_text(output, STYLE_PLAIN, "attempt %u of ", (unsigned)question->attempt);
  }
  output_text(output, STYLE_PLAIN, "%s",
              question->shape == WEIR_CALL_SHAPE_STREAM ? "a stream" : "a unary call");
  switch (question->caller) {
  case SIMULATION_CALLER_ROOT:
    break;
  case SIMULATION_CALLER_SERVING:
    output_text(output, STYLE_PLAIN, ", while a request is served");
    break;
  case SIMULATION_CALLER_RETRYING:
    output_text(output, STYLE_PLAIN, ", while a request is served that an outer layer retries");
    break;
  }
  output_text(output, STYLE_PLAIN, "; blames %s", weir_blame_name(answer->outcome.blames));
  line_end(output);
}

static void print_wait(const struct simulation_retry *retry, const struct output *output) {
  char least[WEIR__DURATION_TEXT_SIZE];
  char most[WEIR__DURATION_TEXT_SIZE];
  weir__duration_print(retry->least_wait_ns, least);
  weir__duration_print(retry->most_wait_ns, most);
  if (retry->least_wait_ns == retry->most_wait_ns) {
    output_text(output, STYLE_PLAIN, "after %s", least);
  } else {
    output_text(output, STYLE_PLAIN, "after %s to %s", least, most);
  }
}

static void print_tokens(const struct simulation_retry *retry, const struct output *output) {
  if (!retry->throttled) {
    output_text(output, STYLE_PLAIN, "; no throttling");
  } else if (retry->tokens_milli == 0) {
    output_text(output, STYLE_PLAIN, "; no token taken");
  } else {
    const bool taken = retry->tokens_milli < 0;
    const double tokens = (double)abs(retry->tokens_milli) / TOKEN_MILLI;
    output_text(output, STYLE_PLAIN, "; %.10g of %.10g tokens %s", tokens,
                (double)retry->max_tokens_milli / TOKEN_MILLI, taken ? "taken" : "given back");
  }
}

static void print_retry(const struct simulation_question *question,
                        const struct simulation_answer *answer, const struct output *output) {
  const struct simulation_retry *retry = &answer->retry;
  label(output, "retry");
  if (!retry->asked) {
    output_text(output, STYLE_PLAIN, "not asked: the call ends before it (%s)\n",
                weir_reason_name(retry->reason));
    return;
  }
  switch (retry->next) {
  case SIMULATION_NEXT_END:
    if (retry->reason == WEIR_REASON_NONE) {
      output_text(output, STYLE_PLAIN, "not retried: the call succeeded");
    } else {
      output_text(output, STYLE_PLAIN, "not retried: %s, %s", weir_reason_name(retry->reason),
                  reason_words(retry->reason));
    }
    break;
  case SIMULATION_NEXT_RETRY:
    output_text(output, STYLE_GOOD, "retried ");
    print_wait(retry, output);
    output_text(output, STYLE_PLAIN, ", as attempt %u of %u", (unsigned)question->attempt + 1,
                (unsigned)retry->max_attempts);
    break;
  case SIMULATION_NEXT_REPLAY:
    output_text(output, STYLE_GOOD, "sent again at once, once, and uncounted");
    output_text(output, STYLE_PLAIN, ": no server has seen it");
    break;
  }
  print_tokens(retry, output);
  line_end(output);
}

static void print_breaker(const struct simulation_answer *answer, const struct output *output) {
  const struct simulation_breaker *breaker = &answer->breaker;
  label(output, "breaker");
  if (!breaker->enabled) {
    output_text(output, STYLE_PLAIN, "switched off\n");
    return;
  }
  if (breaker->refuses) {
    output_text(output, STYLE_PLAIN, "refuses the call: it is no sample\n");
    return;
  }
  if (!breaker->asked) {
    output_text(output, STYLE_PLAIN, "not asked: it is no sample\n");
    return;
  }
  print_if_last(answer, output);
  output_text(output, STYLE_PLAIN, "counted as ");
  output_text(output,
              breaker->verdict == WEIR_BREAKER_VERDICT_FAILURE ? STYLE_WARNING : STYLE_PLAIN, "%s",
              verdict_name(breaker->verdict));
  if (breaker->opens) {
    output_text(output, STYLE_PLAIN, ", and enough for it to open");
  }
  if (breaker->mode == WEIR_BREAKER_MODE_SHADOW) {
    output_text(output, STYLE_PLAIN, "; SHADOW, it refuses nothing");
  }
  line_end(output);
}

static void print_list(const struct output *output, const char *words, const char *const *list,
                       size_t n) {
  for (size_t i = 0; i < n; i++) {
    output_text(output, STYLE_PLAIN, "%s", i == 0 ? words : ", ");
    output_foreign(output, STYLE_PLAIN, list[i]);
  }
}

static void print_kept(const struct simulation_question *question, const struct output *output) {
  const struct weir_translation_options *options =
      weir_policy_method(question->policy, question->path, question->path_size)->translation;
  if (options->n_keep_metadata == 0 && options->n_keep_details == 0) {
    output_text(output, STYLE_PLAIN, "; nothing of the peer's is kept");
    return;
  }
  print_list(output, "; kept of its metadata: ", options->keep_metadata, options->n_keep_metadata);
  print_list(output, "; of its details: ", options->keep_details, options->n_keep_details);
}

static void print_translation(const struct simulation_question *question,
                              const struct simulation_answer *answer, const struct output *output) {
  const struct simulation_translation *translation = &answer->translation;
  label(output, "translation");
  print_if_last(answer, output);
  output_text(output, STYLE_PLAIN, "the caller sees ");
  output_text(output, STYLE_STRONG, "%s", weir_status_code_name(translation->visible));
  if (translation->scrubbed) {
    output_text(output, STYLE_PLAIN, ", \"%s\"", translation->message);
    print_kept(question, output);
  } else if (translation->visible != GRPC_STATUS_OK) {
    output_text(output, STYLE_PLAIN, ", as it came: no boundary");
  }
  if (translation->do_not_retry) {
    output_text(output, STYLE_PLAIN, "; do_not_retry");
  }
  line_end(output);
}

static void print_deadline(const struct simulation_answer *answer, const struct output *output) {
  const struct simulation_deadline *deadline = &answer->deadline;
  char limit[WEIR__DURATION_TEXT_SIZE];
  label(output, "deadline");
  if (deadline->refuses) {
    output_text(output, STYLE_PLAIN, "refuses the call: its time was up before it began (%s)\n",
                weir_deadline_bound_name(deadline->bound));
    return;
  }
  if (deadline->asked) {
    output_text(output, STYLE_PLAIN, "%s",
                deadline->fits ? "another attempt fits, if those before took no time"
                               : "another attempt does not fit");
  } else if (deadline->bound != WEIR_DEADLINE_BOUND_NONE) {
    output_text(output, STYLE_PLAIN, "the tightest bound is the %s's",
                weir_deadline_bound_name(deadline->bound));
  } else {
    output_text(output, STYLE_PLAIN, "nothing to do");
  }
  if (deadline->limit_ns != WEIR_NO_LIMIT_NS) {
    weir__duration_print(deadline->limit_ns, limit);
    output_text(output, STYLE_PLAIN, "; the policy leaves a call without a deadline %s", limit);
  }
  line_end(output);
}

void explain_outcome_print(const struct simulation_question *question,
                           const struct simulation_answer *answer, const struct output *output) {
  print_supposed(question, answer, output);
  print_retry(question, answer, output);
  print_breaker(answer, output);
  print_translation(question, answer, output);
  print_deadline(answer, output);
}

/* ---- as JSON ---- */

static void set(json_t *object, const char *key, json_t *value) {
  (void)json_object_set_new(object, key, value);
}

static json_t *duration_json(int64_t ns) {
  char text[WEIR__DURATION_TEXT_SIZE];
  if (ns == WEIR_NO_LIMIT_NS) {
    return json_null();
  }
  weir__duration_print(ns, text);
  return json_string(text);
}

static json_t *retry_json(const struct simulation_retry *retry) {
  json_t *object = json_object();
  const bool goes_on = retry->next != SIMULATION_NEXT_END;
  set(object, "asked", json_boolean(retry->asked));
  set(object, "next", json_string(next_name(retry->next)));
  set(object, "reason", json_string(weir_reason_name(retry->reason)));
  set(object, "max_attempts", json_integer(retry->max_attempts));
  set(object, "least_wait", goes_on ? duration_json(retry->least_wait_ns) : json_null());
  set(object, "most_wait", goes_on ? duration_json(retry->most_wait_ns) : json_null());
  set(object, "throttled", json_boolean(retry->throttled));
  set(object, "tokens",
      retry->throttled ? json_real((double)retry->tokens_milli / TOKEN_MILLI) : json_null());
  return object;
}

static json_t *breaker_json(const struct simulation_breaker *breaker) {
  json_t *object = json_object();
  set(object, "enabled", json_boolean(breaker->enabled));
  set(object, "asked", json_boolean(breaker->asked));
  set(object, "refuses", json_boolean(breaker->refuses));
  set(object, "verdict",
      breaker->asked ? json_string(verdict_name(breaker->verdict)) : json_null());
  set(object, "opens", json_boolean(breaker->opens));
  return object;
}

static json_t *list_json(const char *const *list, size_t n) {
  json_t *array = json_array();
  for (size_t i = 0; i < n; i++) {
    (void)json_array_append_new(array, output_string(list[i]));
  }
  return array;
}

static json_t *translation_json(const struct simulation_question *question,
                                const struct simulation_translation *translation) {
  const struct weir_translation_options *options =
      weir_policy_method(question->policy, question->path, question->path_size)->translation;
  json_t *object = json_object();
  set(object, "boundary", json_boolean(translation->boundary));
  set(object, "code", json_string(weir_status_code_name(translation->visible)));
  set(object, "scrubbed", json_boolean(translation->scrubbed));
  set(object, "message", translation->scrubbed ? json_string(translation->message) : json_null());
  set(object, "kept_metadata",
      translation->scrubbed ? list_json(options->keep_metadata, options->n_keep_metadata)
                            : json_null());
  set(object, "kept_details",
      translation->scrubbed ? list_json(options->keep_details, options->n_keep_details)
                            : json_null());
  set(object, "do_not_retry", json_boolean(translation->do_not_retry));
  return object;
}

static json_t *deadline_json(const struct simulation_deadline *deadline) {
  json_t *object = json_object();
  set(object, "refuses", json_boolean(deadline->refuses));
  set(object, "bound", json_string(weir_deadline_bound_name(deadline->bound)));
  set(object, "limit", duration_json(deadline->limit_ns));
  set(object, "another_fits", deadline->asked ? json_boolean(deadline->fits) : json_null());
  return object;
}

json_t *explain_outcome_json(const struct simulation_question *question,
                             const struct simulation_answer *answer) {
  json_t *object = json_object();
  set(object, "code", json_string(weir_status_code_name(question->code)));
  set(object, "origin", json_string(weir_origin_name(question->origin)));
  set(object, "shape", json_string(shape_name(question->shape)));
  set(object, "caller", json_string(caller_name(question->caller)));
  set(object, "attempt", json_integer(question->attempt));
  set(object, "blames", json_string(weir_blame_name(answer->outcome.blames)));
  set(object, "sent_to_peer", json_string(sent_name(answer->outcome.sent_to_peer)));
  set(object, "retry", retry_json(&answer->retry));
  set(object, "breaker", breaker_json(&answer->breaker));
  set(object, "translation", translation_json(question, &answer->translation));
  set(object, "deadline", deadline_json(&answer->deadline));
  return object;
}
