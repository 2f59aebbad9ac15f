/* SPDX-License-Identifier: Apache-2.0 */
#include "test/memory/policies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

const char policy_rich[] =
    "{\"loadBalancingConfig\": [{\"round_robin\": {}}],"
    " \"healthCheckConfig\": {\"serviceName\": \"shop\"},"
    " \"retryThrottling\": {\"maxTokens\": 10, \"tokenRatio\": 0.1},"
    " \"name\": \"cart-policy\","
    " \"deadline\": {\"defaultTimeout\": \"4s\", \"maxTimeout\": \"20s\"},"
    " \"translation\": {\"keepMetadata\": [\"x-quota\", \"x-shard\"],"
    "   \"keepDetails\": [\"google.rpc.RetryInfo\"], \"codes\": {\"NOT_FOUND\": \"INTERNAL\"}},"
    " \"breaker\": {\"scope\": \"METHOD\", \"minRequests\": 2, \"maxBreakers\": 4},"
    " \"fallback\": {\"onFailure\": true},"
    " \"methodConfig\": ["
    "   {\"name\": [{\"service\": \"shop.Cart\", \"method\": \"Pay\"}, {\"service\": "
    "\"shop.Stock\"}],"
    "    \"timeout\": \"2s\", \"waitForReady\": true, \"maxRequestMessageBytes\": 1000,"
    "    \"translation\": {\"boundary\": false}},"
    "   {\"name\": [{}], \"retryPolicy\": {\"maxAttempts\": 7, \"initialBackoff\": \"0.001s\","
    "    \"maxBackoff\": \"0.001s\", \"backoffMultiplier\": 1,"
    "    \"retryableStatusCodes\": [\"UNAVAILABLE\", 10]}}]}";

const char policy_organisation[] =
    "{\"name\": \"everybody\", \"deadline\": {\"maxTimeout\": \"30s\"},"
    " \"enforce\": {\"retry\": {\"owner\": \"OUTERMOST\", \"channelReplayBytes\": 268435456},"
    "   \"methodConfig\": [{\"name\": [{\"service\": \"shop.Cart\"}],"
    "     \"retryPolicy\": {\"maxAttempts\": 4, \"retryableStatusCodes\": [\"UNAVAILABLE\"]}}]}}";

const char policy_refused[] =
    "{\"deadline\": {\"maxTimeout\": \"-1s\", \"defaultTimeuot\": \"1s\"},\n"
    " \"methodConfig\": [{\"timeout\": \"1s\"},"
    " {\"name\": [{\"service\": \"a.B\"}], \"timeout\": \".1s\"}]}";

const char policy_retrying[] =
    "{\"name\": \"again\", \"translation\": {\"boundary\": false}, \"breaker\": {\"enabled\": "
    "false},"
    " \"methodConfig\": [{\"name\": [{}], \"retryPolicy\": {\"maxAttempts\": 3,"
    "   \"initialBackoff\": \"0.000001s\", \"maxBackoff\": \"0.000001s\", \"backoffMultiplier\": 1,"
    "   \"retryableStatusCodes\": [\"UNAVAILABLE\"]}}]}";

weir_policy *policy_of(const char *json) {
  weir_policy *policy = NULL;
  struct weir_diagnostic diagnostic;
  if (weir_policy_from_json(json, strlen(json), NULL, NULL, &policy, &diagnostic) != WEIR_OK) {
    fail_msg("%s: %s", diagnostic.path, diagnostic.message);
  }
  return policy;
}
