/* weir/policy.h – the rules of a channel: immutable once made, shared by its calls.
 *
 * A policy comes from a JSON document (a gRPC service config is one as it stands) or from options
 * structs. Both go through the same checks. Durations are nanoseconds.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_POLICY_H
#define WEIR_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/allocator.h>
#include <weir/backoff.h>
#include <weir/breaker.h>
#include <weir/clock.h>
#include <weir/error.h>
#include <weir/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes in bytes: no limit. */
#define WEIR_NO_LIMIT_BYTES UINT32_MAX

/* The rules of a channel. They never change; who holds a share may read them from any thread. */
typedef struct weir_policy weir_policy;

/* How long a call may take. Start from WEIR_DEADLINE_OPTIONS_INIT. */
struct weir_deadline_options {
  size_t size;
  bool inherits_parent;       /* false: the inbound's deadline is not looked at */
  int64_t default_timeout_ns; /* unary calls that have no deadline, no parent's and no method's */
  int64_t max_timeout_ns;     /* ceiling of every unary call */
  int64_t default_stream_timeout_ns; /* as above, for calls in several batches */
  int64_t max_stream_timeout_ns;     /* likewise */
  int64_t margin_ns;                 /* kept back from the inbound's deadline, to answer in time */
  int64_t slack_ns; /* a peer's DEADLINE_EXCEEDED this close to the call's own is the call's own */
};

#define WEIR_DEADLINE_OPTIONS_INIT                                                            \
  {                                                                                           \
    .size = sizeof(struct weir_deadline_options), .inherits_parent = true,                    \
    .default_timeout_ns = 10 * WEIR_SECOND_NS, .max_timeout_ns = 60 * WEIR_SECOND_NS,         \
    .default_stream_timeout_ns = WEIR_NO_LIMIT_NS, .max_stream_timeout_ns = WEIR_NO_LIMIT_NS, \
    .margin_ns = 0, .slack_ns = 10 * WEIR_MS_NS                                               \
  }

/* In a table of codes: what the built-in rule says. OK stands on neither side of a table. */
#define WEIR_TRANSLATION_DEFAULT (-1)

/* How many status codes there are: 0 to 16. */
#define WEIR_N_STATUS_CODES 17

/* What the caller sees of a failure. Start from WEIR_TRANSLATION_OPTIONS_INIT. */
struct weir_translation_options {
  size_t size;
  bool boundary;    /* false: results pass as they are */
  bool message_ref; /* append " [ref …]" to scrubbed messages */
  /* what each raw code becomes; WEIR_TRANSLATION_DEFAULT = as built in */
  int8_t codes[WEIR_N_STATUS_CODES];
  /* overrides the rule for DEADLINE_EXCEEDED; WEIR_TRANSLATION_DEFAULT = the rule */
  int8_t deadline_exceeded_as;
  const char *const *keep_metadata; /* keys of trailing metadata that pass a boundary; copied */
  size_t n_keep_metadata;
  /* full names of the message types, such as "google.rpc.RetryInfo", whose details pass a boundary;
   * at most 64, each of at most 255 bytes; copied */
  const char *const *keep_details;
  size_t n_keep_details;
  /* of the longest message of a failure, boundary or not; a longer one is cut and ends with U+2026;
   * 64 to 8192 */
  uint32_t max_message_bytes;
};

#define WEIR_TRANSLATION_OPTIONS_INIT                                                              \
  {                                                                                                \
    .size = sizeof(struct weir_translation_options), .boundary = true, .message_ref = true,        \
    .codes = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},                 \
    .deadline_exceeded_as = -1, .keep_metadata = NULL, .n_keep_metadata = 0, .keep_details = NULL, \
    .n_keep_details = 0, .max_message_bytes = 1024                                                 \
  }

/* Which layer of a chain of services retries. */
enum weir_retry_owner {
  WEIR_RETRY_OWNER_OUTERMOST =
      0, /* this one, unless the request being served carries another's marker */
  WEIR_RETRY_OWNER_ALWAYS,
  WEIR_RETRY_OWNER_NEVER
};

