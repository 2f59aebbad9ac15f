/* The comments of policy.proto, which doc/policy.md shows, and what the loader does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <upb/encode.h>
#include <upb/reflection.h>
#include <weir/v1/policy.upb.h>
#include <weir/v1/policy.upbdefs.h>

#include "src/policy/document.h"
#include "src/policy/layer_rules.h"
#include "src/policy/policy_message.h"
#include "src/policy/policy_options.h"
#include "src/policy/problems.h"
#include "test/support/counting_allocator.h"
#include "test/unit/policy/loaded.h"

enum verdict { NONE = 0, ACCEPTED, REFUSED };

/* A document at the end of a field's range, or just beyond. */
struct trial {
  enum verdict verdict;
  const char *document;
};

struct pair {
  const char *with;
  const char *without;
};

/* What a field's comment says. */
struct fact {
  const char *message;
  const char *field;
  bool has_default;     /* one that JSON has; else it is a word, or the field is required */
  const char *stricter; /* NULL: it is an object */
  bool ceiling;
  bool warned_of;
  const char *order[4]; /* of the values of an enum, the strictest first */
  /* documents that state the default, and that don't: a pair for each place of the message */
  struct pair defaults[4];
  struct trial trials[24];
};

static const struct fact facts[] = {
#include "doc/policy/policy_facts.inc"
};

#define N_FACTS (sizeof facts / sizeof facts[0])

static void try_document(const struct fact *fact, const struct trial *trial) {
  struct loaded loaded;
  loaded_from_text(&loaded, trial->document, LOAD_STRICT);
  const enum verdict verdict = loaded.error == WEIR_OK ? ACCEPTED : REFUSED;
  if (verdict != trial->verdict || (loaded.n_warnings > 0 && !fact->warned_of)) {
    loaded_print(&loaded);
    fail_msg("%s.%s: %s, and its comment says other\n%s", fact->message, fact->field,
             verdict == ACCEPTED ? "accepted" : "refused", trial->document);
  }
  loaded_fini(&loaded);
}

/* And warns of nothing that is not said to be warned of. */
static void the_loader_takes_a_range_to_its_ends_and_no_further(void **state) {
  (void)state;
  size_t n_trials = 0;
  for (size_t i = 0; i < N_FACTS; i++) {
    for (const struct trial *trial = facts[i].trials; trial->document != NULL; trial++) {
      try_document(&facts[i], trial);
      n_trials++;
    }
  }
  assert_true(n_trials > 100);
}

/* ---- defaults ---- */

/* What a document comes to: a message with every field, also those that the document leaves out. */
struct effect {
  struct counting_allocator allocator;
  struct weir__document document;
  const upb_MessageDef *def;
  const weir_v1_Policy *policy;
  const char *bytes;
  size_t size;
};

static void effect_init(struct effect *effect, const char *text) {
  const struct weir_policy_load_options load_options = WEIR_POLICY_LOAD_OPTIONS_INIT;
  struct weir__problems problems = {.options = &load_options};
  struct weir__policy_options options;
  struct weir_method_options method;
  char *bytes = NULL;
  memset(effect, 0, sizeof *effect);
  counting_allocator_init(&effect->allocator);
  assert_int_equal(weir__document_init(&effect->document, text, strlen(text),
                                       &effect->allocator.base, &problems),
                   WEIR_OK);
  assert_int_equal(weir__policy_options_init(&options, &effect->document), WEIR_OK);
  assert_true(options.methods.n_methods <= 1);
  if (options.methods.n_methods == 1) {
    assert_int_equal(options.methods.next(options.methods.context, 0, &method), WEIR_OK);
    options.policy.methods = &method;
    options.policy.n_methods = 1;
  }
  effect->def = weir_v1_Policy_getmsgdef(effect->document.schema);
  effect->policy = weir__policy_message_of_options(&options.policy, effect->document.arena);
  assert_non_null(effect->policy);
  assert_int_equal(upb_Encode(effect->policy, upb_MessageDef_MiniTable(effect->def),
                              kUpb_EncodeOption_Deterministic, effect->document.arena, &bytes,
                              &effect->size),
                   kUpb_EncodeStatus_Ok);
  effect->bytes = bytes;
}

static void effect_fini(struct effect *effect) {
  weir__document_fini(&effect->document);
  assert_int_equal(effect->allocator.n_outstanding, 0);
}

static bool come_to_the_same(const char *a, const char *b) {
  struct effect effects[2];
  effect_init(&effects[0], a);
  effect_init(&effects[1], b);
  const bool same = effects[0].size == effects[1].size &&
                    memcmp(effects[0].bytes, effects[1].bytes, effects[0].size) == 0;
  effect_fini(&effects[0]);
  effect_fini(&effects[1]);
  return same;
}

static void what_a_comment_calls_the_default_is_what_holds_without_the_key(void **state) {
  (void)state;
  size_t n_pairs = 0;
  for (size_t i = 0; i < N_FACTS; i++) {
    for (const struct pair *pair = facts[i].defaults; pair->with != NULL; pair++) {
      if (!come_to_the_same(pair->with, pair->without)) {
        fail_msg("%s.%s: another default than its comment's\n%s", facts[i].message, facts[i].field,
                 pair->with);
      }
      n_pairs++;
    }
  }
  assert_true(n_pairs > 40);
  assert_false(come_to_the_same("{\"deadline\": {\"maxTimeout\": \"61s\"}}", "{}"));
}

