/* SPDX-License-Identifier: Apache-2.0 */
#include "test/stack/served_expected.h"

#include <stdio.h>
#include <string.h>

/* As doc/inbound.md has them. */
#define MAX_KEYS 8
#define MAX_VALUE 512
#define MAX_BYTES 2048
#define MAX_NAME 63
#define MAX_BUDGET_US UINT64_C(9223372036854775)

/* The core's clocks are not exactly in step. */
#define CLOCKS_NS SECONDS(5)

static bool is_text(const char *bytes, size_t size, const char *text) {
  return size == strlen(text) && memcmp(bytes, text, size) == 0;
}

static bool consists_of(const char *bytes, size_t size, const char *alphabet) {
  for (size_t i = 0; i < size; i++) {
    if (bytes[i] == '\0' || strchr(alphabet, bytes[i]) == NULL) {
      return false;
    }
  }
  return true;
}

/* --- deadline --- */

static int64_t add(int64_t at_ns, int64_t ns) {
  if (ns > 0 && at_ns > INT64_MAX - ns) {
    return INT64_MAX;
  }
  return ns < 0 && at_ns < INT64_MIN - ns ? INT64_MIN : at_ns + ns;
}

/* Negative: it says none. */
static int64_t budget_ns_of(const struct served_entry *entry) {
  uint64_t budget_us = 0;
  if (!is_text(entry->key, entry->key_size, "weir-budget-us") || entry->value_size == 0 ||
      !consists_of(entry->value, entry->value_size, "0123456789")) {
    return -1;
  }
  for (size_t i = 0; i < entry->value_size; i++) {
    budget_us = budget_us * 10 + (uint64_t)(entry->value[i] - '0');
    if (budget_us > MAX_BUDGET_US) {
      return -1;
    }
  }
  return (int64_t)budget_us * 1000;
}

static void bring_nearer(struct served_expected *out, int64_t earliest_at_ns,
                         int64_t latest_at_ns) {
  out->earliest_at_ns = earliest_at_ns < out->earliest_at_ns ? earliest_at_ns : out->earliest_at_ns;
  out->latest_at_ns = latest_at_ns < out->latest_at_ns ? latest_at_ns : out->latest_at_ns;
}

static void expect_deadline(const struct served_plan *plan, int64_t before_ns, int64_t after_ns,
                            struct served_expected *out) {
  out->earliest_at_ns = out->latest_at_ns = WEIR_NO_DEADLINE;
  for (size_t i = 0; i < plan->n_entries; i++) {
    const int64_t budget_ns = budget_ns_of(&plan->entries[i]);
    if (budget_ns >= 0) {
      bring_nearer(out, add(before_ns, budget_ns), add(after_ns, budget_ns));
    }
  }
  if (!plan->has_details) {
    return;
  }
  if (!plan->is_deadline_known) {
    bring_nearer(out, INT64_MIN, WEIR_NO_DEADLINE);
  } else if (plan->deadline_in_ns == INT64_MIN) {
    bring_nearer(out, INT64_MIN, before_ns);
  } else if (plan->deadline_in_ns != WEIR_NO_DEADLINE) {
    bring_nearer(out, add(before_ns, plan->deadline_in_ns - CLOCKS_NS),
                 add(after_ns, plan->deadline_in_ns + CLOCKS_NS));
  }
}

/* --- owner --- */

