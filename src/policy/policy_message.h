/* policy_message – options structs as a policy document's message: the way back of policy_options.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_POLICY_MESSAGE_H
#define WEIR_SRC_POLICY_POLICY_MESSAGE_H

#include <upb/arena.h>
#include <weir/v1/policy.upb.h>

#include <weir/policy.h>

/* What a code becomes in a method's `codes`, or `deadlineExceededAs`, when it is what is built in
 * although the channel says otherwise. No document can say it. */
#define WEIR__POLICY_MESSAGE_BUILT_IN WEIR_TRANSLATION_DEFAULT

/* A message that says all that the options say, defaults included; only what is none (a timeout, a
 * throttle, what a code becomes) is left out, and what options do not have (`idempotent`). The
 * structs are this library's, whole. Texts are borrowed until the arena is gone.
 * `core_service_config` stays out. NULL: there is no memory. */
weir_v1_Policy *weir__policy_message_of_options(const struct weir_policy_options *options,
                                                upb_Arena *arena);

#endif /* WEIR_SRC_POLICY_POLICY_MESSAGE_H */
