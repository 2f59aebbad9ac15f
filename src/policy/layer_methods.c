/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <weir/policy.h>
#include <weir/v1/policy.upbdefs.h>

#include "src/policy/layer_rules.h"
#include "src/policy/layering.h"
#include "src/policy/policy_options.h"

/* The entries of a list, and where it stands. */
struct entries {
  const weir_v1_MethodConfig *const *configs;
  size_t n;
  const struct weir__path *path; /* of methodConfig */
};

static struct entries entries_of(const weir_v1_Policy *policy, const struct weir__path *path) {
  struct entries entries = {.path = path};
  if (policy != NULL) {
    entries.configs = weir_v1_Policy_method_config(policy, &entries.n);
  }
  return entries;
}

static const struct weir__path enforce_path = {.key = "enforce", .key_size = sizeof "enforce" - 1};
static const struct weir__path plain_list = {.key = "methodConfig",
                                             .key_size = sizeof "methodConfig" - 1};
static const struct weir__path enforced_list = {
    .parent = &enforce_path, .key = "methodConfig", .key_size = sizeof "methodConfig" - 1};

static struct weir__layer_part part_of(const struct entries *entries, size_t i,
                                       struct weir__path *path_out) {
  *path_out = (struct weir__path){.parent = entries->path, .index = i};
  return (struct weir__layer_part){.message = entries->configs[i], .path = path_out};
}

static size_t count_names(const struct entries *entries) {
  size_t n = 0;
  for (size_t i = 0; i < entries->n; i++) {
    size_t n_names = 0;
    (void)weir_v1_MethodConfig_name(entries->configs[i], &n_names);
    n += n_names;
  }
  return n;
}

/* ---- names as paths ---- */

struct text {
  const char *text; /* NULL: there is no memory */
  uint32_t size;
};

/* "/service/method", "/service/" for all of a service, or "" for everything. */
static struct text path_of(struct weir__layering *layering, const weir_v1_Name *name) {
  const upb_StringView service = weir_v1_Name_service(name);
  const upb_StringView method = weir_v1_Name_method(name);
  const size_t size = service.size == 0 ? 0 : service.size + method.size + 2;
  char *text = weir__layer_allocate(layering, size + 1);
  if (text != NULL && size > 0) {
    text[0] = '/';
    memcpy(text + 1, service.data, service.size);
    text[1 + service.size] = '/';
    if (method.size > 0) {
      memcpy(text + 2 + service.size, method.data, method.size);
    }
  }
  return (struct text){.text = text, .size = (uint32_t)size};
}

static uint32_t find(const struct weir__method_table *table, const char *path, size_t size) {
  return weir__method_table_find(table, path, size);
}

/* The size of "/service/" in a path that is longer, or 0. */
static size_t service_size(const struct text *path, const weir_v1_Name *name) {
  return weir_v1_Name_method(name).size == 0 ? 0 : path->size - weir_v1_Name_method(name).size;
}

static bool make_table(struct weir__layering *layering, struct weir__method_table *table,
                       size_t n_names) {
  *table = (struct weir__method_table){.n_slots = weir__method_table_slots((uint32_t)n_names)};
  if (table->n_slots == 0) {
    return true;
  }
  table->slots = weir__layer_allocate(layering, table->n_slots * sizeof *table->slots);
  if (table->slots == NULL) {
    return false;
  }
  memset(table->slots, 0, table->n_slots * sizeof *table->slots);
  return true;
}

/* ---- demands ---- */

/* All that is enforced on one name is looked at for each entry that has it. */
#define MAX_DEMANDS_ON_NAME 64

static void refuse_demand(struct weir__layering *layering, uint32_t entry, uint32_t nth_name) {
  const struct entries enforced = entries_of(layering->enforced, &enforced_list);
  struct weir__path path;
  const struct weir__layer_part part = part_of(&enforced, entry, &path);
  const struct weir__layer_place at = {
      .part = &part,
      .field = weir__layer_field(weir_v1_MethodConfig_getmsgdef(layering->schema), "name"),
      .element = nth_name + 1};
  weir__layer_tell(layering, WEIR_POLICY_REFUSED, &at, NULL,
                   "stands in more than %d entries that enforce something", MAX_DEMANDS_ON_NAME);
}

