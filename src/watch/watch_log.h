/* watch_log – what a watcher says in the log.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_WATCH_WATCH_LOG_H
#define WEIR_SRC_WATCH_WATCH_LOG_H

#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>
#include <weir/log.h>

/* `organisation` is the path of its document, NULL = none. */
void weir__watch_log_applied(const struct weir_log_sink *log, const char *path,
                             const char *organisation, uint64_t generation);

void weir__watch_log_refused(const struct weir_log_sink *log, const char *path,
                             const struct weir_diagnostic *diagnostic);

/* A file is not there (WEIR_LOG_POLICY_MISSING) or can't be read (WEIR_LOG_POLICY_UNREADABLE). */
void weir__watch_log_lost(const struct weir_log_sink *log, enum weir_log_event event,
                          const char *path, const struct weir_diagnostic *diagnostic);

void weir__watch_log_polled(const struct weir_log_sink *log, const char *path, const char *why);

/* Channels that don't take the policy. */
void weir__watch_log_behind(const struct weir_log_sink *log, const char *path, size_t n_behind,
                            const struct weir_diagnostic *diagnostic);

#endif /* WEIR_SRC_WATCH_WATCH_LOG_H */