static bool is_name(const char *bytes, size_t size) {
  return size > 0 && size <= MAX_NAME &&
         consists_of(bytes, size,
                     "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
}

static void expect_owner(const struct served_plan *plan, struct served_expected *out) {
  bool is_named = false;
  for (size_t i = 0; i < plan->n_entries; i++) {
    const struct served_entry *entry = &plan->entries[i];
    const bool is_owner = is_text(entry->key, entry->key_size, "weir-retry-owner");
    out->is_marked = out->is_marked || is_owner ||
                     is_text(entry->key, entry->key_size, "grpc-previous-rpc-attempts");
    if (is_owner && !is_named && is_name(entry->value, entry->value_size)) {
      is_named = true;
      memcpy(out->owner, entry->value, entry->value_size);
    }
  }
  if (!is_named) {
    (void)strcpy(out->owner, "upstream");
  }
}

/* --- trace --- */

static bool is_legal_key(const char *key) {
  return key != NULL && key[0] != '\0' &&
         consists_of(key, strlen(key), "abcdefghijklmnopqrstuvwxyz0123456789-_.") &&
         strncmp(key, "grpc-", 5) != 0 && strncmp(key, "weir-", 5) != 0;
}

static bool is_binary(const char *key) {
  const size_t length = strlen(key);
  return length >= 4 && strcmp(key + length - 4, "-bin") == 0;
}

static bool may_go_on(const char *key, const struct served_entry *entry) {
  bool is_printable = true;
  for (size_t i = 0; i < entry->value_size; i++) {
    is_printable = is_printable && entry->value[i] >= ' ' && entry->value[i] <= '~';
  }
  return entry->value_size <= MAX_VALUE && (is_printable || is_binary(key));
}

static void expect_trace(const struct served_plan *plan, struct served_expected *out) {
  static const char *const usual[] = {"traceparent", "tracestate"};
  const char *const *keys = plan->has_trace_keys ? plan->trace_keys : usual;
  const size_t n_keys = plan->has_trace_keys ? plan->n_trace_keys : 2;
  size_t n_bytes = 0;
  out->are_keys_legal = n_keys <= MAX_KEYS;
  for (size_t nth = 0; nth < n_keys; nth++) {
    out->are_keys_legal = out->are_keys_legal && is_legal_key(keys[nth]);
  }
  for (size_t nth = 0; out->are_keys_legal && nth < n_keys; nth++) {
    bool is_asked_again = false;
    for (size_t i = 0; i < nth; i++) {
      is_asked_again = is_asked_again || strcmp(keys[i], keys[nth]) == 0;
    }
    for (size_t i = 0; i < plan->n_entries && !is_asked_again; i++) {
      const struct served_entry *entry = &plan->entries[i];
      const size_t size = entry->key_size + entry->value_size;
      if (is_text(entry->key, entry->key_size, keys[nth]) && may_go_on(keys[nth], entry) &&
          out->n_traces < EXPECTED_TRACES && n_bytes + size <= MAX_BYTES) {
        n_bytes += size;
        out->traces[out->n_traces++] = (struct expected_entry){
            .key = keys[nth], .value = entry->value, .value_size = entry->value_size};
      }
    }
  }
}

void served_expect(const struct served_plan *plan, int64_t before_ns, int64_t after_ns,
                   struct served_expected *out) {
  memset(out, 0, sizeof *out);
  expect_deadline(plan, before_ns, after_ns, out);
  expect_owner(plan, out);
  expect_trace(plan, out);
}

/* --- the call's metadata --- */

/* The name that the service's own metadata mark the call with; NULL = they don't. */
static const char *app_owner(const struct served_plan *plan) {
  const char *owner = NULL;
  for (size_t i = 0; i < plan->n_app; i++) {
    if (strcmp(plan->app[i].key, "weir-retry-owner") == 0) {
      if (is_name(plan->app[i].value, strlen(plan->app[i].value))) {
        return plan->app[i].value;
      }
      owner = "upstream";
    }
  }
  return owner;
}

static bool is_told(const struct served_plan *plan, const struct served_expected *expected) {
  return expected->is_marked || app_owner(plan) != NULL;
}

bool served_expect_retries(const struct served_plan *plan, const struct served_expected *expected,
                           const struct fixture *f) {
  switch (f->retry.owner) {
  case WEIR_RETRY_OWNER_OUTERMOST:
    return f->method.retry.max_attempts > 1 && !is_told(plan, expected);
  case WEIR_RETRY_OWNER_ALWAYS:
    return f->method.retry.max_attempts > 1;
  case WEIR_RETRY_OWNER_NEVER:
    break;
  }
  return false;
}

/* NULL = none is sent. */
static const char *owner_sent(const struct served_plan *plan,
                              const struct served_expected *expected, const struct fixture *f) {
  if (served_expect_retries(plan, expected, f)) {
    return f->policy_options.name;
  }
  if (app_owner(plan) != NULL) {
    return app_owner(plan);
  }
  return expected->is_marked ? expected->owner : NULL;
}

static void put(struct expected_metadata *out, const char *key, const char *value, size_t size) {
  out->entries[out->n_entries++] =
      (struct expected_entry){.key = key, .value = value, .value_size = size};
}

static bool is_weirs(const char *key) {
  return strcmp(key, "weir-retry-owner") == 0 || strcmp(key, "weir-budget-us") == 0 ||
         strcmp(key, "grpc-previous-rpc-attempts") == 0;
}

static void put_trace(const struct served_plan *plan, const struct served_expected *expected,
                      struct expected_metadata *out) {
  for (size_t i = 0; i < expected->n_traces; i++) {
    bool is_overridden = false;
    for (size_t j = 0; j < plan->n_app; j++) {
      is_overridden = is_overridden || strcmp(plan->app[j].key, expected->traces[i].key) == 0;
    }
    if (is_overridden) {
      out->n_overridden++;
    } else {
      put(out, expected->traces[i].key, expected->traces[i].value, expected->traces[i].value_size);
    }
  }
}

void served_expect_metadata(const struct served_plan *plan, const struct served_expected *expected,
                            const struct fixture *f, int64_t budget_us, size_t n_previous,
                            struct expected_metadata *out) {
  out->n_entries = out->n_overridden = 0;
  for (size_t i = 0; i < plan->n_app; i++) {
    if (!is_weirs(plan->app[i].key)) {
      put(out, plan->app[i].key, plan->app[i].value, strlen(plan->app[i].value));
    }
  }
  if (budget_us >= 0) {
    (void)snprintf(out->budget, sizeof out->budget, "%lld", (long long)budget_us);
    put(out, "weir-budget-us", out->budget, strlen(out->budget));
  }
  const char *owner = owner_sent(plan, expected, f);
  if (owner != NULL) {
    put(out, "weir-retry-owner", owner, strlen(owner));
  }
  if (n_previous > 0) {
    (void)snprintf(out->previous, sizeof out->previous, "%zu", n_previous);
    put(out, "grpc-previous-rpc-attempts", out->previous, strlen(out->previous));
  }
  if (f->policy_options.pass_trace) {
    put_trace(plan, expected, out);
  }
}
