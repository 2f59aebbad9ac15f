/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include <weir/weir.h>

#include "test/e2e/captured.h"
#include "test/e2e/fixture.h"
#include "test/e2e/planter.h"
#include "test/e2e/secret.h"
#include "test/e2e/secret_case.h"
#include "test/e2e/support/odd_peer.h"
#include "test/e2e/support/puppet_server.h"
#include "test/e2e/support/test_server.h"
#include "test/support/batched_call.h"

/* --- the search --- */

static void a_secret_is_found_in_every_form(void **state) {
  (void)state;
  static const struct secret secret = {.text = "0123456789abcdef01234567"};
  static const struct {
    const char *why;
    const char *text;
  } rows[] = {
      {"as it is", "x0123456789abcdef01234567x"},
      {"a first half", "x0123456789abx"},
      {"a second half", "xcdef01234567x"},
      {"base64, 0 before it", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3Lg=="},
      {"base64, 1 before it", "YTAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Ny4="},
      {"base64, 2 before it", "YWIwMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njcu"},
      {"base64 of a half", "MDEyMzQ1Njc4OWFi"},
      {"percent-encoded",
       "%30%31%32%33%34%35%36%37%38%39%61%62%63%64%65%66%30%31%32%33%34%35%36%37"},
      {"hexadecimal", "303132333435363738396162636465663031323334353637"},
      {"hexadecimal of a half, with spaces", "63 64 65 66 30 31 32 33 34 35 36 37"},
  };
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    if (secret_find(&secret, rows[i].text, strlen(rows[i].text)) == NULL) {
      fail_msg("%s: not found", rows[i].why);
    }
  }
  assert_null(secret_find(&secret, "0123456789a bcdef0123456", 24));
  assert_null(secret_find(&secret, NULL, 0));
}

/* --- a server that answers with secrets --- */

/* What the caller may see of the last answer. */
static unsigned visible_places(const struct secret_result *result, const struct plant *plant) {
  const struct front_kind *kind = result->front->kind;
  unsigned places = plant_places(plant);
  if (!kind->is_boundary || plant->code == GRPC_STATUS_OK) {
    return places;
  }
  unsigned kept = PLACE_BIT(PLACE_KEPT) | PLACE_BIT(PLACE_KEPT_DETAIL) |
                  (result->metadata_early ? 0 : PLACE_BIT(PLACE_KEPT_HEADER));
  return kind->keeps ? places & kept : 0;
}

static void assert_plant_seen(const struct secret_result *result, const struct plant *plant,
                              unsigned visible) {
  for (unsigned place = 0; place < N_PLACES; place++) {
    assert_secret_seen(result, &plant->secrets[place], (visible & PLACE_BIT(place)) != 0,
                       place_name((enum place)place));
  }
}

static void assert_plant_logged(const struct secret_result *result, const struct plant *plant) {
  const struct kept_record *record = assert_logged_once(result);
  if (record == NULL) {
    return;
  }
  assert_secret_logged(result, &plant->secrets[PLACE_MESSAGE], record->message, 1, "message");
  assert_secret_logged(result, &plant->secrets[PLACE_DETAILS], record->details, 1, "details");
  for (unsigned place = 0; place < N_PLACES; place++) {
    if (place != PLACE_MESSAGE) {
      assert_secret_logged(result, &plant->secrets[place], record->message, 0,
                           place_name((enum place)place));
    }
  }
}

static void assert_case(struct planter *planter, struct front *front, enum way way) {
  static struct secret_result result;
  char why[160];
  const struct plant *last = &planter->plants[0];
  bool retried =
      front->kind->retries && last->code != GRPC_STATUS_OK && last->before == BEFORE_NOTHING;
  (void)snprintf(why, sizeof why, "%s, %s, then %s, %s", weir_status_code_name(last->code),
                 planted_before_name(last->before), planted_before_name(last[1].before),
                 details_kind_name(last->details));
  secret_call(front, way, why, &result);
  grpc_status_code code = front->kind->is_boundary ? boundary_codes[last->code] : last->code;
  if (result.report.n_attempts != (retried ? 2 : 1) || result.report.raw_code != last->code ||
      result.report.code != code || result.code != code) {
    secret_fail(&result, "end", "of another call");
  }
  if (retried) {
    assert_plant_seen(&result, last, 0);
    last++;
  }
  assert_plant_seen(&result, last, visible_places(&result, last));
  assert_plant_logged(&result, last);
}

/* A server that plants, and channels to it. */
struct garden {
  struct planter planter;
  weir__test_server *server;
  struct front *fronts[N_ALL_FRONTS]; /* NULL = not open */
  unsigned n_cases;
};

static void garden_open(struct garden *garden) {
  memset(garden, 0, sizeof *garden);
  planter_init(&garden->planter);
  garden->server = weir__test_server_new(planter_handle, &garden->planter, 2);
}

static void garden_open_front(struct garden *garden, enum front_name name) {
  garden->fronts[name] =
      front_open(name, &(struct channel_setup){.port = weir__test_server_port(garden->server)});
}

static void garden_close(struct garden *garden) {
  for (int name = 0; name < N_ALL_FRONTS; name++) {
    if (garden->fronts[name] != NULL) {
      front_close(garden->fronts[name]);
    }
  }
  weir__test_server_release(garden->server);
  planter_fini(&garden->planter);
}

/* The details are of another kind each time. */
static void garden_plant(struct garden *garden, grpc_status_code code, enum planted_before first,
                         enum planted_before last) {
  planter_set(&garden->planter, &(struct planting){.code = code,
                                                   .first = first,
                                                   .last = last,
                                                   .details = (enum details_kind)(
                                                       garden->n_cases++ % N_DETAILS_KINDS)});
}

