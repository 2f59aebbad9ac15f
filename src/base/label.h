/* label – a name that can stand in metadata, in a log and as a metric's label as it is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_BASE_LABEL_H
#define WEIR_SRC_BASE_LABEL_H

#include <stdbool.h>

#define WEIR__LABEL_MAX 63

/* Whether it has 1 to WEIR__LABEL_MAX of [A-Za-z0-9._-]. No more of it than that is read. */
bool weir__label_is_legal(const char *label);

#endif /* WEIR_SRC_BASE_LABEL_H */
