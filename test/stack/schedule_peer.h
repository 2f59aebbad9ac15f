/* schedule_peer – the other side of every attempt: what it answers, and whether it may be sent what
 * it is sent.
 *
 * An attempt may be sent while its call goes on, within deadline and policy, and after a failure
 * that may be retried. It is sent what the application has started: the same metadata, each message
 * once, in order, the half-close last.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_STACK_SCHEDULE_PEER_H
#define WEIR_TEST_STACK_SCHEDULE_PEER_H

#include "test/support/sent_attempt.h"

/* Hooks of the scripted transport; the context is the world. */
void schedule_peer_on_send(void *context, struct sent_attempt *attempt);
void schedule_peer_on_op(void *context, struct sent_attempt *attempt, grpc_op_type type);
void schedule_peer_on_answered(void *context, struct sent_attempt *attempt);
void schedule_peer_on_end(void *context, struct sent_attempt *attempt);

#endif /* WEIR_TEST_STACK_SCHEDULE_PEER_H */
