/* breaker_registry – the circuit breakers of one channel, by method or service, and how many.
 *
 * Their number is bounded, so that a proxy which calls a million paths neither grows without end
 * nor has calls refused for want of a breaker; and the bound is not for those who come first. A
 * *known* key is one that somebody has named (the policy, a registration, an override): it is
 * compared byte by byte, has a breaker of its own from its first use on, and keeps it. *Unknown*
 * keys have what the known ones leave of the bound. When that is in use, one whose breaker knows
 * nothing any more is taken over for the new key; when there is none, the call shares the overflow
 * breaker.
 *
 * Nothing that can be found is freed before the registry ends, so a look-up takes no lock. An
 * unknown entry is identified by its key's hash alone, which is one word and can be exchanged: who
 * has found one compares it again after the breaker has let the call through. The hash is 64 bits
 * under a secret; two of 2^16 keys meet once in 2^33 registries.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_DECIDE_BREAKER_REGISTRY_H
#define WEIR_SRC_DECIDE_BREAKER_REGISTRY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/admission.h>
#include <weir/allocator.h>
#include <weir/breaker.h>
#include <weir/error.h>

#include "src/base/hash.h"
#include "src/decide/breaker.h"

/* A longer name is cut where it is told; it is a key as it stands. */
#define WEIR__BREAKER_NAME_BYTES 127

enum weir__breaker_kind { WEIR__BREAKER_SHARED = 0, WEIR__BREAKER_KNOWN, WEIR__BREAKER_UNKNOWN };

/* A key, and its breaker. Fields are breaker_registry.c's, which has more of each kind. */
struct weir__breaker_entry {
  struct weir__breaker_entry *_Atomic next; /* of its chain */
  _Atomic uint64_t hash;                    /* of its key; 0 = of none for the moment, or shared */
  weir_breaker *_Atomic breaker;            /* NULL = a known key that was not used yet */
  struct weir__breaker_entry *older;        /* made before this one, of the same kind */
  uint32_t name_size;                       /* of an unknown one: changes, under the mutex */
  uint8_t name_capacity;                    /* likewise */
  uint8_t kind;                             /* an enum weir__breaker_kind; never changes */
  /* One byte, under the mutex: */
  uint8_t override : 2; /* an enum weir_breaker_override: what was set by hand */
  bool set_apart : 1;   /* by an override of its own, later than the last one of all */
  bool retired : 1;     /* an unknown one that has become known: its breaker is that one's now */
  bool borrows : 1;     /* a known one: its breaker is in the block of the unknown one it was */
};

/* Those that were too few stay until the registry ends: somebody may be reading them. */
struct weir__breaker_chains {
  struct weir__breaker_chains *former;
  uint64_t mask;
  struct weir__breaker_entry *_Atomic first[];
};

/* Fields are breaker_registry.c's. */
struct weir__breaker_registry {
  struct weir__breaker_rules rules;
  struct weir__breaker_entry shared;          /* the channel's, or the one beyond the bound */
  struct weir__breaker_chains *_Atomic known; /* NULL, both, with scope CHANNEL */
  struct weir__breaker_chains *_Atomic unknown;
  struct weir__hash_secret secret;

  _Atomic uint32_t max_breakers; /* changed under the mutex, as all of these */
  _Atomic int64_t window_ns;
  _Atomic int64_t bucket_ns;
  _Atomic uint32_t n_known;      /* names, used or not */
  _Atomic uint32_t n_known_used; /* of them, with a breaker */
  _Atomic uint32_t n_unknown;    /* each has a breaker */
  _Atomic uint32_t moves;        /* odd: an entry is on its way to another chain */
  atomic_bool is_growing;        /* all are */
  _Atomic int64_t no_search_until_ns;
  _Atomic uint64_t n_overflowed; /* by anybody */

  struct {
    pthread_mutex_t mutex;
    struct weir__breaker_entry *newest_known;
    struct weir__breaker_entry *newest_unknown;
    struct weir__breaker_entry *hand;    /* the next unknown one to look at; NULL = the newest */
    uint32_t n_fruitless;                /* looks since one was taken over */
    enum weir_breaker_override override; /* of all */
    bool is_off;                         /* all are DISABLED, whatever was set by hand */
    uint32_t n_buckets;                  /* room that each breaker has, at least */
    uint32_t n_probes;
  } guarded;
};

/* Makes a registry in the caller's memory. `options` are checked ones. WEIR_ERROR_NO_MEMORY leaves
 * nothing to undo. */
WEIR_MUST_CHECK enum weir_error
weir__breaker_registry_init(struct weir__breaker_registry *registry,
                            const struct weir_breaker_options *options,
                            const struct weir_allocator *allocator);

void weir__breaker_registry_fini(struct weir__breaker_registry *registry);

/* Makes room for what `options` ask for, checked ones of the same scope: in every breaker, also of
 * those that are made later, and for look-ups. WEIR_ERROR_NO_MEMORY; nothing that counts has
 * changed, whatever it answers. Any thread. */
WEIR_MUST_CHECK enum weir_error
weir__breaker_registry_prepare(struct weir__breaker_registry *registry,
                               const struct weir_breaker_options *options);

/* Has all breakers go by `options`, which it was prepared for. Any thread. */
void weir__breaker_registry_set_options(struct weir__breaker_registry *registry,
                                        const struct weir_breaker_options *options);

/* What was set by hand of all breakers of `from`, and its count of overflown calls, go over to
 * `registry`, which no call has seen yet. */
void weir__breaker_registry_inherit(struct weir__breaker_registry *registry,
                                    struct weir__breaker_registry *from);