/* What holds for all retries of a channel. Start from WEIR_RETRY_OPTIONS_INIT. */
struct weir_retry_options {
  size_t size;
  enum weir_retry_owner owner;
  int64_t min_attempt_time_ns; /* an attempt that would have less is not made */
  uint32_t replay_bytes;    /* a call that sends more is committed (the limit itself still fits) */
  bool retry_after_headers; /* one-batch calls: response headers alone do not commit */
  uint32_t channel_replay_bytes; /* as replay_bytes, of all calls of the channel together */
};

#define WEIR_RETRY_OPTIONS_INIT                                                     \
  {                                                                                 \
    .size = sizeof(struct weir_retry_options), .owner = WEIR_RETRY_OWNER_OUTERMOST, \
    .min_attempt_time_ns = 1 * WEIR_MS_NS, .replay_bytes = 256 * 1024,              \
    .retry_after_headers = false, .channel_replay_bytes = 16 * 1024 * 1024          \
  }

/* The most that `max_concurrent` of a fallback may be: each is a thread. */
#define WEIR_MAX_FALLBACKS 1024

/* When the channel's fallback is asked (weir/fallback.h). Start from WEIR_FALLBACK_OPTIONS_INIT. */
struct weir_fallback_options {
  size_t size;
  bool on_refusal;    /* about a call that the breaker refuses */
  bool on_failure;    /* about a failure that blames the server or the network */
  int64_t timeout_ns; /* how long a call waits for it; never beyond its deadline */
  /* so many of the channel's run at once, then a call fails without asking; 1 to 1024 */
  uint32_t max_concurrent;
};

#define WEIR_FALLBACK_OPTIONS_INIT                                                         \
  {                                                                                        \
    .size = sizeof(struct weir_fallback_options), .on_refusal = true, .on_failure = false, \
    .timeout_ns = 100 * WEIR_MS_NS, .max_concurrent = 32                                   \
  }

/* Whether a call waits for a connection, or fails where there is none. */
enum weir_wait_for_ready {
  WEIR_WAIT_FOR_READY_UNSET = 0,
  WEIR_WAIT_FOR_READY_TRUE,
  WEIR_WAIT_FOR_READY_FALSE
};

/* One entry of methodConfig with one name. Start from WEIR_METHOD_OPTIONS_INIT. */
struct weir_method_options {
  size_t size;
  const char *service; /* "pkg.Service"; "" = every method that no other entry names */
  const char *method;  /* "" = every method of the service that has no entry of its own */
  int64_t timeout_ns;  /* WEIR_NO_LIMIT_NS = none; 0 = every call is past its deadline */
  enum weir_wait_for_ready wait_for_ready;
  uint32_t max_request_bytes;  /* of a message that is sent; WEIR_NO_LIMIT_BYTES = no limit */
  uint32_t max_response_bytes; /* of one that is received, likewise */
  struct weir_retry_policy retry;
  /* of an attempt; of a stream's, until it is answered. WEIR_NO_LIMIT_NS = none */
  int64_t per_attempt_timeout_ns;
  /* instead of the policy's, and whole: what it leaves at its default is built in; NULL = the
   * policy's; copied */
  const struct weir_translation_options *translation;
  const struct weir_fallback_options *fallback; /* likewise */
};

#define WEIR_METHOD_OPTIONS_INIT                                                         \
  {                                                                                      \
    .size = sizeof(struct weir_method_options), .service = "", .method = "",             \
    .timeout_ns = WEIR_NO_LIMIT_NS, .wait_for_ready = WEIR_WAIT_FOR_READY_UNSET,         \
    .max_request_bytes = WEIR_NO_LIMIT_BYTES, .max_response_bytes = WEIR_NO_LIMIT_BYTES, \
    .retry = WEIR_RETRY_POLICY_NONE, .per_attempt_timeout_ns = WEIR_NO_LIMIT_NS,         \
    .translation = NULL, .fallback = NULL                                                \
  }

