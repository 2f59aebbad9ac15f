/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/planter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

#include "test/e2e/fixture.h"
#include "test/support/proto_writer.h"

#define DETAILS_KEY "grpc-status-details-bin"
#define TEXT_SIZE 128

const char *place_name(enum place place) {
  static const char *const names[N_PLACES] = {
      [PLACE_MESSAGE] = "message",
      [PLACE_DETAILS] = "details",
      [PLACE_KEPT_DETAIL] = "a kept detail",
      [PLACE_TRAILER] = "trailing metadata",
      [PLACE_BINARY_TRAILER] = "binary trailing metadata",
      [PLACE_TRAILER_KEY] = "a key of trailing metadata",
      [PLACE_LOOKALIKE] = "metadata nearly kept",
      [PLACE_KEPT] = "kept trailing metadata",
      [PLACE_HEADER] = "initial metadata",
      [PLACE_HEADER_KEY] = "a key of initial metadata",
      [PLACE_KEPT_HEADER] = "kept initial metadata",
      [PLACE_BODY] = "the response's message",
  };
  return names[place];
}

const char *details_kind_name(enum details_kind kind) {
  static const char *const names[N_DETAILS_KINDS] = {
      [DETAILS_MESSAGE] = "the message of google.rpc.Status",
      [DETAILS_OTHER_TYPE] = "another type",
      [DETAILS_TYPE_PREFIX] = "a prefix of a type",
      [DETAILS_UNKNOWN_FIELD] = "an unknown field",
      [DETAILS_UNDECODABLE] = "undecodable details",
      [DETAILS_TEXT] = "details that are text",
  };
  return names[kind];
}

const char *planted_before_name(enum planted_before before) {
  static const char *const names[N_PLANTED_BEFORE] = {
      [BEFORE_NOTHING] = "Trailers-Only",
      [BEFORE_HEADERS] = "after headers",
      [BEFORE_BODY] = "after a message",
  };
  return names[before];
}

/* --- grpc-status-details-bin --- */

/* Fields of google.rpc.Status, and one that is nobody's. */
#define FIELD_CODE 1
#define FIELD_MESSAGE 2
#define FIELD_UNKNOWN 15

static void put_detail(struct proto_writer *writer, const char *prefix, const char *type,
                       const char *value) {
  char url[TEXT_SIZE];
  (void)snprintf(url, sizeof url, "%s/%s", prefix, type);
  proto_write_detail(writer, url, value, strlen(value));
}

#define USUAL_PREFIX "type.googleapis.com"

static bool is_status(enum details_kind kind) {
  return kind != DETAILS_UNDECODABLE && kind != DETAILS_TEXT;
}

static bool has_kept_detail(enum details_kind kind) {
  return is_status(kind) && kind != DETAILS_TYPE_PREFIX;
}

static void put_details(struct proto_writer *writer, const struct plant *plant) {
  const char *secret = plant->secrets[PLACE_DETAILS].text;
  if (is_status(plant->details)) {
    proto_write_number(writer, FIELD_CODE, (uint64_t)plant->code);
  }
  switch (plant->details) {
  case DETAILS_MESSAGE:
    proto_write_text(writer, FIELD_MESSAGE, secret);
    break;
  case DETAILS_OTHER_TYPE:
    put_detail(writer, USUAL_PREFIX, "google.rpc.DebugInfo", secret);
    break;
  case DETAILS_TYPE_PREFIX:
    put_detail(writer, secret, KEPT_TYPE, "");
    break;
  case DETAILS_UNKNOWN_FIELD:
    proto_write_text(writer, FIELD_UNKNOWN, secret);
    break;
  case DETAILS_UNDECODABLE:
    proto_write_raw(writer, "\xff\xff\x00", 3);
    proto_write_raw(writer, secret, SECRET_LENGTH);
    break;
  case DETAILS_TEXT:
    proto_write_raw(writer, secret, SECRET_LENGTH);
    break;
  case N_DETAILS_KINDS:
    break;
  }
  if (has_kept_detail(plant->details)) {
    put_detail(writer, USUAL_PREFIX, KEPT_TYPE, plant->secrets[PLACE_KEPT_DETAIL].text);
  }
}

/* --- the answer --- */

unsigned plant_places(const struct plant *plant) {
  unsigned places = PLACE_BIT(N_PLACES) - 1;
  if (!has_kept_detail(plant->details)) {
    places &= ~PLACE_BIT(PLACE_KEPT_DETAIL);
  }
  if (plant->before == BEFORE_NOTHING) {
    places &=
        ~(PLACE_BIT(PLACE_HEADER) | PLACE_BIT(PLACE_HEADER_KEY) | PLACE_BIT(PLACE_KEPT_HEADER));
  }
  if (plant->before != BEFORE_BODY) {
    places &= ~PLACE_BIT(PLACE_BODY);
  }
  return places;
}