/* What comes before the status of a first answer, and of a second one. Headers commit a call. */
static const struct {
  enum planted_before first;
  enum planted_before last;
} befores[] = {
    {BEFORE_NOTHING, BEFORE_NOTHING}, {BEFORE_HEADERS, BEFORE_HEADERS}, {BEFORE_BODY, BEFORE_BODY},
    {BEFORE_NOTHING, BEFORE_HEADERS}, {BEFORE_NOTHING, BEFORE_BODY},
};

/* Where there is no boundary it is the reader that is tried, once in a while. */
static bool is_worth_trying(const struct front *front, grpc_status_code code, enum way way) {
  return front->kind->is_boundary || way < N_MAIN_WAYS || code % 4 == 0;
}

static void try_code(struct garden *garden, grpc_status_code code, enum way way) {
  for (int name = 0; name < N_ALL_FRONTS; name++) {
    struct front *front = garden->fronts[name];
    if (front == NULL || !is_worth_trying(front, code, way)) {
      continue;
    }
    for (size_t i = 0; i < COUNT_OF(befores); i++) {
      if (befores[i].first == befores[i].last || front->kind->retries) {
        garden_plant(garden, code, befores[i].first, befores[i].last);
        assert_case(&garden->planter, front, way);
      }
    }
  }
}

static void nothing_that_a_server_writes_is_seen_of_a_failure(void **state) {
  (void)state;
  struct garden garden;
  garden_open(&garden);
  for (int name = 0; name < N_FRONTS; name++) {
    garden_open_front(&garden, (enum front_name)name);
  }
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    for (int way = 0; way < N_ALL_WAYS; way++) {
      try_code(&garden, (grpc_status_code)code, (enum way)way);
    }
  }
  garden_close(&garden);
}

static void a_boundary_of_a_method_or_on_a_wrapped_channel_is_one(void **state) {
  (void)state;
  struct garden garden;
  garden_open(&garden);
  garden_open_front(&garden, FRONT_METHOD_OPEN);
  garden_open_front(&garden, FRONT_METHOD_BOUNDARY);
  garden_open_front(&garden, FRONT_WRAPPED);
  for (int way = 0; way < N_ALL_WAYS; way++) {
    try_code(&garden, GRPC_STATUS_PERMISSION_DENIED, (enum way)way);
    try_code(&garden, GRPC_STATUS_RESOURCE_EXHAUSTED, (enum way)way);
  }
  garden_close(&garden);
}

/* Headers without a message do not bind a call in one batch, where the policy says so: those of the
 * first attempt are nobody's. */
static void headers_of_an_attempt_before_are_not_seen(void **state) {
  (void)state;
  static struct secret_result result;
  struct garden garden;
  garden_open(&garden);
  garden_open_front(&garden, FRONT_RETRIES_LATE);
  const struct plant *plants = garden.planter.plants;
  for (int way = 0; way < N_ALL_WAYS; way++) {
    if (!way_is_one_batch((enum way)way)) {
      continue;
    }
    garden_plant(&garden, GRPC_STATUS_UNAVAILABLE, BEFORE_HEADERS, BEFORE_HEADERS);
    secret_call(garden.fronts[FRONT_RETRIES_LATE], (enum way)way, "retried after headers", &result);
    assert_int_equal(result.report.n_attempts, 2);
    assert_plant_seen(&result, &plants[0], 0);
    assert_plant_seen(&result, &plants[1], plant_places(&plants[1]));
  }
  garden_close(&garden);
}

/* --- ends of this process's own --- */

static void assert_origin(const struct secret_result *result, enum weir_origin origin) {
  if (result->report.origin != origin) {
    secret_fail(result, "end", "from elsewhere");
  }
}

/* What had come of the response is not handed out, but for a stream's initial metadata. */
static void a_response_that_is_too_large_is_not_seen(void **state) {
  (void)state;
  static struct secret_result result;
  struct garden garden;
  garden_open(&garden);
  garden_open_front(&garden, FRONT_SMALL);
  garden_open_front(&garden, FRONT_SMALL_OPEN);
  const struct plant *plant = &garden.planter.plants[0];
  for (int way = 0; way < N_ALL_WAYS; way++) {
    garden_plant(&garden, GRPC_STATUS_OK, BEFORE_BODY, BEFORE_BODY);
    secret_call(garden.fronts[FRONT_SMALL], (enum way)way, "too large", &result);
    assert_origin(&result, WEIR_ORIGIN_LOCAL_LIMIT);
    assert_plant_seen(&result, plant, 0);
    (void)assert_logged_once(&result);

    garden_plant(&garden, GRPC_STATUS_OK, BEFORE_BODY, BEFORE_BODY);
    secret_call(garden.fronts[FRONT_SMALL_OPEN], (enum way)way, "too large", &result);
    assert_origin(&result, WEIR_ORIGIN_LOCAL_LIMIT);
    assert_secret_seen(&result, &plant->secrets[PLACE_BODY], false, "body");
    assert_secret_seen(&result, &plant->secrets[PLACE_HEADER], !way_is_one_batch((enum way)way),
                       "header");
  }
  garden_close(&garden);
}

static void a_response_that_is_too_late_is_not_seen(void **state) {
  (void)state;
  static struct secret_result result;
  struct garden garden;
  garden_open(&garden);
  garden_open_front(&garden, FRONT_HURRIES);
  for (int way = 0; way < N_ALL_WAYS; way++) {
    planter_set(&garden.planter, &(struct planting){.code = GRPC_STATUS_OK,
                                                    .first = BEFORE_HEADERS,
                                                    .last = BEFORE_HEADERS,
                                                    .delay_ns = SECONDS(60)});
    secret_call(garden.fronts[FRONT_HURRIES], (enum way)way, "too late", &result);
    assert_origin(&result, WEIR_ORIGIN_LOCAL_DEADLINE);
    assert_plant_seen(&result, &garden.planter.plants[0], 0);
    (void)assert_logged_once(&result);
  }
  garden_close(&garden);
}

