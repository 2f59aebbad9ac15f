/* process – what belongs to the process as a whole. weirctl has one thread, so that is safe.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_WEIRCTL_PROCESS_H
#define WEIR_CMD_WEIRCTL_PROCESS_H

/* A variable of the environment; NULL: there is none. */
const char *process_variable(const char *name);

/* "No such file or directory", until the next call. */
const char *process_error(int number);

_Noreturn void process_end(int status);

#endif /* WEIR_CMD_WEIRCTL_PROCESS_H */
