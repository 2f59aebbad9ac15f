/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/weirctl/process.h"

#include <stdlib.h>
#include <string.h>

/* NOLINTBEGIN(concurrency-mt-unsafe): there is one thread */

const char *process_variable(const char *name) {
  return getenv(name);
}

const char *process_error(int number) {
  return strerror(number);
}

void process_end(int status) {
  exit(status);
}

/* NOLINTEND(concurrency-mt-unsafe) */
