/* What a method has of the channel's translation, and what of its own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/status.h>
#include <weir/outcome.h>

#include "test/unit/policy/loaded.h"

#define TEXT_SIZE 8192
#define NONE WEIR_TRANSLATION_DEFAULT

/* ---- random documents ---- */

struct text {
  char bytes[TEXT_SIZE];
  size_t size;
};

__attribute__((format(printf, 2, 3))) static void print(struct text *text, const char *format,
                                                        ...) {
  va_list arguments;
  va_start(arguments, format);
  const int written =
      vsnprintf(text->bytes + text->size, sizeof text->bytes - text->size, format, arguments);
  va_end(arguments);
  text->size += (size_t)written;
  assert_true(text->size < sizeof text->bytes);
}

/* xorshift64: the same numbers each time. */
struct numbers {
  uint64_t state;
};

static uint32_t next(struct numbers *numbers, uint32_t below) {
  numbers->state ^= numbers->state << 13;
  numbers->state ^= numbers->state >> 7;
  numbers->state ^= numbers->state << 17;
  return (uint32_t)(numbers->state >> 32) % below;
}

/* How a list stands in a document; LIST_EMPTY and more is its length. */
enum list { LIST_LEFT_OUT = -2, LIST_NULL = -1, LIST_EMPTY = 0, LIST_MAX = 3 };

/* A translation as a document has it. NONE, or 0 bytes: it is left out. */
struct given {
  bool exists;
  int codes[WEIR_N_STATUS_CODES];
  int deadline_exceeded_as;
  int boundary;
  int message_ref;
  uint32_t max_message_bytes;
  int n_keep_metadata;
  int n_keep_details;
  char mark; /* what its lists are known by */
};

static int maybe_code(struct numbers *numbers) {
  return next(numbers, 3) == 0 ? 1 + (int)next(numbers, WEIR_N_STATUS_CODES - 1) : NONE;
}

static struct given draw(struct numbers *numbers, char mark) {
  struct given given = {.exists = next(numbers, 8) > 0, .mark = mark};
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    given.codes[code] = given.exists && code > 0 ? maybe_code(numbers) : NONE;
  }
  given.deadline_exceeded_as = given.exists ? maybe_code(numbers) : NONE;
  given.boundary = given.exists ? (int)next(numbers, 3) - 1 : NONE;
  given.message_ref = given.exists ? (int)next(numbers, 3) - 1 : NONE;
  given.max_message_bytes = given.exists && next(numbers, 2) > 0 ? 64 + next(numbers, 8129) : 0;
  given.n_keep_metadata = given.exists ? (int)next(numbers, 6) - 2 : LIST_LEFT_OUT;
  given.n_keep_details = given.exists ? (int)next(numbers, 6) - 2 : LIST_LEFT_OUT;
  return given;
}

/* A code by its name, in one of two cases, or by its number. */
static void print_code(struct text *text, struct numbers *numbers, int code, bool is_key) {
  const char *name = weir_status_code_name((grpc_status_code)code);
  switch (next(numbers, 3)) {
  case 0:
    print(text, is_key ? "\"%d\"" : "%d", code);
    break;
  case 1:
    print(text, "\"%s\"", name);
    break;
  default:
    print(text, "\"");
    for (; *name != '\0'; name++) {
      print(text, "%c", *name >= 'A' && *name <= 'Z' ? *name - 'A' + 'a' : *name);
    }
    print(text, "\"");
    break;
  }
}

static void print_list(struct text *text, const char *key, int n, const char *stem, char mark) {
  if (n == LIST_NULL) {
    print(text, ",\"%s\":null", key);
  } else if (n >= LIST_EMPTY) {
    print(text, ",\"%s\":[", key);
    for (int i = 0; i < n; i++) {
      print(text, "%s\"%s.%c%d\"", i > 0 ? "," : "", stem, mark, i);
    }
    print(text, "]");
  }
}

static const char *word(int boolean) {
  return boolean == NONE ? "null" : boolean == 0 ? "false" : "true";
}

