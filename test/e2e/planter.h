/* planter – what a downstream answers that has written a secret of its own into every place it can.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_PLANTER_H
#define WEIR_TEST_E2E_PLANTER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include "test/e2e/secret.h"
#include "test/e2e/support/test_server.h"

enum place {
  PLACE_MESSAGE = 0, /* grpc-message */
  PLACE_DETAILS,     /* grpc-status-details-bin */
  PLACE_KEPT_DETAIL, /* in it, the value of a google.rpc.RetryInfo */
  PLACE_TRAILER,     /* trailing metadata */
  PLACE_BINARY_TRAILER,
  PLACE_TRAILER_KEY,
  PLACE_LOOKALIKE, /* metadata whose keys are nearly those of PLACE_KEPT */
  PLACE_KEPT,      /* KEPT_KEY */
  PLACE_HEADER,    /* initial metadata; with HEADERS or BODY only, and so below */
  PLACE_HEADER_KEY,
  PLACE_KEPT_HEADER, /* KEPT_HEADER_KEY */
  PLACE_BODY,        /* the message of the response; with BODY only */
  N_PLACES
};

const char *place_name(enum place place);

#define PLACE_BIT(place) (1u << (place))

#define KEPT_KEY "x-kept"
#define KEPT_HEADER_KEY "x-kept-header"
#define KEPT_TYPE "google.rpc.RetryInfo"

/* Where in grpc-status-details-bin the secret is. PLACE_KEPT_DETAIL is there where it says so. */
enum details_kind {
  DETAILS_MESSAGE = 0,   /* a google.rpc.Status: its message; and one that is kept */
  DETAILS_OTHER_TYPE,    /* a detail of a type that is not kept; and one that is */
  DETAILS_TYPE_PREFIX,   /* before the '/' of a type that is kept */
  DETAILS_UNKNOWN_FIELD, /* of the google.rpc.Status */
  DETAILS_UNDECODABLE,   /* bytes that are no message */
  DETAILS_TEXT,
  N_DETAILS_KINDS
};

const char *details_kind_name(enum details_kind kind);

/* What comes before the status. */
enum planted_before { BEFORE_NOTHING = 0, BEFORE_HEADERS, BEFORE_BODY, N_PLANTED_BEFORE };

const char *planted_before_name(enum planted_before before);

/* One answer. */
struct plant {
  grpc_status_code code;
  enum planted_before before;
  enum details_kind details;
  int64_t delay_ns;
  struct secret secrets[N_PLACES];
};

/* The places that it is in. */
unsigned plant_places(const struct plant *plant);

/* Fills in what to answer. */
void plant_answer(const struct plant *plant, struct weir__test_reply *reply);

#define PLANTS_MAX 2

/* What a server answers: the first call by the first plant, and so on; the last one is for all that
 * follow. Set between calls. */
struct planter {
  pthread_mutex_t mutex;
  struct plant plants[PLANTS_MAX];
  size_t n_answered;
};

void planter_init(struct planter *planter);
void planter_fini(struct planter *planter);

/* New secrets, and how to answer. */
struct planting {
  grpc_status_code code;
  enum planted_before first; /* of the first plant */
  enum planted_before last;
  enum details_kind details;
  int64_t delay_ns; /* between what comes before and the status */
};

void planter_set(struct planter *planter, const struct planting *planting);

/* A handler; its context is a planter. */
void planter_handle(void *context, const struct weir__test_served *served,
                    struct weir__test_reply *reply);

#endif /* WEIR_TEST_E2E_PLANTER_H */
