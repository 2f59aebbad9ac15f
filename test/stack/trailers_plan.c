/* SPDX-License-Identifier: Apache-2.0 */
#include "test/stack/trailers_plan.h"

#include <limits.h>
#include <string.h>

#define URL "type.googleapis.com/"

/* A run of bytes longer than this is one that its length alone tells. */
#define SHORT_RUN 31
#define LONG_RUN 3000

const char *const trailers_types[2] = {"google.rpc.RetryInfo", "shop.v1.Limit"};

static const char *const kept_keys[] = {KEPT_KEY};

/* --- bytes --- */

/* Behind the end there are zeros, which are made to mean what is simplest. */
static uint8_t next(struct trailers_plan *plan) {
  if (plan->n_bytes == 0) {
    return 0;
  }
  plan->n_bytes--;
  return *plan->bytes++;
}

/* A run of any bytes, without what marks a planted word. */
static size_t next_run(struct trailers_plan *plan, char out[LONG_RUN]) {
  const uint8_t byte = next(plan);
  if (byte == UINT8_MAX) {
    memset(out, 'x', LONG_RUN);
    return LONG_RUN;
  }
  size_t size = 0;
  while (size < (byte & SHORT_RUN) && plan->n_bytes > 0) {
    const char run = (char)next(plan);
    out[size++] = run == 'Q' ? 'q' : run;
  }
  return size;
}

static size_t append(char *out, size_t size, const char *word) {
  memcpy(out + size, word, strlen(word) + 1);
  return size + strlen(word);
}

/* A word before and behind a run: what is cut, or ends at a NUL, still has one. */
static size_t next_planted(struct trailers_plan *plan, const char *word,
                           char out[TRAILERS_TEXT_BYTES]) {
  size_t size = append(out, 0, word);
  size += next_run(plan, out + size);
  return append(out, size, word);
}

/* --- details --- */

static const struct {
  const char *type_url;
  const char *word;
} detail_kinds[] = {
    {URL "google.rpc.RetryInfo", PLANTED_RETRY},
    {URL "shop.v1.Limit", PLANTED_LIMIT},
    {URL "google.rpc.DebugInfo", PLANTED_SECRET},
    {PLANTED_SECRET ".internal/google.rpc.RetryInfo", PLANTED_RETRY},
    {"google.rpc.RetryInfo", PLANTED_SECRET},
    {URL "google.rpc.RetryInfo/", PLANTED_SECRET},
    {URL "google.rpc.retryinfo", PLANTED_SECRET},
    {"", PLANTED_SECRET},
};

#define N_DETAIL_KINDS (sizeof detail_kinds / sizeof detail_kinds[0])

/* A google.rpc.Status as it should be. */
static void compose_details(struct trailers_plan *plan) {
  char text[TRAILERS_TEXT_BYTES];
  const uint8_t n_details = next(plan) & 7;
  proto_write_number(&plan->details, 1, next(plan));
  size_t size = next_planted(plan, PLANTED_SECRET, text);
  proto_write_bytes(&plan->details, 2, PLANTED_SECRET, sizeof PLANTED_SECRET - 1);
  proto_write_bytes(&plan->details, 4, text, size);
  for (uint8_t i = 0; i < n_details; i++) {
    const size_t kind = next(plan) % N_DETAIL_KINDS;
    size = next_planted(plan, detail_kinds[kind].word, text);
    proto_write_detail(&plan->details, detail_kinds[kind].type_url, text, size);
  }
}

static void read_details(struct trailers_plan *plan) {
  char run[LONG_RUN];
  const uint8_t byte = next(plan);
  if ((byte & 1) != 0) {
    compose_details(plan);
  }
  if ((byte & 2) != 0) {
    proto_write_raw(&plan->details, run, next_run(plan, run));
  }
}

/* --- the answer --- */

static const int odd_statuses[] = {-1, 17, 18, 999, INT_MAX, INT_MIN};

