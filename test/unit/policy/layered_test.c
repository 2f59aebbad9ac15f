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

#include "src/policy/layer_rules.h"
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

/* ---- of two ---- */

static const char organisation[] =
    "{\n"
    "  \"deadline\": { \"maxTimeout\": \"9s\" },\n"
    "  \"retry\": { \"replayBytes\": 1000 },\n"
    "  \"translation\": { \"messageRef\": false },\n"
    "  \"enforce\": {\n"
    "    \"translation\": { \"codes\": { \"NOT_FOUND\": 13 },\n"
    "      \"keepMetadata\": [\"x-a\"] },\n"
    "    \"methodConfig\": [{ \"name\": [{ \"service\": \"a.Pay\" }],\n"
    "      \"timeout\": \"2s\",\n"
    "      \"retryPolicy\": { \"maxAttempts\": 1 } }]\n"
    "  }\n"
    "}";

static const char channel[] =
    "{\n"
    "  \"retry\": { \"replayBytes\": 2000 },\n"
    "  \"translation\": { \"maxMessageBytes\": 99 },\n"
    "  \"methodConfig\": [{ \"name\": [{}], \"timeout\": \"3s\",\n"
    "    \"retryPolicy\": { \"maxAttempts\": 2, \"initialBackoff\": \"1s\",\n"
    "      \"maxBackoff\": \"1s\", \"backoffMultiplier\": 2,\n"
    "      \"retryableStatusCodes\": [14] } }]\n"
    "}";

static void tells_the_place_of_each_value_of_two_documents(void **state) {
  struct fixture *f = *state;
  assert_int_equal(lay(f, organisation, channel), WEIR_OK);
  const struct weir__layered *l = &f->layered;
  const weir_v1_Translation *translation = weir_v1_Policy_translation(l->policy);
  const upb_FieldDef *codes = field_of(f, "Translation", "codes");
  assert_origin(weir__layered_origin(l, weir_v1_Policy_deadline(l->policy),
                                     field_of(f, "Deadline", "max_timeout")),
                WEIR__ORIGIN_ORGANISATION, 2, 31);
  assert_origin(weir__layered_origin(l, weir_v1_Policy_retry(l->policy),
                                     field_of(f, "Retry", "replay_bytes")),
                WEIR__ORIGIN_CEILING, 3, 29);
  assert_origin(weir__layered_origin(l, translation, field_of(f, "Translation", "message_ref")),
                WEIR__ORIGIN_ORGANISATION, 4, 34);
  assert_origin(
      weir__layered_origin(l, translation, field_of(f, "Translation", "max_message_bytes")),
      WEIR__ORIGIN_CHANNEL, 3, 39);
  assert_origin(weir__layered_element_origin(l, translation, codes, 5), WEIR__ORIGIN_ENFORCED, 6,
                46);
}

static void tells_the_place_of_what_is_enforced_on_methods(void **state) {
  struct fixture *f = *state;
  size_t n = 0;
  assert_int_equal(lay(f, organisation, channel), WEIR_OK);
  const struct weir__layered *l = &f->layered;
  const weir_v1_MethodConfig *const *configs = weir_v1_Policy_method_config(l->policy, &n);
  const upb_FieldDef *timeout = field_of(f, "MethodConfig", "timeout");
  const upb_FieldDef *retries = field_of(f, "MethodConfig", "retry_policy");
  assert_int_equal(n, 2); /* the channel's, and one made of it for a.Pay */
  assert_origin(weir__layered_origin(l, configs[0], timeout), WEIR__ORIGIN_CHANNEL, 4, 47);
  assert_origin(weir__layered_origin(l, configs[0], retries), WEIR__ORIGIN_CHANNEL, 5, 20);
  assert_origin(weir__layered_origin(l, configs[1], timeout), WEIR__ORIGIN_ENFORCED, 9, 18);
  assert_false(weir_v1_MethodConfig_has_retry_policy(configs[1]));
  assert_origin(weir__layered_origin(l, configs[1], retries), WEIR__ORIGIN_ENFORCED, 10, 39);
  assert_origin(weir__layered_element_origin(l, configs[1], field_of(f, "MethodConfig", "name"), 0),
                WEIR__ORIGIN_ENFORCED, 8, 33);
}