/* A whole policy in code. A layer's pointer that is NULL means its defaults. Start from
 * WEIR_POLICY_OPTIONS_INIT. */
struct weir_policy_options {
  size_t size;
  const char *name; /* sent as weir-retry-owner; at most 63 of [A-Za-z0-9._-] */
  const struct weir_deadline_options *deadline;
  const struct weir_translation_options *translation;
  const struct weir_breaker_options *breaker;
  const struct weir_retry_options *retry;
  uint32_t throttle_max_tokens;              /* A6 retryThrottling, (0, 1000]; 0 = no throttle */
  uint32_t throttle_token_ratio_milli;       /* thousandths of a token for each success */
  const struct weir_method_options *methods; /* methodConfig, in any order */
  size_t n_methods;
  /* handed to the core as it is: load balancing, health checks; NULL = nothing */
  const char *core_service_config;
  bool pass_trace; /* the trace identifiers of the request being served go along with calls */
  const struct weir_fallback_options *fallback;
};

#define WEIR_POLICY_OPTIONS_INIT                                                                   \
  {                                                                                                \
    .size = sizeof(struct weir_policy_options), .name = "weir", .deadline = NULL,                  \
    .translation = NULL, .breaker = NULL, .retry = NULL, .throttle_max_tokens = 0,                 \
    .throttle_token_ratio_milli = 0, .methods = NULL, .n_methods = 0, .core_service_config = NULL, \
    .pass_trace = true, .fallback = NULL                                                           \
  }

/* What holds for one method, as the layers read it. Part of a policy; never changes. */
struct weir_method_policy {
  int64_t timeout_ns; /* WEIR_NO_LIMIT_NS = none */
  enum weir_wait_for_ready wait_for_ready;
  uint32_t max_request_bytes;  /* WEIR_NO_LIMIT_BYTES = no limit */
  uint32_t max_response_bytes; /* likewise */
  struct weir_retry_policy retry;
  int64_t per_attempt_timeout_ns; /* WEIR_NO_LIMIT_NS = none */
  const struct weir_deadline_options *deadline;
  const struct weir_translation_options *translation; /* the method's own, or the policy's */
  const struct weir_retry_options *retry_options;
  const struct weir_fallback_options *fallback; /* the method's own, or the policy's */
};

/* Makes a policy from options.
 *
 * Ownership: `options` and all it points to are copied. On success `*policy_out` is the caller's
 *            until weir_policy_unref; on failure it is NULL. `allocator` NULL = malloc.
 * Threads:   any thread.
 * Errors:    WEIR_ERROR_INVALID_ARGUMENT a value is out of range, or two entries name the same
 *            method; `diagnostic`, if not NULL, says which. WEIR_ERROR_NO_MEMORY.
 *            WEIR_ERROR_UNSUPPORTED a struct from a newer header. */
WEIR_API WEIR_MUST_CHECK enum weir_error weir_policy_new(const struct weir_policy_options *options,
                                                         const struct weir_allocator *allocator,
                                                         weir_policy **policy_out,
                                                         struct weir_diagnostic *diagnostic);

/* What a problem of a document does to it. */
enum weir_policy_severity { WEIR_POLICY_REFUSED = 0, WEIR_POLICY_WARNING };

/* How a document is read. Start from WEIR_POLICY_LOAD_OPTIONS_INIT. */
struct weir_policy_load_options {
  size_t size;
  bool lenient; /* unknown keys are warnings */
  /* Told of every problem and warning, in the order of the document, before the load returns. The
   * diagnostic is borrowed for the call. It runs on the loading thread and may call anything. */
  void (*on_problem)(void *context, enum weir_policy_severity severity,
                     const struct weir_diagnostic *problem);
  void *context;
  /* What the document is called in messages; copied. NULL = it has no name; of a file, its path. */
  const char *file_name;
};

#define WEIR_POLICY_LOAD_OPTIONS_INIT                                                      \
  {                                                                                        \
    .size = sizeof(struct weir_policy_load_options), .lenient = false, .on_problem = NULL, \
    .context = NULL, .file_name = NULL                                                     \
  }

