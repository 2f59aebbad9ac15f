/* presentation – what the caller sees of a failed call, and what the log is told instead.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_PRESENTATION_H
#define WEIR_SRC_CALL_PRESENTATION_H

#include <grpc/grpc.h>

#include <weir/call.h>
#include <weir/interceptor.h>

/* The call has failed: asks the layers what the caller is to see of its status, and makes that. At a
 * boundary the log is told the truth first. */
void weir__call_present_failure(weir_call *call, const struct weir_event *event);

/* Leaves only what the policy lets through a boundary. */
void weir__call_filter_metadata(const weir_call *call, grpc_metadata_array *array);

#endif /* WEIR_SRC_CALL_PRESENTATION_H */
