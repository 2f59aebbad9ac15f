/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "src/outcome/wire_signals.h"

#define LOST "Socket closed"
#define GOAWAY "GOAWAY received"

/* What the core was seen to do with peers whose side of the story was known. */
struct row {
  const char *why;
  const char *words;
  struct weir__wire_signals signals; /* initial, trailing, count, failed before, message op done */
  bool headers;
  bool from_peer;
  bool never_connected;
  bool unprocessed;
};

static const struct row rows[] = {
    {"Trailers-Only", "", {1, 2, 0, false, true}, false, true, false, false},
    {"Trailers-Only with two entries", "", {1, 4, 2, false, true}, false, true, false, false},
    {"Trailers-Only with a GOAWAY's words",
     GOAWAY,
     {1, 2, 0, false, true},
     false,
     true,
     false,
     false},
    {"headers, then trailers", "", {2, 2, 0, true, true}, true, true, false, false},
    {"headers with an entry, then trailers", "", {3, 2, 0, true, true}, true, true, false, false},
    {"headers, then trailers with an entry", "", {2, 3, 1, true, true}, true, true, false, false},
    {"headers, then trailers with a GOAWAY's words",
     GOAWAY,
     {2, 2, 0, true, true},
     true,
     true,
     false,
     false},
    {"headers, message, trailers", "", {2, 2, 0, false, true}, true, true, false, false},
    {"headers, then reset or closed", LOST, {2, 1, 0, true, true}, true, false, false, false},
    {"headers, message, then reset", LOST, {2, 1, 0, false, true}, true, false, false, false},
    {"sent, then reset or closed", LOST, {1, 1, 0, true, true}, false, false, false, false},
    {"sent, refused by a GOAWAY", GOAWAY, {1, 2, 0, true, true}, false, false, false, true},
    {"never sent, a GOAWAY", GOAWAY, {1, 2, 0, true, true}, false, false, false, true},
    {"never sent, to a closed connection",
     "Transport closed",
     {1, 2, 0, true, true},
     false,
     false,
     false,
     true},
    {"never sent, for lack of an id",
     "Stream IDs exhausted",
     {1, 2, 0, true, true},
     false,
     false,
     false,
     true},
    {"never sent, or amid trailers, connection closed",
     LOST,
     {1, 2, 0, true, true},
     false,
     false,
     false,
     false},
    {"words that only begin so", GOAWAY " ", {1, 2, 0, true, true}, false, false, false, false},
    {"refused, but nobody asked for a message",
     GOAWAY,
     {1, 2, 0, false, false},
     false,
     true,
     false,
     false},
    {"a trailing entry can't come unsent",
     GOAWAY,
     {1, 2, 1, true, true},
     false,
     false,
     false,
     false},
    {"sent, silence, deadline", "", {0, 1, 0, true, true}, false, false, false, false},
    {"connection refused, lame, early cancel",
     "",
     {0, 0, 0, false, true},
     false,
     false,
     true,
     false},
    {"HTTP error with a body", "", {0, 0, 0, true, true}, false, false, false, false},
    {"HTTP error without one", "", {1, 0, 0, false, true}, false, false, false, false},
    {"nobody asked for the headers", GOAWAY, {0, 2, 0, true, true}, false, true, false, false},
};

static void each_situation_is_told_by_its_signals(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct row *row = &rows[i];
    if (weir__wire_signals_headers_received(&row->signals) != row->headers) {
      fail_msg("%s: headers received", row->why);
    }
    if (weir__wire_signals_trailers_from_peer(&row->signals) != row->from_peer) {
      fail_msg("%s: trailers from the peer", row->why);
    }
    if (weir__wire_signals_never_connected(&row->signals) != row->never_connected) {
      fail_msg("%s: never connected", row->why);
    }
    if (weir__wire_signals_unprocessed(&row->signals, grpc_slice_from_static_string(row->words)) !=
        row->unprocessed) {
      fail_msg("%s: unprocessed", row->why);
    }
  }
}