/* With a comma in front of it. */
static void print_given(struct text *text, struct numbers *numbers, const struct given *given) {
  const char *separator = "";
  if (!given->exists) {
    return;
  }
  print(text, ",\"translation\":{\"boundary\":%s,\"messageRef\":%s,\"codes\":{",
        word(given->boundary), word(given->message_ref));
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    if (given->codes[code] != NONE) {
      print(text, "%s", separator);
      print_code(text, numbers, code, true);
      print(text, ":");
      print_code(text, numbers, given->codes[code], false);
      separator = ",";
    }
  }
  print(text, "}");
  if (given->deadline_exceeded_as != NONE) {
    print(text, ",\"deadlineExceededAs\":");
    print_code(text, numbers, given->deadline_exceeded_as, false);
  }
  if (given->max_message_bytes > 0) {
    print(text, ",\"maxMessageBytes\":%u", (unsigned)given->max_message_bytes);
  }
  print_list(text, "keepMetadata", given->n_keep_metadata, "x", given->mark);
  print_list(text, "keepDetails", given->n_keep_details, "pkg", given->mark);
  print(text, "}");
}

/* ---- what must come of them ---- */

/* What becomes of a code, or NONE for the built-in rule. */
static int given_for(const struct given *given, int code) {
  return code == GRPC_STATUS_DEADLINE_EXCEEDED && given->deadline_exceeded_as != NONE
             ? given->deadline_exceeded_as
             : given->codes[code];
}

static int effective(const struct weir_translation_options *options, int code) {
  return code == GRPC_STATUS_DEADLINE_EXCEEDED && options->deadline_exceeded_as != NONE
             ? options->deadline_exceeded_as
             : options->codes[code];
}

static void assert_list(const char *const *list, size_t n, int n_own, int n_channel, char own_mark,
                        const char *stem) {
  const bool own = n_own >= LIST_EMPTY;
  const int expected = own ? n_own : n_channel >= LIST_EMPTY ? n_channel : 0;
  assert_int_equal(n, expected);
  for (size_t i = 0; i < n; i++) {
    char element[32];
    snprintf(element, sizeof element, "%s.%c%zu", stem, own ? own_mark : 'c', i);
    assert_string_equal(list[i], element);
  }
}

static void assert_merged(const struct weir_translation_options *options, const struct given *own,
                          const struct given *channel, const char *document) {
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    const int expected =
        given_for(own, code) != NONE ? given_for(own, code) : given_for(channel, code);
    if (effective(options, code) != expected) {
      fail_msg("%s becomes %d instead of %d: %s", weir_status_code_name((grpc_status_code)code),
               effective(options, code), expected, document);
    }
  }
  const int boundary = own->boundary != NONE ? own->boundary : channel->boundary;
  const int message_ref = own->message_ref != NONE ? own->message_ref : channel->message_ref;
  const uint32_t bytes =
      own->max_message_bytes > 0 ? own->max_message_bytes : channel->max_message_bytes;
  assert_int_equal(options->boundary, boundary != 0);
  assert_int_equal(options->message_ref, message_ref != 0);
  assert_int_equal(options->max_message_bytes, bytes > 0 ? bytes : 1024);
  assert_list(options->keep_metadata, options->n_keep_metadata, own->n_keep_metadata,
              channel->n_keep_metadata, own->mark, "x");
  assert_list(options->keep_details, options->n_keep_details, own->n_keep_details,
              channel->n_keep_details, own->mark, "pkg");
}

/* An entry that says nothing of translation. */
static struct given nothing(void) {
  struct given given = {.deadline_exceeded_as = NONE,
                        .boundary = NONE,
                        .message_ref = NONE,
                        .n_keep_metadata = LIST_LEFT_OUT,
                        .n_keep_details = LIST_LEFT_OUT};
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    given.codes[code] = NONE;
  }
  return given;
}

/* Entries for a method, its service and everything else, and for a method that says nothing. */
enum { N_ENTRIES = 4, BARE = 3 };

static const struct {
  const char *name;
  const char *path; /* of a method that it holds for */
} entries[N_ENTRIES] = {
    {"{\"service\":\"a.B\",\"method\":\"C\"}", "/a.B/C"},
    {"{\"service\":\"a.B\"}", "/a.B/Other"},
    {"{}", "/x.Y/Z"},
    {"{\"service\":\"a.B\",\"method\":\"Bare\"}", "/a.B/Bare"},
};