/* Switches all breakers off, or on again, which then begin anew. False: they are so already. The
 * rest of it is weir__breaker_registry_catch_up's. Any thread. */
bool weir__breaker_registry_switch(struct weir__breaker_registry *registry, bool on);

/* Makes a path's key a known one ("/pkg.Service/Method", not terminated; with scope SERVICE
 * "/pkg.Service/" is as good). The entry finds itself at once where it is handed to
 * weir__breaker_registry_admit; borrowed until the registry ends. A breaker that the key had as an
 * unknown one stays its breaker. WEIR_ERROR_NO_MEMORY. Any thread. */
WEIR_MUST_CHECK enum weir_error weir__breaker_registry_know(struct weir__breaker_registry *registry,
                                                            const char *path, size_t path_size,
                                                            struct weir__breaker_entry **entry_out);

/* Makes look-ups of `n_known` known keys as fast as those of a few. False when there is no memory
 * for it: they are found all the same. Any thread. */
bool weir__breaker_registry_expect(struct weir__breaker_registry *registry, size_t n_known);

/* Lets a call of `path` through, or not, as weir_breaker_admit does with its breaker, but in the
 * mode of the call's own policy. `*entry`:
 * what weir__breaker_registry_know has found, or NULL; then what the call holds, borrowed until the
 * registry ends. Any thread. */
enum weir_admission weir__breaker_registry_admit(struct weir__breaker_registry *registry,
                                                 enum weir_breaker_mode mode, const char *path,
                                                 size_t path_size, int64_t now_ns,
                                                 const struct weir_random *random,
                                                 struct weir__breaker_entry **entry,
                                                 struct weir_breaker_ticket *ticket_out,
                                                 struct weir_breaker_view *view_out);

/* Whether a call that was let through may make a further attempt. Where its breaker is another
 * key's by now, it may: its own knew nothing. */
bool weir__breaker_registry_still_admits(const struct weir__breaker_registry *registry,
                                         enum weir_breaker_mode mode,
                                         const struct weir__breaker_entry *entry, const char *path,
                                         size_t path_size,
                                         const struct weir_breaker_ticket *ticket);

/* The entry that a call of `path` goes through, made when there is none yet; its breaker too. Never
 * NULL. weir__breaker_registry_admit, but for the asking. */
struct weir__breaker_entry *weir__breaker_registry_enter(struct weir__breaker_registry *registry,
                                                         const char *path, size_t path_size,
                                                         int64_t now_ns);

/* The breaker of an entry that a call has been let through, or refused, by. */
static inline weir_breaker *weir__breaker_entry_breaker(const struct weir__breaker_entry *entry) {
  /* acquire: pairs with its being made, in another thread */
  return atomic_load_explicit(&entry->breaker, memory_order_acquire);
}

/* What a breaker is called; terminated too. */
struct weir__breaker_name {
  size_t size;
  char text[WEIR__BREAKER_NAME_BYTES + 1];
};

/* The part of `path` that is the breaker's key; all of it, with scope CHANNEL. */
size_t weir__breaker_registry_key_size(const struct weir__breaker_registry *registry,
                                       const char *path, size_t path_size);

/* Reads the breaker that a call of `path` would go through. WEIR_ERROR_UNAVAILABLE there is none
 * yet; WEIR_ERROR_INVALID_ARGUMENT `size` is too small. Any thread. */
WEIR_MUST_CHECK enum weir_error
weir__breaker_registry_snapshot(struct weir__breaker_registry *registry, const char *path,
                                size_t path_size, int64_t now_ns,
                                struct weir_breaker_snapshot *snapshot_out);

/* Overrides the breaker of a path, which is a known one from then on; taking an override back that
 * there is none of makes no breaker. WEIR_ERROR_NO_MEMORY; `*entry_out` is NULL where there is no
 * breaker. Any thread. */
WEIR_MUST_CHECK enum weir_error
weir__breaker_registry_override_one(struct weir__breaker_registry *registry, const char *path,
                                    size_t path_size, enum weir_breaker_override override,
                                    struct weir__breaker_entry **entry_out,
                                    struct weir_breaker_view *view_out);

/* Told of each breaker that an override has found otherwise, and which one that was: another thread
 * may have said a later word. Without a lock. `name` is empty for the channel's only breaker, and
 * for the shared one. */
typedef void weir__breaker_overridden_fn(void *context, enum weir__breaker_kind kind,
                                         const struct weir__breaker_name *name,
                                         enum weir_breaker_override override,
                                         const struct weir_breaker_view *view);

/* Brings all breakers to what they were switched to, and tells of each whose state that changes:
 * `override` is what was set by hand. Any thread. */
void weir__breaker_registry_catch_up(struct weir__breaker_registry *registry,
                                     weir__breaker_overridden_fn *changed, void *context);

/* Overrides all breakers that there are and will be. Any thread; of two at a time, the later one
 * holds for all, and what is said of one breaker meanwhile is later. */
void weir__breaker_registry_override_all(struct weir__breaker_registry *registry,
                                         enum weir_breaker_override override,
                                         weir__breaker_overridden_fn *overridden, void *context);

/* Calls that shared a breaker because there were too many, or no memory for another. */
uint64_t weir__breaker_registry_n_overflowed(const struct weir__breaker_registry *registry);

/* Known keys, used or not. */
uint32_t weir__breaker_registry_n_known(const struct weir__breaker_registry *registry);

/* Breakers in use; the one that is shared beyond the bound is not counted. */
uint32_t weir__breaker_registry_n_breakers(const struct weir__breaker_registry *registry);

#endif /* WEIR_SRC_DECIDE_BREAKER_REGISTRY_H */
