/* trailers_plan – a failure, as bytes tell it: what a peer ends a call with, and by which policy it
 * is translated.
 *
 * Words are planted in all that the peer writes. They have a capital Q, which nothing else has that
 * comes from the bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_STACK_TRAILERS_PLAN_H
#define WEIR_TEST_STACK_TRAILERS_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test/stack/stack_fixture.h"
#include "test/support/proto_writer.h"
#include "test/support/script.h"

#define DETAILS_KEY "grpc-status-details-bin"
#define KEPT_KEY "x-kept"

/* What no caller at a boundary may see. */
#define PLANTED_SECRET "Qhunter2"
/* In the values of the two types that may be kept, and of the key. */
#define PLANTED_RETRY "Qretry"
#define PLANTED_LIMIT "Qlimit"
#define PLANTED_KEPT "Qkept"
/* In what a stream may have received before it fails: headers, those of the key, a message. */
#define PLANTED_EARLY "Qearly"
#define PLANTED_EARLY_KEPT "Qheld"

enum trailers_shape {
  TRAILERS_ONE_BATCH = 0,
  TRAILERS_STREAM, /* the status is asked for last */
  TRAILERS_STREAM_STATUS_FIRST,
  TRAILERS_STREAM_AT_ONCE /* all that is received is asked for in one batch */
};

/* What a planted text may have beside its words. */
#define TRAILERS_TEXT_BYTES 4096

struct trailers_plan {
  const uint8_t *bytes; /* that are still to be read */
  size_t n_bytes;

  enum trailers_shape shape;
  bool is_serving;      /* the call is made for a request with a deadline */
  bool recovers;        /* the second attempt is answered well */
  size_t fails_at;      /* the nth allocation of the call fails; 0 = none */
  bool is_policy_valid; /* a translation from or to OK is not */
  size_t n_kept_types;  /* of trailers_types */
  bool keeps_metadata;  /* under KEPT_KEY */
  bool has_details;     /* under DETAILS_KEY, once */
  size_t n_kept_early;  /* headers under KEPT_KEY */
  struct wire_answer answer;
  int64_t answer_after_ns;
  struct proto_writer details;
  char text[TRAILERS_TEXT_BYTES];
  char values[WIRE_PAIRS][TRAILERS_TEXT_BYTES];
  char early_values[WIRE_PAIRS][TRAILERS_TEXT_BYTES];
};

/* Whether headers and message are handed out with the status, at the earliest. */
bool trailers_plan_gets_all_at_once(const struct trailers_plan *plan);

extern const char *const trailers_types[2];

/* Reads a plan, and sets the options of a fixture that is not open yet. Ended by
 * trailers_plan_fini. */
void trailers_plan_read(struct trailers_plan *plan, const uint8_t *bytes, size_t size,
                        struct fixture *f);
void trailers_plan_fini(struct trailers_plan *plan);

#endif /* WEIR_TEST_STACK_TRAILERS_PLAN_H */
