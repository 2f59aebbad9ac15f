/* Policies that users are shown: those in pages, and those of examples/policies.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/policy/loaded.h"

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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_json_block_of_a_page_is_a_policy),
  };
  return cmocka_run_group_tests_name("policy examples", tests, NULL, NULL);
}
