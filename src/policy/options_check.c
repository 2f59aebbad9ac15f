/* SPDX-License-Identifier: Apache-2.0 */
#include "src/policy/options_check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "interceptors/translation/translation.h"
#include "src/base/label.h"
#include "src/base/options.h"
#include "src/decide/breaker_options.h"
#include "src/policy/policy.h"

/* A6, retryThrottling. */
#define MAX_TOKENS 1000

#define UNKNOWN_STRUCT "a struct that this library does not know: see its size"

enum weir_error weir__policy_refuse(struct weir_diagnostic *diagnostic, const char *message,
                                    const char *path_format, ...) {
  if (diagnostic != NULL) {
    va_list arguments;
    memset(diagnostic, 0, sizeof *diagnostic);
    va_start(arguments, path_format);
    (void)vsnprintf(diagnostic->path, sizeof diagnostic->path, path_format, arguments);
    va_end(arguments);
    (void)snprintf(diagnostic->message, sizeof diagnostic->message, "%s", message);
  }
  return WEIR_ERROR_INVALID_ARGUMENT;
}

/* ---- copies ---- */

/* `src` NULL leaves the defaults. */
static enum weir_error copy_part(void *dst, size_t dst_size, const void *src, const char *path,
                                 struct weir_diagnostic *diagnostic) {
  const enum weir_error error = src == NULL ? WEIR_OK : weir__options_copy(dst, dst_size, src);
  if (error != WEIR_OK) {
    (void)weir__policy_refuse(diagnostic, UNKNOWN_STRUCT, "%s", path);
  }
  return error;
}

static enum weir_error copy_parts(struct weir__policy_parts *parts,
                                  const struct weir_policy_options *options,
                                  struct weir_diagnostic *diagnostic) {
  *parts = (struct weir__policy_parts){
      .policy = WEIR_POLICY_OPTIONS_INIT,
      .deadline = WEIR_DEADLINE_OPTIONS_INIT,
      .translation = WEIR_TRANSLATION_OPTIONS_INIT,
      .breaker = WEIR_BREAKER_OPTIONS_INIT,
      .retry = WEIR_RETRY_OPTIONS_INIT,
      .fallback = WEIR_FALLBACK_OPTIONS_INIT,
  };
  enum weir_error error = copy_part(&parts->policy, sizeof parts->policy, options, "", diagnostic);
  const struct {
    void *dst;
    size_t dst_size;
    const void *src;
    const char *path;
  } copies[] = {
      {&parts->deadline, sizeof parts->deadline, parts->policy.deadline, "deadline"},
      {&parts->translation, sizeof parts->translation, parts->policy.translation, "translation"},
      {&parts->breaker, sizeof parts->breaker, parts->policy.breaker, "breaker"},
      {&parts->retry, sizeof parts->retry, parts->policy.retry, "retry"},
      {&parts->fallback, sizeof parts->fallback, parts->policy.fallback, "fallback"},
  };
  for (size_t i = 0; i < sizeof copies / sizeof copies[0] && error == WEIR_OK; i++) {
    error = copy_part(copies[i].dst, copies[i].dst_size, copies[i].src, copies[i].path, diagnostic);
  }
  return error;
}

/* ---- checks ---- */

bool weir__policy_name_is_legal(const char *name) {
  return weir__label_is_legal(name);
}

static enum weir_error check_policy(const struct weir_policy_options *policy,
                                    struct weir_diagnostic *diagnostic) {
  if (policy->name == NULL || !weir__policy_name_is_legal(policy->name)) {
    return weir__policy_refuse(diagnostic, "must be 1 to 63 of [A-Za-z0-9._-]", "name");
  }
  if (policy->throttle_max_tokens > MAX_TOKENS) {
    return weir__policy_refuse(diagnostic, "must be in (0, 1000], or 0 for no throttle",
                               "retryThrottling.maxTokens");
  }
  if ((policy->throttle_max_tokens == 0) != (policy->throttle_token_ratio_milli == 0)) {
    return weir__policy_refuse(diagnostic, "maxTokens and tokenRatio go together",
                               "retryThrottling.tokenRatio");
  }
  if (policy->n_methods > 0 && policy->methods == NULL) {
    return weir__policy_refuse(diagnostic, "is NULL", "methods");
  }
  return WEIR_OK;
}

static enum weir_error check_deadline(const struct weir_deadline_options *deadline,
                                      struct weir_diagnostic *diagnostic) {
  const struct {
    bool broken;
    const char *field;
    const char *message;
  } rules[] = {
      {deadline->default_timeout_ns <= 0, "defaultTimeout", "must be > 0"},
      {deadline->max_timeout_ns <= 0, "maxTimeout", "must be > 0"},
      {deadline->default_stream_timeout_ns <= 0, "defaultStreamTimeout", "must be > 0"},
      {deadline->max_stream_timeout_ns <= 0, "maxStreamTimeout", "must be > 0"},
      {deadline->margin_ns < 0, "deadlineMargin", "must not be negative"},
      {deadline->slack_ns < 0, "deadlineSlack", "must not be negative"},
  };
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    if (rules[i].broken) {
      return weir__policy_refuse(diagnostic, rules[i].message, "deadline.%s", rules[i].field);
    }
  }
  return WEIR_OK;
}

