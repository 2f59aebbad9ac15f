/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/weirctl/arguments.h"

#include <string.h>

#include "cmd/weirctl/output.h"

enum common { COMMON_JSON, COMMON_COLOR, COMMON_HELP };

const struct option_rule arguments_common[] = {
    [COMMON_JSON] = {"json", '\0', NULL, "one JSON document instead of text"},
    [COMMON_COLOR] = {"color", '\0', "WHEN", "auto (on a terminal), always or never"},
    [COMMON_HELP] = {"help", 'h', NULL, "tells of this verb"},
};
const size_t arguments_n_common = sizeof arguments_common / sizeof arguments_common[0];

/* The rules of a verb, and behind them what every verb takes. */
struct rules {
  const struct option_rule *own;
  size_t n_own;
};

static const struct option_rule *rule_at(const struct rules *rules, size_t i) {
  return i < rules->n_own ? &rules->own[i] : &arguments_common[i - rules->n_own];
}

/* An option as it was written: "--name=value", "--name", "-x", "-xvalue". */
struct option_word {
  const char *word;
  const char *name;
  size_t name_size;
  const char *value; /* what stands in the word itself; NULL = nothing */
  bool is_letter;
};

static struct option_word option_of(const char *word) {
  struct option_word option = {.word = word};
  if (word[1] != '-') {
    option.is_letter = true;
    option.name = word + 1;
    option.name_size = 1;
    option.value = word[2] != '\0' ? word + 2 : NULL;
    return option;
  }
  option.name = word + 2;
  option.name_size = strcspn(option.name, "=");
  if (option.name[option.name_size] == '=') {
    option.value = option.name + option.name_size + 1;
  }
  return option;
}

static bool rule_names(const struct option_rule *rule, const struct option_word *option) {
  if (option->is_letter) {
    return rule->letter == option->name[0];
  }
  return strlen(rule->name) == option->name_size &&
         memcmp(rule->name, option->name, option->name_size) == 0;
}

/* The number of rules: none. */
static size_t rule_find(const struct rules *rules, const struct option_word *option) {
  const size_t n = rules->n_own + arguments_n_common;
  size_t i = 0;
  while (i < n && !rule_names(rule_at(rules, i), option)) {
    i++;
  }
  return i;
}

static bool color_parse(struct arguments *arguments, const char *value) {
  static const char *const names[] = {
      [COLOR_AUTO] = "auto", [COLOR_ALWAYS] = "always", [COLOR_NEVER] = "never"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strcmp(value, names[i]) == 0) {
      arguments->color = (enum color_mode)i;
      return true;
    }
  }
  complain("--color: '%s' is none of auto, always, never", value);
  return false;
}

static bool common_set(struct arguments *arguments, enum common which, const char *value) {
  switch (which) {
  case COMMON_JSON:
    arguments->as_json = true;
    return true;
  case COMMON_COLOR:
    return color_parse(arguments, value);
  case COMMON_HELP:
    arguments->wants_help = true;
    return true;
  }
  return false;
}

/* An option of the verb's own is given once: of two files for one thing, neither is the right
 * one. */
static bool own_set(struct arguments *arguments, const struct option_rule *rule, size_t i,
                    const char *value) {
  if (rule->value != NULL && arguments->given[i] != NULL) {
    complain("--%s is given twice", rule->name);
    return false;
  }
  arguments->given[i] = value;
  return true;
}

/* Moves `*next` past the option, and past its value if that is a word of its own. */
static bool option_read(struct arguments *arguments, const struct rules *rules, char ***next) {
  const struct option_word option = option_of(*(*next)++);
  const size_t i = rule_find(rules, &option);
  const char *value = option.value;
  if (i == rules->n_own + arguments_n_common) {
    complain("unknown option '%s'", option.word);
    return false;
  }
  const struct option_rule *rule = rule_at(rules, i);
  if (rule->value == NULL) {
    if (value != NULL) {
      complain("option '%s': --%s takes no value", option.word, rule->name);
      return false;
    }
    value = "";
  } else if (value == NULL) {
    if (**next == NULL) {
      complain("option '%s' needs a value: %s", option.word, rule->value);
      return false;
    }
    value = *(*next)++;
  }
  return i < rules->n_own ? own_set(arguments, rule, i, value)
                          : common_set(arguments, (enum common)(i - rules->n_own), value);
}

bool arguments_parse(struct arguments *arguments, const struct option_rule *rules, size_t n_rules,
                     char **words) {
  const struct rules all = {.own = rules, .n_own = n_rules};
  bool options_end = false;
  *arguments = (struct arguments){.operands = words};
  for (char **next = words; *next != NULL;) {
    if (options_end || (*next)[0] != '-' || (*next)[1] == '\0') {
      arguments->operands[arguments->n_operands++] = *next++;
    } else if (strcmp(*next, "--") == 0) {
      options_end = true;
      next++;
    } else if (!option_read(arguments, &all, &next)) {
      return false;
    }
  }
  return true;
}