/* `nth` of all names, `nth_name` of the entry's. */
static void add_demand(struct weir__layering *layering, uint32_t entry, const weir_v1_Name *name,
                       uint32_t nth, uint32_t nth_name) {
  struct weir__layer_demand *demands = layering->demands;
  const struct text path = path_of(layering, name);
  demands[nth] = (struct weir__layer_demand){.entry = entry, .next = WEIR__METHOD_NONE, .n = 1};
  if (path.text == NULL) {
    return;
  }
  const uint32_t first =
      weir__method_table_insert(&layering->demand_table, path.text, path.size, nth);
  if (first == WEIR__METHOD_NONE) {
    return;
  }
  if (demands[first].n++ < MAX_DEMANDS_ON_NAME) {
    demands[nth].next = demands[first].next;
    demands[first].next = nth;
  } else if (demands[first].n == MAX_DEMANDS_ON_NAME + 1) {
    refuse_demand(layering, entry, nth_name);
  }
}

void weir__layer_collect_demands(struct weir__layering *layering) {
  const struct entries enforced = entries_of(layering->enforced, &enforced_list);
  const size_t n_names = count_names(&enforced);
  uint32_t nth = 0;
  if (n_names == 0 || !make_table(layering, &layering->demand_table, n_names)) {
    return;
  }
  layering->demands = weir__layer_allocate(layering, n_names * sizeof *layering->demands);
  layering->seen = weir__layer_allocate(layering, enforced.n * sizeof *layering->seen);
  if (layering->out_of_memory) {
    return;
  }
  memset(layering->seen, 0, enforced.n * sizeof *layering->seen);
  for (size_t i = 0; i < enforced.n; i++) {
    size_t n = 0;
    const weir_v1_Name *const *names = weir_v1_MethodConfig_name(enforced.configs[i], &n);
    for (size_t j = 0; j < n && !layering->out_of_memory; j++) {
      add_demand(layering, (uint32_t)i, names[j], nth++, (uint32_t)j);
    }
  }
}

uint32_t weir__layer_demands_on_all(const struct weir__layering *layering) {
  return find(&layering->demand_table, "", 0);
}

static struct weir__layer_covers covers_of(const struct weir__layering *layering,
                                           const struct text *path, const weir_v1_Name *name) {
  const struct weir__method_table *table = &layering->demand_table;
  const bool is_service = path->size > 0 && weir_v1_Name_method(name).size == 0;
  const bool is_method = path->size > 0 && !is_service;
  return (struct weir__layer_covers){
      .everything = find(table, "", 0),
      .service = is_service  ? find(table, path->text, path->size)
                 : is_method ? find(table, path->text, service_size(path, name))
                             : WEIR__METHOD_NONE,
      .method = is_method ? find(table, path->text, path->size) : WEIR__METHOD_NONE};
}

static bool covers_are_equal(const struct weir__layer_covers *a,
                             const struct weir__layer_covers *b) {
  return a->everything == b->everything && a->service == b->service && a->method == b->method;
}

/* The demands on a name, one after the other. */
struct cursor {
  uint32_t chains[3]; /* what is left: on everything, on the service, on the method */
  size_t chain;       /* that of the last demand */
};

static struct cursor cursor_of(const struct weir__layer_covers *covers) {
  return (struct cursor){.chains = {covers->everything, covers->service, covers->method}};
}

/* WEIR__METHOD_NONE: that was all. */
static uint32_t next_demand(const struct weir__layering *layering, struct cursor *cursor) {
  for (; cursor->chain < sizeof cursor->chains / sizeof cursor->chains[0]; cursor->chain++) {
    const uint32_t demand = cursor->chains[cursor->chain];
    if (demand != WEIR__METHOD_NONE) {
      cursor->chains[cursor->chain] = layering->demands[demand].next;
      return demand;
    }
  }
  return WEIR__METHOD_NONE;
}

/* ---- checking ---- */

