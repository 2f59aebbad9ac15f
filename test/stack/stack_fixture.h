/* stack_fixture – a channel and a queue over a scripted transport, in virtual time, with counted
 * memory.
 *
 * A test changes the options that it wants, opens the fixture, and makes calls. Jitter is nothing
 * unless the test says otherwise, and the retry policy of every method is: UNAVAILABLE, 4 attempts,
 * 100 ms, doubled, at most 1 s.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_STACK_STACK_FIXTURE_H
#define WEIR_TEST_STACK_STACK_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include <weir/weir.h>

#include "test/support/counting_allocator.h"
#include "test/support/fake_clock.h"
#include "test/support/log_recorder.h"
#include "test/support/scripted_fallback.h"
#include "test/support/scripted_transport.h"
#include "test/support/seeded_random.h"

#define MS(n) ((n)*WEIR_MS_NS)
#define SECONDS(n) ((n)*WEIR_SECOND_NS)

/* Some time after the machine's start. */
#define T0 SECONDS(1200)

/* A test of cmocka's that has a fixture. */
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

/* What peers answer when a test does not care for more: Trailers-Only, and the reply "bar". */
extern const struct wire_answer answer_unavailable;
extern const struct wire_answer answer_not_found;
extern const struct wire_answer answer_ok;

#define CODE_BIT(code) (1u << (code))

#define FIXTURE_TARGET "cart.shop.internal:443"

#define METHOD "/shop.Cart/Pay"
#define OTHER_METHOD "/shop.Cart/Add"

#define UNARY_METADATA 32
#define MAX_UNARY_OPS 6

/* A unary call in one batch, with its outputs. Its tag is its address. */
struct unary {
  weir_call *call;
  grpc_byte_buffer *request;
  grpc_metadata metadata[UNARY_METADATA];
  size_t n_metadata;

  grpc_metadata_array initial_metadata;
  grpc_metadata_array trailing_metadata;
  grpc_byte_buffer *reply;
  grpc_slice details;
  const char *error_string;
  grpc_status_code status;

  uint32_t metadata_flags;
  uint32_t message_flags;
  bool success;
  size_t n_done; /* how often the tag came back */
  int64_t done_at_ns;
};

#define MAX_FOREIGN 64

struct fixture {
  struct fake_clock clock;
  struct seeded_random random;
  struct counting_allocator allocator;
  struct scripted_transport transport;
  struct log_recorder log;
  const struct weir_breaker_listener *breaker_listener; /* NULL = none */

  struct weir_deadline_options deadline;
  struct weir_translation_options translation;
  struct weir_breaker_options breaker;
  struct weir_retry_options retry;
  struct weir_method_options method; /* the entry without a name */
  struct weir_fallback_options fallback_options;
  struct scripted_fallback fallback;
  bool has_fallback; /* channels are made with it */
  struct weir_policy_options policy_options;

  weir_policy *policy;
  weir_channel *channel;
  weir_completion_queue *queue;
  grpc_cq_completion_type queue_type;

  /* Tags that are no unary's. */
  void *foreign[MAX_FOREIGN];
  bool foreign_success[MAX_FOREIGN];
  size_t n_foreign;
  bool saw_shutdown;

  struct unary *unaries[64]; /* that were started */
  size_t n_unaries;
};

/* setup and teardown of cmocka; the latter fails on anything that is left. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

/* Makes policy, channel and queue. Without fixture_open, the teardown has less to do. */
void fixture_open(struct fixture *f);
void fixture_open_queue(struct fixture *f, grpc_cq_completion_type type);

/* For tests of what the layers inside do: no boundary, no breaker. */
void fixture_open_raw(struct fixture *f);

/* Plays a script, see SCRIPT. */
void play(struct fixture *f, const struct script_step *steps);

/* The nth attempt that was sent, from 1. */
const struct sent_attempt *sent(const struct fixture *f, size_t nth);

/* Puts a policy in force that is what the options say now; nobody else has a share of it. */
void fixture_swap(struct fixture *f);

/* The same in steps, for tests of what fails. */
enum weir_error fixture_make_policy(struct fixture *f);
weir_channel *fixture_make_channel(struct fixture *f, const char *target);
weir_completion_queue *fixture_make_queue(struct fixture *f, grpc_cq_completion_type type);

/* --- unary calls --- */

/* A call that is not started. The request is "foo". */
void unary_init(struct fixture *f, struct unary *unary);

struct unary_options {
  const char *method;
  int64_t deadline_at_ns; /* 0 = none */
  weir_inbound *inbound;
  enum weir_inbound_bond inbound_bond;
  grpc_call *parent;
};
void unary_init_with(struct fixture *f, struct unary *unary, const struct unary_options *options);

/* Replaces the request by one of `size` bytes. */
void unary_set_request(struct fixture *f, struct unary *unary, size_t size);

/* Keys are static; values are counted slices. */
void unary_add_metadata(struct fixture *f, struct unary *unary, const char *key, const char *value);

/* The six operations. */
void unary_ops(struct unary *unary, grpc_op ops[MAX_UNARY_OPS]);

/* Starts the batch; the array of operations is overwritten afterwards. */
grpc_call_error unary_try_start(struct fixture *f, struct unary *unary);
void unary_start(struct fixture *f, struct unary *unary);

/* Gives back the call and all outputs; a call under way is let go. */
void unary_fini(struct unary *unary);

/* Init, start, run until idle: for calls of which only the end matters. Ended by unary_fini. */
void unary_run(struct fixture *f, struct unary *unary);

/* `n` whole calls. */
void run_calls(struct fixture *f, size_t n);

struct weir_call_report unary_report(const struct unary *unary);
bool unary_details_are(const struct unary *unary, const char *text);
bool unary_reply_is(const struct unary *unary, const char *text);

/* Whether `secret` is in anything that the application can read of the call. */
bool unary_can_see(const struct unary *unary, const char *secret);

/* --- time and events --- */

/* Drains until nothing will ever happen, or the queue is shut down. */
void run_until_idle(struct fixture *f);

/* Drains until `at_ns`; it is then that time. */
void run_until(struct fixture *f, int64_t at_ns);

/* Since T0. */
int64_t elapsed_ns(const struct fixture *f);

/* Shuts the queue down, drains it, destroys it. */
void fixture_close_queue(struct fixture *f);

/* The channel's breaker. */
struct weir_breaker_snapshot fixture_breaker(struct fixture *f);

/* --- requests being served --- */

/* An inbound with a deadline (0 = none) and a weir-retry-owner (NULL = none). */
weir_inbound *fixture_inbound(struct fixture *f, int64_t deadline_at_ns, const char *owner,
                              grpc_call *server_call);

#endif /* WEIR_TEST_STACK_STACK_FIXTURE_H */