static void print_document(struct text *text, struct numbers *numbers, const struct given *channel,
                           const struct given own[N_ENTRIES]) {
  text->size = 0;
  print(text, "{\"name\":\"n\"");
  print_given(text, numbers, channel);
  print(text, ",\"methodConfig\":[");
  for (int i = 0; i < N_ENTRIES; i++) {
    print(text, "%s{\"name\":[%s]", i > 0 ? "," : "", entries[i].name);
    print_given(text, numbers, &own[i]);
    print(text, "}");
  }
  print(text, "]}");
}

static void what_a_method_does_not_say_is_the_channels(void **state) {
  (void)state;
  enum { N_ROUNDS = 1000 };
  static struct text text;
  static struct loaded loaded;
  struct numbers numbers = {.state = UINT64_C(0x5eed)};
  for (int round = 0; round < N_ROUNDS; round++) {
    const struct given channel = draw(&numbers, 'c');
    struct given own[N_ENTRIES];
    for (int i = 0; i < N_ENTRIES; i++) {
      own[i] = i == BARE ? nothing() : draw(&numbers, (char)('p' + i));
    }
    print_document(&text, &numbers, &channel, own);
    loaded_from_text(&loaded, text.bytes, LOAD_STRICT);
    if (loaded.error != WEIR_OK || loaded.n_told > 0) {
      loaded_print(&loaded);
      fail_msg("%s: %s", weir_error_name(loaded.error), text.bytes);
    }
    for (int i = 0; i < N_ENTRIES; i++) {
      assert_merged(loaded_method(&loaded, entries[i].path)->translation, &own[i], &channel,
                    text.bytes);
    }
    loaded_fini(&loaded);
  }
}

/* ---- the word that counts ---- */

static const struct weir_translation_options *
translation_of(struct loaded *loaded, const char *channel, const char *method) {
  char text[1024];
  snprintf(text, sizeof text,
           "{\"translation\":%s,\"methodConfig\":[{\"name\":[{\"service\":\"a.B\"}],"
           "\"translation\":%s}]}",
           channel, method);
  loaded_from_text(loaded, text, LOAD_STRICT);
  if (loaded->error != WEIR_OK) {
    loaded_print(loaded);
    fail_msg("%s", text);
  }
  return loaded_method(loaded, "/a.B/C")->translation;
}

static void a_methods_deadline_code_comes_before_the_channels_however_it_is_given(void **state) {
  (void)state;
  static const struct {
    const char *channel;
    const char *method;
    int expected;
  } rows[] = {
      {"{\"deadlineExceededAs\":\"ABORTED\"}", "{}", GRPC_STATUS_ABORTED},
      {"{\"deadlineExceededAs\":\"ABORTED\"}", "{\"deadlineExceededAs\":\"INTERNAL\"}",
       GRPC_STATUS_INTERNAL},
      {"{\"deadlineExceededAs\":\"ABORTED\"}", "{\"codes\":{\"DEADLINE_EXCEEDED\":\"INTERNAL\"}}",
       GRPC_STATUS_INTERNAL},
      {"{\"codes\":{\"4\":\"ABORTED\"}}", "{\"codes\":{\"deadline_exceeded\":\"INTERNAL\"}}",
       GRPC_STATUS_INTERNAL},
      {"{\"codes\":{\"4\":\"ABORTED\"}}", "{\"deadlineExceededAs\":4}",
       GRPC_STATUS_DEADLINE_EXCEEDED},
      {"{\"codes\":{\"4\":\"ABORTED\"}}", "{\"codes\":{\"NOT_FOUND\":\"INTERNAL\"}}",
       GRPC_STATUS_ABORTED},
      {"{\"deadlineExceededAs\":\"ABORTED\"}", "{\"deadlineExceededAs\":null,\"codes\":null}",
       GRPC_STATUS_ABORTED},
      {"{\"deadlineExceededAs\":\"ABORTED\",\"codes\":{\"4\":13}}", "{\"codes\":{}}",
       GRPC_STATUS_ABORTED},
      {"{}", "{\"deadlineExceededAs\":\"ABORTED\",\"codes\":{\"4\":13}}", GRPC_STATUS_ABORTED},
      {"{}", "{}", NONE},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct loaded loaded;
    const struct weir_translation_options *translation =
        translation_of(&loaded, rows[i].channel, rows[i].method);
    const int code = effective(translation, GRPC_STATUS_DEADLINE_EXCEEDED);
    if (code != rows[i].expected) {
      fail_msg("%s over %s: %d", rows[i].method, rows[i].channel, code);
    }
    loaded_fini(&loaded);
  }
}

