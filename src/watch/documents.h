/* documents – what the followed files hold, and which of it is in force.
 *
 * Of each document there is the edition in force, and the newest one where that is another: refused
 * by itself, or together with the other document. What is in force is the newest pair that is
 * accepted, the organisation's document first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_WATCH_DOCUMENTS_H
#define WEIR_SRC_WATCH_DOCUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/allocator.h>
#include <weir/error.h>
#include <weir/policy.h>

#include "src/watch/file_text.h"

/* One that a document has or had. */
struct weir__edition {
  struct weir__file_text text;
  weir_policy *policy; /* what it says by itself; NULL: it is refused, or there is none */
};

struct weir__followed {
  const char *path; /* NULL: there is no such document */
  struct weir__edition in_force;
  struct weir__edition newest; /* where it is another */
  bool differs;
};

/* A document that was refused. */
struct weir__refusal {
  const char *path;
  struct weir_diagnostic diagnostic;
};

/* Of one look: each document by itself, and both together. */
#define WEIR__REFUSALS_MAX 3

struct weir__refusals {
  size_t n_refusals;
  struct weir__refusal refusals[WEIR__REFUSALS_MAX];
};

/* One thread at a time. */
struct weir__documents {
  const struct weir_allocator *allocator;
  bool lenient;
  bool begun;     /* there is a policy in force */
  bool undecided; /* an edition is new, and whether it comes into force is to be decided */
  struct weir__followed organisation;
  struct weir__followed channel;
};

/* `initial`, if not NULL, is in force until the channel's document is read; a share is taken. */
void weir__documents_init(struct weir__documents *documents, const char *organisation_path,
                          const char *channel_path, weir_policy *initial,
                          const struct weir_allocator *allocator);

void weir__documents_fini(struct weir__documents *documents);

/* How certain it is that a text is the whole document. */
enum weir__text_is { WEIR__TEXT_IS_WHOLE = 0, WEIR__TEXT_MAY_GROW };

enum weir__offer {
  WEIR__OFFER_SAME = 0, /* nothing new */
  WEIR__OFFER_NEW,
  WEIR__OFFER_PUT_OFF, /* refused, but it may grow: as if it had not been read */
  WEIR__OFFER_NO_MEMORY
};

/* What a document holds now. `text` is taken over. */
enum weir__offer weir__documents_offer(struct weir__documents *documents,
                                       struct weir__followed *followed,
                                       struct weir__file_text *text, enum weir__text_is text_is,
                                       struct weir__refusals *refusals);

/* The file can't be read any more: its newest edition is none. */
void weir__documents_lose(struct weir__documents *documents, struct weir__followed *followed);

/* Decides about the editions that are new. `*policy_out` is what is in force from now on, the
 * caller's; NULL: what was before. WEIR_OK also where one was refused. WEIR_ERROR_NO_MEMORY: it is
 * still to be decided. */
enum weir_error weir__documents_decide(struct weir__documents *documents, weir_policy **policy_out,
                                       struct weir__refusals *refusals);

#endif /* WEIR_SRC_WATCH_DOCUMENTS_H */