static int next_status(struct trailers_plan *plan) {
  const uint8_t byte = next(plan);
  if ((byte & 7) == 7) {
    return odd_statuses[(size_t)(byte >> 3) % (sizeof odd_statuses / sizeof odd_statuses[0])];
  }
  return (byte + GRPC_STATUS_INTERNAL) % WEIR_N_STATUS_CODES;
}

static void read_text(struct trailers_plan *plan) {
  const uint8_t byte = next(plan);
  plan->answer.text = plan->text;
  switch (byte & 3) {
  case 1:
    plan->answer.text = "";
    break;
  case 2:
    plan->answer.text = "Received RST_STREAM with error code 7";
    break;
  default:
    plan->answer.text_size = next_planted(plan, PLANTED_SECRET, plan->text);
  }
}

static size_t n_pairs(const struct wire_pair pairs[WIRE_PAIRS]) {
  size_t n = 0;
  while (n < WIRE_PAIRS && pairs[n].key != NULL) {
    n++;
  }
  return n;
}

static void add_pair(struct trailers_plan *plan, const char *key, const char *value, size_t size) {
  const size_t i = n_pairs(plan->answer.trailing);
  plan->answer.trailing[i] = (struct wire_pair){.key = key, .value = value};
  plan->answer.trailing_sizes[i] = size;
}

static void add_planted(struct trailers_plan *plan, const char *key, const char *word) {
  char *value = plan->values[n_pairs(plan->answer.trailing)];
  add_pair(plan, key, value, next_planted(plan, word, value));
}

static void add_early(struct trailers_plan *plan, const char *key, const char *word) {
  const size_t i = n_pairs(plan->answer.initial);
  plan->answer.initial[i] = (struct wire_pair){.key = key, .value = plan->early_values[i]};
  plan->answer.initial_sizes[i] = next_planted(plan, word, plan->early_values[i]);
}

static void read_pushback(struct trailers_plan *plan) {
  static const char *const texts[] = {"-1",         "0",
                                      "1",          "250",
                                      "10000",      "",
                                      "2 500",      "+17",
                                      "4294967296", "-9223372036854775809",
                                      "1x",         "0x10",
                                      "\3771",      "000000000000000000000001"};
  const uint8_t byte = next(plan);
  const size_t index = (size_t)(byte >> 1) % (sizeof texts / sizeof texts[0]);
  if ((byte & 1) != 0) {
    add_pair(plan, "grpc-retry-pushback-ms", texts[index], 0);
  }
}

static void read_pair(struct trailers_plan *plan) {
  switch (next(plan) & 7) {
  case 1:
    add_planted(plan, KEPT_KEY, PLANTED_KEPT);
    break;
  case 2:
    add_planted(plan, "x-other", PLANTED_SECRET);
    break;
  case 3:
    add_planted(plan, "x-other-bin", PLANTED_SECRET);
    break;
  case 4:
    add_planted(plan, "x-kep", PLANTED_SECRET);
    break;
  case 5:
    add_planted(plan, DETAILS_KEY, PLANTED_SECRET);
    plan->has_details = false; /* more than one, or none that is a message */
    break;
  default:
    break;
  }
}

static void read_trailing(struct trailers_plan *plan) {
  read_details(plan);
  if (plan->details.size > 0) {
    add_pair(plan, DETAILS_KEY, plan->details.bytes, plan->details.size);
    plan->has_details = true;
  }
  read_pushback(plan);
  read_pair(plan);
  read_pair(plan);
}

/* Headers: one, and up to three more. */
static void read_early(struct trailers_plan *plan) {
  static const char *const keys[] = {NULL,    KEPT_KEY,  "x-other",   "x-other-bin",
                                     "x-kep", "x-kept2", DETAILS_KEY, "grpc-retry-pushback-ms"};
  for (size_t i = 1; i < WIRE_PAIRS; i++) {
    const char *key = keys[next(plan) & 7];
    if (key != NULL) {
      const bool is_kept = strcmp(key, KEPT_KEY) == 0;
      add_early(plan, key, is_kept ? PLANTED_EARLY_KEPT : PLANTED_EARLY);
      plan->n_kept_early += is_kept ? 1 : 0;
    }
  }
}

