/* Two documents as one, and where their values stand.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <upb/reflection.h>
#include <weir/v1/policy.upb.h>
#include <weir/v1/policy.upbdefs.h>

#include "src/policy/layered.h"
#include "src/policy/problems.h"
#include "test/support/counting_allocator.h"

struct fixture {
  struct counting_allocator allocator;
  struct weir_policy_load_options options;
  struct weir__problems problems;
  struct weir__layered layered;
};

static int setup(void **state) {
  static struct fixture f;
  memset(&f, 0, sizeof f);
  counting_allocator_init(&f.allocator);
  f.options = (struct weir_policy_load_options)WEIR_POLICY_LOAD_OPTIONS_INIT;
  f.problems.options = &f.options;
  *state = &f;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  weir__layered_fini(&f->layered);
  assert_int_equal(f->allocator.n_outstanding, 0);
  return 0;
}

static struct weir__policy_text text_of(const char *text) {
  return (struct weir__policy_text){.text = text, .size = strlen(text)};
}

static enum weir_error lay(struct fixture *f, const char *organisation, const char *channel) {
  const struct weir__policy_text over = text_of(organisation != NULL ? organisation : "");
  const struct weir__policy_text under = text_of(channel);
  return weir__layered_init(&f->layered, organisation != NULL ? &over : NULL, &under,
                            &f->allocator.base, &f->problems);
}

static const upb_FieldDef *field_of(const struct fixture *f, const char *message,
                                    const char *field) {
  char name[64];
  snprintf(name, sizeof name, "weir.v1.%s", message);
  const upb_MessageDef *def = upb_DefPool_FindMessageByName(f->layered.schema, name);
  assert_non_null(def);
  const upb_FieldDef *found = upb_MessageDef_FindFieldByNameWithSize(def, field, strlen(field));
  assert_non_null(found);
  return found;
}

static void assert_origin(struct weir__origin origin, enum weir__origin_kind kind, uint32_t line,
                          uint32_t column) {
  assert_int_equal(origin.kind, kind);
  assert_int_equal(origin.line, line);
  assert_int_equal(origin.column, column);
}

static void tells_the_place_of_each_value_of_one_document(void **state) {
  struct fixture *f = *state;
  assert_int_equal(lay(f, NULL,
                       "{\n"
                       "  \"deadline\": { \"maxTimeout\": \"5s\" },\n"
                       "  \"translation\": { \"keepMetadata\": [\"a\",\n"
                       "    \"b\"], \"codes\": { \"NOT_FOUND\": 13,\n"
                       "    \"ABORTED\": 2 } }\n"
                       "}"),
                   WEIR_OK);
  const weir_v1_Deadline *deadline = weir_v1_Policy_deadline(f->layered.policy);
  const weir_v1_Translation *translation = weir_v1_Policy_translation(f->layered.policy);
  const upb_FieldDef *keep = field_of(f, "Translation", "keep_metadata");
  const upb_FieldDef *codes = field_of(f, "Translation", "codes");
  assert_origin(
      weir__layered_origin(&f->layered, f->layered.policy, field_of(f, "Policy", "deadline")),
      WEIR__ORIGIN_CHANNEL, 2, 15);
  assert_origin(weir__layered_origin(&f->layered, deadline, field_of(f, "Deadline", "max_timeout")),
                WEIR__ORIGIN_CHANNEL, 2, 31);
  assert_origin(
      weir__layered_origin(&f->layered, deadline, field_of(f, "Deadline", "default_timeout")),
      WEIR__ORIGIN_BUILT_IN, 0, 0);
  assert_origin(weir__layered_origin(&f->layered, translation, keep), WEIR__ORIGIN_CHANNEL, 3, 36);
  assert_origin(weir__layered_element_origin(&f->layered, translation, keep, 0),
                WEIR__ORIGIN_CHANNEL, 3, 37);
  assert_origin(weir__layered_element_origin(&f->layered, translation, keep, 1),
                WEIR__ORIGIN_CHANNEL, 4, 5);
  assert_origin(weir__layered_element_origin(&f->layered, translation, codes, 5),
                WEIR__ORIGIN_CHANNEL, 4, 35);
  assert_origin(weir__layered_element_origin(&f->layered, translation, codes, 10),
                WEIR__ORIGIN_CHANNEL, 5, 16);
  assert_origin(weir__layered_element_origin(&f->layered, translation, codes, 14),
                WEIR__ORIGIN_BUILT_IN, 0, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(tells_the_place_of_each_value_of_one_document, setup,
                                      teardown),
  };
  return cmocka_run_group_tests_name("layered", tests, NULL, NULL);
}
