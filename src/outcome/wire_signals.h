/* wire_signals – what the core's metadata arrays give away about an attempt.
 *
 * The core grows an array by the count of everything that it would publish, unpublished entries
 * included, so the `capacity` of an array that was handed over zeroed tells what the wire brought.
 * That is a side effect of 1.51, as are the core's words for its own errors; both are known to this file only and
 * pinned by a self-test;
 * weir__wire_signals_trusted says whether it may be relied on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_OUTCOME_WIRE_SIGNALS_H
#define WEIR_SRC_OUTCOME_WIRE_SIGNALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/slice.h>

/* An ended attempt. Both arrays were zeroed before the core had them, and all three receiving
 * operations started. */
struct weir__wire_signals {
  size_t initial_capacity;  /* of the array of GRPC_OP_RECV_INITIAL_METADATA */
  size_t trailing_capacity; /* of the array of GRPC_OP_RECV_STATUS_ON_CLIENT */
  size_t trailing_count;    /* its count */

  /* grpc_call_failed_before_recv_message, which is not what its name says: the wire, or the core in
   * its place, ended the stream before the last message that was asked for. */
  bool failed_before_recv_message;
  bool recv_message_done; /* a GRPC_OP_RECV_MESSAGE has completed; else the former means nothing */
};

/* How an attempt may end. */
enum weir__wire_ending {
  WEIR__WIRE_ENDING_TRAILERS_ONLY = 0, /* the peer's status, and nothing before it */
  WEIR__WIRE_ENDING_TRAILERS,          /* the peer's status, behind response headers */
  WEIR__WIRE_ENDING_LOST,              /* sent, and no answer to it: the stream is gone */
  WEIR__WIRE_ENDING_HEADERS_LOST,      /* response headers, and then it was gone */
  WEIR__WIRE_ENDING_UNPROCESSED,       /* never sent, or refused by a GOAWAY */
  WEIR__WIRE_ENDING_SILENCE,           /* ended from here before anything came */
  WEIR__WIRE_ENDING_NO_CONNECTION
};

/* What this core would show of it, for those who suppose an attempt without making one. */
struct weir__wire_signals weir__wire_signals_of(enum weir__wire_ending ending);

/* Response headers came; a Trailers-Only answer has none. */
bool weir__wire_signals_headers_received(const struct weir__wire_signals *signals);

/* Something was on the wire, but what came of it can't be told: a silent peer, or nobody asked for
 * the headers. */
bool weir__wire_signals_headers_unknown(const struct weir__wire_signals *signals);

/* The status is the peer's, not one that the core made up for a stream that ended otherwise. */
bool weir__wire_signals_trailers_from_peer(const struct weir__wire_signals *signals);

/* The call never got to a transport. */
bool weir__wire_signals_never_connected(const struct weir__wire_signals *signals);

/* There was a connection, but the call never left this process or was refused by a GOAWAY: no
 * server has seen it. Ask it of UNAVAILABLE only: a Trailers-Only answer that the core can't parse
 * looks the same and is UNKNOWN. `words` are the attempt's status details: to the arrays alone, a
 * connection lost in the middle of the header block of a Trailers-Only answer looks the same too.
 * So does a call that waited for a stream on a connection that was lost without a GOAWAY, of which
 * the core says the same words: false, since either may be meant. */
bool weir__wire_signals_unprocessed(const struct weir__wire_signals *signals, grpc_slice words);

/* What the core says of a call that a GOAWAY has refused; never to be freed. */
grpc_slice weir__wire_words_of_goaway(void);

/* With no message received: the core itself refused the one that came, by its size or because it
 * can't be decompressed. */
bool weir__wire_signals_message_refused(const struct weir__wire_signals *signals);

/* HTTP/2's code of a stream that was reset before any of it was processed (RFC 9113, 8.7). */
#define WEIR__HTTP2_REFUSED_STREAM 7

/* Whether `words` are the core's for a stream that the peer has reset, and with which code. Ask it
 * only of a status that is not the peer's: a peer can write the same. */
bool weir__wire_words_tell_reset(grpc_slice words, uint32_t *code_out);

/* Whether `core_version`, the core's grpc_version_string(), is one whose signals were tested. */
bool weir__wire_signals_trusted_for(const char *core_version);

/* As weir__wire_signals_trusted_for, of the core that is linked. Ask once and keep the answer. */
bool weir__wire_signals_trusted(void);

#endif /* WEIR_SRC_OUTCOME_WIRE_SIGNALS_H */
