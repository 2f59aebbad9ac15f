/* headers – the metadata keys that weir sends to the next hop and reads from the one before.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_HEADERS_H
#define WEIR_SRC_CALL_HEADERS_H

/* What is left of the call's time, in microseconds; grpc-timeout is rounded up, and reused while 3
 * % off. */
#define WEIR__HEADER_BUDGET "weir-budget-us"

/* The policy of the layer that owns the retries of this chain of calls. */
#define WEIR__HEADER_RETRY_OWNER "weir-retry-owner"

/* A6. */
#define WEIR__HEADER_PREVIOUS_ATTEMPTS "grpc-previous-rpc-attempts"

/* gRPC's own, where the core is not given the deadline that it would say it by. */
#define WEIR__HEADER_TIMEOUT "grpc-timeout"

/* How many of them there are. */
#define WEIR__N_HEADERS 4

#endif /* WEIR_SRC_CALL_HEADERS_H */
