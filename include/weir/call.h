/* weir/call.h – one call of the application: any number of attempts, one final status.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CALL_H
#define WEIR_CALL_H

#include <stddef.h>

#include <grpc/census.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

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

/* Sets the credentials that every attempt of a call is sent with, as grpc_call_set_credentials
 * does, in the place of those set before. NULL = none but the channel's.
 *
 * Ownership: the call takes a share of `creds` of its own.
 * Threads:   one thread at a time, before the first batch.
 * Errors:    GRPC_CALL_ERROR_ALREADY_INVOKED after the first batch. GRPC_CALL_ERROR when there is
 *            no memory. */
WEIR_API grpc_call_error weir_call_set_credentials(weir_call *call, grpc_call_credentials *creds);

/* Sets the census context of every attempt of a call, as grpc_census_call_set_context does. NULL
 * changes nothing, and neither does a context after the first batch.
 *
 * Ownership: `context` is borrowed until weir_call_unref.
 * Threads:   one thread at a time, before the first batch.
 * Errors:    none; without memory the call has no context. */
WEIR_API void weir_census_call_set_context(weir_call *call, struct census_context *context);

/* Reads the census context that was set, or that the parent hands on.
 *
 * Ownership: the result is as borrowed as it was by who set it; NULL = there is none.
 * Threads:   any thread, but not at the same time as the first batch is started.
 * Errors:    none. */
WEIR_API struct census_context *weir_census_call_get_context(weir_call *call);

/* Names the other end of the current attempt, as grpc_call_get_peer does; before there is one, and
 * when it has failed, the channel's target. At a boundary it is the target always: the address of a
 * downstream goes to the log sink and nowhere else. It must not be used to authenticate; that is
 * what weir_call_auth_context is for.
 *
 * Ownership: the result is the caller's until gpr_free.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API char *weir_call_get_peer(weir_call *call);

/* Reads what is known of the security of the current attempt's connection, as
 * grpc_call_auth_context does: the identity that the peer has proved. At a boundary too: the
 * application decides by it whether to trust the peer, and it is proved, not written by it.
 *
 * Ownership: the result is the caller's until grpc_auth_context_release.
 * Threads:   any thread, once initial metadata or the status have come.
 * Errors:    NULL when no attempt has been given a connection. */
WEIR_API grpc_auth_context *weir_call_auth_context(weir_call *call);

/* Allocates memory that lives as long as the call, as grpc_call_arena_alloc does.
 *
 * Ownership: the result is borrowed until weir_call_unref; aligned as malloc's, zeroed.
 * Threads:   any thread.
 * Errors:    NULL when there is no memory. */
WEIR_API void *weir_call_arena_alloc(weir_call *call, size_t size);

/* Tells what grpc_call_failed_before_recv_message tells of the current attempt: in 1.51 whether the
 * end of the stream came before a message that was waited for, which includes the regular end.
 *
 * Ownership: `call` is borrowed for the call.
 * Threads:   any thread, once a message that was waited for has come or its end.
 * Errors:    none; 0 when there has been no attempt. */
WEIR_API int weir_call_failed_before_recv_message(const weir_call *call);

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