static bool owner_is_known(enum weir_retry_owner owner) {
  switch (owner) {
  case WEIR_RETRY_OWNER_OUTERMOST:
  case WEIR_RETRY_OWNER_ALWAYS:
  case WEIR_RETRY_OWNER_NEVER:
    return true;
  }
  return false;
}

static enum weir_error check_retry(const struct weir_retry_options *retry,
                                   struct weir_diagnostic *diagnostic) {
  if (!owner_is_known(retry->owner)) {
    return weir__policy_refuse(diagnostic, "must be OUTERMOST, ALWAYS or NEVER", "retry.owner");
  }
  if (retry->min_attempt_time_ns < 0) {
    return weir__policy_refuse(diagnostic, "must not be negative", "retry.minAttemptTime");
  }
  return WEIR_OK;
}

/* What is wrong with the rules for a fallback: its field and why. NULL: nothing. */
static const char *fallback_fault(const struct weir_fallback_options *fallback,
                                  const char **field_out) {
  *field_out = "timeout";
  if (fallback->timeout_ns <= 0) {
    return "must be > 0";
  }
  *field_out = "maxConcurrent";
  if (fallback->max_concurrent < 1 || fallback->max_concurrent > WEIR_MAX_FALLBACKS) {
    return "must be 1 to 1024";
  }
  return NULL;
}

static enum weir_error check_fallback(const struct weir_fallback_options *fallback,
                                      struct weir_diagnostic *diagnostic) {
  const char *field = NULL;
  const char *fault = fallback_fault(fallback, &field);
  return fault != NULL ? weir__policy_refuse(diagnostic, fault, "fallback.%s", field) : WEIR_OK;
}

/* The layer names its field alone. */
static enum weir_error check_breaker(const struct weir_breaker_options *breaker,
                                     struct weir_diagnostic *diagnostic) {
  struct weir_diagnostic fault;
  if (weir__breaker_options_check(breaker, &fault) != WEIR_OK) {
    return weir__policy_refuse(diagnostic, fault.message, "breaker.%s", fault.path);
  }
  return WEIR_OK;
}

enum weir_error weir__policy_parts_init(struct weir__policy_parts *parts,
                                        const struct weir_policy_options *options,
                                        const struct weir__policy_methods *methods,
                                        struct weir_diagnostic *diagnostic) {
  enum weir_error error = copy_parts(parts, options, diagnostic);
  parts->methods = methods;
  if (error == WEIR_OK) {
    error = check_policy(&parts->policy, diagnostic);
  }
  if (error == WEIR_OK) {
    error = check_deadline(&parts->deadline, diagnostic);
  }
  if (error == WEIR_OK) {
    error = weir__translation_options_check(&parts->translation, diagnostic);
  }
  if (error == WEIR_OK) {
    error = check_breaker(&parts->breaker, diagnostic);
  }
  if (error == WEIR_OK) {
    error = check_retry(&parts->retry, diagnostic);
  }
  if (error == WEIR_OK) {
    error = check_fallback(&parts->fallback, diagnostic);
  }
  return error;
}

/* ---- methods ---- */

static bool wait_for_ready_is_known(enum weir_wait_for_ready wait) {
  switch (wait) {
  case WEIR_WAIT_FOR_READY_UNSET:
  case WEIR_WAIT_FOR_READY_TRUE:
  case WEIR_WAIT_FOR_READY_FALSE:
    return true;
  }
  return false;
}

/* What is wrong with a retry policy: its field and why. NULL: nothing. */
static const char *retry_policy_fault(const struct weir_retry_policy *retry,
                                      const char **field_out) {
  *field_out = "maxAttempts";
  if (retry->max_attempts < 1 || retry->max_attempts > WEIR_MAX_ATTEMPTS) {
    return "must be 1 to 5; 1 = no retries";
  }
  if (retry->max_attempts == 1) {
    return NULL;
  }
  *field_out = "retryableStatusCodes";
  if (retry->retryable_codes == 0 || (retry->retryable_codes & 1) != 0 ||
      retry->retryable_codes >> WEIR_N_STATUS_CODES != 0) {
    return "must be some of the codes 1 to 16";
  }
  *field_out = "initialBackoff";
  if (retry->initial_backoff_ns <= 0) {
    return "must be > 0";
  }
  *field_out = "maxBackoff";
  if (retry->max_backoff_ns <= 0) {
    return "must be > 0";
  }
  *field_out = "backoffMultiplier";
  if (!isfinite(retry->backoff_multiplier) || retry->backoff_multiplier <= 0) {
    return "must be finite and > 0";
  }
  return NULL;
}

