/* SPDX-License-Identifier: Apache-2.0 */
#include "src/watch/watcher.h"

#include <string.h>

#include "src/watch/watch_log.h"

/* How often a look begins anew because of what happens while it reads. */
#define MAX_ROUNDS 8

/* How long a file may be written, or something be missing for the look, before it is looked at
 * again. */
#define SETTLE_NS (250 * WEIR_MS_NS)

#define N_FILES 2

/* One look: what it has found of each file, the organisation's first. */
struct look {
  struct weir__followed *followed[N_FILES];
  enum weir__file_result results[N_FILES];
  struct weir__file_text texts[N_FILES];
  struct weir_diagnostic reasons[N_FILES]; /* why one was not read */
  enum weir__text_is texts_are;
  bool settled;        /* nothing was written while they were read */
  bool again;          /* it is to be taken again, soon */
  bool lost;           /* a file was not there, or not to be read: of that, not all is told */
  bool is_new;         /* an edition is */
  weir_policy *policy; /* the new one in force; NULL: as it was */
  struct weir__refusals refusals;
};

static void look_init(struct look *look, weir_policy_watcher *watcher) {
  memset(look, 0, sizeof *look);
  look->followed[0] = &watcher->documents.organisation;
  look->followed[1] = &watcher->documents.channel;
}

static void drop_texts(struct look *look, const struct weir_allocator *allocator) {
  for (size_t i = 0; i < N_FILES; i++) {
    weir__file_text_fini(&look->texts[i], allocator);
  }
}

/* ---- reading ---- */

static void read_files(struct look *look, weir_policy_watcher *watcher) {
  for (size_t i = 0; i < N_FILES; i++) {
    if (look->followed[i]->path != NULL) {
      look->results[i] = weir__file_text_read(&look->texts[i], look->followed[i]->path,
                                              watcher->allocator, &look->reasons[i]);
    }
  }
}

static bool is_torn(const struct look *look) {
  return look->results[0] == WEIR__FILE_UNSETTLED || look->results[1] == WEIR__FILE_UNSETTLED;
}

/* Reads what is there, until nothing changes meanwhile. Where it does so on and on, what was read
 * is good all the same, unless the file itself is being written; the next look is soon. */
static void observe(struct look *look, weir_policy_watcher *watcher) {
  unsigned news = 0;
  int round = 0;
  do {
    drop_texts(look, watcher->allocator);
    weir__follower_walk(&watcher->follower);
    read_files(look, watcher);
    news = weir__follower_drain(&watcher->follower);
  } while (((news & ~WEIR__NEWS_WRITING) != 0 || is_torn(look)) && ++round < MAX_ROUNDS);
  look->settled = (news & WEIR__NEWS_WRITING) == 0;
  look->again = news != 0;
  if (news != 0) {
    look->texts_are = WEIR__TEXT_MAY_GROW;
  }
}

/* ---- what it comes to ---- */

static enum weir__text_is text_is(const struct look *look, const weir_policy_watcher *watcher,
                                  size_t nth) {
  return weir__follower_is_written(&watcher->follower, look->followed[nth]->path)
             ? WEIR__TEXT_MAY_GROW
             : look->texts_are;
}

static void offer_texts(struct look *look, weir_policy_watcher *watcher) {
  for (size_t i = 0; i < N_FILES; i++) {
    if (look->results[i] == WEIR__FILE_MISSING || look->results[i] == WEIR__FILE_UNREADABLE) {
      weir__documents_lose(&watcher->documents, look->followed[i]);
      look->lost = true;
    }
    if (look->texts[i].data == NULL) {
      look->again = look->again || look->results[i] == WEIR__FILE_UNSETTLED ||
                    look->results[i] == WEIR__FILE_NO_MEMORY;
      continue;
    }
    switch (weir__documents_offer(&watcher->documents, look->followed[i], &look->texts[i],
                                  text_is(look, watcher, i), &look->refusals)) {
    case WEIR__OFFER_SAME:
      break;
    case WEIR__OFFER_NEW:
      look->is_new = true;
      break;
    case WEIR__OFFER_PUT_OFF:
      look->results[i] = WEIR__FILE_UNSETTLED;
      look->again = true;
      break;
    case WEIR__OFFER_NO_MEMORY:
      look->results[i] = WEIR__FILE_NO_MEMORY;
      look->again = true;
      break;
    }
  }
}

