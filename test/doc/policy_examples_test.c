/* Policies that users are shown: those in pages, and those of examples/policies.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/status.h>

#include "src/policy/policy.h"
#include "test/unit/policy/loaded.h"

#define MS WEIR_MS_NS
#define SECONDS WEIR_SECOND_NS
#define CODE(code) (UINT32_C(1) << GRPC_STATUS_##code)

#define FOLDER "examples/policies/"

/* Ends with free. */
static char *read_page(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    fail_msg("%s can't be opened", path);
  }
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  const long size = ftell(file);
  assert_true(size >= 0);
  char *text = malloc((size_t)size + 1);
  assert_non_null(text);
  rewind(file);
  assert_int_equal(fread(text, 1, (size_t)size, file), (size_t)size);
  text[size] = '\0';
  (void)fclose(file);
  return text;
}

static void accept_without_a_word(const char *where, const char *text, size_t size) {
  struct loaded loaded;
  loaded_from_bytes(&loaded, text, size, LOAD_STRICT);
  if (loaded.error != WEIR_OK || loaded.n_told != 0) {
    loaded_print(&loaded);
    fail_msg("%s: %s\n%.*s", where, weir_error_name(loaded.error), (int)size, text);
  }
  loaded_fini(&loaded);
}

/* ---- pages ---- */

#define FENCE "\n```"

static void every_json_block_of_a_page_is_a_policy(void **state) {
  (void)state;
  static const struct {
    const char *path;
    int n_blocks;
  } pages[] = {{"README.md", 1}, {"doc/policy.md", 3}, {"doc/translation.md", 1}};
  for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
    char *text = read_page(pages[i].path);
    int n_blocks = 0;
    const char *block = text;
    while ((block = strstr(block, FENCE "json\n")) != NULL) {
      block += sizeof FENCE "json\n" - 1;
      const char *end = strstr(block, FENCE);
      assert_non_null(end);
      accept_without_a_word(pages[i].path, block, (size_t)(end - block));
      block = end + sizeof FENCE - 1;
      n_blocks++;
    }
    assert_int_equal(n_blocks, pages[i].n_blocks);
    free(text);
  }
}

/* ---- examples/policies ---- */

static bool ends_with(const char *text, const char *end) {
  const size_t size = strlen(text);
  return size > strlen(end) && strcmp(text + size - strlen(end), end) == 0;
}

static int is_policy(const struct dirent *entry) {
  return ends_with(entry->d_name, ".json");
}

static bool is_an_organisations(const char *file) {
  return strncmp(file, "organisation", strlen("organisation")) == 0;
}

/* Calls `look` with the name of each file, and returns how many there are. */
static int look_at_all(void (*look)(void *context, const char *file), void *context) {
  struct dirent **entries = NULL;
  const int n_files = scandir(FOLDER, &entries, is_policy, alphasort);
  for (int i = 0; i < n_files; i++) {
    look(context, entries[i]->d_name);
    free(entries[i]);
  }
  free(entries);
  return n_files;
}

static void look_at_text_and_readme(void *context, const char *file) {
  const char *readme = context;
  char path[300];
  (void)snprintf(path, sizeof path, FOLDER "%s", file);
  char *text = read_page(path);
  accept_without_a_word(path, text, strlen(text));
  free(text);
  (void)snprintf(path, sizeof path, "](%s)", file);
  if (strstr(readme, path) == NULL) {
    fail_msg("README.md says nothing of %s", file);
  }
}

static void every_example_is_accepted_and_explained(void **state) {
  (void)state;
  char *readme = read_page(FOLDER "README.md");
  assert_int_equal(look_at_all(look_at_text_and_readme, readme), 14);
  free(readme);
}

/* What holds for a method. */
struct effective {
  const char *why;
  const char *file;
  const char *method;
  int64_t timeout_ns; /* 0: none */
  int64_t per_attempt_timeout_ns;
  uint32_t max_attempts;
  uint32_t retryable_codes;
  int64_t max_timeout_ns;
  bool on_refusal;
  bool on_failure;
  int8_t not_found; /* what it becomes */
  size_t n_kept_keys;
};

