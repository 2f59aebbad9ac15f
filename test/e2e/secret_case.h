/* secret case – a call to a downstream that has planted secrets, by each of the ways to call, and what
 * its caller and the log have of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_SECRET_CASE_H
#define WEIR_TEST_E2E_SECRET_CASE_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/secret.h"
#include "test/e2e/seen.h"
#include "test/e2e/shaped_call.h"

/* --- the ways to call --- */

enum way {
  WAY_ONE_BATCH = 0,
  WAY_BLOCKING, /* weir_unary */
  WAY_SERVER_STREAM,
  WAY_SIX_BATCHES,
  N_MAIN_WAYS, /* the others are variations */

  WAY_TWO_BATCHES = N_MAIN_WAYS,
  WAY_FOUR_BATCHES,
  WAY_METADATA_APART,
  WAY_METADATA_LAST,
  WAY_STREAM_METADATA_LAST,
  WAY_REGISTERED,
  WAY_REGISTERED_STREAM,
  N_ALL_WAYS
};

const char *way_name(enum way way);

/* --- channels to a downstream --- */

/* What the policy of a channel says. */
struct front_kind {
  const char *why;
  const char *fields;  /* NULL = none */
  const char *methods; /* the entry for every method; NULL = none */
  const char *breaker; /* NULL = switched off */
  bool is_boundary;
  bool retries; /* twice at most */
  bool keeps;   /* what planter.h says is kept */
  bool wraps;   /* a channel of the core's */
};

enum front_name {
  FRONT_OPEN = 0, /* no boundary: the same reader has to see every secret here */
  FRONT_OPEN_RETRIES,
  FRONT_BOUNDARY,
  FRONT_BOUNDARY_RETRIES,
  FRONT_KEEPS,
  N_FRONTS, /* the others are for what they are called after */

  FRONT_METHOD_OPEN = N_FRONTS,
  FRONT_METHOD_BOUNDARY,
  FRONT_WRAPPED,
  FRONT_WAITS,        /* half a minute between attempts */
  FRONT_HURRIES,      /* a tenth of a second in all */
  FRONT_BREAKS,       /* the breaker opens at the first failure */
  FRONT_RETRIES_LATE, /* no boundary; after headers too */
  FRONT_SMALL,        /* responses of eight bytes */
  FRONT_SMALL_OPEN,
  N_ALL_FRONTS
};

struct front {
  const struct front_kind *kind;
  weir_channel *channel;
  void *registered;
  struct kept_log log;
};

/* `where` says to whom, and how; its policy and log are the front's. On the heap. */
struct front *front_open(enum front_name name, const struct channel_setup *where);
void front_close(struct front *front);

/* --- a call --- */

struct secret_result {
  const char *why; /* of the row, for what is said of a failure */
  const struct front *front;
  enum way way;
  grpc_status_code code;
  struct weir_call_report report;
  struct seen seen;    /* at a boundary, of a failure: all but what came before the end */
  bool metadata_early; /* the initial metadata did */
};

/* The way is that of a call in one batch, whatever is asked beside it. */
bool way_is_one_batch(enum way way);

/* Makes the call; the log has its records alone afterwards. */
void secret_call(struct front *front, enum way way, const char *why, struct secret_result *result);

/* The same in steps, for a call that the test makes itself: before it is made, and when it has ended
 * and its report was read. */
void secret_begin(struct front *front, enum way way, const char *why, struct secret_result *result);
void secret_end(const struct shaped_call *call, struct secret_result *result);

/* Ends the test with what is wrong, and where. */
void secret_fail(const struct secret_result *result, const char *what, const char *more);

/* Fails unless the secret is seen, or is not. */
void assert_secret_seen(const struct secret_result *result, const struct secret *secret,
                        bool wanted, const char *place);

/* Fails unless the log has what a call that ended so has: nothing of one that succeeded or crossed
 * no boundary; else one record, with the reference that the caller has. Returns it, or NULL. */
const struct kept_record *assert_logged_once(const struct secret_result *result);

/* Fails unless the secret stands in a text of the record as often. */
void assert_secret_logged(const struct secret_result *result, const struct secret *secret,
                          const char text[KEPT_TEXT], size_t n_times, const char *place);

#endif /* WEIR_TEST_E2E_SECRET_CASE_H */
