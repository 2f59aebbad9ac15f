/* files – the demo's policies, found beside the program.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_EXAMPLES_DEMO_FILES_H
#define WEIR_EXAMPLES_DEMO_FILES_H

#include <weir/policy.h>

/* The whole of examples/demo/NAME as text; ends the program, saying why, when it can't be read. The
 * caller's to free. */
char *files_read(const char *name);

/* The policy in examples/demo/NAME; ends the program, saying why, when it is refused. Ends with
 * weir_policy_unref. */
weir_policy *files_policy(const char *name);

#endif /* WEIR_EXAMPLES_DEMO_FILES_H */
