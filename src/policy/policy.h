/* policy – the rules of a channel as an immutable object in one block of memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_POLICY_H
#define WEIR_SRC_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/policy.h>

struct weir__policy_methods;

/* The built-in defaults, for a channel that was given no policy: no retries, no throttle, all
 * layers as designed. It is static: shares may be taken and given back, and it needs no memory. */
weir_policy *weir__policy_default(void);

/* As weir_policy_new, with methods that are no array; NULL = the options' own. */
WEIR_MUST_CHECK enum weir_error weir__policy_make(const struct weir_policy_options *options,
                                                  const struct weir__policy_methods *methods,
                                                  const struct weir_allocator *allocator,
                                                  weir_policy **policy_out,
                                                  struct weir_diagnostic *diagnostic);

/* What these return is borrowed until the caller's share of `policy` ends. Any thread. */
const char *weir__policy_name(const weir_policy *policy);
const struct weir_breaker_options *weir__policy_breaker(const weir_policy *policy);

/* False: retries are not throttled, and both are 0. */
bool weir__policy_throttle(const weir_policy *policy, uint32_t *max_tokens_out,
                           uint32_t *ratio_milli_out);

/* Whether the trace identifiers of the request being served go along with the channel's calls. */
bool weir__policy_passes_trace(const weir_policy *policy);

/* A method ("/pkg.Service/Method") or service ("/pkg.Service/") that has an entry. */
struct weir__policy_path {
  uint32_t nth;     /* set to 0 before the first one is asked for */
  const char *text; /* not terminated */
  size_t size;
};

/* How many there are, and the next one in no order; false: that was the last. */
size_t weir__policy_n_paths(const weir_policy *policy);
bool weir__policy_next_path(const weir_policy *policy, struct weir__policy_path *path);

/* What a policy would be made from, but for its methods; it points into the policy. */
struct weir_policy_options weir__policy_options_of(const weir_policy *policy);

/* For GRPC_ARG_SERVICE_CONFIG; NULL = nothing. */
const char *weir__policy_core_service_config(const weir_policy *policy);

/* Whether a text can be a policy's name: 1 to 63 of [A-Za-z0-9._-]. */
bool weir__policy_name_is_legal(const char *name);

#endif /* WEIR_SRC_POLICY_POLICY_H */
