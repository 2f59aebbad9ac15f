/* json_log – the default log: weir/json_log.h on standard error, for the whole process.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_LOG_JSON_LOG_H
#define WEIR_SRC_LOG_JSON_LOG_H

#include <weir/log.h>

/* Static. */
const struct weir_log_sink *weir__json_log_default_sink(void);

#endif /* WEIR_SRC_LOG_JSON_LOG_H */