static void a_list_that_is_given_replaces_the_channels_even_if_empty(void **state) {
  (void)state;
  static const struct {
    const char *method;
    size_t n_keep_metadata;
    size_t n_keep_details;
  } rows[] = {
      {"{}", 2, 1},
      {"{\"keepMetadata\":null,\"keepDetails\":null}", 2, 1},
      {"{\"keepMetadata\":[]}", 0, 1},
      {"{\"keepDetails\":[]}", 2, 0},
      {"{\"keep_details\":[]}", 2, 0},
      {"{\"keepMetadata\":[\"x-c\"],\"keepDetails\":[\"a.C\",\"a.D\"]}", 1, 2},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct loaded loaded;
    const struct weir_translation_options *translation = translation_of(
        &loaded, "{\"keepMetadata\":[\"x-a\",\"x-b\"],\"keepDetails\":[\"a.B\"]}", rows[i].method);
    if (translation->n_keep_metadata != rows[i].n_keep_metadata ||
        translation->n_keep_details != rows[i].n_keep_details) {
      fail_msg("%s keeps %zu and %zu", rows[i].method, translation->n_keep_metadata,
               translation->n_keep_details);
    }
    assert_int_equal(translation->keep_details != NULL, rows[i].n_keep_details > 0);
    loaded_fini(&loaded);
  }
}

static void an_entry_without_a_translation_has_the_channels_and_not_its_services(void **state) {
  (void)state;
  struct loaded loaded;
  loaded_from_text(&loaded,
                   "{\"translation\":{\"codes\":{\"NOT_FOUND\":\"ABORTED\"}},\"methodConfig\":["
                   "{\"name\":[{\"service\":\"a.B\"}],\"translation\":{\"boundary\":false}},"
                   "{\"name\":[{\"service\":\"a.B\",\"method\":\"C\"}]},"
                   "{\"name\":[{}],\"translation\":{\"messageRef\":false}}]}",
                   LOAD_STRICT);
  assert_int_equal(loaded.error, WEIR_OK);
  const struct weir_translation_options *bare = loaded_method(&loaded, "/a.B/C")->translation;
  assert_true(bare->boundary);
  assert_true(bare->message_ref);
  assert_int_equal(bare->codes[GRPC_STATUS_NOT_FOUND], GRPC_STATUS_ABORTED);
  assert_false(loaded_method(&loaded, "/a.B/D")->translation->boundary);
  assert_false(loaded_method(&loaded, "/x.Y/Z")->translation->message_ref);
  loaded_fini(&loaded);
}

static void the_names_of_an_entry_share_its_translation(void **state) {
  (void)state;
  struct loaded loaded;
  loaded_from_text(&loaded,
                   "{\"translation\":{\"keepMetadata\":[\"x-a\"]},\"methodConfig\":["
                   "{\"name\":[{\"service\":\"a.A\"},{\"service\":\"a.B\"}],\"translation\":{}},"
                   "{\"name\":[{\"service\":\"a.C\"},{}]},"
                   "{\"name\":[{\"service\":\"a.D\"}],\"translation\":{}}]}",
                   LOAD_STRICT);
  assert_int_equal(loaded.error, WEIR_OK);
  const struct weir_translation_options *first = loaded_method(&loaded, "/a.A/M")->translation;
  const struct weir_translation_options *channels = loaded_method(&loaded, "/a.C/M")->translation;
  const struct weir_translation_options *other = loaded_method(&loaded, "/a.D/M")->translation;
  assert_ptr_equal(loaded_method(&loaded, "/a.B/M")->translation, first);
  assert_ptr_equal(loaded_method(&loaded, "/else.S/M")->translation, channels);
  assert_ptr_not_equal(first, channels);
  assert_ptr_not_equal(first, other);
  assert_ptr_equal(first->keep_metadata, channels->keep_metadata);
  assert_ptr_equal(other->keep_metadata, channels->keep_metadata);
  loaded_fini(&loaded);
}

/* ---- OK ---- */