static void read_answer(struct trailers_plan *plan) {
  static const enum wire_event events[] = {WIRE_TRAILERS_ONLY, WIRE_TRAILERS, WIRE_MESSAGE_THEN,
                                           WIRE_CONNECT_FAIL,  WIRE_RESET,    WIRE_UNPROCESSED,
                                           WIRE_TOO_LARGE,     WIRE_HEADERS};
  plan->answer.what = events[next(plan) & 7];
  plan->answer.status = next_status(plan);
  plan->answer.body = PLANTED_EARLY;
  plan->answer.initial[0] = (struct wire_pair){.key = "x-early", .value = PLANTED_EARLY};
  plan->answer_after_ns = MS(next(plan));
  read_text(plan);
  if (plan->answer.what != WIRE_CONNECT_FAIL && plan->answer.what != WIRE_RESET &&
      plan->answer.what != WIRE_UNPROCESSED && plan->answer.what != WIRE_HEADERS) {
    read_trailing(plan);
  }
  read_early(plan);
}

/* --- the policy --- */

static bool is_target(int8_t code) {
  return code == WEIR_TRANSLATION_DEFAULT || (code > 0 && code < WEIR_N_STATUS_CODES);
}

static void read_translation(struct trailers_plan *plan, struct fixture *f) {
  const uint8_t flags = next(plan);
  f->translation.boundary = (flags & 1) == 0;
  f->translation.message_ref = (flags & 2) == 0;
  plan->keeps_metadata = (flags & 4) != 0;
  f->translation.keep_metadata = kept_keys;
  f->translation.n_keep_metadata = plan->keeps_metadata ? 1 : 0;
  plan->n_kept_types = (size_t)(flags >> 3) % 3;
  f->translation.keep_details = trailers_types;
  f->translation.n_keep_details = plan->n_kept_types;
  plan->is_policy_valid = true;
  if ((flags & 0x80) != 0) {
    const uint8_t from = next(plan) % WEIR_N_STATUS_CODES;
    const int8_t to = (int8_t)(next(plan) % (WEIR_N_STATUS_CODES + 3) - 1);
    f->translation.codes[from] = to;
    f->translation.deadline_exceeded_as = (int8_t)(next(plan) % (WEIR_N_STATUS_CODES + 2) - 1);
    plan->is_policy_valid = is_target(to) && (from != 0 || to == WEIR_TRANSLATION_DEFAULT) &&
                            is_target(f->translation.deadline_exceeded_as);
  }
}

static void read_call(struct trailers_plan *plan, struct fixture *f) {
  const uint8_t flags = next(plan);
  plan->shape = (enum trailers_shape)(flags & 3);
  plan->is_serving = (flags & 4) != 0;
  plan->recovers = (flags & 8) != 0;
  f->method.retry.max_attempts = (flags & 16) != 0 ? 1 : 4;
  f->method.retry.retryable_codes =
      f->method.retry.max_attempts > 1
          ? CODE_BIT(GRPC_STATUS_UNAVAILABLE) | CODE_BIT(GRPC_STATUS_UNKNOWN)
          : 0;
  plan->fails_at = (flags & 0xe0) == 0xe0 ? 1u + next(plan) % 8 : 0;
  f->deadline.default_stream_timeout_ns = SECONDS(10);
}

void trailers_plan_read(struct trailers_plan *plan, const uint8_t *bytes, size_t size,
                        struct fixture *f) {
  memset(plan, 0, sizeof *plan);
  plan->bytes = bytes;
  plan->n_bytes = size;
  read_translation(plan, f);
  read_call(plan, f);
  read_answer(plan);
}

bool trailers_plan_gets_all_at_once(const struct trailers_plan *plan) {
  return plan->shape == TRAILERS_ONE_BATCH || plan->shape == TRAILERS_STREAM_AT_ONCE;
}

void trailers_plan_fini(struct trailers_plan *plan) {
  proto_writer_fini(&plan->details);
}