typedef void check_fn(struct weir__layering *layering, const upb_MessageDef *def,
                      const struct weir__layer_part *stated,
                      const struct weir__layer_part *enforced);

/* What is checked against the demands on its names. */
struct checked {
  const struct weir__layer_part *part;
  const weir_v1_MethodConfig *config;
  check_fn *check;
  uint32_t stamp; /* for `seen`: different for each entry that is checked */
  uint32_t own;   /* its index among what is enforced, or WEIR__METHOD_NONE */
};

/* Stamps of what is enforced begin here; there are far fewer entries. */
#define FIRST_OWN_STAMP UINT32_C(0x80000000)

/* The chain of those that have the very name. */
static size_t own_chain(const struct text *path, const weir_v1_Name *name) {
  if (path->size == 0) {
    return 0;
  }
  return weir_v1_Name_method(name).size == 0 ? 1 : 2;
}

static void check_against(struct weir__layering *layering, const struct checked *checked,
                          uint32_t entry) {
  const struct entries enforced = entries_of(layering->enforced, &enforced_list);
  struct weir__path path;
  if (layering->seen[entry] != checked->stamp) {
    layering->seen[entry] = checked->stamp;
    const struct weir__layer_part demand = part_of(&enforced, entry, &path);
    checked->check(layering, weir_v1_MethodConfig_getmsgdef(layering->schema), checked->part,
                   &demand);
  }
}

static void check_name(struct weir__layering *layering, const struct checked *checked,
                       const weir_v1_Name *name) {
  const struct text path = path_of(layering, name);
  if (path.text == NULL) {
    return;
  }
  const struct weir__layer_covers covers = covers_of(layering, &path, name);
  struct cursor cursor = cursor_of(&covers);
  for (uint32_t demand = next_demand(layering, &cursor); demand != WEIR__METHOD_NONE;
       demand = next_demand(layering, &cursor)) {
    const uint32_t entry = layering->demands[demand].entry;
    /* Two enforced entries with the same name are looked at once, by the later one. */
    const bool is_later = cursor.chain == own_chain(&path, name) && entry > checked->own;
    if (checked->own == WEIR__METHOD_NONE || (entry != checked->own && !is_later)) {
      check_against(layering, checked, entry);
    }
  }
}

static void check_names(struct weir__layering *layering, const struct checked *checked) {
  const struct weir__layer_part for_all = {.message = layering->enforced_for_all,
                                           .path = &enforce_path};
  size_t n = 0;
  const weir_v1_Name *const *names = weir_v1_MethodConfig_name(checked->config, &n);
  if (n == 0) {
    return;
  }
  checked->check(layering, weir_v1_MethodConfig_getmsgdef(layering->schema), checked->part,
                 &for_all);
  for (size_t j = 0; j < n && !layering->out_of_memory; j++) {
    check_name(layering, checked, names[j]);
  }
}

void weir__layer_check_methods(struct weir__layering *layering) {
  const struct entries stated = entries_of(layering->channel, &plain_list);
  struct weir__path path;
  for (size_t i = 0; i < stated.n && !layering->out_of_memory; i++) {
    const struct weir__layer_part part = part_of(&stated, i, &path);
    const struct checked checked = {.part = &part,
                                    .config = stated.configs[i],
                                    .check = weir__layer_check,
                                    .stamp = (uint32_t)i + 1,
                                    .own = WEIR__METHOD_NONE};
    check_names(layering, &checked);
  }
}

void weir__layer_check_demands(struct weir__layering *layering) {
  const struct entries enforced = entries_of(layering->enforced, &enforced_list);
  struct weir__path path;
  for (size_t i = 0; i < enforced.n && !layering->out_of_memory; i++) {
    const struct weir__layer_part part = part_of(&enforced, i, &path);
    const struct checked checked = {.part = &part,
                                    .config = enforced.configs[i],
                                    .check = weir__layer_check_together,
                                    .stamp = FIRST_OWN_STAMP + (uint32_t)i,
                                    .own = (uint32_t)i};
    const upb_MessageDef *def = weir_v1_MethodConfig_getmsgdef(layering->schema);
    weir__layer_check_together(layering, def, &part, &part);
    check_names(layering, &checked);
    weir__layer_check_use(layering, def, &part);
  }
}

