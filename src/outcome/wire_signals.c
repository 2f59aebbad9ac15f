/* SPDX-License-Identifier: Apache-2.0 */
#include "src/outcome/wire_signals.h"

#include <string.h>

#include <grpc/grpc.h>

/* What makes up a capacity, published or not:
 *   the peer's address      1 in either array, once a stream was on a transport
 *   "came from the wire"    1 in the array of a header block that began to arrive
 *   the network state       1 in the trailing array of a stream never sent, or refused by a GOAWAY
 *   what is published       1 each
 *
 * Seen in 1.51.1:          initial capacity, trailing capacity, failed_before_recv_message
 *   Trailers-Only                             1 2 0
 *   headers and trailers                      2 2 1
 *   headers, then lost                        2 1 1
 *   sent, then lost                           1 1 1
 *   never sent, or refused by a GOAWAY        1 2 1
 *   lost amid the block of a Trailers-Only    1 2 1
 *   silence until the deadline or a cancel    0 1 1
 *   no transport                              0 0 0
 *   an HTTP error that is no gRPC             0 0 1 or 1 0 0
 *   a message above the core's own limit      2 3 0
 *   a message that can't be decompressed      2 3 0 */
#define CAPACITY_PEER 1
#define CAPACITY_PEER_AND_WIRE 2

/* What the core says of a call that it never sent, or that the GOAWAY refused. */
#define GOAWAY_WORDS "GOAWAY received"
#define CLOSED_WORDS "Transport closed" /* before the call came to it */
#define NO_MORE_IDS_WORDS "Stream IDs exhausted"

/* What the core says of a reset, before its code. */
#define RESET_WORDS "Received RST_STREAM with error code "

/* The core numbers itself apart from gRPC: 29.0.x is the one of gRPC 1.51. */
#define TRUSTED_CORE_VERSION "29.0."

struct weir__wire_signals weir__wire_signals_of(enum weir__wire_ending ending) {
  struct weir__wire_signals signals = {.recv_message_done = true};
  switch (ending) {
  case WEIR__WIRE_ENDING_TRAILERS_ONLY:
    signals.initial_capacity = CAPACITY_PEER;
    signals.trailing_capacity = CAPACITY_PEER_AND_WIRE;
    break;
  case WEIR__WIRE_ENDING_TRAILERS:
    signals.initial_capacity = CAPACITY_PEER_AND_WIRE;
    signals.trailing_capacity = CAPACITY_PEER_AND_WIRE;
    signals.failed_before_recv_message = true;
    break;
  case WEIR__WIRE_ENDING_HEADERS_LOST:
    signals.initial_capacity = CAPACITY_PEER_AND_WIRE;
    signals.trailing_capacity = CAPACITY_PEER;
    signals.failed_before_recv_message = true;
    break;
  case WEIR__WIRE_ENDING_LOST:
    signals.initial_capacity = CAPACITY_PEER;
    signals.trailing_capacity = CAPACITY_PEER;
    signals.failed_before_recv_message = true;
    break;
  case WEIR__WIRE_ENDING_UNPROCESSED:
    signals.initial_capacity = CAPACITY_PEER;
    signals.trailing_capacity = CAPACITY_PEER_AND_WIRE;
    signals.failed_before_recv_message = true;
    break;
  case WEIR__WIRE_ENDING_SILENCE:
    signals.trailing_capacity = CAPACITY_PEER;
    signals.failed_before_recv_message = true;
    break;
  case WEIR__WIRE_ENDING_NO_CONNECTION:
    break;
  }
  return signals;
}

bool weir__wire_signals_headers_received(const struct weir__wire_signals *signals) {
  return signals->initial_capacity >= CAPACITY_PEER_AND_WIRE;
}

bool weir__wire_signals_headers_unknown(const struct weir__wire_signals *signals) {
  return signals->initial_capacity == 0 && signals->trailing_capacity > 0;
}

bool weir__wire_signals_trailers_from_peer(const struct weir__wire_signals *signals) {
  bool faked = signals->initial_capacity == CAPACITY_PEER && signals->failed_before_recv_message;
  return signals->trailing_capacity >= CAPACITY_PEER_AND_WIRE && !faked;
}

bool weir__wire_signals_never_connected(const struct weir__wire_signals *signals) {
  return signals->initial_capacity == 0 && signals->trailing_capacity == 0 &&
         !signals->failed_before_recv_message;
}

bool weir__wire_signals_unprocessed(const struct weir__wire_signals *signals, grpc_slice words) {
  return signals->recv_message_done && signals->failed_before_recv_message &&
         signals->initial_capacity == CAPACITY_PEER &&
         signals->trailing_capacity == CAPACITY_PEER_AND_WIRE && signals->trailing_count == 0 &&
         (grpc_slice_str_cmp(words, GOAWAY_WORDS) == 0 ||
          grpc_slice_str_cmp(words, CLOSED_WORDS) == 0 ||
          grpc_slice_str_cmp(words, NO_MORE_IDS_WORDS) == 0);
}

grpc_slice weir__wire_words_of_goaway(void) {
  return grpc_slice_from_static_string(GOAWAY_WORDS);
}

bool weir__wire_signals_message_refused(const struct weir__wire_signals *signals) {
  return weir__wire_signals_headers_received(signals) && signals->recv_message_done &&
         !signals->failed_before_recv_message;
}

bool weir__wire_words_tell_reset(grpc_slice words, uint32_t *code_out) {
  const size_t n_words = sizeof RESET_WORDS - 1;
  const uint8_t *text = GRPC_SLICE_START_PTR(words);
  size_t size = GRPC_SLICE_LENGTH(words);
  uint64_t code = 0;
  if (size <= n_words || memcmp(text, RESET_WORDS, n_words) != 0) {
    return false;
  }
  for (size_t i = n_words; i < size; i++) {
    code = code * 10 + (uint64_t)(text[i] - '0');
    if (text[i] < '0' || text[i] > '9' || code > UINT32_MAX) {
      return false;
    }
  }
  *code_out = (uint32_t)code;
  return true;
}

bool weir__wire_signals_trusted_for(const char *core_version) {
  return strncmp(core_version, TRUSTED_CORE_VERSION, sizeof TRUSTED_CORE_VERSION - 1) == 0;
}

bool weir__wire_signals_trusted(void) {
  return weir__wire_signals_trusted_for(grpc_version_string());
}
