/* schedule_check – what an application is handed, held against what the attempts of its call came
 * to.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_STACK_SCHEDULE_CHECK_H
#define WEIR_TEST_STACK_SCHEDULE_CHECK_H

#include "test/stack/schedule_call.h"

/* A batch's tag has come, with batch->success. */
void schedule_check_batch(struct schedule_world *world, struct schedule_call *call,
                          const struct schedule_batch *batch);

/* Every tag has come. */
void schedule_check_end(struct schedule_world *world, const struct schedule_call *call);

/* The same, of all calls: the log was told of each failure once. */
void schedule_check_log(const struct schedule_world *world);

#endif /* WEIR_TEST_STACK_SCHEDULE_CHECK_H */