/* ---- merging ---- */

/* The entries that what is enforced is laid over: a channel's, and an organisation's. */
struct base {
  struct weir__method_table table; /* by name: the index in `configs` */
  const weir_v1_MethodConfig **configs;
  struct entries channel;
  struct entries organisation;
  size_t n;
};

/* Of an enforced name that no entry has: an entry has been made for it. */
#define MADE (WEIR__METHOD_NONE - 1)

static bool make_base(struct weir__layering *layering, struct base *base) {
  *base = (struct base){.channel = entries_of(layering->channel, &plain_list),
                        .organisation = entries_of(layering->organisation, &plain_list)};
  const struct entries enforced = entries_of(layering->enforced, &enforced_list);
  const struct entries *const lists[] = {&base->channel, &base->organisation};
  base->configs = weir__layer_allocate(layering, (base->channel.n + base->organisation.n) *
                                                     sizeof(weir_v1_MethodConfig *));
  if (!make_table(layering, &base->table,
                  count_names(&base->channel) + count_names(&base->organisation) +
                      count_names(&enforced)) ||
      base->configs == NULL) {
    return false;
  }
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
    for (size_t j = 0; j < lists[i]->n; j++) {
      size_t n = 0;
      const weir_v1_Name *const *names = weir_v1_MethodConfig_name(lists[i]->configs[j], &n);
      base->configs[base->n] = lists[i]->configs[j];
      for (size_t k = 0; k < n; k++) {
        const struct text path = path_of(layering, names[k]);
        if (path.text == NULL) {
          return false;
        }
        (void)weir__method_table_insert(&base->table, path.text, path.size, (uint32_t)base->n);
      }
      base->n++;
    }
  }
  return true;
}

static void append(struct weir__layering *layering, const weir_v1_MethodConfig *config) {
  const upb_FieldDef *list =
      weir__layer_field(weir_v1_Policy_getmsgdef(layering->schema), "method_config");
  const upb_MessageValue value = {.msg_val = config};
  upb_Array *configs = upb_Message_Mutable(layering->merged, list, layering->arena).array;
  layering->out_of_memory = layering->out_of_memory || configs == NULL ||
                            !upb_Array_Append(configs, value, layering->arena);
}

/* All of an entry but its names; NULL has nothing. */
static weir_v1_MethodConfig *copy_nameless(struct weir__layering *layering,
                                           const weir_v1_MethodConfig *config) {
  const upb_MessageDef *def = weir_v1_MethodConfig_getmsgdef(layering->schema);
  const upb_FieldDef *name = weir__layer_field(def, "name");
  weir_v1_MethodConfig *copy = weir_v1_MethodConfig_new(layering->arena);
  layering->out_of_memory = layering->out_of_memory || copy == NULL;
  for (int i = 0; i < upb_MessageDef_FieldCount(def) && !layering->out_of_memory; i++) {
    const upb_FieldDef *field = upb_MessageDef_Field(def, i);
    if (field != name && weir__layer_says(config, field)) {
      weir__layer_copy_field(layering, copy, config, field);
    }
  }
  return copy;
}

/* A name of `from`, with its place. */
static void add_name(struct weir__layering *layering, weir_v1_MethodConfig *to,
                     const weir_v1_MethodConfig *from, size_t nth) {
  const upb_FieldDef *field =
      weir__layer_field(weir_v1_MethodConfig_getmsgdef(layering->schema), "name");
  const upb_Array *names = upb_Message_Get(from, field).array_val;
  upb_Array *list = upb_Message_Mutable(to, field, layering->arena).array;
  if (list == NULL || !upb_Array_Append(list, upb_Array_Get(names, nth), layering->arena)) {
    layering->out_of_memory = true;
    return;
  }
  const struct weir__origin origin =
      weir__origins_get(layering->origins, weir__origin_key_of(from, field, (uint32_t)nth));
  const struct weir__origin_key key =
      weir__origin_key_of(to, field, (uint32_t)upb_Array_Size(list) - 1);
  if (origin.kind != WEIR__ORIGIN_BUILT_IN) {
    layering->out_of_memory = !weir__origins_put(layering->origins, key, origin);
  }
}

