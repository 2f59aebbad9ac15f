/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <weir/clock.h>

#include "cmd/weirctl/worst.h"

#define MS(n) ((int64_t)(n)*WEIR_MS_NS)
#define NONE WEIR_NO_LIMIT_NS

/* What a document of a method says, and what follows. */
static const struct row {
  const char *why;
  const char *document;
  bool is_stream;
  int64_t deadline_ns;
  int64_t default_ns;
  int64_t longest_ns;
  uint32_t n_attempts;
} rows[] = {
    {.why = "no word: the ceiling for who asks for it, 10 s for who does not",
     .document = "{}",
     .deadline_ns = MS(60000),
     .default_ns = MS(10000),
     .longest_ns = MS(60000),
     .n_attempts = 1},
    {.why = "no word: a stream has no bound",
     .document = "{}",
     .is_stream = true,
     .deadline_ns = NONE,
     .default_ns = NONE,
     .longest_ns = NONE,
     .n_attempts = 1},
    {.why = "a timeout stands in for the default, below the ceiling",
     .document = "{\"methodConfig\": [{\"name\": [{}], \"timeout\": \"2s\"}]}",
     .deadline_ns = MS(2000),
     .default_ns = MS(2000),
     .longest_ns = MS(2000),
     .n_attempts = 1},
    {.why = "a timeout above the ceiling is the ceiling",
     .document = "{\"deadline\": {\"maxTimeout\": \"3s\"},"
                 " \"methodConfig\": [{\"name\": [{}], \"timeout\": \"9s\"}]}",
     .deadline_ns = MS(3000),
     .default_ns = MS(3000),
     .longest_ns = MS(3000),
     .n_attempts = 1},
    {.why = "of a stream the ceiling is another",
     .document = "{\"deadline\": {\"maxTimeout\": \"3s\", \"maxStreamTimeout\": \"20s\"},"
                 " \"methodConfig\": [{\"name\": [{}], \"timeout\": \"900s\"}]}",
     .is_stream = true,
     .deadline_ns = MS(20000),
     .default_ns = MS(20000),
     .longest_ns = MS(20000),
     .n_attempts = 1},
    {.why = "an attempt of one second, once",
     .document = "{\"methodConfig\": [{\"name\": [{}], \"perAttemptTimeout\": \"1s\"}]}",
     .deadline_ns = MS(60000),
     .default_ns = MS(10000),
     .longest_ns = MS(1000),
     .n_attempts = 1},
    {.why = "3 x 1 s, 0.12 s and 0.24 s between",
     .document =
         "{\"methodConfig\": [{\"name\": [{}], \"perAttemptTimeout\": \"1s\", \"retryPolicy\":"
         " {\"maxAttempts\": 3, \"initialBackoff\": \"0.1s\", \"maxBackoff\": \"1s\","
         " \"backoffMultiplier\": 2, \"retryableStatusCodes\": [14]}}]}",
     .deadline_ns = MS(60000),
     .default_ns = MS(10000),
     .longest_ns = MS(3360),
     .n_attempts = 3},
    {.why = "maxBackoff bounds the second backoff before chance does its part, and never the first",
     .document =
         "{\"methodConfig\": [{\"name\": [{}], \"perAttemptTimeout\": \"1s\", \"retryPolicy\":"
         " {\"maxAttempts\": 3, \"initialBackoff\": \"1s\", \"maxBackoff\": \"0.5s\","
         " \"backoffMultiplier\": 2, \"retryableStatusCodes\": [14]}}]}",
     .deadline_ns = MS(60000),
     .default_ns = MS(10000),
     .longest_ns = MS(3000 + 1200 + 600),
     .n_attempts = 3},
    {.why = "100 attempts are 5",
     .document =
         "{\"methodConfig\": [{\"name\": [{}], \"perAttemptTimeout\": \"1s\", \"retryPolicy\":"
         " {\"maxAttempts\": 100, \"initialBackoff\": \"1s\", \"maxBackoff\": \"1s\","
         " \"backoffMultiplier\": 1, \"retryableStatusCodes\": [14]}}]}",
     .deadline_ns = MS(60000),
     .default_ns = MS(10000),
     .longest_ns = MS(5000 + 4 * 1200),
     .n_attempts = 5},
    {.why = "without a bound of an attempt, one may take all the time",
     .document = "{\"methodConfig\": [{\"name\": [{}], \"timeout\": \"9s\", \"retryPolicy\":"
                 " {\"maxAttempts\": 3, \"initialBackoff\": \"0.1s\", \"maxBackoff\": \"1s\","
                 " \"backoffMultiplier\": 2, \"retryableStatusCodes\": [14]}}]}",
     .deadline_ns = MS(9000),
     .default_ns = MS(9000),
     .longest_ns = MS(9000),
     .n_attempts = 3},
    {.why = "the third attempt starts at 0.8 x (1 s + 2 s) at the earliest: too late",
     .document = "{\"methodConfig\": [{\"name\": [{}], \"timeout\": \"2s\", \"retryPolicy\":"
                 " {\"maxAttempts\": 3, \"initialBackoff\": \"1s\", \"maxBackoff\": \"9s\","
                 " \"backoffMultiplier\": 2, \"retryableStatusCodes\": [14]}}]}",
     .deadline_ns = MS(2000),
     .default_ns = MS(2000),
     .longest_ns = MS(2000),
     .n_attempts = 2},
    {.why = "an attempt that would end with the deadline, and not before, is not made",
     .document = "{\"methodConfig\": [{\"name\": [{}], \"timeout\": \"0.801s\", \"retryPolicy\":"
                 " {\"maxAttempts\": 2, \"initialBackoff\": \"1s\", \"maxBackoff\": \"9s\","
                 " \"backoffMultiplier\": 2, \"retryableStatusCodes\": [14]}}]}",
     .deadline_ns = MS(801),
     .default_ns = MS(801),
     .longest_ns = MS(801),
     .n_attempts = 1},
    {.why = "a nanosecond more, and it is",
     .document =
         "{\"methodConfig\": [{\"name\": [{}], \"timeout\": \"0.801000001s\", \"retryPolicy\":"
         " {\"maxAttempts\": 2, \"initialBackoff\": \"1s\", \"maxBackoff\": \"9s\","
         " \"backoffMultiplier\": 2, \"retryableStatusCodes\": [14]}}]}",
     .deadline_ns = MS(801) + 1,
     .default_ns = MS(801) + 1,
     .longest_ns = MS(801) + 1,
     .n_attempts = 2},
    {.why = "no backoff fits: the call ends with its first attempt, long before its deadline",
     .document =
         "{\"methodConfig\": [{\"name\": [{}], \"timeout\": \"9s\", \"perAttemptTimeout\": \"1s\","
         " \"retryPolicy\": {\"maxAttempts\": 5, \"initialBackoff\": \"20s\", \"maxBackoff\": "
         "\"90s\", \"backoffMultiplier\": 2, \"retryableStatusCodes\": [14]}}]}",
     .deadline_ns = MS(9000),
     .default_ns = MS(9000),
     .longest_ns = MS(1000),
     .n_attempts = 1},
    {.why = "attempts that together take longer than there is time end at the deadline",
     .document =
         "{\"methodConfig\": [{\"name\": [{}], \"timeout\": \"3s\", \"perAttemptTimeout\": \"2s\","
         " \"retryPolicy\": {\"maxAttempts\": 4, \"initialBackoff\": \"0.1s\", \"maxBackoff\": "
         "\"0.1s\", \"backoffMultiplier\": 2, \"retryableStatusCodes\": [14]}}]}",
     .deadline_ns = MS(3000),
     .default_ns = MS(3000),
     .longest_ns = MS(3000),
     .n_attempts = 4},
    {.why = "short attempts start 50 ms before the deadline at the latest, and end before it",
     .document =
         "{\"retry\": {\"minAttemptTime\": \"0.05s\"}, \"methodConfig\": [{\"name\": [{}],"
         " \"timeout\": \"1.1s\", \"perAttemptTimeout\": \"0.01s\","
         " \"retryPolicy\": {\"maxAttempts\": 2, \"initialBackoff\": \"1s\", \"maxBackoff\": "
         "\"1s\", \"backoffMultiplier\": 2, \"retryableStatusCodes\": [14]}}]}",
     .deadline_ns = MS(1100),
     .default_ns = MS(1100),
     .longest_ns = MS(1060),
     .n_attempts = 2},
    {.why = "who never retries makes one attempt",
     .document =
         "{\"retry\": {\"owner\": \"NEVER\"}, \"methodConfig\": [{\"name\": [{}],"
         " \"perAttemptTimeout\": \"1s\", \"retryPolicy\": {\"maxAttempts\": 4,"
         " \"initialBackoff\": \"0.1s\", \"maxBackoff\": \"0.1s\", \"backoffMultiplier\": 2,"
         " \"retryableStatusCodes\": [14]}}]}",
     .deadline_ns = MS(60000),
     .default_ns = MS(10000),
     .longest_ns = MS(1000),
     .n_attempts = 1},
    {.why = "a timeout of 0s: nothing is sent",
     .document = "{\"methodConfig\": [{\"name\": [{}], \"timeout\": \"0s\"}]}",
     .deadline_ns = 0,
     .default_ns = 0,
     .longest_ns = 0,
     .n_attempts = 0},
    {.why = "a fallback is waited for after the last attempt",
     .document = "{\"fallback\": {\"onFailure\": true, \"timeout\": \"0.5s\"}, \"methodConfig\":"
                 " [{\"name\": [{}], \"perAttemptTimeout\": \"1s\"}]}",
     .deadline_ns = MS(60000),
     .default_ns = MS(10000),
     .longest_ns = MS(1500),
     .n_attempts = 1},
    {.why = "and never beyond the deadline",
     .document = "{\"fallback\": {\"onFailure\": true, \"timeout\": \"0.5s\"}, \"methodConfig\":"
                 " [{\"name\": [{}], \"timeout\": \"1.2s\", \"perAttemptTimeout\": \"1s\"}]}",
     .deadline_ns = MS(1200),
     .default_ns = MS(1200),
     .longest_ns = MS(1200),
     .n_attempts = 1},
    {.why = "of a stream an attempt is bounded only until it is answered",
     .document =
         "{\"methodConfig\": [{\"name\": [{}], \"perAttemptTimeout\": \"1s\", \"retryPolicy\":"
         " {\"maxAttempts\": 3, \"initialBackoff\": \"0.1s\", \"maxBackoff\": \"1s\","
         " \"backoffMultiplier\": 2, \"retryableStatusCodes\": [14]}}]}",
     .is_stream = true,
     .deadline_ns = NONE,
     .default_ns = NONE,
     .longest_ns = NONE,
     .n_attempts = 3},
    {.why = "sums that no clock can hold are without a bound",
     .document =
         "{\"deadline\": {\"maxTimeout\": \"315576000000s\"}, \"methodConfig\": [{\"name\": [{}],"
         " \"perAttemptTimeout\": \"9000000000s\", \"retryPolicy\": {\"maxAttempts\": 5,"
         " \"initialBackoff\": \"9000000000s\", \"maxBackoff\": \"9000000000s\","
         " \"backoffMultiplier\": 2, \"retryableStatusCodes\": [14]}}]}",
     .deadline_ns = NONE,
     .default_ns = MS(10000),
     .longest_ns = NONE,
     .n_attempts = 5},
};

static void follows_from_the_policy(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct row *row = &rows[i];
    weir_policy *policy = NULL;
    assert_int_equal(
        weir_policy_from_json(row->document, strlen(row->document), NULL, NULL, &policy, NULL),
        WEIR_OK);
    const struct worst worst =
        worst_of(weir_policy_method(policy, "/a.B/C", 6),
                 row->is_stream ? WEIR_CALL_SHAPE_STREAM : WEIR_CALL_SHAPE_ONE_BATCH);
    if (worst.deadline_ns != row->deadline_ns || worst.default_ns != row->default_ns ||
        worst.longest_ns != row->longest_ns || worst.n_attempts != row->n_attempts) {
      fail_msg("%s: deadline %lld, default %lld, longest %lld, attempts %u", row->why,
               (long long)worst.deadline_ns, (long long)worst.default_ns,
               (long long)worst.longest_ns, (unsigned)worst.n_attempts);
    }
    weir_policy_unref(policy);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(follows_from_the_policy),
  };
  return cmocka_run_group_tests_name("worst", tests, NULL, NULL);
}