/* What is supposed of an attempt is told as it is of one that was made. */
static void each_ending_is_told_by_the_signals_that_are_made_for_it(void **state) {
  (void)state;
  static const struct {
    const char *why;
    enum weir__wire_ending ending;
    bool headers;
    bool from_peer;
    bool never_connected;
    bool unprocessed;
  } endings[] = {
      {"Trailers-Only", WEIR__WIRE_ENDING_TRAILERS_ONLY, false, true, false, false},
      {"headers, then trailers", WEIR__WIRE_ENDING_TRAILERS, true, true, false, false},
      {"sent, then lost", WEIR__WIRE_ENDING_LOST, false, false, false, false},
      {"headers, then lost", WEIR__WIRE_ENDING_HEADERS_LOST, true, false, false, false},
      {"refused by a GOAWAY", WEIR__WIRE_ENDING_UNPROCESSED, false, false, false, true},
      {"silence", WEIR__WIRE_ENDING_SILENCE, false, false, false, false},
      {"no connection", WEIR__WIRE_ENDING_NO_CONNECTION, false, false, true, false},
  };
  for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
    const struct weir__wire_signals signals = weir__wire_signals_of(endings[i].ending);
    if (weir__wire_signals_headers_received(&signals) != endings[i].headers ||
        weir__wire_signals_trailers_from_peer(&signals) != endings[i].from_peer ||
        weir__wire_signals_never_connected(&signals) != endings[i].never_connected ||
        weir__wire_signals_unprocessed(&signals, weir__wire_words_of_goaway()) !=
            endings[i].unprocessed) {
      fail_msg("%s", endings[i].why);
    }
  }
}

static void headers_that_nobody_asked_for_are_unknown(void **state) {
  (void)state;
  const struct weir__wire_signals not_asked = {0, 2, 0, true, true};
  const struct weir__wire_signals trailers_only = {1, 2, 0, false, true};
  const struct weir__wire_signals not_connected = {0, 0, 0, false, true};

  assert_true(weir__wire_signals_headers_unknown(&not_asked));
  assert_false(weir__wire_signals_headers_unknown(&trailers_only));
  assert_false(weir__wire_signals_headers_unknown(&not_connected));
}

static void a_message_that_the_core_refused_is_told_from_none(void **state) {
  (void)state;
  const struct weir__wire_signals refused = {2, 3, 0, false, true};
  const struct weir__wire_signals none_came = {2, 2, 0, true, true};
  const struct weir__wire_signals trailers_only = {1, 2, 0, false, true};

  assert_true(weir__wire_signals_message_refused(&refused));
  assert_false(weir__wire_signals_message_refused(&none_came));
  assert_false(weir__wire_signals_message_refused(&trailers_only));
}

static const struct {
  const char *words;
  bool tell;
  uint32_t code;
} words_rows[] = {
    {"Received RST_STREAM with error code 0", true, 0},
    {"Received RST_STREAM with error code 7", true, 7},
    {"Received RST_STREAM with error code 11", true, 11},
    {"Received RST_STREAM with error code 4294967295", true, UINT32_MAX},
    {"Received RST_STREAM with error code 4294967296", false, 0},
    {"Received RST_STREAM with error code 18446744073709551623", false, 0}, /* 7, if it wrapped */
    {"Received RST_STREAM with error code ", false, 0},
    {"Received RST_STREAM with error code -7", false, 0},
    {"Received RST_STREAM with error code 7.", false, 0},
    {"received RST_STREAM with error code 7", false, 0},
    {"received initial metadata size exceeds limit", false, 0},
    {"", false, 0},
};

static void the_code_of_a_reset_is_read_from_the_cores_words(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof words_rows / sizeof words_rows[0]; i++) {
    uint32_t code = 0;
    grpc_slice words = grpc_slice_from_static_string(words_rows[i].words);
    if (weir__wire_words_tell_reset(words, &code) != words_rows[i].tell ||
        code != words_rows[i].code) {
      fail_msg("\"%s\": %u", words_rows[i].words, (unsigned)code);
    }
  }
}

static void only_the_tested_core_is_trusted(void **state) {
  (void)state;
  assert_true(weir__wire_signals_trusted_for("29.0.0"));
  assert_false(weir__wire_signals_trusted_for("30.0.0"));
  assert_false(weir__wire_signals_trusted_for("29.1.0"));
  assert_false(weir__wire_signals_trusted_for("2"));
  assert_false(weir__wire_signals_trusted_for(""));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_situation_is_told_by_its_signals),
      cmocka_unit_test(each_ending_is_told_by_the_signals_that_are_made_for_it),
      cmocka_unit_test(headers_that_nobody_asked_for_are_unknown),
      cmocka_unit_test(a_message_that_the_core_refused_is_told_from_none),
      cmocka_unit_test(the_code_of_a_reset_is_read_from_the_cores_words),
      cmocka_unit_test(only_the_tested_core_is_trusted),
  };
  return cmocka_run_group_tests_name("wire_signals", tests, NULL, NULL);
}