/* One attempt, or nothing that is tried again: no retries. What has forbidden them is where the
 * policy would stand. */
static void drop_void_retries(struct weir__layering *layering, weir_v1_MethodConfig *config) {
  const upb_MessageDef *def = weir_v1_MethodConfig_getmsgdef(layering->schema);
  const upb_MessageDef *policy_def = weir_v1_RetryPolicy_getmsgdef(layering->schema);
  const weir_v1_RetryPolicy *policy = weir_v1_MethodConfig_retry_policy(config);
  size_t n_codes = 0;
  if (policy == NULL) {
    return;
  }
  (void)weir_v1_RetryPolicy_retryable_status_codes(policy, &n_codes);
  const bool once = weir_v1_RetryPolicy_max_attempts(policy) <= 1;
  if (!once && n_codes > 0) {
    return;
  }
  const struct weir__origin_key why = {
      .message = policy,
      .field = weir__layer_field(policy_def, once ? "max_attempts" : "retryable_status_codes")};
  const struct weir__origin_key key = {.message = config,
                                       .field = weir__layer_field(def, "retry_policy")};
  layering->out_of_memory =
      !weir__origins_put(layering->origins, key, weir__origins_get(layering->origins, why));
  upb_Message_ClearField(config, key.field);
}

static void enforce_on(struct weir__layering *layering, weir_v1_MethodConfig *config,
                       const struct weir__layer_covers *covers) {
  const upb_MessageDef *def = weir_v1_MethodConfig_getmsgdef(layering->schema);
  const struct entries enforced = entries_of(layering->enforced, &enforced_list);
  const struct weir__layer_target target = {.message = config,
                                            .view = {.message = config,
                                                     .inherited = layering->inherited,
                                                     .built_in = layering->built_in_method}};
  struct cursor cursor = cursor_of(covers);
  weir__layer_enforce(layering, def, &target, layering->enforced_for_all);
  for (uint32_t demand = next_demand(layering, &cursor);
       demand != WEIR__METHOD_NONE && !layering->out_of_memory;
       demand = next_demand(layering, &cursor)) {
    weir__layer_enforce(layering, def, &target, enforced.configs[layering->demands[demand].entry]);
  }
  if (!layering->out_of_memory) {
    drop_void_retries(layering, config);
  }
}

/* ---- ceilings on a channel's entries ---- */

/* The organisation's ceiling on what an entry has of its own, or NULL. */
static const upb_FieldDef *exceeded(const upb_MessageDef *def, const upb_Message *own,
                                    const upb_Message *ceilings, int *next) {
  while (*next < upb_MessageDef_FieldCount(def)) {
    const upb_FieldDef *field = upb_MessageDef_Field(def, (*next)++);
    if (weir__layer_rule_of(field)->is_ceiling && weir__layer_says(own, field) &&
        weir__layer_says(ceilings, field) &&
        weir__layer_is_weaker(field, upb_Message_Get(own, field),
                              upb_Message_Get(ceilings, field))) {
      return field;
    }
  }
  return NULL;
}

/* The messages of the same name: of an entry, and of the organisation's whole. */
struct ceiling {
  const upb_FieldDef *field; /* of the entry */
  const upb_Message *own;    /* NULL: the entry has none */
  const upb_Message *ceilings;
};

static struct ceiling ceiling_of(const struct weir__layering *layering,
                                 const weir_v1_MethodConfig *config, const char *name) {
  const upb_FieldDef *field =
      weir__layer_field(weir_v1_MethodConfig_getmsgdef(layering->schema), name);
  const upb_FieldDef *whole = weir__layer_field(weir_v1_Policy_getmsgdef(layering->schema), name);
  return (struct ceiling){
      .field = field,
      .own = weir__layer_says(config, field) ? upb_Message_Get(config, field).msg_val : NULL,
      .ceilings = weir__layer_says(layering->organisation, whole)
                      ? upb_Message_Get(layering->organisation, whole).msg_val
                      : NULL};
}

