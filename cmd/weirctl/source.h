/* source – a document as it stands in a file, or on standard input.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_WEIRCTL_SOURCE_H
#define WEIR_CMD_WEIRCTL_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "src/policy/json.h"

struct source {
  const char *path; /* as it was given; "-" is standard input */
  char *text;       /* of a document that is too large, what makes it so */
  size_t size;
  dev_t device; /* which file it is; 0 and 0 of standard input */
  ino_t inode;
};

/* Reads `path`, which stays borrowed; source_fini ends it, also after a failure. False: `errno`
 * says why. */
bool source_read(struct source *source, const char *path);

/* Whether two are one file, whatever it was called. */
bool source_is_same(const struct source *a, const struct source *b);

void source_fini(struct source *source);

/* The path of the organisation's document: what --org gives, or what programs that use weir have from
 * WEIR_ORG_POLICY if that is NULL. An empty one is none; none is NULL. */
const char *source_organisation(const char *given);

/* What a person is shown: "<stdin>" for "-". */
const char *source_name(const char *path);

/* "weirctl: NAME: why", by errno. */
void source_complain(const char *path);

/* False, with a complaint: standard input is named more than once, which can be read only once.
 * `other`, another path beside the list, may be NULL. */
bool source_stdin_once(char *const *paths, size_t n_paths, const char *other);

#endif /* WEIR_CMD_WEIRCTL_SOURCE_H */