#define BUILT_IN WEIR_TRANSLATION_DEFAULT
#define INTERNAL GRPC_STATUS_INTERNAL

static const struct effective table[] = {
    {"an idempotent read", "edge", "/shop.Catalog/GetItem", 1500 * MS, 0, 3, CODE(UNAVAILABLE),
     10 * SECONDS, true, false, BUILT_IN, 0},
    {"all else", "edge", "/shop.Cart/Add", 3 * SECONDS, 0, 1, 0, 10 * SECONDS, true, false,
     BUILT_IN, 0},
    {"an account that there is not is not told of", "public_edge", "/shop.Account/Get", 3 * SECONDS,
     0, 1, 0, 10 * SECONDS, true, false, INTERNAL, 0},
    {"an item that there is not is", "public_edge", "/shop.Catalog/GetItem", 3 * SECONDS, 0, 1, 0,
     10 * SECONDS, true, false, BUILT_IN, 1},
    {"a read within the data centre", "internal", "/stock.Levels/Get", 1 * SECONDS, 300 * MS, 3,
     CODE(UNAVAILABLE), 5 * SECONDS, true, false, BUILT_IN, 0},
    {"a reservation is made once", "internal", "/stock.Levels/Reserve", 1 * SECONDS, 0, 1, 0,
     5 * SECONDS, true, false, BUILT_IN, 0},
    {"an import takes its time", "batch", "/warehouse.Import/Put", 300 * SECONDS, 60 * SECONDS, 4,
     CODE(UNAVAILABLE) | CODE(RESOURCE_EXHAUSTED) | CODE(ABORTED), 300 * SECONDS, true, false,
     BUILT_IN, 0},
    {"a watch has no timeout", "watch", "/stock.Levels/Watch", 0, 0, 4, CODE(UNAVAILABLE),
     60 * SECONDS, true, false, BUILT_IN, 0},
    {"a snapshot has", "watch", "/stock.Levels/Get", 2 * SECONDS, 0, 1, 0, 60 * SECONDS, true,
     false, BUILT_IN, 0},
    {"a charge is made once, and nothing stands in for it", "payment", "/bank.Payments/Charge",
     5 * SECONDS, 0, 1, 0, 8 * SECONDS, false, false, INTERNAL, 1},
    {"asking again is harmless", "payment", "/bank.Payments/GetStatus", 2 * SECONDS, 0, 2,
     CODE(UNAVAILABLE), 8 * SECONDS, false, false, INTERNAL, 1},
    {"older results are better than none", "search", "/shop.Search/Find", 300 * MS, 100 * MS, 2,
     CODE(UNAVAILABLE), 60 * SECONDS, true, true, BUILT_IN, 0},
    {"an index has none", "search", "/shop.Search/Reindex", 30 * SECONDS, 0, 1, 0, 60 * SECONDS,
     false, false, BUILT_IN, 0},
    {"a read that is repeated", "catalog", "/shop.Catalog/ListItems", 1 * SECONDS, 250 * MS, 3,
     CODE(UNAVAILABLE) | CODE(RESOURCE_EXHAUSTED), 5 * SECONDS, true, false, BUILT_IN, 0},
    {"a write that is not", "catalog", "/shop.Catalog/PutItem", 2 * SECONDS, 0, 1, 0, 5 * SECONDS,
     true, false, BUILT_IN, 0},
    {"the same message twice is dropped by its id", "notifications", "/notify.Push/Send",
     20 * SECONDS, 5 * SECONDS, 3, CODE(UNAVAILABLE) | CODE(RESOURCE_EXHAUSTED), 30 * SECONDS, true,
     false, BUILT_IN, 0},
    {"a text message costs money", "notifications", "/notify.Sms/Send", 10 * SECONDS, 0, 1, 0,
     30 * SECONDS, true, false, BUILT_IN, 0},
    {"a lost leader or a lost race", "writer", "/ledger.Store/Commit", 5 * SECONDS, 800 * MS, 4,
     CODE(ABORTED) | CODE(UNAVAILABLE), 10 * SECONDS, true, false, BUILT_IN, 0},
    {"reads of the ledger", "writer", "/ledger.Store/Read", 1 * SECONDS, 0, 1, 0, 10 * SECONDS,
     true, false, BUILT_IN, 0},
    {"as gRPC has it", "service_config", "/helloworld.Greeter/SayHello", 1 * SECONDS, 0, 4,
     CODE(UNAVAILABLE), 60 * SECONDS, true, false, BUILT_IN, 0},
    {"no method is named", "shadow", "/any.Service/Method", 5 * SECONDS, 0, 1, 0, 60 * SECONDS,
     true, false, BUILT_IN, 0},
};

