/* SPDX-License-Identifier: Apache-2.0 */
#include "src/watch/watch_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/time/clock.h"

#define TEXT_BYTES 1024

/* Of a path, its end tells more than its beginning. */
#define PATH_BYTES 256

struct shown {
  const char *cut; /* "", or what stands for the beginning */
  const char *path;
};

static struct shown show(const char *path) {
  const size_t size = strlen(path);
  if (size <= PATH_BYTES) {
    return (struct shown){.cut = "", .path = path};
  }
  const char *end = path + size - PATH_BYTES;
  while (((unsigned char)*end & 0xc0) == 0x80) {
    end++; /* not within a character */
  }
  return (struct shown){.cut = "\xe2\x80\xa6", .path = end};
}

static void tell(const struct weir_log_sink *log, enum weir_log_event event, const char *text) {
  const struct weir_log_record record = {
      .reference = "",
      .path = {.data = NULL, .size = 0},
      .target = "",
      .event = event,
      .at_ns = weir__clock_now_ns(weir__clock_or_default(NULL)),
      .time_unix_ns = weir__wall_clock_now_ns(),
      .text = text,
      .fallback_source = "",
  };
  log->write(log->context, &record);
}

void weir__watch_log_applied(const struct weir_log_sink *log, const char *path,
                             const char *organisation, uint64_t generation) {
  char text[TEXT_BYTES];
  const struct shown shown = show(path);
  if (organisation == NULL) {
    snprintf(text, sizeof text, "the policy of %s%s is in force, as generation %" PRIu64, shown.cut,
             shown.path, generation);
  } else {
    const struct shown above = show(organisation);
    snprintf(text, sizeof text,
             "the policy of %s%s under the organisation's of %s%s is in force, as generation "
             "%" PRIu64,
             shown.cut, shown.path, above.cut, above.path, generation);
  }
  tell(log, WEIR_LOG_POLICY_APPLIED, text);
}

void weir__watch_log_refused(const struct weir_log_sink *log, const char *path,
                             const struct weir_diagnostic *diagnostic) {
  char text[TEXT_BYTES];
  char place[64];
  const struct shown shown = show(path);
  place[0] = '\0';
  if (diagnostic->line > 0) {
    snprintf(place, sizeof place, ":%" PRIu32 ":%" PRIu32, diagnostic->line, diagnostic->column);
  }
  snprintf(text, sizeof text, "%s%s%s: %s%s%s; the policy stays as it was", shown.cut, shown.path,
           place, diagnostic->path, diagnostic->path[0] != '\0' ? ": " : "", diagnostic->message);
  tell(log, WEIR_LOG_POLICY_REFUSED, text);
}

void weir__watch_log_lost(const struct weir_log_sink *log, enum weir_log_event event,
                          const char *path, const struct weir_diagnostic *diagnostic) {
  char text[TEXT_BYTES];
  const struct shown shown = show(path);
  snprintf(text, sizeof text, "%s%s: %s; the policy stays as it was", shown.cut, shown.path,
           diagnostic->message);
  tell(log, event, text);
}

void weir__watch_log_polled(const struct weir_log_sink *log, const char *path, const char *why) {
  char text[TEXT_BYTES];
  const struct shown shown = show(path);
  snprintf(text, sizeof text, "%s%s is looked at from time to time, besides: %s", shown.cut,
           shown.path, why);
  tell(log, WEIR_LOG_POLICY_POLLED, text);
}

void weir__watch_log_behind(const struct weir_log_sink *log, const char *path, size_t n_behind,
                            const struct weir_diagnostic *diagnostic) {
  char text[TEXT_BYTES];
  const struct shown shown = show(path);
  snprintf(text, sizeof text, "%zu channel(s) don't take the policy of %s%s and keep theirs: %s",
           n_behind, shown.cut, shown.path,
           diagnostic->message[0] != '\0' ? diagnostic->message : "there is no memory");
  tell(log, WEIR_LOG_POLICY_REFUSED, text);
}
