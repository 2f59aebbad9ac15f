/* policy.proto and what reads it.
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
#include <upb/json_decode.h>
#include <upb/map.h>
#include <upb/reflection.h>
#include <weir/v1/policy.upb.h>
#include <weir/v1/policy.upbdefs.h>

#include "src/base/allocator.h"
#include "src/policy/document.h"
#include "src/policy/problems.h"

struct fixture {
  struct weir_policy_load_options options;
  struct weir__problems problems;
  struct weir__document document;
  const upb_MessageDef *def;
  char text[8192];
  size_t size;
};

static int setup(void **state) {
  static struct fixture f;
  memset(&f, 0, sizeof f);
  f.options = (struct weir_policy_load_options)WEIR_POLICY_LOAD_OPTIONS_INIT;
  f.problems.options = &f.options;
  *state = &f;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  weir__document_fini(&f->document);
  return 0;
}

static void read_text(struct fixture *f) {
  assert_int_equal(weir__document_init(&f->document, f->text, f->size,
                                       weir__allocator_or_default(NULL), &f->problems),
                   WEIR_OK);
  f->def = weir_v1_Policy_getmsgdef(f->document.schema);
  assert_non_null(f->def);
}

static void read_file(struct fixture *f, const char *path) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  f->size = fread(f->text, 1, sizeof f->text, file);
  (void)fclose(file);
  read_text(f);
}

static bool is_passed_on(const upb_FieldDef *field) {
  return upb_FieldDef_IsSubMessage(field) && !upb_FieldDef_IsMap(field) &&
         upb_MessageDef_WellKnownType(upb_FieldDef_MessageSubDef(field)) == kUpb_WellKnown_Struct;
}

static bool is_ours(const upb_FieldDef *field) {
  return upb_FieldDef_IsSubMessage(field) && !upb_FieldDef_IsMap(field) &&
         upb_MessageDef_WellKnownType(upb_FieldDef_MessageSubDef(field)) ==
             kUpb_WellKnown_Unspecified;
}

static bool is_set(const upb_Message *message, const upb_FieldDef *field) {
  if (!upb_FieldDef_IsRepeated(field)) { /* a map is repeated too */
    return upb_Message_Has(message, field);
  }
  const upb_MessageValue value = upb_Message_Get(message, field);
  return upb_FieldDef_IsMap(field) ? value.map_val != NULL && upb_Map_Size(value.map_val) > 0
                                   : value.array_val != NULL && upb_Array_Size(value.array_val) > 0;
}

/* Fails for a field that the message, or a message in it, does not have. Of lists the first element
 * is looked at. */
static void assert_complete(const upb_Message *message, const upb_MessageDef *def) {
  for (int i = 0; i < upb_MessageDef_FieldCount(def); i++) {
    const upb_FieldDef *field = upb_MessageDef_Field(def, i);
    if (is_passed_on(field)) {
      continue;
    }
    if (!is_set(message, field)) {
      fail_msg("%s is not read, or not in everything.json", upb_FieldDef_FullName(field));
    }
    if (is_ours(field) && upb_FieldDef_MessageSubDef(field) != def) { /* not into `enforce` */
      const upb_MessageValue value = upb_Message_Get(message, field);
      assert_complete(upb_FieldDef_IsRepeated(field) ? upb_Array_Get(value.array_val, 0).msg_val
                                                     : value.msg_val,
                      upb_FieldDef_MessageSubDef(field));
    }
  }
}

static void every_key_of_the_schema_is_read(void **state) {
  struct fixture *f = *state;
  read_file(f, "test/unit/policy/testdata/everything.json");
  assert_complete(f->document.policy, f->def);
  assert_int_equal(f->problems.n_refused, 0);
}

/* upb's own decoder stops at the first fault and sees less of them; what it accepts, it must read
 * the same. */
static void upbs_json_decoder_reads_the_same_message(void **state) {
  struct fixture *f = *state;
  static const char text[] =
      "{\"name\":\"n\",\"passTrace\":false,\"retryThrottling\":{\"maxTokens\":10,\"tokenRatio\":0."
      "5},"
      "\"deadline\":{\"maxTimeout\":\"1.05s\",\"default_timeout\":\"1s\",\"inheritsParent\":false},"
      "\"translation\":{\"boundary\":true,\"keepMetadata\":[\"x-a\",\"x-\\u0062\"],"
      "\"maxMessageBytes\":256,"
      "\"keep_details\":[\"google.rpc.RetryInfo\"],\"codes\":{"
      "\"NOT_FOUND\":\"INTERNAL\"},"
      "\"deadlineExceededAs\":14},"
      "\"breaker\":{\"scope\":\"METHOD\",\"failureRatio\":0.29,\"probes\":2.0,\"minRequests\":"
      "\"7\",\"window\":null},"
      "\"retry\":{\"owner\":\"NEVER\",\"replayBytes\":1e3},"
      "\"methodConfig\":[{\"name\":[{},{\"service\":\"a.B\",\"method\":\"C\"}],\"timeout\":\"0."
      "000000001s\","
      "\"waitForReady\":true,\"maxRequestMessageBytes\":4294967295,"
      "\"translation\":{\"boundary\":false,\"keepMetadata\":[]},"
      "\"retryPolicy\":{\"maxAttempts\":3,\"initialBackoff\":\"0.1s\",\"maxBackoff\":"
      "\"315576000000s\","
      "\"backoffMultiplier\":1.3,\"retryableStatusCodes\":[\"UNAVAILABLE\",4]}},{\"name\":[]}]}";
  memcpy(f->text, text, sizeof text - 1);
  f->size = sizeof text - 1;
  read_text(f);
  upb_Arena *arena = upb_Arena_New();
  upb_Status status;
  upb_Status_Clear(&status);
  weir_v1_Policy *decoded = weir_v1_Policy_new(arena);
  if (!upb_JsonDecode(f->text, f->size, decoded, f->def, f->document.schema, 0, arena, &status)) {
    fail_msg("%s", upb_Status_ErrorMessage(&status));
  }
  size_t own_size = 0;
  size_t decoded_size = 0;
  const char *own = weir_v1_Policy_serialize(f->document.policy, arena, &own_size);
  const char *other = weir_v1_Policy_serialize(decoded, arena, &decoded_size);
  assert_int_equal(own_size, decoded_size);
  assert_memory_equal(own, other, own_size);
  upb_Arena_Free(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(every_key_of_the_schema_is_read, setup, teardown),
      cmocka_unit_test_setup_teardown(upbs_json_decoder_reads_the_same_message, setup, teardown),
  };
  return cmocka_run_group_tests_name("schema", tests, NULL, NULL);
}
