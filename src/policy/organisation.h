/* organisation – the document that holds for all channels of a process, whatever their programs do.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_ORGANISATION_H
#define WEIR_SRC_POLICY_ORGANISATION_H

#include <weir/allocator.h>
#include <weir/error.h>
#include <weir/log.h>
#include <weir/policy.h>

/* Names the document in the environment. Not set, or empty: there is none. */
#define WEIR__ORGANISATION_VARIABLE "WEIR_ORG_POLICY"

/* The document's file; NULL: there is none. Valid while nobody changes the environment. */
const char *weir__organisation_file(void);

/* The policy that is in force on a channel which was given `policy` (NULL = the built-in one): laid
 * under the organisation's, unless there is none, or it has been laid under one already. The file
 * is read each time. On success `*in_force_out` is a share, which the caller gives back; on failure
 * it is NULL, and what was in force has to stay so. `diagnostic` may be NULL.
 * WEIR_ERROR_INVALID_POLICY: one of the two is refused. WEIR_ERROR_UNAVAILABLE: the organisation's
 * file can't be read. WEIR_ERROR_NO_MEMORY. */
WEIR_MUST_CHECK enum weir_error weir__policy_in_force(weir_policy *policy,
                                                      const struct weir_allocator *allocator,
                                                      weir_policy **in_force_out,
                                                      struct weir_diagnostic *diagnostic);

/* Writes a record of a refusal, WEIR_LOG_POLICY_REFUSED, that names both places. `target` is the
 * channel's. */
void weir__policy_log_refused(const struct weir_log_sink *log, const char *target,
                              const struct weir_diagnostic *diagnostic);

#endif /* WEIR_SRC_POLICY_ORGANISATION_H */
