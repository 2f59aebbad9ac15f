/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/weirctl/entries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/weirctl/memory.h"
#include "src/base/allocator.h"
#include "src/policy/json.h"

static bool key_is(const struct weir__json *json, uint32_t key, const char *name) {
  const struct weir__json_text text = weir__json_string(json, key);
  return text.size == strlen(name) && memcmp(text.text, name, text.size) == 0;
}

/* The value of an object's key, which may be spelt in two ways; 0: there is none. */
static uint32_t member(const struct weir__json *json, uint32_t object, const char *name,
                       const char *other_name) {
  const uint32_t end = weir__json_next(json, object);
  if (json->values[object].kind != WEIR__JSON_OBJECT) {
    return 0;
  }
  for (uint32_t key = object + 1; key < end; key = weir__json_next(json, key + 1)) {
    if (key_is(json, key, name) || key_is(json, key, other_name)) {
      return key + 1;
    }
  }
  return 0;
}

static void add_list(struct entries *entries, const struct weir__json *json, uint32_t object,
                     bool is_enforced) {
  const uint32_t list = member(json, object, "methodConfig", "method_config");
  struct weir__json_place place = WEIR__JSON_PLACE_INIT;
  size_t index = 0;
  if (list == 0 || json->values[list].kind != WEIR__JSON_ARRAY) {
    return;
  }
  for (uint32_t i = list + 1; i < weir__json_next(json, list); i = weir__json_next(json, i)) {
    weir__json_place_move(json->text, &place, json->values[i].begin);
    entries->list =
        memory_grow(entries->list, entries->n, &entries->capacity, sizeof *entries->list);
    entries->list[entries->n++] = (struct entry){
        .line = place.line, .column = place.column, .index = index++, .is_enforced = is_enforced};
  }
}

static int compare_places(const void *left, const void *right) {
  const struct entry *a = left;
  const struct entry *b = right;
  if (a->line != b->line) {
    return a->line < b->line ? -1 : 1;
  }
  return a->column < b->column ? -1 : a->column > b->column;
}

void entries_init(struct entries *entries, const struct source *source) {
  struct weir__json json;
  struct weir_diagnostic fault;
  *entries = (struct entries){.list = NULL};
  const enum weir_error error =
      weir__json_init(&json, source->text, source->size, weir__allocator_or_default(NULL), &fault);
  memory_check(error);
  if (error == WEIR_OK) {
    const uint32_t enforce = member(&json, 0, "enforce", "enforce");
    add_list(entries, &json, 0, false);
    if (enforce != 0) {
      add_list(entries, &json, enforce, true);
    }
  }
  weir__json_fini(&json);
  if (entries->n > 0) {
    qsort(entries->list, entries->n, sizeof *entries->list, compare_places);
  }
}

void entries_fini(struct entries *entries) {
  free(entries->list);
}

/* Entries do not overlap, so it is the last that begins there or before. */
const struct entry *entries_find(const struct entries *entries, uint32_t line, uint32_t column) {
  const struct entry wanted = {.line = line, .column = column};
  size_t low = 0;
  size_t high = entries->n;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (compare_places(&entries->list[middle], &wanted) <= 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low > 0 ? &entries->list[low - 1] : NULL;
}

void entry_path(const struct entry *entry, char path_out[ENTRY_PATH_SIZE]) {
  (void)snprintf(path_out, ENTRY_PATH_SIZE, "%smethodConfig[%zu]",
                 entry->is_enforced ? "enforce." : "", entry->index);
}
