/* pause – waiting, and the time it takes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_EXAMPLES_DEMO_PAUSE_H
#define WEIR_EXAMPLES_DEMO_PAUSE_H

#include <stdint.h>

/* Waits on a queue that nothing comes from. */
void pause_for(int64_t span_ns);

/* Now, in monotonic nanoseconds from some beginning. */
int64_t pause_now_ns(void);

#endif /* WEIR_EXAMPLES_DEMO_PAUSE_H */
