/* protocol – what the test of a chain and the processes of it tell each other over pipes.
 *
 * A message is a struct, written at once: the two sides are built together, and one is shorter than
 * PIPE_BUF.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_CHAIN_PROTOCOL_H
#define WEIR_TEST_E2E_CHAIN_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

#include <grpc/status.h>

#include <weir/interceptor.h>
#include <weir/outcome.h>
#include <weir/reason.h>

#define CHAIN_HELLO "/chain.Service/Hello"   /* a unary method */
#define CHAIN_ASK "/chain.Service/Ask"       /* the same, for policies that are about one of them */
#define CHAIN_WATCH "/chain.Service/Watch"   /* streams messages, as many as ordered */
#define CHAIN_FINISH "/chain.Service/Finish" /* as Ask; the next one is asked to finish anyway */

/* Metadata: the number of the client's call, which each hop passes on. */
#define CHAIN_ROOT_KEY "x-root"

/* In the message of each failure of the last hop's. */
#define CHAIN_SECRET "table users at 10.0.0.7"

#define CHAIN_FOREVER INT64_MAX
#define CHAIN_ALWAYS UINT32_MAX

/* To the last hop: what to answer from now on. To another, once, before it is ready: whom to ask. */
struct chain_order {
  int next_port;
  uint32_t n_failures; /* then it works; CHAIN_ALWAYS = it does not */
  grpc_status_code failure;
  uint32_t n_messages; /* of a stream, before the delay */
  int64_t delay_ns;    /* CHAIN_FOREVER = until the caller has gone */
};

enum chain_event_kind {
  CHAIN_READY = 0,
  CHAIN_ORDERED,
  CHAIN_ARRIVED, /* a request */
  CHAIN_TRIED,   /* an attempt of a call to the next hop; told once the call has ended */
  CHAIN_ASKED,   /* the call to the next hop has ended */
  CHAIN_ENDED,   /* a request has been answered, or its caller has gone */
};

/* From a hop. Instants are CLOCK_MONOTONIC, which all processes of a machine share. */
struct chain_event {
  enum chain_event_kind kind;
  int64_t at_ns;
  uint32_t n_under_way;           /* requests, once this has happened */
  int port;                       /* READY */
  int64_t root;                   /* all that follow: the client's call that it belongs to */
  int64_t budget_us;              /* ARRIVED: weir-budget-us; -1 = none */
  int64_t timeout_ns;             /* ARRIVED: from grpc-timeout, what was left */
  int64_t previous_attempts;      /* ARRIVED: grpc-previous-rpc-attempts; -1 = none */
  char retry_owner[64];           /* ARRIVED: weir-retry-owner; "" = none */
  grpc_status_code code;          /* ASKED: what it got; ENDED: what it answered */
  uint32_t n_attempts;            /* ASKED */
  enum weir_reason reason;        /* ASKED */
  enum weir_deadline_bound bound; /* ASKED */
  bool cancelled;                 /* ENDED: the caller had gone before the answer */
};

#endif /* WEIR_TEST_E2E_CHAIN_PROTOCOL_H */
