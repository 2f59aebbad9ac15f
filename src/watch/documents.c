/* SPDX-License-Identifier: Apache-2.0 */
#include "src/watch/documents.h"

#include <stdio.h>
#include <string.h>

#include "src/policy/policy.h"

static void edition_fini(struct weir__edition *edition, const struct weir_allocator *allocator) {
  weir__file_text_fini(&edition->text, allocator);
  weir_policy_unref(edition->policy);
  edition->policy = NULL;
}

void weir__documents_init(struct weir__documents *documents, const char *organisation_path,
                          const char *channel_path, weir_policy *initial,
                          const struct weir_allocator *allocator) {
  *documents = (struct weir__documents){
      .allocator = allocator,
      .undecided = true,
      .organisation = {.path = organisation_path},
      .channel = {.path = channel_path},
  };
  documents->channel.in_force.policy = initial != NULL ? weir_policy_ref(initial) : NULL;
}

void weir__documents_fini(struct weir__documents *documents) {
  edition_fini(&documents->organisation.in_force, documents->allocator);
  edition_fini(&documents->organisation.newest, documents->allocator);
  edition_fini(&documents->channel.in_force, documents->allocator);
  edition_fini(&documents->channel.newest, documents->allocator);
}

static void drop_newest(struct weir__documents *documents, struct weir__followed *followed) {
  edition_fini(&followed->newest, documents->allocator);
  followed->differs = false;
}

static void refuse(struct weir__refusals *refusals, const char *path,
                   const struct weir_diagnostic *diagnostic) {
  if (refusals->n_refusals < WEIR__REFUSALS_MAX) {
    refusals->refusals[refusals->n_refusals++] =
        (struct weir__refusal){.path = path, .diagnostic = *diagnostic};
  }
}

static struct weir_policy_load_options load_options(const struct weir__documents *documents) {
  struct weir_policy_load_options options = WEIR_POLICY_LOAD_OPTIONS_INIT;
  options.lenient = documents->lenient;
  return options;
}

/* Loads an edition that was not seen before, and keeps it. */
static enum weir__offer take_new(struct weir__documents *documents, struct weir__followed *followed,
                                 struct weir__file_text *text, enum weir__text_is text_is,
                                 struct weir__refusals *refusals) {
  struct weir_policy_load_options options = load_options(documents);
  struct weir_diagnostic diagnostic;
  weir_policy *policy = NULL;
  options.file_name = followed->path;
  memset(&diagnostic, 0, sizeof diagnostic);
  const enum weir_error error = weir_policy_from_json(text->data, text->size, &options,
                                                      documents->allocator, &policy, &diagnostic);
  if (error == WEIR_ERROR_NO_MEMORY) {
    return WEIR__OFFER_NO_MEMORY;
  }
  if (error != WEIR_OK) {
    if (text_is == WEIR__TEXT_MAY_GROW) {
      return WEIR__OFFER_PUT_OFF;
    }
    refuse(refusals, followed->path, &diagnostic);
  }
  drop_newest(documents, followed);
  followed->newest = (struct weir__edition){.text = *text, .policy = policy};
  followed->differs = true;
  *text = (struct weir__file_text){.data = NULL, .size = 0};
  return WEIR__OFFER_NEW;
}

enum weir__offer weir__documents_offer(struct weir__documents *documents,
                                       struct weir__followed *followed,
                                       struct weir__file_text *text, enum weir__text_is text_is,
                                       struct weir__refusals *refusals) {
  enum weir__offer offer = WEIR__OFFER_SAME;
  if (weir__file_text_equals(text, &followed->in_force.text)) {
    offer = followed->differs ? WEIR__OFFER_NEW : WEIR__OFFER_SAME;
    drop_newest(documents, followed);
  } else if (!weir__file_text_equals(text, &followed->newest.text)) {
    offer = take_new(documents, followed, text, text_is, refusals);
  }
  if (offer == WEIR__OFFER_NEW) {
    documents->undecided = true;
  }
  weir__file_text_fini(text, documents->allocator);
  return offer;
}

void weir__documents_lose(struct weir__documents *documents, struct weir__followed *followed) {
  drop_newest(documents, followed);
}

/* ---- two documents as one ---- */

static enum weir_error combine(const struct weir__documents *documents, weir_policy *organisation,
                               weir_policy *channel, weir_policy **policy_out,
                               struct weir_diagnostic *diagnostic) {
  if (organisation == NULL) {
    *policy_out = channel != NULL ? weir_policy_ref(channel) : weir__policy_default();
    return WEIR_OK;
  }
  const struct weir_policy_load_options options = load_options(documents);
  return weir_policy_layer(organisation, channel, &options, documents->allocator, policy_out,
                           diagnostic);
}

static bool is_usable(const struct weir__followed *followed) {
  return followed->differs && followed->newest.policy != NULL;
}

static weir_policy *newest_policy(const struct weir__followed *followed) {
  return is_usable(followed) ? followed->newest.policy : followed->in_force.policy;
}

static void put_in_force(struct weir__documents *documents, struct weir__followed *followed) {
  if (is_usable(followed)) {
    edition_fini(&followed->in_force, documents->allocator);
    followed->in_force = followed->newest;
    followed->newest = (struct weir__edition){.policy = NULL};
    followed->differs = false;
  }
}

/* The newest of both. If that is refused, the organisation's new document may still stand with what
 * the channel had: its rules don't wait for a better document of the channel's. */
static enum weir_error decide(struct weir__documents *documents, weir_policy **policy_out,
                              struct weir__refusals *refusals) {
  struct weir__followed *organisation = &documents->organisation;
  struct weir__followed *channel = &documents->channel;
  struct weir_diagnostic diagnostic;
  struct weir_diagnostic unused;
  memset(&diagnostic, 0, sizeof diagnostic);
  enum weir_error error = combine(documents, newest_policy(organisation), newest_policy(channel),
                                  policy_out, &diagnostic);
  if (error == WEIR_OK) {
    put_in_force(documents, organisation);
    put_in_force(documents, channel);
  }
  if (error == WEIR_OK || error == WEIR_ERROR_NO_MEMORY) {
    return error;
  }
  const char *refused_path = is_usable(channel) ? channel->path : organisation->path;
  if (is_usable(organisation) && is_usable(channel)) {
    const enum weir_error alone = combine(documents, newest_policy(organisation),
                                          channel->in_force.policy, policy_out, &unused);
    if (alone == WEIR_ERROR_NO_MEMORY) {
      return alone;
    }
    if (alone == WEIR_OK) {
      put_in_force(documents, organisation);
    }
  }
  if (diagnostic.message[0] == '\0') {
    snprintf(diagnostic.message, sizeof diagnostic.message, "%s", weir_error_string(error));
  }
  refuse(refusals, refused_path, &diagnostic);
  return WEIR_OK;
}

enum weir_error weir__documents_decide(struct weir__documents *documents, weir_policy **policy_out,
                                       struct weir__refusals *refusals) {
  *policy_out = NULL;
  enum weir_error error = WEIR_OK;
  if (documents->undecided) {
    if (!documents->begun || is_usable(&documents->organisation) ||
        is_usable(&documents->channel)) {
      error = decide(documents, policy_out, refusals);
    }
    documents->begun = documents->begun || *policy_out != NULL;
    documents->undecided = error == WEIR_ERROR_NO_MEMORY;
  }
  return error;
}