static int64_t unless_none(int64_t duration_ns) {
  return duration_ns == WEIR_NO_LIMIT_NS ? 0 : duration_ns;
}

static bool holds(const struct effective *row, const struct weir_method_policy *method) {
  return unless_none(method->timeout_ns) == row->timeout_ns &&
         unless_none(method->per_attempt_timeout_ns) == row->per_attempt_timeout_ns &&
         method->retry.max_attempts == row->max_attempts &&
         method->retry.retryable_codes == row->retryable_codes &&
         method->deadline->max_timeout_ns == row->max_timeout_ns &&
         method->fallback->on_refusal == row->on_refusal &&
         method->fallback->on_failure == row->on_failure && method->translation->boundary &&
         method->translation->codes[GRPC_STATUS_NOT_FOUND] == row->not_found &&
         method->translation->n_keep_metadata == row->n_kept_keys;
}

/* All attempts and backoffs of a call that has attempts with a bound fit in its timeout: the last
 * one is not cut off. */
static bool attempts_fit(const struct weir_method_policy *method) {
  if (method->per_attempt_timeout_ns == WEIR_NO_LIMIT_NS) {
    return true;
  }
  int64_t sum_ns = method->per_attempt_timeout_ns * (int64_t)method->retry.max_attempts;
  for (uint32_t nth = 1; nth < method->retry.max_attempts; nth++) {
    sum_ns += weir_backoff_delay_ns(&method->retry, nth, 1.0);
  }
  return sum_ns < method->timeout_ns;
}

static void what_holds_for_methods_is_what_the_readme_says(void **state) {
  (void)state;
  char path[300];
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct loaded loaded;
    (void)snprintf(path, sizeof path, FOLDER "%s.json", table[i].file);
    char *text = read_page(path);
    loaded_from_text(&loaded, text, LOAD_STRICT);
    assert_int_equal(loaded.error, WEIR_OK);
    const struct weir_method_policy *method = loaded_method(&loaded, table[i].method);
    if (!holds(&table[i], method) || !attempts_fit(method)) {
      fail_msg("%s, %s: %s", table[i].file, table[i].method, table[i].why);
    }
    loaded_fini(&loaded);
    free(text);
  }
}

/* ---- an organisation's ---- */

struct layered {
  weir_policy *organisation;
  weir_policy *channel;
  weir_policy *policy;
  enum weir_error error;
  struct weir_diagnostic diagnostic;
  size_t n_told;
};

static void on_problem(void *context, enum weir_policy_severity severity,
                       const struct weir_diagnostic *problem) {
  struct layered *layered = context;
  layered->n_told++;
  fprintf(stderr, "  %s [%s] %s\n", severity == WEIR_POLICY_REFUSED ? "refused" : "warning",
          problem->path, problem->message);
}

/* `channel` NULL: one that says nothing. Both are files of the folder, without ".json". */
static void layered_init(struct layered *layered, const char *organisation, const char *channel) {
  char path[300];
  struct weir_policy_load_options options = WEIR_POLICY_LOAD_OPTIONS_INIT;
  *layered = (struct layered){.n_told = 0};
  (void)snprintf(path, sizeof path, FOLDER "%s.json", organisation);
  assert_int_equal(weir_policy_from_file(path, NULL, NULL, &layered->organisation, NULL), WEIR_OK);
  if (channel != NULL) {
    (void)snprintf(path, sizeof path, FOLDER "%s.json", channel);
    assert_int_equal(weir_policy_from_file(path, NULL, NULL, &layered->channel, NULL), WEIR_OK);
  }
  options.on_problem = on_problem;
  options.context = layered;
  layered->error = weir_policy_layer(layered->organisation, layered->channel, &options, NULL,
                                     &layered->policy, &layered->diagnostic);
}