static const char *const with_ceilings[] = {"translation", "fallback"};
#define N_WITH_CEILINGS (sizeof with_ceilings / sizeof with_ceilings[0])

static bool exceeds_any(const struct weir__layering *layering, const weir_v1_MethodConfig *config) {
  for (size_t i = 0; i < N_WITH_CEILINGS; i++) {
    const struct ceiling ceiling = ceiling_of(layering, config, with_ceilings[i]);
    int next = 0;
    if (exceeded(upb_FieldDef_MessageSubDef(ceiling.field), ceiling.own, ceiling.ceilings, &next) !=
        NULL) {
      return true;
    }
  }
  return false;
}

static void lower_to_ceilings(struct weir__layering *layering, weir_v1_MethodConfig *copy,
                              const struct weir__layer_part *entry) {
  for (size_t i = 0; i < N_WITH_CEILINGS; i++) {
    const struct ceiling ceiling = ceiling_of(layering, entry->message, with_ceilings[i]);
    const upb_MessageDef *def = upb_FieldDef_MessageSubDef(ceiling.field);
    const char *name = upb_FieldDef_JsonName(ceiling.field);
    const struct weir__path own_path = {
        .parent = entry->path, .key = name, .key_size = strlen(name)};
    const struct weir__path whole_path = {.key = name, .key_size = strlen(name)};
    const struct weir__layer_part own = {.message = ceiling.own, .path = &own_path};
    const struct weir__layer_part whole = {.message = ceiling.ceilings, .path = &whole_path};
    int next = 0;
    for (const upb_FieldDef *field = exceeded(def, own.message, whole.message, &next);
         field != NULL && !layering->out_of_memory;
         field = exceeded(def, own.message, whole.message, &next)) {
      upb_Message *message = upb_Message_Mutable(copy, ceiling.field, layering->arena).msg;
      weir__layer_lower_to_ceiling(layering, message, field, &own, &whole);
    }
  }
}

/* ---- the list of both ---- */

/* Of names that follow each other and have the same said of them, one entry is made. */
struct run {
  const weir_v1_MethodConfig *from;
  weir_v1_MethodConfig *made; /* NULL: none is begun */
  struct weir__layer_covers covers;
};

static void end_run(struct weir__layering *layering, struct run *run) {
  if (run->made != NULL && !layering->out_of_memory) {
    enforce_on(layering, run->made, &run->covers);
    append(layering, run->made);
  }
  run->made = NULL;
}

/* Whether all that is enforced on a name holds in an entry as it stands. */
static bool stands(const struct weir__layering *layering, const weir_v1_MethodConfig *config,
                   const struct weir__layer_covers *covers) {
  const upb_MessageDef *def = weir_v1_MethodConfig_getmsgdef(layering->schema);
  const struct entries enforced = entries_of(layering->enforced, &enforced_list);
  const struct weir__layer_view view = {
      .message = config, .inherited = layering->inherited, .built_in = layering->built_in_method};
  struct cursor cursor = cursor_of(covers);
  bool holds = layering->enforced_for_all == NULL ||
               weir__layer_holds(def, &view, layering->enforced_for_all);
  for (uint32_t demand = next_demand(layering, &cursor); demand != WEIR__METHOD_NONE && holds;
       demand = next_demand(layering, &cursor)) {
    holds = weir__layer_holds(def, &view, enforced.configs[layering->demands[demand].entry]);
  }
  return holds;
}

/* An entry of the base, while it is merged. */
struct merging {
  const struct base *base;
  uint32_t index;
  const weir_v1_MethodConfig *config;
  const weir_v1_Name *const *names;
  size_t n_names;
};

/* The covers of a name of the entry's. False: the entry does not hold for it, since it is the
 * organisation's, and the channel has an entry for the name; or there is no memory. */
static bool name_counts(struct weir__layering *layering, const struct merging *merging, size_t nth,
                        struct weir__layer_covers *covers_out) {
  const weir_v1_Name *name = merging->names[nth];
  const struct text path = path_of(layering, name);
  if (path.text == NULL || find(&merging->base->table, path.text, path.size) != merging->index) {
    return false;
  }
  *covers_out = covers_of(layering, &path, name);
  return true;
}

