/* init – documents to start from.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_WEIRCTL_INIT_H
#define WEIR_CMD_WEIRCTL_INIT_H

#include <stdbool.h>

#include <jansson.h>

/* A channel's document that says what holds without one: every key of weir's own with its default,
 * null where that is none. */
json_t *init_channel(void);

/* What a first entry for methods may be, put into a channel's document: of a service, which retries
 * if its calls may be made twice. */
enum init_repeats { INIT_REPEATS_NONE = 0, INIT_REPEATS_IDEMPOTENT };

void init_add_service(json_t *channel, const char *service, enum init_repeats repeats);

/* An organisation's document: ceilings, and what no channel may do away with. */
json_t *init_organisation(void);

#endif /* WEIR_CMD_WEIRCTL_INIT_H */