static const char *method_fault(const struct weir_method_options *method, const char **field_out) {
  *field_out = "service";
  if (method->service == NULL || strchr(method->service, '/') != NULL) {
    return "must be \"package.Service\", or empty";
  }
  *field_out = "method";
  if (method->method == NULL || strchr(method->method, '/') != NULL) {
    return "must be the bare name of a method, or empty";
  }
  if (method->service[0] == '\0' && method->method[0] != '\0') {
    return "a method without its service";
  }
  *field_out = "timeout";
  if (method->timeout_ns < 0) {
    return "must not be negative";
  }
  *field_out = "perAttemptTimeout";
  if (method->per_attempt_timeout_ns <= 0) {
    return "must be > 0";
  }
  *field_out = "waitForReady";
  if (!wait_for_ready_is_known(method->wait_for_ready)) {
    return "must be UNSET, TRUE or FALSE";
  }
  return NULL;
}

/* The layer's path begins with "translation". */
static enum weir_error copy_translation(struct weir__policy_method *method, size_t i,
                                        struct weir_diagnostic *diagnostic) {
  struct weir_diagnostic fault;
  if (method->options.translation == NULL) {
    return WEIR_OK;
  }
  method->translation = (struct weir_translation_options)WEIR_TRANSLATION_OPTIONS_INIT;
  const enum weir_error error = weir__options_copy(&method->translation, sizeof method->translation,
                                                   method->options.translation);
  if (error != WEIR_OK) {
    (void)weir__policy_refuse(diagnostic, UNKNOWN_STRUCT, "methods[%zu].translation", i);
    return error;
  }
  if (weir__translation_options_check(&method->translation, &fault) != WEIR_OK) {
    return weir__policy_refuse(diagnostic, fault.message, "methods[%zu].%s", i, fault.path);
  }
  return WEIR_OK;
}

static enum weir_error copy_fallback(struct weir__policy_method *method, size_t i,
                                     struct weir_diagnostic *diagnostic) {
  const char *field = NULL;
  if (method->options.fallback == NULL) {
    return WEIR_OK;
  }
  method->fallback = (struct weir_fallback_options)WEIR_FALLBACK_OPTIONS_INIT;
  const enum weir_error error =
      weir__options_copy(&method->fallback, sizeof method->fallback, method->options.fallback);
  if (error != WEIR_OK) {
    (void)weir__policy_refuse(diagnostic, UNKNOWN_STRUCT, "methods[%zu].fallback", i);
    return error;
  }
  const char *fault = fallback_fault(&method->fallback, &field);
  return fault != NULL
             ? weir__policy_refuse(diagnostic, fault, "methods[%zu].fallback.%s", i, field)
             : WEIR_OK;
}

/* An array is the program's, so its elements are as far apart as the program's struct is large. */
static enum weir_error copy_method(const struct weir__policy_parts *parts, size_t i,
                                   struct weir_method_options *method,
                                   struct weir_diagnostic *diagnostic) {
  const char *first = (const char *)parts->policy.methods;
  size_t stride = 0;
  if (parts->methods != NULL) {
    return parts->methods->next(parts->methods->context, i, method);
  }
  *method = (struct weir_method_options)WEIR_METHOD_OPTIONS_INIT;
  memcpy(&stride, first, sizeof stride);
  const enum weir_error error = weir__options_copy(method, sizeof *method, first + i * stride);
  if (error != WEIR_OK) {
    (void)weir__policy_refuse(diagnostic, UNKNOWN_STRUCT, "methods[%zu]", i);
  }
  return error;
}

size_t weir__policy_parts_n_methods(const struct weir__policy_parts *parts) {
  return parts->methods != NULL ? parts->methods->n_methods : parts->policy.n_methods;
}

enum weir_error weir__policy_parts_method(const struct weir__policy_parts *parts, size_t i,
                                          struct weir__policy_method *method_out,
                                          struct weir_diagnostic *diagnostic) {
  const char *field = NULL;
  struct weir_method_options *method = &method_out->options;
  const enum weir_error error = copy_method(parts, i, method, diagnostic);
  if (error != WEIR_OK) {
    return error;
  }
  const char *fault = method_fault(method, &field);
  if (fault != NULL) {
    return weir__policy_refuse(diagnostic, fault, "methods[%zu].%s", i, field);
  }
  fault = retry_policy_fault(&method->retry, &field);
  if (fault != NULL) {
    return weir__policy_refuse(diagnostic, fault, "methods[%zu].retryPolicy.%s", i, field);
  }
  const enum weir_error translation_error = copy_translation(method_out, i, diagnostic);
  return translation_error != WEIR_OK ? translation_error
                                      : copy_fallback(method_out, i, diagnostic);
}
