/* silent_log – a log of which nobody hears.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SUPPORT_SILENT_LOG_H
#define WEIR_TEST_SUPPORT_SILENT_LOG_H

#include <weir/log.h>

extern const struct weir_log_sink silent_log;

#endif /* WEIR_TEST_SUPPORT_SILENT_LOG_H */
