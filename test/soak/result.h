/* result – a soak's result, written down.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_RESULT_H
#define WEIR_TEST_SOAK_RESULT_H

#include <stdio.h>

#include "test/soak/soak.h"

/* As tables, for people. */
void result_print(struct soak_result *result, FILE *file);

/* As an object of JSON. */
void result_print_json(struct soak_result *result, FILE *file);

#endif /* WEIR_TEST_SOAK_RESULT_H */