static void decide(struct look *look, weir_policy_watcher *watcher) {
  if (weir__documents_decide(&watcher->documents, &look->policy, &look->refusals) != WEIR_OK) {
    look->again = true;
  }
}

/* How a file stands after a look; one that was not read whole stands as it did. */
static enum weir_policy_file_state state_of(const struct look *look, size_t nth, bool undecided,
                                            enum weir_policy_file_state before) {
  if (look->followed[nth]->path == NULL) {
    return WEIR_POLICY_FILE_NONE;
  }
  switch (look->results[nth]) {
  case WEIR__FILE_READ:
    if (undecided) {
      break;
    }
    return look->followed[nth]->differs ? WEIR_POLICY_FILE_REFUSED : WEIR_POLICY_FILE_IN_FORCE;
  case WEIR__FILE_MISSING:
    return WEIR_POLICY_FILE_MISSING;
  case WEIR__FILE_UNREADABLE:
    return WEIR_POLICY_FILE_UNREADABLE;
  case WEIR__FILE_UNSETTLED:
  case WEIR__FILE_NO_MEMORY:
    break;
  }
  return before;
}

static void count_look(struct weir_policy_watch_snapshot *snapshot, const struct look *look) {
  bool all_read = true;
  for (size_t i = 0; i < N_FILES; i++) {
    if (look->followed[i]->path != NULL) {
      all_read = all_read && look->results[i] == WEIR__FILE_READ;
    }
  }
  snapshot->n_loads += all_read ? 1 : 0;
  snapshot->n_unchanged += all_read && !look->is_new && look->policy == NULL ? 1 : 0;
  snapshot->n_unreadable += look->lost ? 1 : 0;
  snapshot->n_applied += look->policy != NULL ? 1 : 0;
  snapshot->n_refused += look->refusals.n_refusals;
  if (look->refusals.n_refusals > 0) {
    const struct weir__refusal *last = &look->refusals.refusals[look->refusals.n_refusals - 1];
    snapshot->refused_path = last->path;
    snapshot->refusal = last->diagnostic;
  }
}

/* Counts what was found. `changed_out` says of which files the state is another now. */
static void note(const struct look *look, weir_policy_watcher *watcher, bool changed_out[N_FILES]) {
  (void)pthread_mutex_lock(&watcher->guarded.mutex);
  struct weir_policy_watch_snapshot *snapshot = &watcher->guarded.snapshot;
  enum weir_policy_file_state *const states[N_FILES] = {&snapshot->organisation_file,
                                                        &snapshot->file};
  for (size_t i = 0; i < N_FILES; i++) {
    const enum weir_policy_file_state state =
        state_of(look, i, watcher->documents.undecided, *states[i]);
    changed_out[i] = state != *states[i];
    *states[i] = state;
  }
  count_look(snapshot, look);
  snapshot->polled = watcher->options.always_polls || watcher->blind != NULL;
  (void)pthread_mutex_unlock(&watcher->guarded.mutex);
}

/* ---- telling, without a lock; each may free the watcher, and is then the last ---- */

static void tell_lost(const struct look *look, const weir_policy_watcher *watcher,
                      const bool changed[N_FILES]) {
  for (size_t i = 0; i < N_FILES && !watcher->freed; i++) {
    const char *path = look->followed[i]->path;
    if (path == NULL || !changed[i]) {
      continue;
    }
    if (look->results[i] == WEIR__FILE_MISSING) {
      weir__watch_log_lost(watcher->log, WEIR_LOG_POLICY_MISSING, path, &look->reasons[i]);
    } else if (look->results[i] == WEIR__FILE_UNREADABLE) {
      weir__watch_log_lost(watcher->log, WEIR_LOG_POLICY_UNREADABLE, path, &look->reasons[i]);
    }
  }
}

