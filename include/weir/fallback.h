/* weir/fallback.h – what answers in the place of a service that can't.
 *
 * The application implements one and gives it to a channel. It is asked about a call in one batch
 * that has failed for good: when the breaker refuses it, or, by the policy's `fallback`, when the
 * failure blames the server or the network. By then breaker, retry and throttle have heard how the
 * call really ended.
 *
 * A fallback finds a message, or nothing. There is no status that it could give: what it finds is
 * handed out with OK, and where it finds nothing the call fails as it would have without it. So it
 * can't say "it worked" about a request that nobody has processed, unless it has real data to say
 * it with.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_FALLBACK_H
#define WEIR_FALLBACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include <weir/export.h>
#include <weir/outcome.h>
#include <weir/reason.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The longest name of a source, in bytes. */
#define WEIR_FALLBACK_SOURCE_MAX 63

/* What became of it when a call failed. */
enum weir_fallback_result {
  WEIR_FALLBACK_NOT_ASKED = 0, /* there is none, or it is not for this call or this failure */
  WEIR_FALLBACK_HIT,           /* the caller has its message, with OK */
  WEIR_FALLBACK_MISS,          /* it had nothing */
  WEIR_FALLBACK_BROKEN,        /* what it gave is no answer; the caller got the failure */
  WEIR_FALLBACK_TIMED_OUT,     /* not in time; what it still finds is thrown away */
  WEIR_FALLBACK_BUSY,          /* not asked: maxConcurrent were running */
  WEIR_FALLBACK_NO_RESOURCES,  /* not asked: there was no memory or no thread for it */
  WEIR_FALLBACK_CANCELLED,     /* the call was cancelled before it had answered */
  WEIR_FALLBACK_SHUTDOWN       /* the call's queue was shut down before it had answered */
};

/* Names a result, e.g. "TIMED_OUT".
 *
 * Ownership: the result is static.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API const char *weir_fallback_result_name(enum weir_fallback_result result);

/* What a fallback is asked. It and all it points to are borrowed until `ask` returns, and stay
 * valid until then, also when the call is long over. Fields are only ever added at the end. */
struct weir_fallback_request {
  size_t size;
  const char *path; /* "/pkg.Service/Method", terminated */
  size_t path_size;
  /* The request, to be read or sent on; the buffer is destroyed by weir. NULL: it had been sent, and
   * was larger than replayBytes or channelReplayBytes allow to keep. */
  grpc_byte_buffer *message;
  const grpc_metadata *metadata; /* that the application gave with the call; copied */
  size_t n_metadata;
  uint32_t max_response_bytes; /* a larger answer is none; WEIR_NO_LIMIT_BYTES = no limit */

  /* When the call waits no longer, on the clock of its queue (CLOCK_MONOTONIC, unless that queue
   * was made with another), and how long that was when it was asked. */
  int64_t deadline_at_ns; /* the former */
  int64_t timeout_ns;     /* the latter */

  /* The failure that it would stand in for, untranslated. */
  grpc_status_code raw_code; /* as it came */
  enum weir_origin origin;   /* WEIR_ORIGIN_LOCAL_BREAKER: refused, and nothing was sent */
  enum weir_blame blames;
  enum weir_reason reason;
};

/* What a fallback has found. It is empty when `ask` is called; `size` is not written to. */
struct weir_fallback_answer {
  size_t size;
  /* taken over, whatever `ask` returns; uncompressed, of at most max_response_bytes */
  grpc_byte_buffer *message;
  /* What it comes from, for reports, logs and labels: 1 to 63 of [A-Za-z0-9._-]; static. */
  const char *source;
  /* A message of no bytes is what the source holds. Without this it is taken for a mistake. */
  bool empty_is_real;
};

/* Whether a fallback has an answer. */
enum weir_fallback_found {
  WEIR_FALLBACK_FOUND_NOTHING = 0, /* the rest of the answer is not looked at */
  WEIR_FALLBACK_FOUND
};

/* A fallback. Start from WEIR_FALLBACK_INIT.
 *
 * `ask` runs in a thread that weir makes for it and that has no other purpose, with all signals
 * blocked, without a lock of weir's, with no ambient inbound; at most the policy's maxConcurrent of
 * a channel at once. It may block and may call any function, also weir_unary on another channel.
 * The call does not wait longer than the request says: how long `ask` takes after that is its own
 * affair, but it keeps its place among maxConcurrent until it returns.
 *
 * `release` is called once for each channel that was made with the fallback: when that channel, its
 * last call and the last `ask` are over, in whichever thread that is. Until then `context` has to be
 * there. If an `ask` never returns, it is never called. NULL = there is nothing to release.
 *
 * An `ask` that is running when the process forks is lost to the child, and its place with it. */
struct weir_fallback {
  size_t size;
  /* looks for an answer */
  enum weir_fallback_found (*ask)(void *context, const struct weir_fallback_request *request,
                                  struct weir_fallback_answer *answer);
  void (*release)(void *context); /* gives `context` back; may be NULL */
  void *context;
};

#define WEIR_FALLBACK_INIT \
  { .size = sizeof(struct weir_fallback), .ask = NULL, .release = NULL, .context = NULL }

#ifdef __cplusplus
}
#endif

#endif /* WEIR_FALLBACK_H */
