/* SPDX-License-Identifier: Apache-2.0 */
#include "src/policy/layered.h"

#include "src/base/allocator.h"

/* ---- reading ---- */

/* Problems of a document that is read leniently, or not, whatever the load's options say. */
static enum weir_error
read_document(struct weir__layered *layered, const struct weir__policy_text *text,
              enum weir__origin_kind kind, struct weir__document *document_out,
              const struct weir_allocator *allocator, struct weir__problems *problems) {
  const struct weir_policy_load_options *outer = problems->options;
  struct weir_policy_load_options options = *outer;
  const struct weir__document_reading reading = {
      .schema = layered->schema, .origins = &layered->origins, .kind = kind};
  options.lenient = text->lenient;
  problems->options = &options;
  const enum weir_error error =
      weir__document_read(document_out, text->text, text->size, &reading, allocator, problems);
  problems->options = outer;
  return error;
}

enum weir_error weir__layered_init(struct weir__layered *layered,
                                   const struct weir__policy_text *organisation,
                                   const struct weir__policy_text *channel,
                                   const struct weir_allocator *allocator,
                                   struct weir__problems *problems) {
  (void)organisation;
  allocator = weir__allocator_or_default(allocator);
  *layered = (struct weir__layered){.origins = {.allocator = allocator}};
  layered->schema = upb_DefPool_New();
  if (layered->schema == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  const enum weir_error error =
      read_document(layered, channel, WEIR__ORIGIN_CHANNEL, &layered->channel, allocator, problems);
  layered->policy = layered->channel.policy;
  return error;
}

void weir__layered_fini(struct weir__layered *layered) {
  weir__document_fini(&layered->channel);
  weir__origins_fini(&layered->origins);
  if (layered->schema != NULL) {
    upb_DefPool_Free(layered->schema);
  }
}

/* ---- origins ---- */

struct weir__origin weir__layered_origin(const struct weir__layered *layered,
                                         const upb_Message *message, const upb_FieldDef *field) {
  return weir__origins_get(&layered->origins,
                           (struct weir__origin_key){.message = message, .field = field});
}

struct weir__origin weir__layered_element_origin(const struct weir__layered *layered,
                                                 const upb_Message *message,
                                                 const upb_FieldDef *field, uint32_t index) {
  return weir__origins_get(&layered->origins, weir__origin_key_of(message, field, index));
}