/* What opened the breaker is logged once, with the call that it happened to. */
static void a_refusal_shows_nothing_of_what_it_is_for(void **state) {
  (void)state;
  static struct secret_result result;
  for (int way = 0; way < N_ALL_WAYS; way++) {
    struct garden garden;
    garden_open(&garden);
    garden_open_front(&garden, FRONT_BREAKS);
    garden_plant(&garden, GRPC_STATUS_UNAVAILABLE, BEFORE_NOTHING, BEFORE_NOTHING);
    assert_case(&garden.planter, garden.fronts[FRONT_BREAKS], (enum way)way);
    secret_call(garden.fronts[FRONT_BREAKS], (enum way)way, "refused", &result);
    assert_origin(&result, WEIR_ORIGIN_LOCAL_BREAKER);
    assert_plant_seen(&result, &garden.planter.plants[0], 0);
    const struct kept_record *record = assert_logged_once(&result);
    assert_secret_logged(&result, &garden.planter.plants[0].secrets[PLACE_MESSAGE], record->message,
                         0, "message");
    garden_close(&garden);
  }
}

/* --- a peer that breaks the rules --- */

/* Where the secret goes in a script, with as many bytes as it has there: as it is, in base64 (and
 * decoded by the core), and percent-encoded. */
#define MARK "@@@@@@@@@@@@@@@@@@@@@@@@"
#define BASE64_MARK "################################"
#define PERCENT_MARK "~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~"

enum logged { LOGGED_NOT = 0, LOGGED_MESSAGE, LOGGED_DETAILS };

struct odd_row {
  const char *why;
  struct odd_script script;
  struct odd_script greeting; /* without steps: as a server greets */
  enum logged logged;
  bool hidden; /* the core shows nothing of it: not seen where there is no boundary either */
};

#define DETAILS "grpc-status-details-bin " BASE64_MARK "\n"
#define TRAILERS(status) \
  "grpc-status " status "\ngrpc-message at " MARK "\nx-debug " MARK "\n" DETAILS

#define OUT_OF_RANGE(status)                                                                      \
  {.why = "status " status ", Trailers-Only",                                                     \
   .script = ODD_SCRIPT(ODD_TRAILERS(ODD_OK TRAILERS(status))),                                   \
   .logged = LOGGED_MESSAGE},                                                                     \
      {.why = "status " status ", after headers",                                                 \
       .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK "x-served-by " MARK "\n"),                         \
                            ODD_TRAILERS(TRAILERS(status))),                                      \
       .logged = LOGGED_MESSAGE},                                                                 \
  {                                                                                               \
    .why = "status " status ", after a message",                                                  \
    .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_MESSAGE(MARK), ODD_TRAILERS(TRAILERS(status))), \
    .logged = LOGGED_DETAILS                                                                      \
  }

static const struct odd_row status_rows[] = {
    OUT_OF_RANGE("17"),
    OUT_OF_RANGE("999"),
    OUT_OF_RANGE("-1"),
    OUT_OF_RANGE("4294967295"),
    OUT_OF_RANGE(MARK),
    {.why = "a message that is percent-encoded, with a zero and bytes that are no UTF-8",
     .script = ODD_SCRIPT(ODD_TRAILERS(ODD_OK "grpc-status 13\n"
                                              "grpc-message %00%ff" PERCENT_MARK "\n")),
     .logged = LOGGED_MESSAGE},
    {.why = "two messages, and details twice",
     .script = ODD_SCRIPT(ODD_TRAILERS(ODD_OK TRAILERS("7") TRAILERS("7"))),
     .logged = LOGGED_DETAILS},
    {.why = "details that are not base64",
     .script =
         ODD_SCRIPT(ODD_TRAILERS(ODD_OK "grpc-status 5\ngrpc-status-details-bin !" MARK "\n")),
     .hidden = true},
    {.why = "no status",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK),
                          ODD_TRAILERS("grpc-message " MARK "\nx-debug " MARK "\n"))},
    {.why = "keys that the core knows",
     .script = ODD_SCRIPT(ODD_TRAILERS(ODD_OK "grpc-status 14\nuser-agent " MARK "\nhost " MARK
                                              "\nlb-token " MARK "\n"))},
    {.why = "a pushback that is no number",
     .script = ODD_SCRIPT(ODD_TRAILERS(ODD_OK "grpc-status 14\ngrpc-retry-pushback-ms " MARK "\n")),
     .hidden = true},
    {.why = "trailers beyond the limit",
     .script =
         ODD_SCRIPT(ODD_LONG_TRAILERS(ODD_OK "grpc-status 14\ngrpc-message " MARK "\n", 9000)),
     .hidden = true},
};

#define PAGE "<html><title>" MARK "</title></html>"
#define HTML(status) ":status " status "\ncontent-type text/html; v=" MARK "\nserver " MARK "\n"

