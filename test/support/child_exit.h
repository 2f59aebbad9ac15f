/* child_exit – how a forked child of a test ends: at once, but not without its counters.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SUPPORT_CHILD_EXIT_H
#define WEIR_TEST_SUPPORT_CHILD_EXIT_H

#include <stdnoreturn.h>

/* As _exit, which runs nothing of what the parent has registered; what `make coverage` counted in
 * the child is written first. */
noreturn void child_exit(int status);

#endif /* WEIR_TEST_SUPPORT_CHILD_EXIT_H */
