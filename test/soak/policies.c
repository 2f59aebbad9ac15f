/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/policies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/soak/live_memory.h"

/* Opens within a few failures, and closes within some tens of milliseconds. */
#define BREAKER(scope, more)                                                              \
  "\"breaker\":{\"scope\":\"" scope "\",\"window\":\"0.4s\",\"windowBuckets\":4,"         \
  "\"minRequests\":8,\"failureRatio\":0.5,\"openFor\":\"0.02s\",\"maxOpenFor\":\"0.1s\"," \
  "\"openBackoff\":2,\"probes\":3,\"probeLease\":\"0.3s\"" more "}"

#define RETRY(attempts, first, last)                                                 \
  "\"retryPolicy\":{\"maxAttempts\":" attempts ",\"initialBackoff\":\"" first        \
  "\",\"maxBackoff\":\"" last "\",\"backoffMultiplier\":2,\"retryableStatusCodes\":" \
  "[\"UNAVAILABLE\",\"ABORTED\"]}"

#define METHODS(fields) "\"methodConfig\":[{\"name\":[{}]," fields "}]"
#define BOUNDARY(on) "\"translation\":{\"boundary\":" on "}"

const struct policy_facts client_policies[POLICIES_CLIENT] = {
    {"{\"name\":\"first\"," BOUNDARY("false") "," BREAKER("METHOD", "") "," METHODS(
         RETRY("3", "0.002s", "0.02s")) "}",
     3, false},
    {"{\"name\":\"second\"," BOUNDARY("true") "," BREAKER(
         "CHANNEL", ",\"rampFor\":\"0.05s\"") "," METHODS(RETRY("5", "0.001s",
                                                                "0.005s")) ",\"retryThrottling\":{"
                                                                           "\"maxTokens\":100,"
                                                                           "\"tokenRatio\":0.5}}",
     5, true},
    {"{\"name\":\"third\"," BOUNDARY("true") "," BREAKER("SERVICE",
                                                         ",\"consecutiveFailures\":5") "}",
     1, true},
    {"{\"name\":\"fourth\"," BOUNDARY("false") ",\"breaker\":{\"enabled\":false}," METHODS(
         "\"perAttemptTimeout\":\"0.05s\"," RETRY(
             "2", "0.001s", "0.01s")) ",\"retry\":{\"retryAfterHeaders\":true}}",
     2, false},
    {"{\"name\":\"fifth\"," BOUNDARY("true") "," BREAKER("METHOD", "") "," METHODS(RETRY(
         "4", "0.004s",
         "0.04s")) ",\"fallback\":{\"onFailure\":true,\"maxConcurrent\":8,\"timeout\":\"0.05s\"},"
                   "\"retry\":{\"replayBytes\":4096}}",
     4, true},
    {"{\"name\":\"sixth\"," BOUNDARY("true") "," BREAKER(
         "METHOD", ",\"mode\":\"SHADOW\"") "," METHODS("\"timeout\":\"0.5s\",\"waitForReady\":"
                                                       "true," RETRY("3", "0.002s",
                                                                     "0.02s")) ",\"deadline\":{"
                                                                               "\"maxStreamTimeout"
                                                                               "\":\"1s\"}}",
     3, true},
};

const struct policy_facts a_policies[POLICIES_A] = {
    {"{\"name\":\"a-first\"," BOUNDARY("true") "," BREAKER("METHOD", "") "," METHODS(
         RETRY("3", "0.002s", "0.02s")) ",\"deadline\":{\"maxTimeout\":\"3s\","
                                        "\"maxStreamTimeout\":\"5s\"}}",
     3, true},
    {"{\"name\":\"a-second\"," BOUNDARY("false") "," BREAKER("CHANNEL", "") "," METHODS(RETRY(
         "2", "0.001s", "0.01s")) ",\"deadline\":{\"maxTimeout\":\"3s\","
                                  "\"maxStreamTimeout\":\"5s\",\"deadlineMargin\":\"0.002s\"}}",
     2, false},
    {"{\"name\":\"a-third\"," BOUNDARY("true") "," BREAKER("SERVICE", "") "," METHODS(
         "\"perAttemptTimeout\":\"0.03s\"," RETRY(
             "4", "0.001s",
             "0.01s")) ",\"deadline\":{\"maxTimeout\":\"3s\",\"maxStreamTimeout\":\"5s\"}}",
     4, true},
    {"{\"name\":\"a-fourth\"," BOUNDARY(
         "true") ",\"breaker\":{\"enabled\":false},"
                 "\"deadline\":{\"maxTimeout\":\"2s\",\"maxStreamTimeout\":\"5s\"}}",
     1, true},
};

weir_policy *policy_load(const struct policy_facts *facts) {
  struct weir_diagnostic diagnostic;
  weir_policy *policy = NULL;
  if (weir_policy_from_json(facts->document, strlen(facts->document), NULL, &live_memory, &policy,
                            &diagnostic) != WEIR_OK) {
    fprintf(stderr, "%s: %s: %s\n", facts->document, diagnostic.path, diagnostic.message);
    abort();
  }
  return policy;
}
