/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* readlink, access */

#include "examples/demo/files.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <weir/error.h>

#define FOLDER "examples/demo"
#define SIZE_LIMIT (64 * 1024)
#define EXIT_NO_FILE 2

/* Beside the program, where Bazel puts what it was built with; else under the working directory. */
static void find(const char *name, char path_out[PATH_MAX]) {
  char program[PATH_MAX / 2];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length > 0) {
    program[length] = '\0';
    (void)snprintf(path_out, PATH_MAX, "%s.runfiles/weir/" FOLDER "/%s", program, name);
    if (access(path_out, R_OK) == 0) {
      return;
    }
  }
  (void)snprintf(path_out, PATH_MAX, FOLDER "/%s", name);
}

char *files_read(const char *name) {
  char path[PATH_MAX];
  find(name, path);
  FILE *file = fopen(path, "rb");
  char *text = calloc(1, SIZE_LIMIT);
  size_t size = file != NULL && text != NULL ? fread(text, 1, SIZE_LIMIT - 1, file) : 0;
  if (size == 0) {
    fprintf(stderr, "demo: can't read %s: start it in the repository's root, or with Bazel\n",
            path);
    _Exit(EXIT_NO_FILE);
  }
  (void)fclose(file);
  return text;
}

static void tell(void *context, enum weir_policy_severity severity,
                 const struct weir_diagnostic *problem) {
  const char *name = context;
  fprintf(stderr, "demo: %s: %s%s: %s\n", name, severity == WEIR_POLICY_WARNING ? "warning: " : "",
          problem->path, problem->message);
}

weir_policy *files_policy(const char *name) {
  char path[PATH_MAX];
  char context[PATH_MAX];
  weir_policy *policy = NULL;
  struct weir_policy_load_options options = WEIR_POLICY_LOAD_OPTIONS_INIT;
  find(name, path);
  (void)snprintf(context, sizeof context, "%s", name);
  options.on_problem = tell;
  options.context = context;
  enum weir_error error = weir_policy_from_file(path, &options, NULL, &policy, NULL);
  if (error != WEIR_OK) {
    fprintf(stderr, "demo: %s: %s\n", path, weir_error_string(error));
    _Exit(EXIT_NO_FILE);
  }
  return policy;
}