static const struct odd_row http_rows[] = {
    {.why = "HTTP 503 with a page",
     .script = ODD_SCRIPT(ODD_HEADERS(HTML("503")), ODD_BODY(PAGE)),
     .hidden = true},
    {.why = "HTTP 503 alone", .script = ODD_SCRIPT(ODD_TRAILERS(HTML("503"))), .hidden = true},
    {.why = "HTTP 401 with a page",
     .script = ODD_SCRIPT(ODD_HEADERS(HTML("401")), ODD_BODY(PAGE)),
     .hidden = true},
    {.why = "HTTP 200 with a page", .script = ODD_SCRIPT(ODD_HEADERS(HTML("200")), ODD_BODY(PAGE))},
    {.why = "HTTP 503 and a status",
     .script = ODD_SCRIPT(ODD_TRAILERS(HTML("503") TRAILERS("14"))),
     .logged = LOGGED_MESSAGE},
    {.why = "a HTTP status that is no number",
     .script = ODD_SCRIPT(ODD_TRAILERS(":status " MARK "\n")),
     .hidden = true},
};

static const struct odd_row broken_rows[] = {
    {.why = "RST_STREAM after headers",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK "x-served-by " MARK "\n"), ODD_RST(2))},
    {.why = "RST_STREAM after a message",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_MESSAGE(MARK), ODD_RST(11))},
    {.why = "RST_STREAM in the middle of a message",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_DATA("\0\0\0\0\100" MARK), ODD_RST(8)),
     .hidden = true},
    {.why = "closed after headers",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK "x-served-by " MARK "\n"), ODD_CLOSE)},
    {.why = "reset after a message",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_MESSAGE(MARK), ODD_ABORT)},
    {.why = "cut in the middle of trailers",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_CUT, ODD_TRAILERS(TRAILERS("9")), ODD_CLOSE),
     .hidden = true},
    {.why = "a GOAWAY that says it",
     .script = ODD_SCRIPT(ODD_GOAWAY_SAYING(1, MARK)),
     .hidden = true},
    {.why = "a GOAWAY that says it, and closed",
     .script = ODD_SCRIPT(ODD_GOAWAY_SAYING(0, MARK), ODD_CLOSE),
     .hidden = true},
    {.why = "a message with flags that there are not",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_DATA("\7\0\0\0\30" MARK),
                          ODD_TRAILERS(ODD_STATUS(14))),
     .hidden = true},
    {.why = "an encoding that there is not",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK "grpc-encoding " MARK "\n"),
                          ODD_DATA("\1\0\0\0\30" MARK), ODD_TRAILERS(TRAILERS("9")))},
    {.why = "bytes that do not decompress",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK "grpc-encoding gzip\n"), ODD_DATA("\1\0\0\0\30" MARK),
                          ODD_TRAILERS(TRAILERS("0")))},
    {.why = "headers that are none",
     .script = ODD_SCRIPT(ODD_FRAME(1, 4, "\0\377" MARK)),
     .hidden = true},
    {.why = "a frame of no known size",
     .script = ODD_SCRIPT(ODD_FRAME(4, 0, MARK "\0")),
     .hidden = true},
};

static const struct odd_row greeting_rows[] = {
    {.why = "HTTP/1.1",
     .greeting =
         ODD_SCRIPT(ODD_BYTES("HTTP/1.1 400 Bad Request\r\nServer: " MARK "\r\n\r\n"), ODD_CLOSE),
     .hidden = true},
    {.why = "SSH",
     .greeting = ODD_SCRIPT(ODD_BYTES("SSH-2.0-" MARK "\r\n"), ODD_CLOSE),
     .hidden = true},
    {.why = "GOAWAY before SETTINGS",
     .greeting = ODD_SCRIPT(ODD_GOAWAY_SAYING(0, MARK), ODD_CLOSE),
     .hidden = true},
};

/* A script with the secret in it. */
struct odd_copy {
  struct odd_script script;
  char *texts[ODD_STEPS_MAX];
};

static void replace(char *text, size_t size, const char *mark, const char *by) {
  size_t length = strlen(mark);
  assert_int_equal(strlen(by), length);
  for (size_t i = 0; i + length <= size; i++) {
    if (memcmp(text + i, mark, length) == 0) {
      memcpy(text + i, by, length);
    }
  }
}

static void odd_copy_init(struct odd_copy *copy, const struct odd_script *script,
                          const struct secret *secret) {
  char base64[SECRET_BASE64_LENGTH + 1];
  char percent[SECRET_PERCENT_LENGTH + 1];
  secret_to_base64(secret, base64);
  secret_to_percent(secret, percent);
  memset(copy, 0, sizeof *copy);
  copy->script = *script;
  for (size_t i = 0; i < ODD_STEPS_MAX; i++) {
    struct odd_step *step = &copy->script.steps[i];
    if (step->text == NULL) {
      continue;
    }
    size_t size = step->size > 0 ? step->size : strlen(step->text);
    char *text = calloc(1, size + 1);
    assert_non_null(text);
    memcpy(text, step->text, size);
    replace(text, size, MARK, secret->text);
    replace(text, size, BASE64_MARK, base64);
    replace(text, size, PERCENT_MARK, percent);
    copy->texts[i] = text;
    step->text = text;
  }
}

static void odd_copy_fini(struct odd_copy *copy) {
  for (size_t i = 0; i < ODD_STEPS_MAX; i++) {
    free(copy->texts[i]);
  }
}

static void assert_odd_logged(const struct secret_result *result, const struct odd_row *row,
                              const struct secret *secret) {
  const struct kept_record *record = assert_logged_once(result);
  if (record == NULL) {
    return;
  }
  switch (row->logged) {
  case LOGGED_MESSAGE:
    assert_secret_logged(result, secret, record->message, 1, "message");
    break;
  case LOGGED_DETAILS:
    assert_secret_logged(result, secret, record->details, 1, "details");
    break;
  case LOGGED_NOT:
    break;
  }
}

