/* require – what a benchmark does when the ground is not as it must be: it says so, and ends.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_REQUIRE_H
#define WEIR_BENCH_REQUIRE_H

#include <stdbool.h>
#include <stddef.h>

/* Ends the process, saying `what`. */
_Noreturn void require_failed(const char *what);

/* Ends the process, saying `what`, unless `fine`. Here, so that who reads the code after it knows. */
static inline void require(bool fine, const char *what) {
  if (!fine) {
    require_failed(what);
  }
}

/* Memory of zeros for free; the process ends when there is none. */
__attribute__((returns_nonnull)) void *require_memory(size_t n_elements, size_t size);

#endif /* WEIR_BENCH_REQUIRE_H */
