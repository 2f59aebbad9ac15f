/* answerer – what B does with a request: what the call's plan says.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_ANSWERER_H
#define WEIR_TEST_SOAK_ANSWERER_H

#include "test/soak/service.h"

/* A service's handler; its context is the struct plans of the run. */
void answerer_serve(void *context, struct served *served);

#endif /* WEIR_TEST_SOAK_ANSWERER_H */
