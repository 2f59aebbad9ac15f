/* tables – what the demo measures; each fills one table of the results.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_EXAMPLES_DEMO_TABLES_H
#define WEIR_EXAMPLES_DEMO_TABLES_H

#include "examples/demo/results.h"

/* B answers each code: what A's client sees. */
void table_translation(struct results *results);

/* B says what nobody outside should read: what A's client reads. */
void table_messages(struct results *results);

/* The last service is down: how often it is asked. */
void table_amplification(struct results *results);

/* B is slower than A can wait: what the client sees, and when. */
void table_deadline(struct results *results);

/* B fails a hundred times: whether A's breaker opens, and how it closes again. */
void table_breaker(struct results *results);

#endif /* WEIR_EXAMPLES_DEMO_TABLES_H */