static void tell_refused(const struct look *look, const weir_policy_watcher *watcher) {
  for (size_t i = 0; i < look->refusals.n_refusals; i++) {
    const struct weir__refusal *refusal = &look->refusals.refusals[i];
    if (!watcher->freed) {
      weir__watch_log_refused(watcher->log, refusal->path, &refusal->diagnostic);
    }
    if (!watcher->freed && watcher->options.on_refused != NULL) {
      watcher->options.on_refused(watcher->options.context, refusal->path, &refusal->diagnostic);
    }
  }
}

static void tell_blind(weir_policy_watcher *watcher, const char *blind_before) {
  if (!watcher->freed && watcher->blind != NULL && watcher->blind != blind_before) {
    weir__watch_log_polled(watcher->log, watcher->path, watcher->blind);
  }
}

/* Channels that did not take a policy before are asked again, too. */
static void bring_up_channels(struct look *look, weir_policy_watcher *watcher) {
  struct weir_diagnostic diagnostic;
  const size_t n_behind = weir__channel_group_bring_up(&watcher->group, &diagnostic);
  look->again = look->again || n_behind > 0;
  if (!watcher->freed && n_behind > 0 && look->policy != NULL) {
    weir__watch_log_behind(watcher->log, watcher->path, n_behind, &diagnostic);
  }
}

static void tell_applied(const struct look *look, const weir_policy_watcher *watcher,
                         uint64_t generation) {
  if (!watcher->freed) {
    weir__watch_log_applied(watcher->log, watcher->path, watcher->organisation, generation);
  }
  if (!watcher->freed && watcher->options.on_change != NULL) {
    watcher->options.on_change(watcher->options.context, look->policy, generation);
  }
}

/* ---- a look ---- */

static void set_timer(const struct look *look, const weir_policy_watcher *watcher) {
  int64_t after_ns = WEIR_NO_LIMIT_NS;
  if (watcher->options.always_polls || watcher->blind != NULL || look->lost) {
    after_ns = watcher->options.poll_interval_ns;
  }
  if (look->again && after_ns > SETTLE_NS) {
    after_ns = SETTLE_NS;
  }
  weir__wakeup_set_timer(&watcher->wakeup, after_ns);
}

static bool look_finish(struct look *look, weir_policy_watcher *watcher) {
  bool changed[N_FILES];
  const char *blind_before = watcher->blind;
  const bool applied = look->policy != NULL;
  uint64_t generation = 0;
  watcher->blind = weir__follower_blind(&watcher->follower);
  note(look, watcher, changed);
  if (applied) {
    generation = weir__channel_group_set_policy(&watcher->group, weir_policy_ref(look->policy));
  }
  bring_up_channels(look, watcher);
  set_timer(look, watcher);
  tell_blind(watcher, blind_before);
  tell_lost(look, watcher, changed);
  tell_refused(look, watcher);
  if (applied) {
    tell_applied(look, watcher, generation);
  }
  weir_policy_unref(look->policy);
  return applied;
}

static bool look_begin(weir_policy_watcher *watcher) {
  (void)pthread_mutex_lock(&watcher->guarded.mutex);
  const bool is_first = !watcher->guarded.looking;
  if (is_first) {
    watcher->guarded.looking = true;
    watcher->guarded.looker = pthread_self();
  }
  (void)pthread_mutex_unlock(&watcher->guarded.mutex);
  return is_first;
}

/* After one that has ended the watcher, nobody looks any more. */
static void look_end(weir_policy_watcher *watcher) {
  (void)pthread_mutex_lock(&watcher->guarded.mutex);
  watcher->guarded.looking = watcher->freed;
  (void)pthread_cond_broadcast(&watcher->guarded.looked);
  (void)pthread_mutex_unlock(&watcher->guarded.mutex);
}

void weir__watcher_wait_for_turn(weir_policy_watcher *watcher) {
  (void)pthread_mutex_lock(&watcher->guarded.mutex);
  /* relaxed: it is set under the mutex */
  while (watcher->guarded.looking &&
         !atomic_load_explicit(&watcher->ending, memory_order_relaxed)) {
    (void)pthread_cond_wait(&watcher->guarded.looked, &watcher->guarded.mutex);
  }
  (void)pthread_mutex_unlock(&watcher->guarded.mutex);
}