/* Of objects, whether they are there is no matter. */
static bool is_object(const upb_FieldDef *field) {
  return upb_FieldDef_IsSubMessage(field) && !upb_FieldDef_IsMap(field) &&
         upb_MessageDef_WellKnownType(upb_FieldDef_MessageSubDef(field)) ==
             kUpb_WellKnown_Unspecified;
}

static const struct fact *find_fact(const upb_FieldDef *field) {
  const char *message = upb_MessageDef_Name(upb_FieldDef_ContainingType(field));
  for (size_t i = 0; i < N_FACTS; i++) {
    if (strcmp(facts[i].message, message) == 0 &&
        strcmp(facts[i].field, upb_FieldDef_Name(field)) == 0) {
      return &facts[i];
    }
  }
  fail_msg("%s has no comment", upb_FieldDef_FullName(field));
  return NULL;
}

/* A field that is in the effect of a document which does not name it has a default that can be
 * written down, and its comment does that. */
static void look_for_unwritten_defaults(const upb_Message *message, const upb_MessageDef *def) {
  for (int i = 0; i < upb_MessageDef_FieldCount(def); i++) {
    const upb_FieldDef *field = upb_MessageDef_Field(def, i);
    if (upb_FieldDef_IsRepeated(field) || !upb_Message_Has(message, field)) {
      continue;
    }
    if (is_object(field)) {
      look_for_unwritten_defaults(upb_Message_Get(message, field).msg_val,
                                  upb_FieldDef_MessageSubDef(field));
    } else if (!find_fact(field)->has_default) {
      fail_msg("%s has a default that its comment does not name", upb_FieldDef_FullName(field));
    }
  }
}

static void a_default_that_can_be_written_down_is(void **state) {
  (void)state;
  struct effect effect;
  size_t n_configs = 0;
  effect_init(&effect, "{\"methodConfig\": [{\"name\": [{\"service\": \"a.B\"}]}]}");
  look_for_unwritten_defaults(effect.policy, effect.def);
  const weir_v1_MethodConfig *const *configs =
      weir_v1_Policy_method_config(effect.policy, &n_configs);
  assert_int_equal(n_configs, 1);
  look_for_unwritten_defaults(configs[0], weir_v1_MethodConfig_getmsgdef(effect.document.schema));
  effect_fini(&effect);
}

/* ---- what is stricter ---- */

/* Of objects and of what can't be enforced, there is no word. */
static const struct {
  enum weir__stricter stricter;
  const char *word;
} words[] = {
    {WEIR__STRICTER_EQUAL, "the same"},     {WEIR__STRICTER_LESS, "less"},
    {WEIR__STRICTER_MORE, "more"},          {WEIR__STRICTER_TRUE, "true"},
    {WEIR__STRICTER_FALSE, "false"},        {WEIR__STRICTER_FIRST, "the earlier of"},
    {WEIR__STRICTER_SUBSET, "a subset"},    {WEIR__STRICTER_EACH, "the same for each"},
    {WEIR__STRICTER_INSIDE, NULL},          {WEIR__STRICTER_METHODS, NULL},
    {WEIR__STRICTER_PASSED_ON, "the same"}, {WEIR__STRICTER_NOT, "not enforced"},
};

static bool is_word_for(const char *word, enum weir__stricter stricter) {
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (words[i].stricter == stricter) {
      return word == NULL ? words[i].word == NULL || stricter == WEIR__STRICTER_NOT
                          : words[i].word != NULL && strcmp(words[i].word, word) == 0;
    }
  }
  return false;
}

static bool is_same_order(const struct fact *fact, const struct weir__layer_rule *rule,
                          const upb_FieldDef *field) {
  for (int i = 0; rule->order != NULL && i < WEIR__LAYER_ORDER_LENGTH; i++) {
    const upb_EnumValueDef *value =
        upb_EnumDef_FindValueByNumber(upb_FieldDef_EnumSubDef(field), rule->order[i]);
    if (fact->order[i] == NULL || strcmp(upb_EnumValueDef_Name(value), fact->order[i]) != 0) {
      return false;
    }
  }
  return rule->order != NULL || fact->order[0] == NULL;
}

static void what_a_comment_calls_stricter_is_what_the_layers_do(void **state) {
  (void)state;
  char name[64];
  upb_DefPool *schema = upb_DefPool_New();
  assert_non_null(weir_v1_Policy_getmsgdef(schema)); /* and with it all the others */
  for (size_t i = 0; i < N_FACTS; i++) {
    (void)snprintf(name, sizeof name, "weir.v1.%s", facts[i].message);
    const upb_MessageDef *def = upb_DefPool_FindMessageByName(schema, name);
    const upb_FieldDef *field = weir__layer_field(def, facts[i].field);
    const struct weir__layer_rule *rule = weir__layer_rule_of(field);
    assert_non_null(rule);
    if (!is_word_for(facts[i].stricter, rule->stricter) || rule->is_ceiling != facts[i].ceiling ||
        !is_same_order(&facts[i], rule, field)) {
      fail_msg("%s.%s: another rule than its comment's", facts[i].message, facts[i].field);
    }
  }
  upb_DefPool_Free(schema);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_loader_takes_a_range_to_its_ends_and_no_further),
      cmocka_unit_test(what_a_comment_calls_the_default_is_what_holds_without_the_key),
      cmocka_unit_test(a_default_that_can_be_written_down_is),
      cmocka_unit_test(what_a_comment_calls_stricter_is_what_the_layers_do),
  };
  return cmocka_run_group_tests_name("policy facts", tests, NULL, NULL);
}
