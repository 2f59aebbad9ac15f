/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/child_exit.h"

#include <stddef.h>
#include <unistd.h>

/* libgcov's, in a program that is linked with it. */
/* NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): its name */
__attribute__((weak)) void __gcov_dump(void);

void child_exit(int status) {
  if (__gcov_dump != NULL) {
    __gcov_dump();
  }
  _exit(status);
}