static bool look_at_all(weir_policy_watcher *watcher, enum weir__text_is texts_are) {
  struct look look;
  look_init(&look, watcher);
  look.texts_are = texts_are;
  observe(&look, watcher);
  if (look.settled) {
    offer_texts(&look, watcher);
    decide(&look, watcher);
    return look_finish(&look, watcher);
  }
  drop_texts(&look, watcher->allocator);
  look.again = true;
  set_timer(&look, watcher);
  return false;
}

enum weir__look_end weir__watcher_look(weir_policy_watcher *watcher) {
  bool applied = false;
  if (!look_begin(watcher)) {
    return WEIR__LOOK_UNCHANGED;
  }
  const bool due = weir__wakeup_take(&watcher->wakeup);
  const unsigned news = weir__follower_drain(&watcher->follower);
  if (due) {
    weir__follower_settle(&watcher->follower);
  }
  if (due || (news & WEIR__NEWS_CHANGED) != 0) {
    applied = look_at_all(watcher, WEIR__TEXT_IS_WHOLE);
  } else if ((news & WEIR__NEWS_CREATED) != 0) {
    applied = look_at_all(watcher, WEIR__TEXT_MAY_GROW);
  } else if (news != 0) {
    /* its end is told, unless it is kept open */
    weir__wakeup_advance_timer(&watcher->wakeup, SETTLE_NS);
  }
  const bool freed = watcher->freed;
  look_end(watcher);
  if (freed) {
    return WEIR__LOOK_FREED;
  }
  return applied ? WEIR__LOOK_APPLIED : WEIR__LOOK_UNCHANGED;
}

/* ---- the first look ---- */

static enum weir_error fail_begin(struct weir_diagnostic *diagnostic, enum weir_error error,
                                  const struct weir_diagnostic *reason) {
  if (diagnostic != NULL) {
    *diagnostic = *reason;
  }
  return error;
}

static enum weir_error begin_error(const struct look *look, const weir_policy_watcher *watcher,
                                   struct weir_diagnostic *diagnostic) {
  for (size_t i = 0; i < N_FILES; i++) {
    if (look->results[i] == WEIR__FILE_NO_MEMORY) {
      return WEIR_ERROR_NO_MEMORY;
    }
    const bool may_be_missing =
        look->followed[i] == &watcher->documents.channel && watcher->options.starts_without_file;
    if (look->results[i] != WEIR__FILE_READ &&
        !(look->results[i] == WEIR__FILE_MISSING && may_be_missing)) {
      return fail_begin(diagnostic, WEIR_ERROR_UNAVAILABLE, &look->reasons[i]);
    }
  }
  if (look->refusals.n_refusals > 0) {
    return fail_begin(diagnostic, WEIR_ERROR_INVALID_POLICY,
                      &look->refusals.refusals[0].diagnostic);
  }
  return look->policy != NULL ? WEIR_OK : WEIR_ERROR_NO_MEMORY;
}

enum weir_error weir__watcher_begin(weir_policy_watcher *watcher, weir_policy **policy_out,
                                    struct weir_diagnostic *diagnostic) {
  struct look look;
  bool changed[N_FILES];
  look_init(&look, watcher);
  observe(&look, watcher);
  look.texts_are = WEIR__TEXT_IS_WHOLE; /* a start is not put off */
  offer_texts(&look, watcher);
  if (look.refusals.n_refusals == 0) {
    decide(&look, watcher);
  }
  const enum weir_error error = begin_error(&look, watcher, diagnostic);
  if (error != WEIR_OK) {
    weir_policy_unref(look.policy);
    *policy_out = NULL;
    return error;
  }
  watcher->blind = weir__follower_blind(&watcher->follower);
  note(&look, watcher, changed);
  set_timer(&look, watcher);
  *policy_out = look.policy;
  return WEIR_OK;
}

void weir__watcher_tell_begin(weir_policy_watcher *watcher) {
  static const struct weir_diagnostic not_yet = {.message = "the file is not there yet"};
  tell_blind(watcher, NULL);
  if (watcher->guarded.snapshot.file == WEIR_POLICY_FILE_MISSING) {
    weir__watch_log_lost(watcher->log, WEIR_LOG_POLICY_MISSING, watcher->path, &not_yet);
  } else {
    weir__watch_log_applied(watcher->log, watcher->path, watcher->organisation, 1);
  }
}
