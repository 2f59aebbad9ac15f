/* weir/call.h – one call of the application: any number of attempts, one final status.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CALL_H
#define WEIR_CALL_H

#include <stddef.h>

#include <grpc/grpc.h>

#include <weir/channel.h>
#include <weir/error.h>
#include <weir/export.h>
#include <weir/report.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts a batch, as grpc_call_start_batch does. The batch is checked before anything is done, so a
 * refused one has no side effect. The tag comes back from the call's queue, exactly once.
 *
 * Ownership: what the operations point to stays valid until the tag has come back; the array itself
 *            does not need to. A message that is sent loses its bytes, as with the core. What is
 *            received is the caller's as with the core: the elements of metadata arrays live until
 *            weir_call_unref.
 * Threads:   batches of one call are serialised by the caller; batches that only send and batches
 *            that only receive may be started at once.
 * Errors:    the core's: GRPC_CALL_ERROR_TOO_MANY_OPERATIONS, _INVALID_FLAGS, _INVALID_METADATA,
 *            _INVALID_MESSAGE, _NOT_ON_CLIENT, _COMPLETION_QUEUE_SHUTDOWN, GRPC_CALL_ERROR
 *            (`reserved` is not NULL). */
WEIR_API grpc_call_error weir_call_start_batch(weir_call *call, const grpc_op *ops, size_t nops,
                                               void *tag, void *reserved);

/* Cancels a call in any state, a wait for a retry included. It ends with CANCELLED unless it has
 * ended already.
 *
 * Ownership: `call` is borrowed for the call. `reserved` must be NULL.
 * Threads:   any thread.
 * Errors:    GRPC_CALL_ERROR when `reserved` is not NULL, otherwise GRPC_CALL_OK always. */
WEIR_API grpc_call_error weir_call_cancel(weir_call *call, void *reserved);

/* Cancels a call with a status of the application's own. The first cancellation wins.
 *
 * Ownership: `description` is copied.
 * Threads:   any thread.
 * Errors:    GRPC_CALL_ERROR when `reserved` is not NULL, otherwise GRPC_CALL_OK always. */
WEIR_API grpc_call_error weir_call_cancel_with_status(weir_call *call, grpc_status_code status,
                                                      const char *description, void *reserved);

/* Takes another share of a call.
 *
 * Ownership: ends with one more weir_call_unref.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API void weir_call_ref(weir_call *call);

/* Gives a share back. The last one cancels the call if it has not ended; tags of batches under way
 * still come back.
 *
 * Ownership: `call` is taken over.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API void weir_call_unref(weir_call *call);

/* Reads the report of a call whose status has been delivered.
 *
 * Ownership: `report_out` is the caller's; its `size` is set before.
 * Threads:   any thread, after the tag of the status came back.
 * Errors:    WEIR_ERROR_UNAVAILABLE the call has not ended. WEIR_ERROR_INVALID_ARGUMENT `size` is
 *            too small. */
WEIR_API WEIR_MUST_CHECK enum weir_error weir_call_get_report(const weir_call *call,
                                                              struct weir_call_report *report_out);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_CALL_H */