static void running_out_of_memory_is_survived_at_every_allocation(void **state) {
  struct fixture *f = *state;
  enum weir_error error = WEIR_ERROR_NO_MEMORY;
  for (size_t nth = 1; error == WEIR_ERROR_NO_MEMORY; nth++) {
    counting_allocator_fail_nth(&f->allocator, nth);
    error = lay(f, organisation, channel);
    f->allocator.fails_at = 0;
    if (error != WEIR_OK) {
      weir__layered_fini(&f->layered);
      assert_int_equal(f->allocator.n_outstanding, 0);
    }
    assert_true(nth < 10000);
  }
  assert_int_equal(error, WEIR_OK);
}

/* ---- the table of rules ---- */

static bool fits(const upb_FieldDef *field, const struct weir__layer_rule *rule) {
  const upb_CType type = upb_FieldDef_CType(field);
  const bool is_list = upb_FieldDef_IsRepeated(field) && !upb_FieldDef_IsMap(field);
  const bool is_duration =
      type == kUpb_CType_Message && !upb_FieldDef_IsRepeated(field) &&
      upb_MessageDef_WellKnownType(upb_FieldDef_MessageSubDef(field)) == kUpb_WellKnown_Duration;
  const bool is_single = type != kUpb_CType_Message || is_duration;
  switch (rule->stricter) {
  case WEIR__STRICTER_EQUAL:
    return is_single && !is_list;
  case WEIR__STRICTER_LESS:
  case WEIR__STRICTER_MORE:
    return is_duration || type == kUpb_CType_UInt32 || type == kUpb_CType_Double;
  case WEIR__STRICTER_TRUE:
  case WEIR__STRICTER_FALSE:
    return type == kUpb_CType_Bool;
  case WEIR__STRICTER_FIRST:
    return type == kUpb_CType_Enum && rule->order != NULL;
  case WEIR__STRICTER_SUBSET:
    return is_list;
  case WEIR__STRICTER_EACH:
    return upb_FieldDef_IsMap(field);
  case WEIR__STRICTER_INSIDE:
    return type == kUpb_CType_Message && !upb_FieldDef_IsRepeated(field) && !is_duration;
  case WEIR__STRICTER_METHODS:
    return is_list;
  case WEIR__STRICTER_PASSED_ON:
  case WEIR__STRICTER_NOT:
    return true;
  }
  return false;
}

static void walk_rules(const upb_MessageDef *def) {
  for (int i = 0; i < upb_MessageDef_FieldCount(def); i++) {
    const upb_FieldDef *field = upb_MessageDef_Field(def, i);
    const struct weir__layer_rule *rule = weir__layer_rule_of(field);
    if (rule == NULL || !fits(field, rule)) {
      fail_msg("what is weaker of %s?", upb_FieldDef_FullName(field));
    }
    if (upb_FieldDef_IsSubMessage(field) && !upb_FieldDef_IsMap(field) &&
        upb_MessageDef_WellKnownType(upb_FieldDef_MessageSubDef(field)) ==
            kUpb_WellKnown_Unspecified &&
        upb_FieldDef_MessageSubDef(field) != def) {
      walk_rules(upb_FieldDef_MessageSubDef(field));
    }
  }
}

static void every_field_of_the_schema_has_a_rule_that_fits_it(void **state) {
  (void)state;
  upb_DefPool *schema = upb_DefPool_New();
  walk_rules(weir_v1_Policy_getmsgdef(schema));
  upb_DefPool_Free(schema);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(tells_the_place_of_each_value_of_one_document, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(tells_the_place_of_each_value_of_two_documents, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(tells_the_place_of_what_is_enforced_on_methods, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(running_out_of_memory_is_survived_at_every_allocation, setup,
                                      teardown),
      cmocka_unit_test(every_field_of_the_schema_has_a_rule_that_fits_it),
  };
  return cmocka_run_group_tests_name("layered", tests, NULL, NULL);
}
