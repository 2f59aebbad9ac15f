/* SPDX-License-Identifier: Apache-2.0 */
#include "test/stack/schedule_trace.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/grpc.h>

/* The last of them are kept. */
#define MAX_NOTES 1024

struct note {
  const char *text;
  int64_t at_ns;
  int numbers[SCHEDULE_TRACE_NUMBERS];
};

static struct {
  bool looked_for_variable;
  bool at_once;
  bool begun;
  const uint8_t *bytes;
  size_t size;
  const struct fake_clock *clock;
  int64_t from_ns;
  size_t n_notes;
  struct note notes[MAX_NOTES];
} trace;

static void print_ops(FILE *out, int ops) {
  static const char *const names[] = {
      [GRPC_OP_SEND_INITIAL_METADATA] = "send-metadata", [GRPC_OP_SEND_MESSAGE] = "send-message",
      [GRPC_OP_SEND_CLOSE_FROM_CLIENT] = "close",        [GRPC_OP_SEND_STATUS_FROM_SERVER] = "?",
      [GRPC_OP_RECV_INITIAL_METADATA] = "metadata",      [GRPC_OP_RECV_MESSAGE] = "message",
      [GRPC_OP_RECV_STATUS_ON_CLIENT] = "status",
  };
  const char *separator = "";
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if ((ops & 1 << i) != 0) {
      (void)fprintf(out, "%s%s", separator, names[i]);
      separator = " + ";
    }
  }
}

static void print_note(FILE *out, const struct note *note) {
  (void)fprintf(out, "%9.3f ms  ", (double)(note->at_ns - trace.from_ns) / 1e6);
  const int *number = note->numbers;
  for (const char *text = note->text; *text != '\0'; text++) {
    switch (*text) {
    case '@':
      (void)fputc('a' + *number++, out);
      break;
    case '#':
      (void)fprintf(out, "%d", *number++);
      break;
    case '&':
      print_ops(out, *number++);
      break;
    default:
      (void)fputc(*text, out);
    }
  }
  (void)fputc('\n', out);
}

static void print_bytes(FILE *out) {
  (void)fprintf(out, "the schedule of %zu bytes:\n  ", trace.size);
  for (size_t i = 0; i < trace.size; i++) {
    (void)fprintf(out, "%02x", trace.bytes[i]);
  }
  (void)fputc('\n', out);
}

void schedule_trace_begin(const uint8_t *bytes, size_t size, const struct fake_clock *clock) {
  if (!trace.looked_for_variable) {
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
    trace.at_once = getenv(SCHEDULE_TRACE_VARIABLE) != NULL;
    trace.looked_for_variable = true;
  }
  trace.begun = true;
  trace.bytes = bytes;
  trace.size = size;
  trace.clock = clock;
  trace.from_ns = clock->now_ns;
  trace.n_notes = 0;
  if (trace.at_once) {
    print_bytes(stderr);
  }
}

void schedule_trace_end(void) {
  trace.begun = false;
}

void schedule_trace_note(const char *text, const int numbers[SCHEDULE_TRACE_NUMBERS]) {
  struct note *note = &trace.notes[trace.n_notes++ % MAX_NOTES];
  note->text = text;
  note->at_ns = trace.clock->now_ns;
  memcpy(note->numbers, numbers, sizeof note->numbers);
  if (trace.at_once) {
    print_note(stderr, note);
  }
}

void schedule_trace_print(FILE *out) {
  if (!trace.begun) {
    return;
  }
  trace.begun = false;
  print_bytes(out);
  size_t first = trace.n_notes > MAX_NOTES ? trace.n_notes - MAX_NOTES : 0;
  for (size_t i = first; i < trace.n_notes; i++) {
    print_note(out, &trace.notes[i % MAX_NOTES]);
  }
  (void)fprintf(out, "and here it fails\n");
  (void)fflush(out);
}