/* A sentence with the secret in it. */
static const char *leak(char out[TEXT_SIZE], const struct secret *secret) {
  (void)snprintf(out, TEXT_SIZE, "pg: password=%.64s at 10.0.0.7", secret->text);
  return out;
}

static void add_trailer(struct weir__test_reply *reply, const char *key,
                        const struct secret *secret) {
  char text[TEXT_SIZE];
  const char *value = leak(text, secret);
  weir__test_reply_trailer(reply, key, value, strlen(value));
}

static void add_header(struct weir__test_reply *reply, const char *key,
                       const struct secret *secret) {
  char text[TEXT_SIZE];
  assert_true(reply->n_initial_metadata < WEIR__TEST_METADATA_MAX);
  grpc_metadata *entry = &reply->initial_metadata[reply->n_initial_metadata++];
  memset(entry, 0, sizeof *entry);
  entry->key = grpc_slice_from_copied_string(key);
  entry->value = grpc_slice_from_copied_string(leak(text, secret));
}

static const char *key_with(char out[TEXT_SIZE], const struct secret *secret) {
  (void)snprintf(out, TEXT_SIZE, "x-%s", secret->text);
  return out;
}

static void add_trailers(const struct plant *plant, struct weir__test_reply *reply) {
  const struct secret *secrets = plant->secrets;
  char key[TEXT_SIZE];
  struct proto_writer details = {.size = 0};
  put_details(&details, plant);
  add_trailer(reply, "x-debug-stack", &secrets[PLACE_TRAILER]);
  add_trailer(reply, KEPT_KEY, &secrets[PLACE_KEPT]);
  add_trailer(reply, KEPT_KEY "er", &secrets[PLACE_LOOKALIKE]);
  add_trailer(reply, KEPT_KEY "-bin", &secrets[PLACE_LOOKALIKE]);
  add_trailer(reply, "x-blob-bin", &secrets[PLACE_BINARY_TRAILER]);
  weir__test_reply_trailer(reply, key_with(key, &secrets[PLACE_TRAILER_KEY]), "1", 1);
  weir__test_reply_trailer(reply, DETAILS_KEY, details.bytes, details.size);
  proto_writer_fini(&details);
}

static void add_headers(const struct plant *plant, struct weir__test_reply *reply) {
  const struct secret *secrets = plant->secrets;
  char key[TEXT_SIZE];
  add_header(reply, "x-served-by", &secrets[PLACE_HEADER]);
  add_header(reply, "x-served-by-bin", &secrets[PLACE_HEADER]);
  add_header(reply, KEPT_HEADER_KEY, &secrets[PLACE_KEPT_HEADER]);
  add_header(reply, key_with(key, &secrets[PLACE_HEADER_KEY]), &secrets[PLACE_HEADER]);
}

void plant_answer(const struct plant *plant, struct weir__test_reply *reply) {
  char text[TEXT_SIZE];
  weir__test_reply_status(reply, plant->code, leak(text, &plant->secrets[PLACE_MESSAGE]));
  add_trailers(plant, reply);
  reply->delay_ns = plant->delay_ns;
  if (plant->before != BEFORE_NOTHING) {
    add_headers(plant, reply);
    reply->headers_apart = plant->before == BEFORE_HEADERS;
  }
  if (plant->before == BEFORE_BODY) {
    reply->message = message_of(leak(text, &plant->secrets[PLACE_BODY]));
  }
}

/* --- the server's --- */

void planter_init(struct planter *planter) {
  memset(planter, 0, sizeof *planter);
  assert_int_equal(pthread_mutex_init(&planter->mutex, NULL), 0);
}

void planter_fini(struct planter *planter) {
  (void)pthread_mutex_destroy(&planter->mutex);
}

void planter_set(struct planter *planter, const struct planting *planting) {
  (void)pthread_mutex_lock(&planter->mutex);
  planter->n_answered = 0;
  for (size_t i = 0; i < PLANTS_MAX; i++) {
    struct plant *plant = &planter->plants[i];
    plant->code = planting->code;
    plant->before = i == 0 ? planting->first : planting->last;
    plant->details = planting->details;
    plant->delay_ns = planting->delay_ns;
    for (size_t k = 0; k < N_PLACES; k++) {
      secret_make(&plant->secrets[k]);
    }
  }
  (void)pthread_mutex_unlock(&planter->mutex);
}

void planter_handle(void *context, const struct weir__test_served *served,
                    struct weir__test_reply *reply) {
  struct planter *planter = context;
  (void)served;
  (void)pthread_mutex_lock(&planter->mutex);
  size_t index = planter->n_answered < PLANTS_MAX ? planter->n_answered : PLANTS_MAX - 1;
  planter->n_answered++;
  plant_answer(&planter->plants[index], reply);
  (void)pthread_mutex_unlock(&planter->mutex);
}
