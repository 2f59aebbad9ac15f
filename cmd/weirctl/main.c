/* weirctl – says what a policy document does, before it is in force.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weir/version.h>

#include "cmd/weirctl/arguments.h"
#include "cmd/weirctl/memory.h"
#include "cmd/weirctl/output.h"
#include "cmd/weirctl/process.h"
#include "cmd/weirctl/verb.h"

#define HELP_COLUMN 24

static const struct verb *const verbs[] = {
    &verb_check,
    &verb_init,
    &verb_explain,
    &verb_diff,
};

#define N_VERBS (sizeof verbs / sizeof verbs[0])

/* ---- help ---- */

static void print_usage(FILE *file) {
  fputs("usage: weirctl VERB [OPTION...] OPERAND...\n"
        "       weirctl VERB --help\n"
        "       weirctl --version\n\n",
        file);
  for (size_t i = 0; i < N_VERBS; i++) {
    fprintf(file, "  %-12s %s\n", verbs[i]->name, verbs[i]->summary);
  }
  fputs("\nExit status: 0 accepted, 1 refused, 2 wrong usage or something that can't be read or "
        "written.\n",
        file);
}

static void print_option(FILE *file, const struct option_rule *rule) {
  char spelling[2 * HELP_COLUMN];
  const char letter[] = {'-', rule->letter, ',', ' ', '\0'};
  (void)snprintf(spelling, sizeof spelling, "%s--%s%s%s", rule->letter != '\0' ? letter : "    ",
                 rule->name, rule->value != NULL ? " " : "",
                 rule->value != NULL ? rule->value : "");
  fprintf(file, "  %-*s %s\n", HELP_COLUMN, spelling, rule->help);
}

static void print_verb_usage(FILE *file, const struct verb *verb) {
  fprintf(file, "usage: weirctl %s [OPTION...]%s%s\n", verb->name,
          verb->operands[0] != '\0' ? " " : "", verb->operands);
}

static void print_verb_help(FILE *file, const struct verb *verb) {
  print_verb_usage(file, verb);
  fprintf(file, "\n%s\n", verb->help);
  for (size_t i = 0; i < verb->n_options; i++) {
    print_option(file, &verb->options[i]);
  }
  for (size_t i = 0; i < arguments_n_common; i++) {
    print_option(file, &arguments_common[i]);
  }
}

/* ---- verbs ---- */

static enum verdict run_verb(const struct verb *verb, char **words) {
  struct arguments arguments;
  struct output output;
  if (!arguments_parse(&arguments, verb->options, verb->n_options, words)) {
    print_verb_usage(stderr, verb);
    return VERDICT_FAILED;
  }
  if (arguments.wants_help) {
    print_verb_help(stdout, verb);
    return VERDICT_ACCEPTED;
  }
  if (arguments.n_operands < verb->least_operands || arguments.n_operands > verb->most_operands) {
    complain("%s: %s", verb->name,
             arguments.n_operands < verb->least_operands ? "an operand is missing"
                                                         : "too many operands");
    print_verb_usage(stderr, verb);
    return VERDICT_FAILED;
  }
  output_init(&output, stdout, &arguments);
  return verb->run(&arguments, &output);
}

static enum verdict run(char **words) {
  const char *word = words[0];
  if (word == NULL) {
    print_usage(stderr);
    return VERDICT_FAILED;
  }
  if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
    printf("weirctl %s\n", weir_version_string());
    return VERDICT_ACCEPTED;
  }
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
    print_usage(stdout);
    return VERDICT_ACCEPTED;
  }
  for (size_t i = 0; i < N_VERBS; i++) {
    if (strcmp(word, verbs[i]->name) == 0) {
      return run_verb(verbs[i], words + 1);
    }
  }
  complain(word[0] == '-' ? "unknown option '%s'; a verb comes first"
                          : "unknown verb '%s'; weirctl --help lists them",
           word);
  return VERDICT_FAILED;
}

/* ---- the process ---- */

/* A file that is opened must not get the place of a standard stream that was closed. What stands
 * there instead can't be used the way the stream is, so that this still is an error. */
static void occupy_standard_streams(void) {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++) {
    if (fcntl(stream, F_GETFD) == -1) {
      (void)open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
  }
}

/* Whoever closed the pipe that weirctl writes to knows it, and is not told. */
static enum verdict close_stdout(enum verdict verdict) {
  if (ferror(stdout)) {
    clearerr(stdout);
    (void)putchar('\n'); /* the reason is long gone, and comes again */
    (void)fflush(stdout);
  } else if (fflush(stdout) == 0 && close(STDOUT_FILENO) == 0) {
    return verdict;
  }
  if (errno != EPIPE) {
    complain("standard output: %s", process_error(errno));
  }
  return VERDICT_FAILED;
}

int main(int argc, char **argv) {
  occupy_standard_streams();
  (void)signal(SIGPIPE, SIG_IGN); /* so that a write says so */
  (void)signal(SIGXFSZ, SIG_IGN); /* likewise */
  memory_init();
  return (int)close_stdout(argc > 0 ? run(argv + 1) : VERDICT_FAILED);
}
