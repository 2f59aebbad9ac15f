/* weir/reply.h – what a service answers its own caller because of a call that it has made.
 *
 * It is made of the call's report, which holds numbers and weir's own words: what the downstream
 * wrote is not in reach, on a channel that is no boundary either.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_REPLY_H
#define WEIR_REPLY_H

#include <stddef.h>

#include <grpc/grpc.h>

#include <weir/export.h>
#include <weir/report.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most entries that weir_reply_metadata writes. */
#define WEIR_REPLY_METADATA_MAX 4

/* Room for the message of a reply, its end included. */
#define WEIR_REPLY_MESSAGE_BYTES 128

/* Says what a service should add to its own reply when it fails because of this call, as trailing
 * metadata for GRPC_OP_SEND_STATUS_FROM_SERVER: grpc-retry-pushback-ms -1 when `do_not_retry` (A6,
 * pushback).
 *
 * Ownership: the entries' slices are static or inlined: there is nothing to unref. `report` is
 *            borrowed for the call.
 * Threads:   any thread.
 * Errors:    none; returns how many entries were written, at most WEIR_REPLY_METADATA_MAX. */
WEIR_API size_t weir_reply_metadata(const struct weir_call_report *report,
                                    grpc_metadata metadata_out[WEIR_REPLY_METADATA_MAX]);

/* Room for what a status operation points to. weir_reply_status fills it in; it needs no
 * initialising and no end, and its layout does not change. */
struct weir_reply {
  char message[WEIR_REPLY_MESSAGE_BYTES];                   /* terminated */
  grpc_slice details;                                       /* `message` as a slice */
  grpc_metadata trailing_metadata[WEIR_REPLY_METADATA_MAX]; /* what weir_reply_metadata says */
};

/* Makes a whole GRPC_OP_SEND_STATUS_FROM_SERVER of a report: the code that the caller saw, the
 * message that a boundary puts in the place of the downstream's ("downstream service error [ref
 * 0123456789ab]"), and weir_reply_metadata. Of a report of OK: OK, no message, no metadata. It is
 * made of the report alone: what a boundary keeps of the downstream's metadata and details is in the
 * call's trailing metadata, and not handed on by this.
 *
 * Start it in one batch with GRPC_OP_SEND_INITIAL_METADATA, which was not sent before: after headers
 * of their own the caller's attempt is committed, and is not retried (A6); without any the core
 * sends no status.
 *
 * Ownership: `report` is borrowed for the call. `*reply_out` is the caller's memory; the operation
 *            points into it, so it stays as and where it is until the tag of the operation's batch
 *            has come back. There is nothing to unref.
 * Threads:   any thread.
 * Errors:    none; a code out of 0..16, or a report too small to have one, is UNKNOWN. */
WEIR_API void weir_reply_status(const struct weir_call_report *report, struct weir_reply *reply_out,
                                grpc_op *op_out);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_REPLY_H */