/* Whether the entry can be shared, all of it. */
static bool is_shared(struct weir__layering *layering, const struct merging *merging) {
  for (size_t j = 0; j < merging->n_names; j++) {
    struct weir__layer_covers covers;
    if (!name_counts(layering, merging, j, &covers) ||
        !stands(layering, merging->config, &covers)) {
      return false;
    }
  }
  return true;
}

static void split_entry(struct weir__layering *layering, const struct merging *merging,
                        const weir_v1_MethodConfig *from) {
  struct run run = {.from = from};
  for (size_t j = 0; j < merging->n_names && !layering->out_of_memory; j++) {
    struct weir__layer_covers covers;
    if (!name_counts(layering, merging, j, &covers)) {
      continue;
    }
    if (run.made == NULL || !covers_are_equal(&covers, &run.covers)) {
      end_run(layering, &run);
      run.covers = covers;
      run.made = copy_nameless(layering, run.from);
    }
    if (!layering->out_of_memory) {
      add_name(layering, run.made, merging->config, j);
    }
  }
  end_run(layering, &run);
}

static void merge_entry(struct weir__layering *layering, const struct base *base, size_t i) {
  const bool is_channels = i < base->channel.n;
  struct merging merging = {.base = base, .index = (uint32_t)i, .config = base->configs[i]};
  merging.names = weir_v1_MethodConfig_name(merging.config, &merging.n_names);
  if (is_channels && merging.n_names > 0 && exceeds_any(layering, merging.config)) {
    struct weir__path path;
    const struct weir__layer_part part = part_of(&base->channel, i, &path);
    weir_v1_MethodConfig *lowered = copy_nameless(layering, merging.config);
    if (!layering->out_of_memory) {
      lower_to_ceilings(layering, lowered, &part);
      split_entry(layering, &merging, lowered);
    }
  } else if (is_shared(layering, &merging)) {
    append(layering, merging.config);
  } else {
    split_entry(layering, &merging, merging.config);
  }
}

/* What holds for a name that has no entry: its service's, or that of everything. */
static const weir_v1_MethodConfig *base_of(const struct base *base, const struct text *path,
                                           const weir_v1_Name *name) {
  uint32_t found = WEIR__METHOD_NONE;
  const size_t prefix_size = service_size(path, name);
  if (prefix_size > 0) {
    found = find(&base->table, path->text, prefix_size);
  }
  if (found == WEIR__METHOD_NONE || found == MADE) {
    found = find(&base->table, "", 0);
  }
  return found == WEIR__METHOD_NONE || found == MADE ? NULL : base->configs[found];
}

/* Entries for the names that only what is enforced has. */
static void merge_demands(struct weir__layering *layering, struct base *base) {
  const struct entries enforced = entries_of(layering->enforced, &enforced_list);
  for (size_t i = 0; i < enforced.n; i++) {
    size_t n = 0;
    const weir_v1_Name *const *names = weir_v1_MethodConfig_name(enforced.configs[i], &n);
    for (size_t j = 0; j < n && !layering->out_of_memory; j++) {
      const struct text path = path_of(layering, names[j]);
      if (path.text == NULL || weir__method_table_insert(&base->table, path.text, path.size,
                                                         MADE) != WEIR__METHOD_NONE) {
        continue;
      }
      struct run run = {.covers = covers_of(layering, &path, names[j]),
                        .made = copy_nameless(layering, base_of(base, &path, names[j]))};
      if (!layering->out_of_memory) {
        add_name(layering, run.made, enforced.configs[i], j);
      }
      end_run(layering, &run);
    }
  }
}

void weir__layer_merge_methods(struct weir__layering *layering) {
  struct base base;
  if (!make_base(layering, &base)) {
    layering->out_of_memory = true;
    return;
  }
  for (size_t i = 0; i < base.n && !layering->out_of_memory; i++) {
    merge_entry(layering, &base, i);
  }
  merge_demands(layering, &base);
}

