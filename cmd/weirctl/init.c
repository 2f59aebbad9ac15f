/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/weirctl/init.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/policy.h>

#include "cmd/weirctl/memory.h"
#include "cmd/weirctl/output.h"
#include "cmd/weirctl/process.h"
#include "cmd/weirctl/verb.h"

enum option { OPTION_ORG, OPTION_SERVICE, OPTION_IDEMPOTENT, OPTION_OUTPUT };

static const struct option_rule options[] = {
    [OPTION_ORG] = {"org", '\0', NULL, "an organisation's document"},
    [OPTION_SERVICE] = {"service", '\0', "PACKAGE.SERVICE", "begins with an entry for a service"},
    [OPTION_IDEMPOTENT] = {"idempotent", '\0', NULL,
                           "calls of that service may be made twice: they are retried"},
    [OPTION_OUTPUT] = {"output", 'o', "FILE", "writes FILE, which must not be there yet"},
};

/* ---- a new file ---- */

static bool write_all(int descriptor, const char *text, size_t size) {
  while (size > 0) {
    const ssize_t n = write(descriptor, text, size);
    if (n < 0 && errno != EINTR) {
      return false;
    }
    text += n > 0 ? n : 0;
    size -= n > 0 ? (size_t)n : 0;
  }
  return true;
}

/* What could not be written whole is taken away. */
static bool create_file(const char *path, const char *text) {
  const int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    complain("%s: %s", path, process_error(errno));
    return false;
  }
  bool whole = write_all(descriptor, text, strlen(text));
  int number = errno;
  if (close(descriptor) != 0 && whole) {
    whole = false;
    number = errno;
  }
  if (!whole) {
    complain("%s: %s", path, process_error(number));
    (void)unlink(path);
  }
  return whole;
}

/* ---- the verb ---- */

static void complain_of_service(void *context, enum weir_policy_severity severity,
                                const struct weir_diagnostic *problem) {
  const char *service = context;
  (void)severity;
  complain("--service %s: %s", service, problem->message);
}

/* A service's name is the only thing here that can be wrong. */
static bool is_accepted(const char *text, char *service) {
  struct weir_policy_load_options load = WEIR_POLICY_LOAD_OPTIONS_INIT;
  weir_policy *policy = NULL;
  load.on_problem = complain_of_service;
  load.context = service;
  const enum weir_error error =
      weir_policy_from_json(text, strlen(text), &load, NULL, &policy, NULL);
  memory_check(error);
  weir_policy_unref(policy);
  return error == WEIR_OK;
}

static json_t *make_document(const struct arguments *arguments) {
  const char *service = arguments->given[OPTION_SERVICE];
  if (arguments->given[OPTION_ORG] != NULL) {
    return init_organisation();
  }
  json_t *document = init_channel();
  if (service != NULL) {
    init_add_service(document, service,
                     arguments->given[OPTION_IDEMPOTENT] != NULL ? INIT_REPEATS_IDEMPOTENT
                                                                 : INIT_REPEATS_NONE);
  }
  return document;
}

static bool options_fit(const struct arguments *arguments) {
  const char *service = arguments->given[OPTION_SERVICE];
  if (service != NULL && arguments->given[OPTION_ORG] != NULL) {
    complain("--org and --service exclude each other");
    return false;
  }
  if (arguments->given[OPTION_IDEMPOTENT] != NULL && service == NULL) {
    complain("--idempotent is said of a --service");
    return false;
  }
  if (service != NULL && service[0] == '\0') {
    complain("--service: an empty name");
    return false;
  }
  return true;
}

/* With --json, a file that was written is told of in JSON. */
static bool deliver(const struct output *output, const char *path, json_t *document,
                    const char *text) {
  if (path == NULL || strcmp(path, "-") == 0) {
    output_json(output, json_incref(document));
    return true;
  }
  if (!create_file(path, text)) {
    return false;
  }
  if (output->as_json) {
    json_t *told = json_object();
    (void)json_object_set_new(told, "file", output_string(path));
    output_json(output, told);
  }
  return true;
}

static enum verdict run(const struct arguments *arguments, const struct output *output) {
  const char *service = arguments->given[OPTION_SERVICE];
  if (!options_fit(arguments)) {
    return VERDICT_FAILED;
  }
  json_t *document = make_document(arguments);
  char *text = output_json_text(document);
  char *shown =
      memory_copy_text(service != NULL ? service : "", service != NULL ? strlen(service) : 0);
  const bool done =
      is_accepted(text, shown) && deliver(output, arguments->given[OPTION_OUTPUT], document, text);
  free(shown);
  free(text);
  json_decref(document);
  return done ? VERDICT_ACCEPTED : VERDICT_FAILED;
}

const struct verb verb_init = {
    .name = "init",
    .operands = "",
    .summary = "prints a document to start from, with every default written out",
    .help = "Prints a channel's document that says what holds without one; null is a default that\n"
            "is none. With --org it is an organisation's: ceilings, and what no channel may do\n"
            "away with.\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .least_operands = 0,
    .most_operands = 0,
    .run = run,
};