/* Where a translation may stand, in front of its keys, and its path. */
static const struct {
  const char *before;
  const char *after;
  const char *path;
} places[] = {
    {"{\"translation\":{", "}}", "translation"},
    {"{\"methodConfig\":[{\"name\":[{\"service\":\"a.B\",\"method\":\"C\"}],\"translation\":{",
     "}}]}", "methodConfig[0].translation"},
    {"{\"methodConfig\":[{},{},{\"name\":[{\"service\":\"a.B\"}],\"translation\":{", "}}]}",
     "methodConfig[2].translation"},
    {"{\"translation\":{\"codes\":{\"ABORTED\":14}},\"methodConfig\":[{\"name\":[{}],"
     "\"translation\":{",
     "}}]}", "methodConfig[0].translation"},
    {"{\"methodConfig\":[{\"translation\":{", "}}]}", "methodConfig[0].translation"},
};

static const struct {
  const char *keys;
  const char *path;
  const char *says;
} translations_of_ok[] = {
    {"\"codes\":{\"OK\":\"INTERNAL\"}", "codes.OK", "never translated"},
    {"\"codes\":{\"ok\":\"INTERNAL\"}", "codes.ok", "never translated"},
    {"\"codes\":{\"oK\":13}", "codes.oK", "never translated"},
    {"\"codes\":{\"0\":13}", "codes.0", "never translated"},
    {"\"codes\":{\"-0\":13}", "codes.-0", "never translated"},
    {"\"codes\":{\"0.0\":13}", "codes.0.0", "never translated"},
    {"\"codes\":{\"NOT_FOUND\":\"OK\"}", "codes.NOT_FOUND", "OK"},
    {"\"codes\":{\"NOT_FOUND\":\"ok\"}", "codes.NOT_FOUND", "OK"},
    {"\"codes\":{\"not_found\":\"Ok\"}", "codes.not_found", "OK"},
    {"\"codes\":{\"5\":0}", "codes.5", "OK"},
    {"\"codes\":{\"5\":0.0}", "codes.5", "OK"},
    {"\"codes\":{\"5\":-0}", "codes.5", "OK"},
    {"\"codes\":{\"5\":0e9}", "codes.5", "OK"},
    {"\"codes\":{\"INTERNAL\":13,\"ABORTED\":\"OK\"}", "codes.ABORTED", "OK"},
    {"\"deadlineExceededAs\":\"OK\"", "deadlineExceededAs", "OK"},
    {"\"deadlineExceededAs\":\"ok\"", "deadlineExceededAs", "OK"},
    {"\"deadlineExceededAs\":0", "deadlineExceededAs", "OK"},
    {"\"deadline_exceeded_as\":0.0", "deadlineExceededAs", "OK"},
};

static void translations_from_and_to_ok_are_refused_wherever_they_stand(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    for (size_t j = 0; j < sizeof translations_of_ok / sizeof translations_of_ok[0]; j++) {
      for (int mode = LOAD_STRICT; mode <= LOAD_LENIENT; mode++) {
        char text[512];
        char path[96];
        struct loaded loaded;
        snprintf(text, sizeof text, "%s%s%s", places[i].before, translations_of_ok[j].keys,
                 places[i].after);
        snprintf(path, sizeof path, "%s.%s", places[i].path, translations_of_ok[j].path);
        loaded_from_text(&loaded, text, (enum load_mode)mode);
        const struct told *told = loaded_told(&loaded, path);
        if (loaded.error != WEIR_ERROR_INVALID_POLICY || loaded.n_refused != 1 || told == NULL ||
            strstr(told->problem.message, translations_of_ok[j].says) == NULL) {
          loaded_print(&loaded);
          fail_msg("%s: %s", text, weir_error_name(loaded.error));
        }
        assert_null(loaded.policy);
        loaded_fini(&loaded);
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_a_method_does_not_say_is_the_channels),
      cmocka_unit_test(a_methods_deadline_code_comes_before_the_channels_however_it_is_given),
      cmocka_unit_test(a_list_that_is_given_replaces_the_channels_even_if_empty),
      cmocka_unit_test(an_entry_without_a_translation_has_the_channels_and_not_its_services),
      cmocka_unit_test(the_names_of_an_entry_share_its_translation),
      cmocka_unit_test(translations_from_and_to_ok_are_refused_wherever_they_stand),
  };
  return cmocka_run_group_tests_name("method_translation", tests, NULL, NULL);
}