/* ---- timeouts ---- */

/* Where a ceiling stands: in what is enforced, or in the organisation's plain part. NULL in `part`:
 * in neither. */
static struct weir__layer_part part_of_ceiling(const struct weir__layering *layering,
                                               const weir_v1_Deadline *merged,
                                               const upb_FieldDef *field,
                                               const struct weir__path *plain,
                                               const struct weir__path *enforced) {
  const struct weir__origin_key key = {.message = merged, .field = field};
  const enum weir__origin_kind kind = weir__origins_get(layering->origins, key).kind;
  if (kind == WEIR__ORIGIN_ENFORCED) {
    return (struct weir__layer_part){weir_v1_Policy_deadline(layering->enforced), enforced};
  }
  if (kind == WEIR__ORIGIN_ORGANISATION || kind == WEIR__ORIGIN_CEILING) {
    return (struct weir__layer_part){weir_v1_Policy_deadline(layering->organisation), plain};
  }
  return (struct weir__layer_part){.message = NULL};
}

/* A timeout that a part states, above a ceiling of `merged`. */
static void check_timeout(struct weir__layering *layering, const struct weir__layer_part *part,
                          const upb_FieldDef *field, const char *ceiling_name) {
  static const struct weir__path plain = {.key = "deadline", .key_size = sizeof "deadline" - 1};
  static const struct weir__path enforced = {
      .parent = &enforce_path, .key = "deadline", .key_size = sizeof "deadline" - 1};
  const weir_v1_Deadline *merged = weir_v1_Policy_deadline(layering->merged);
  const upb_FieldDef *ceiling =
      weir__layer_field(weir_v1_Deadline_getmsgdef(layering->schema), ceiling_name);
  const upb_Message *speaker =
      weir__layer_says(merged, ceiling) ? merged : weir_v1_Policy_deadline(layering->built_in);
  char text[WEIR__LAYER_VALUE_SIZE];
  if (!weir__layer_says(part->message, field) || !weir__layer_says(speaker, ceiling) ||
      weir__policy_options_ns(upb_Message_Get(part->message, field).msg_val, 0) <=
          weir__policy_options_ns(upb_Message_Get(speaker, ceiling).msg_val, 0)) {
    return;
  }
  const struct weir__layer_part bound =
      part_of_ceiling(layering, merged, ceiling, &plain, &enforced);
  const struct weir__layer_place at = {.part = part, .field = field};
  const struct weir__layer_place other = {.part = &bound, .field = ceiling};
  weir__layer_print_value(ceiling, upb_Message_Get(speaker, ceiling), text);
  weir__layer_tell(layering, WEIR_POLICY_WARNING, &at, bound.message != NULL ? &other : NULL,
                   "above the ceiling, and clamped to deadline.%s, %s",
                   upb_FieldDef_JsonName(ceiling), text);
}

void weir__layer_check_timeouts(struct weir__layering *layering) {
  static const struct weir__path path = {.key = "deadline", .key_size = sizeof "deadline" - 1};
  const upb_MessageDef *deadline_def = weir_v1_Deadline_getmsgdef(layering->schema);
  const upb_FieldDef *timeout =
      weir__layer_field(weir_v1_MethodConfig_getmsgdef(layering->schema), "timeout");
  const struct entries stated = entries_of(layering->channel, &plain_list);
  const struct weir__layer_part deadline = {.message = weir_v1_Policy_deadline(layering->channel),
                                            .path = &path};
  check_timeout(layering, &deadline, weir__layer_field(deadline_def, "default_timeout"),
                "max_timeout");
  check_timeout(layering, &deadline, weir__layer_field(deadline_def, "default_stream_timeout"),
                "max_stream_timeout");
  for (size_t i = 0; i < stated.n; i++) {
    struct weir__path entry_path;
    size_t n_names = 0;
    const struct weir__layer_part part = part_of(&stated, i, &entry_path);
    (void)weir_v1_MethodConfig_name(stated.configs[i], &n_names);
    if (n_names > 0) {
      check_timeout(layering, &part, timeout, "max_timeout");
    }
  }
}