static void try_odd_row(const struct odd_row *row, enum way way, enum front_name name) {
  static struct secret_result result;
  struct secret secret;
  struct odd_copy script;
  struct odd_copy greeting;
  bool greets_oddly = row->greeting.steps[0].act != ODD_ACT_END;
  secret_make(&secret);
  odd_copy_init(&script, &row->script, &secret);
  odd_copy_init(&greeting, &row->greeting, &secret);
  struct odd_peer *peer = odd_peer_new(&(struct odd_setup){.greetings = &greeting.script,
                                                           .n_greetings = greets_oddly ? 1 : 0,
                                                           .answers = &script.script,
                                                           .n_answers = 1});
  struct front *front = front_open(name, &(struct channel_setup){.port = odd_peer_port(peer)});
  secret_call(front, way, row->why, &result);
  if (result.code == GRPC_STATUS_OK) {
    secret_fail(&result, "end", "a success");
  }
  assert_secret_seen(&result, &secret, !front->kind->is_boundary && !row->hidden, "secret");
  assert_odd_logged(&result, row, &secret);
  front_close(front);
  odd_peer_release(peer);
  odd_copy_fini(&script);
  odd_copy_fini(&greeting);
}

static void try_odd_rows(const struct odd_row *rows, size_t n_rows) {
  static const enum front_name names[] = {FRONT_OPEN, FRONT_BOUNDARY, FRONT_BOUNDARY_RETRIES};
  for (size_t i = 0; i < n_rows; i++) {
    for (int way = 0; way < N_MAIN_WAYS; way++) {
      for (size_t k = 0; k < COUNT_OF(names); k++) {
        try_odd_row(&rows[i], (enum way)way, names[k]);
      }
    }
  }
}

static void a_status_of_any_kind_shows_nothing(void **state) {
  (void)state;
  try_odd_rows(status_rows, COUNT_OF(status_rows));
}

static void a_proxys_answer_shows_nothing(void **state) {
  (void)state;
  try_odd_rows(http_rows, COUNT_OF(http_rows));
}

static void a_stream_that_breaks_shows_nothing(void **state) {
  (void)state;
  try_odd_rows(broken_rows, COUNT_OF(broken_rows));
}

static void what_is_no_http2_shows_nothing(void **state) {
  (void)state;
  try_odd_rows(greeting_rows, COUNT_OF(greeting_rows));
}

/* --- names of peers --- */

/* Nobody listens at an abstract socket unless it is opened, and nothing is left of it. The code in the
 * target is that of a letter of the name, so that the target is not what the core calls the peer. */
#define SOCKET_TARGET "unix-abstract:%77eir-" MARK
#define SOCKET_ADDRESS "unix-abstract:weir-" MARK
#define DNS_TARGET "dns:///" MARK ".invalid:1"

#define NAME_SIZE 96

static void name_make(char out[NAME_SIZE], const char *name, const struct secret *secret) {
  (void)snprintf(out, NAME_SIZE, "%s", name);
  replace(out, strlen(out), MARK, secret->text);
}

struct name_row {
  const char *why;
  const char *target;
  bool listens; /* a server fails there */
  bool tls;
  enum { LOGGED_PEER, LOGGED_REASON } logged;
};

static const struct name_row name_rows[] = {
    {.why = "a socket of its name",
     .target = SOCKET_TARGET,
     .listens = true,
     .logged = LOGGED_PEER},
    {.why = "a socket that nobody listens at", .target = SOCKET_TARGET, .logged = LOGGED_REASON},
    {.why = "a socket without TLS",
     .target = SOCKET_TARGET,
     .listens = true,
     .tls = true,
     .logged = LOGGED_REASON},
};

static const struct name_row dns_row = {
    .why = "a name that does not resolve", .target = DNS_TARGET, .logged = LOGGED_REASON};

static void assert_name_logged(const struct secret_result *result, const struct name_row *row,
                               const struct secret *secret) {
  const struct kept_record *record = assert_logged_once(result);
  if (record == NULL) {
    return;
  }
  assert_secret_logged(result, secret, record->target, 1, "target");
  assert_secret_logged(result, secret, record->peer, 1, "peer");
  /* The core may say a name twice. */
  if (row->logged == LOGGED_REASON && secret_find(secret, record->message, KEPT_TEXT) == NULL) {
    secret_fail(result, "message", "not logged");
  }
}

static const struct answer not_now = {.code = GRPC_STATUS_UNAVAILABLE, .text = "not now"};
static const struct script not_now_script = {.answers = &not_now, .n_answers = 1};

static void try_name_row(const struct name_row *row, enum way way, enum front_name name) {
  static struct secret_result result;
  struct secret secret;
  char target[NAME_SIZE];
  char address[NAME_SIZE];
  secret_make(&secret);
  name_make(target, row->target, &secret);
  name_make(address, SOCKET_ADDRESS, &secret);
  weir__test_server *server = row->listens
                                  ? weir__test_server_new_at(address, answer_by_script,
                                                             (void *)(uintptr_t)&not_now_script, 1)
                                  : NULL;
  grpc_channel_credentials *creds =
      row->tls ? grpc_ssl_credentials_create(NULL, NULL, NULL, NULL) : NULL;
  struct front *front = front_open(name, &(struct channel_setup){.target = target, .creds = creds});
  secret_call(front, way, row->why, &result);
  if (result.report.raw_code != GRPC_STATUS_UNAVAILABLE) {
    secret_fail(&result, "end", "of another kind");
  }
  assert_secret_seen(&result, &secret, !front->kind->is_boundary, "secret");
  assert_name_logged(&result, row, &secret);
  front_close(front);
  grpc_channel_credentials_release(creds);
  weir__test_server_release(server);
}