static void layered_fini(struct layered *layered) {
  weir_policy_unref(layered->organisation);
  weir_policy_unref(layered->channel);
  weir_policy_unref(layered->policy);
}

static void look_under_the_organisations(void *context, const char *file) {
  int *n_channels = context;
  char name[256];
  struct layered layered;
  if (is_an_organisations(file)) {
    return;
  }
  (void)snprintf(name, sizeof name, "%.*s", (int)(strlen(file) - strlen(".json")), file);
  layered_init(&layered, "organisation", name);
  if (layered.error != WEIR_OK || layered.n_told > 0) {
    fail_msg("%s: %s", name, weir_error_name(layered.error));
  }
  layered_fini(&layered);
  *n_channels += 1;
}

static void every_channels_example_is_accepted_under_the_organisations(void **state) {
  (void)state;
  int n_channels = 0;
  (void)look_at_all(look_under_the_organisations, &n_channels);
  assert_int_equal(n_channels, 12);
}

static const struct weir_method_policy *method_of(const struct layered *layered, const char *path) {
  assert_int_equal(layered->error, WEIR_OK);
  return weir_policy_method(layered->policy, path, strlen(path));
}

static void what_a_channel_does_not_say_is_the_organisations(void **state) {
  (void)state;
  struct layered layered;
  uint32_t max_tokens = 0;
  uint32_t ratio_milli = 0;
  layered_init(&layered, "organisation", NULL);
  const struct weir_method_policy *any = method_of(&layered, "/any.Service/Method");
  assert_true(weir__policy_throttle(layered.policy, &max_tokens, &ratio_milli));
  assert_int_equal(max_tokens, 100);
  assert_int_equal(ratio_milli, 100);
  assert_int_equal(any->deadline->max_stream_timeout_ns, 86400 * SECONDS);
  assert_int_equal(any->deadline->max_timeout_ns, 60 * SECONDS);
  assert_int_equal(any->retry.max_attempts, 1);
  layered_fini(&layered);
  layered_init(&layered, "organisation", "service_config"); /* which has a throttle of its own */
  assert_true(weir__policy_throttle(layered.policy, &max_tokens, &ratio_milli));
  assert_int_equal(max_tokens, 10);
  layered_fini(&layered);
}

static void the_payments_organisation_takes_payments_and_no_retried_commit(void **state) {
  (void)state;
  struct layered layered;
  layered_init(&layered, "organisation_payment", "payment");
  assert_int_equal(method_of(&layered, "/bank.Payments/Charge")->retry.max_attempts, 1);
  assert_int_equal(method_of(&layered, "/bank.Payments/GetStatus")->retry.max_attempts, 2);
  assert_int_equal(method_of(&layered, "/any.Service/Method")->deadline->max_timeout_ns,
                   8 * SECONDS);
  assert_int_equal(layered.n_told, 0);
  layered_fini(&layered);
  layered_init(&layered, "organisation_payment", "writer");
  assert_int_equal(layered.error, WEIR_ERROR_INVALID_POLICY);
  assert_string_equal(layered.diagnostic.path, "methodConfig[0].retryPolicy.maxAttempts");
  assert_string_equal(layered.diagnostic.other_path,
                      "enforce.methodConfig[0].retryPolicy.maxAttempts");
  assert_true(layered.diagnostic.line > 0 && layered.diagnostic.other_line > 0);
  layered_fini(&layered);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_json_block_of_a_page_is_a_policy),
      cmocka_unit_test(every_example_is_accepted_and_explained),
      cmocka_unit_test(what_holds_for_methods_is_what_the_readme_says),
      cmocka_unit_test(every_channels_example_is_accepted_under_the_organisations),
      cmocka_unit_test(what_a_channel_does_not_say_is_the_organisations),
      cmocka_unit_test(the_payments_organisation_takes_payments_and_no_retried_commit),
  };
  return cmocka_run_group_tests_name("policy examples", tests, NULL, NULL);
}