/* Reads a policy from a JSON document (RFC 8259, strictly). Every problem is told to
 * `options->on_problem`; nothing is applied if there is one.
 *
 * Ownership: `json` is borrowed for the call. On success `*policy_out` is the caller's until
 *            weir_policy_unref; on failure it is NULL. `options` NULL = the defaults, `allocator`
 *            NULL = malloc.
 * Threads:   any thread.
 * Errors:    WEIR_ERROR_INVALID_POLICY; `diagnostic`, if not NULL, tells the first problem.
 *            WEIR_ERROR_NO_MEMORY. */
WEIR_API WEIR_MUST_CHECK enum weir_error
weir_policy_from_json(const char *json, size_t json_size,
                      const struct weir_policy_load_options *options,
                      const struct weir_allocator *allocator, weir_policy **policy_out,
                      struct weir_diagnostic *diagnostic);

/* Reads a policy from a file, as weir_policy_from_json does. Its path is the document's name, unless
 * the options have another.
 *
 * Ownership: as weir_policy_from_json; `path` is borrowed for the call.
 * Threads:   any thread; it blocks on the file.
 * Errors:    as weir_policy_from_json, and WEIR_ERROR_UNAVAILABLE when the file can't be read or is
 *            none (a directory, a pipe, a device); `diagnostic` names it and says why, too. */
WEIR_API WEIR_MUST_CHECK enum weir_error
weir_policy_from_file(const char *path, const struct weir_policy_load_options *options,
                      const struct weir_allocator *allocator, weir_policy **policy_out,
                      struct weir_diagnostic *diagnostic);

/* Lays a channel's policy under its organisation's. What the organisation enforces holds, or the
 * two are refused where the channel's says something weaker; of the rest the channel has the last
 * word, but for the organisation's ceilings, which are clamped to with a warning. Policies that
 * were read from documents are read once more, so `options->on_problem` is told all the problems
 * and warnings of the channel's; `options->lenient` is not looked at, since each document is read
 * as it was the first time. One that was made in code counts as a document that says what differs
 * from the defaults.
 *
 * Ownership: both are borrowed for the call; `channel` NULL = one that says nothing. On success
 *            `*policy_out` is the caller's until weir_policy_unref; on failure it is NULL. `options`
 *            NULL = the defaults, `allocator` NULL = malloc.
 * Threads:   any thread.
 * Errors:    WEIR_ERROR_INVALID_POLICY; `diagnostic`, if not NULL, tells the first problem, with
 *            the place in the organisation's document as the other one.
 *            WEIR_ERROR_INVALID_ARGUMENT one of them has been made by this function, or
 *            `organisation` is NULL.
 *            WEIR_ERROR_NO_MEMORY. WEIR_ERROR_UNSUPPORTED `options` are from a newer header. */
WEIR_API WEIR_MUST_CHECK enum weir_error
weir_policy_layer(const weir_policy *organisation, const weir_policy *channel,
                  const struct weir_policy_load_options *options,
                  const struct weir_allocator *allocator, weir_policy **policy_out,
                  struct weir_diagnostic *diagnostic);

/* Takes another share of a policy.
 *
 * Ownership: the result is `policy`, shared; it ends with one more weir_policy_unref.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API weir_policy *weir_policy_ref(weir_policy *policy);

/* Gives a share back. The last one frees the policy.
 *
 * Ownership: `policy` is taken over; NULL is allowed.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API void weir_policy_unref(weir_policy *policy);

/* Finds what holds for a method: its own entry, else its service's, else the one without a name,
 * else the built-in defaults. The chosen entry is used whole.
 *
 * Ownership: the result is borrowed until the caller's share of `policy` ends; `path`
 *            ("/pkg.Service/Method", not terminated) is borrowed for the call.
 * Threads:   any thread.
 * Errors:    none; a path of another form gets the entry without a name. */
WEIR_API const struct weir_method_policy *weir_policy_method(const weir_policy *policy,
                                                             const char *path, size_t path_size);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_POLICY_H */