static void try_name_rows(const struct name_row *rows, size_t n_rows) {
  static const enum front_name names[] = {FRONT_OPEN, FRONT_BOUNDARY, FRONT_BOUNDARY_RETRIES};
  for (size_t i = 0; i < n_rows; i++) {
    for (int way = 0; way < N_MAIN_WAYS; way++) {
      for (size_t k = 0; k < COUNT_OF(names); k++) {
        try_name_row(&rows[i], (enum way)way, names[k]);
      }
    }
  }
}

static void the_name_of_a_peer_is_not_seen(void **state) {
  (void)state;
  try_name_rows(name_rows, COUNT_OF(name_rows));
}

static void a_name_that_does_not_resolve_is_not_seen(void **state) {
  (void)state;
  struct addrinfo *found = NULL;
  int error = getaddrinfo("nonexistent.invalid", NULL, NULL, &found);
  if (error != EAI_NONAME) {
    if (error == 0) {
      freeaddrinfo(found);
    }
    print_message("no resolver that answers: %s\n", gai_strerror(error));
    skip();
  }
  try_name_rows(&dns_row, 1);
}

/* --- between attempts --- */

/* Hands out what comes until a backoff has begun. */
static void wait_for_backoff(struct shaped_call *call, weir_completion_queue *queue,
                             struct counted_random *random) {
  int64_t limit_ns = now_ns() + SECONDS(30);
  while (counted_random_n_asked(random) == 0) {
    gpr_timespec soon =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(1, GPR_TIMESPAN));
    grpc_event event = weir_completion_queue_next(queue, soon, NULL);
    assert_true(event.type == GRPC_QUEUE_TIMEOUT ||
                shaped_on_tag(call, event.tag, event.success != 0));
    assert_true(now_ns() < limit_ns);
  }
}

/* A call whose first attempt has failed, at a peer whose name is a secret too. */
struct waiting {
  struct secret name;
  struct secret message;
  struct counted_random random;
  weir__test_server *server;
  struct front *front;
  weir_completion_queue *queue;
  struct shaped_call call;
  char target[NAME_SIZE];
  char address[NAME_SIZE];
  struct answer answer;
  struct script script;
};

static void waiting_open(struct waiting *waiting, enum shape shape, struct secret_result *result) {
  memset(waiting, 0, sizeof *waiting);
  secret_make(&waiting->name);
  secret_make(&waiting->message);
  counted_random_init(&waiting->random);
  name_make(waiting->target, SOCKET_TARGET, &waiting->name);
  name_make(waiting->address, SOCKET_ADDRESS, &waiting->name);
  waiting->answer = (struct answer){.code = GRPC_STATUS_UNAVAILABLE,
                                    .text = waiting->message.text,
                                    .trailing = {{"x-debug", waiting->message.text}}};
  waiting->script = (struct script){.answers = &waiting->answer, .n_answers = 1};
  waiting->server =
      weir__test_server_new_at(waiting->address, answer_by_script, &waiting->script, 1);
  waiting->front =
      front_open(FRONT_WAITS, &(struct channel_setup){.target = waiting->target,
                                                      .random = &waiting->random.base});
  waiting->queue = weir_completion_queue_create_for_next(NULL);
  secret_begin(waiting->front, shape == SHAPE_ONE_BATCH ? WAY_ONE_BATCH : WAY_SERVER_STREAM,
               "between attempts", result);
  shaped_start(&waiting->call, shape, waiting->front->channel, waiting->queue, NULL);
  wait_for_backoff(&waiting->call, waiting->queue, &waiting->random);
  see_peer(&result->seen, waiting->call.unary.call, waiting->front->channel);
}

/* It has ended, or is about to. */
static void waiting_close(struct waiting *waiting, struct secret_result *result) {
  shaped_wait(&waiting->call, waiting->queue);
  secret_end(&waiting->call, result);
  assert_secret_seen(result, &waiting->name, false, "name");
  assert_secret_seen(result, &waiting->message, false, "message");
  shaped_fini(&waiting->call);
  queue_end(waiting->queue);
}

static void waiting_fini(struct waiting *waiting) {
  front_close(waiting->front);
  weir__test_server_release(waiting->server);
  counted_random_fini(&waiting->random);
}

static const enum shape waiting_shapes[] = {SHAPE_ONE_BATCH, SHAPE_SERVER_STREAM};

static void a_call_that_is_cancelled_between_attempts_shows_nothing(void **state) {
  (void)state;
  static struct secret_result result;
  for (size_t i = 0; i < COUNT_OF(waiting_shapes); i++) {
    struct waiting waiting;
    waiting_open(&waiting, waiting_shapes[i], &result);
    assert_int_equal(weir_call_cancel(waiting.call.unary.call, NULL), GRPC_CALL_OK);
    waiting_close(&waiting, &result);
    assert_origin(&result, WEIR_ORIGIN_LOCAL_CANCEL);
    const struct kept_record *record = assert_logged_once(&result);
    assert_secret_logged(&result, &waiting.message, record->message, 0, "message");
    waiting_fini(&waiting);
  }
}

/* It ends with the status of its last attempt. */
static void a_call_whose_queue_is_shut_down_between_attempts_shows_nothing(void **state) {
  (void)state;
  static struct secret_result result;
  for (size_t i = 0; i < COUNT_OF(waiting_shapes); i++) {
    struct waiting waiting;
    waiting_open(&waiting, waiting_shapes[i], &result);
    weir_completion_queue_shutdown(waiting.queue);
    waiting_close(&waiting, &result);
    assert_origin(&result, WEIR_ORIGIN_PEER);
    const struct kept_record *record = assert_logged_once(&result);
    assert_secret_logged(&result, &waiting.message, record->message, 1, "message");
    assert_secret_logged(&result, &waiting.name, record->peer, 1, "peer");
    waiting_fini(&waiting);
  }
}

/* --- a stream that had come far --- */

/* What the server says, one after the other. */
enum said { SAID_HEADER = 0, SAID_FIRST, SAID_LAST, SAID_STATUS, SAID_TRAILER, N_SAID };

static const char *const said_names[N_SAID] = {"header", "first message", "last message", "status",
                                               "trailer"};

/* Of a call in batches of the test's own. */
static void see_batched(struct secret_result *result, struct batched_call *call,
                        grpc_byte_buffer *last) {
  struct unary unary = {.call = call->call,
                        .message = last,
                        .error_string = call->error_string,
                        .trailing_metadata = call->trailing_metadata,
                        .details = call->details,
                        .report = batched_call_report(call)};
  result->code = call->status;
  result->report = unary.report;
  see_unary(&result->seen, &unary);
  see_peer(&result->seen, call->call, result->front->channel);
}

/* Headers and a message are read, and only then does the call fail. */
static void play(struct puppet_server *server, weir_completion_queue *queue,
                 struct batched_call *call, grpc_status_code code, const struct secret *secrets,
                 struct secret_result *result) {
  struct call_batch *opening = batched_call_start(call, OPS(SEND_METADATA, RECV_METADATA));
  struct puppet_call *served = puppet_accept(server);
  puppet_send_headers(served, "x-served-by", secrets[SAID_HEADER].text);
  assert_true(awaited_tag_wait(&opening->tag, queue));
  struct call_batch *first = batched_call_start(call, OPS(RECV_MESSAGE));
  puppet_send_message(served, secrets[SAID_FIRST].text);
  assert_true(awaited_tag_wait(&first->tag, queue));
  assert_true(batch_received(first, secrets[SAID_FIRST].text));
  see_peer(&result->seen, call->call, result->front->channel);

  struct call_batch *status = batched_call_start(call, OPS(RECV_STATUS));
  struct call_batch *last = batched_call_start(call, OPS(RECV_MESSAGE));
  puppet_end(served, ENDS(.code = code, .text = secrets[SAID_STATUS].text,
                          .trailer = secrets[SAID_TRAILER].text));
  (void)awaited_tag_wait(&last->tag, queue);
  assert_true(awaited_tag_wait(&status->tag, queue));
  struct call_batch *late = batched_call_start(call, OPS(RECV_MESSAGE));
  (void)awaited_tag_wait(&late->tag, queue);
  assert_null(last->received);
  see_batched(result, call, late->received);
}

static void try_stream(enum front_name name, grpc_status_code code) {
  static struct secret_result result;
  struct secret secrets[N_SAID];
  for (size_t i = 0; i < N_SAID; i++) {
    secret_make(&secrets[i]);
  }
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct puppet_server *server = puppet_server_new(queue, NULL);
  struct front *front =
      front_open(name, &(struct channel_setup){.port = puppet_server_port(server)});
  secret_begin(front, WAY_SERVER_STREAM, weir_status_code_name(code), &result);
  struct batched_call *call = batched_call_new(weir_channel_create_call(
      front->channel, NULL, 0, queue, grpc_slice_from_static_string(METHOD), NULL,
      gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL));
  play(server, queue, call, code, secrets, &result);
  for (size_t i = SAID_STATUS; i < N_SAID; i++) {
    assert_secret_seen(&result, &secrets[i], !front->kind->is_boundary, said_names[i]);
  }
  const struct kept_record *record = assert_logged_once(&result);
  if (record != NULL) {
    assert_secret_logged(&result, &secrets[SAID_STATUS], record->message, 1, "message");
  }
  puppet_server_release(server);
  queue_end(queue);
  batched_call_release(call);
  front_close(front);
}

static void a_stream_that_fails_after_a_message_shows_nothing_of_its_end(void **state) {
  (void)state;
  for (int code = 1; code < WEIR_N_STATUS_CODES; code++) {
    try_stream(FRONT_OPEN, (grpc_status_code)code);
    try_stream(FRONT_BOUNDARY, (grpc_status_code)code);
    try_stream(FRONT_BOUNDARY_RETRIES, (grpc_status_code)code);
  }
}

/* --- the default log --- */

static void assert_line(const struct secret_result *result, const struct secret *secret,
                        const struct captured *captured) {
  static const char field[] = "\"message\":\"";
  if (count_in(captured->text, captured->size, "\n") != 1 || !captured_is_json(captured)) {
    secret_fail(result, "no line of JSON", captured->text);
  }
  const char *message = strstr(captured->text, field);
  if (message == NULL) {
    secret_fail(result, "no message", captured->text);
    return;
  }
  message += sizeof field - 1;
  if (count_in(message, strcspn(message, "\""), secret->text) != 1 ||
      count_in(captured->text, captured->size, result->report.reference) != 1) {
    secret_fail(result, "not in the message, once", captured->text);
  }
}

static void the_default_log_has_it_in_one_line_of_a_boundary_call(void **state) {
  (void)state;
  static struct secret_result result;
  static struct captured captured;
  /* Few: the log writes so many lines of a reason in a second. */
  static const grpc_status_code codes[] = {GRPC_STATUS_OK, GRPC_STATUS_NOT_FOUND,
                                           GRPC_STATUS_UNAVAILABLE};
  struct garden garden;
  garden_open(&garden);
  for (int name = 0; name < N_FRONTS; name++) {
    garden.fronts[name] =
        front_open((enum front_name)name,
                   &(struct channel_setup){.port = weir__test_server_port(garden.server),
                                           .default_log = true});
  }
  for (int name = 0; name < N_FRONTS; name++) {
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
      garden_plant(&garden, codes[i], BEFORE_HEADERS, BEFORE_HEADERS);
      capture_begin(&captured);
      secret_call(garden.fronts[name], WAY_ONE_BATCH, weir_status_code_name(codes[i]), &result);
      capture_end(&captured);
      if (garden.fronts[name]->kind->is_boundary && codes[i] != GRPC_STATUS_OK) {
        assert_line(&result, &garden.planter.plants[0].secrets[PLACE_MESSAGE], &captured);
      } else if (captured.size > 0) {
        secret_fail(&result, "a line", captured.text);
      }
    }
  }
  garden_close(&garden);
}

/* --- a chain --- */

/* A service between A's client and the one that plants. */
struct middle {
  weir_channel *next;
  bool passes_on; /* all that it was told, as nobody should */
};

static void pass_on(const struct weir_unary_reply *answer, struct weir__test_reply *reply) {
  char *text = grpc_slice_to_c_string(answer->details);
  weir__test_reply_status(reply, answer->code, text);
  gpr_free(text);
  for (size_t i = 0; i < answer->trailing_metadata.count && i < WEIR__TEST_METADATA_MAX; i++) {
    const grpc_metadata *entry = &answer->trailing_metadata.metadata[i];
    reply->trailing_metadata[i].key = grpc_slice_ref(entry->key);
    reply->trailing_metadata[i].value = grpc_slice_ref(entry->value);
    reply->n_trailing_metadata = i + 1;
  }
}

static void relay(void *context, const struct weir__test_served *served,
                  struct weir__test_reply *reply) {
  const struct middle *middle = context;
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply answer = WEIR_UNARY_REPLY_INIT;
  (void)served;
  request.method = OTHER_METHOD;
  request.message = message_of("from the middle");
  if (weir_unary(middle->next, &request, &answer) == WEIR_OK) {
    if (middle->passes_on) {
      pass_on(&answer, reply);
    } else {
      weir_reply_status(&answer.report, &reply->weir, &reply->status);
    }
  }
  weir_unary_reply_fini(&answer);
  grpc_byte_buffer_destroy(request.message);
}

/* The client of the chain has no boundary: it sees all that the middle answers. */
static void try_chain(struct garden *garden, enum front_name name, bool passes_on) {
  static struct secret_result result;
  struct middle middle = {.next = garden->fronts[name]->channel, .passes_on = passes_on};
  weir__test_server *server = weir__test_server_new(relay, &middle, 1);
  struct front *root =
      front_open(FRONT_OPEN, &(struct channel_setup){.port = weir__test_server_port(server)});
  bool leaks = passes_on && !garden->fronts[name]->kind->is_boundary;
  const unsigned shown = leaks ? PLACE_BIT(PLACE_MESSAGE) | PLACE_BIT(PLACE_TRAILER) : 0;
  for (int code = 1; code < WEIR_N_STATUS_CODES; code++) {
    for (int before = 0; before < N_PLANTED_BEFORE; before++) {
      garden_plant(garden, (grpc_status_code)code, (enum planted_before)before,
                   (enum planted_before)before);
      secret_call(root, WAY_ONE_BATCH, garden->fronts[name]->kind->why, &result);
      for (unsigned place = 0; place < N_PLACES; place++) {
        bool wanted = (shown & PLACE_BIT(place)) != 0;
        if (wanted || !leaks) {
          assert_secret_seen(&result, &garden->planter.plants[0].secrets[place], wanted,
                             place_name((enum place)place));
        }
      }
    }
  }
  front_close(root);
  weir__test_server_release(server);
}

static void a_services_own_caller_sees_nothing(void **state) {
  (void)state;
  struct garden garden;
  garden_open(&garden);
  garden_open_front(&garden, FRONT_OPEN);
  garden_open_front(&garden, FRONT_BOUNDARY);
  try_chain(&garden, FRONT_BOUNDARY, false);
  try_chain(&garden, FRONT_BOUNDARY, true);
  try_chain(&garden, FRONT_OPEN, false); /* weir's answer is of numbers and its own words */
  try_chain(&garden, FRONT_OPEN, true);  /* or else nothing of the above is worth anything */
  garden_close(&garden);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_secret_is_found_in_every_form),
      cmocka_unit_test(nothing_that_a_server_writes_is_seen_of_a_failure),
      cmocka_unit_test(a_boundary_of_a_method_or_on_a_wrapped_channel_is_one),
      cmocka_unit_test(headers_of_an_attempt_before_are_not_seen),
      cmocka_unit_test(a_response_that_is_too_large_is_not_seen),
      cmocka_unit_test(a_response_that_is_too_late_is_not_seen),
      cmocka_unit_test(a_refusal_shows_nothing_of_what_it_is_for),
      cmocka_unit_test(a_status_of_any_kind_shows_nothing),
      cmocka_unit_test(a_proxys_answer_shows_nothing),
      cmocka_unit_test(a_stream_that_breaks_shows_nothing),
      cmocka_unit_test(what_is_no_http2_shows_nothing),
      cmocka_unit_test(the_name_of_a_peer_is_not_seen),
      cmocka_unit_test(a_name_that_does_not_resolve_is_not_seen),
      cmocka_unit_test(a_call_that_is_cancelled_between_attempts_shows_nothing),
      cmocka_unit_test(a_call_whose_queue_is_shut_down_between_attempts_shows_nothing),
      cmocka_unit_test(a_stream_that_fails_after_a_message_shows_nothing_of_its_end),
      cmocka_unit_test(the_default_log_has_it_in_one_line_of_a_boundary_call),
      cmocka_unit_test(a_services_own_caller_sees_nothing),
  };
  return cmocka_run_group_tests_name("secrets", tests, start_core, stop_core);
}
