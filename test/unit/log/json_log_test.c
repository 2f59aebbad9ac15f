/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <jansson.h>
#include <cmocka.h>

#include <weir/json_log.h>

#include "src/log/json_line.h"
#include "src/log/json_log.h"
#include "test/support/counting_allocator.h"

#define SECOND_NS INT64_C(1000000000)
#define MS_NS INT64_C(1000000)

static struct weir_log_record record_of(enum weir_reason reason, int64_t at_ns) {
  return (struct weir_log_record){
      .reference = "0123456789ab",
      .path = {"/shop.Cart/Pay", 14},
      .target = "dns:///cart",
      .peer = {"ipv4:10.0.0.7:443", 17},
      .raw_code = GRPC_STATUS_UNAVAILABLE,
      .code = GRPC_STATUS_UNAVAILABLE,
      .reason = reason,
      .n_attempts = 1,
      .message = {"no", 2},
      .event = WEIR_LOG_CALL_FAILED,
      .at_ns = at_ns,
      .time_unix_ns = at_ns,
      .text = "",
  };
}

/* --- a log on a pipe, that never blocks the test --- */

struct fixture {
  struct counting_allocator allocator;
  weir_json_log *log;
  int ends[2];
};

static int setup(void **state) {
  static struct fixture fixture;
  struct weir_json_log_options options = WEIR_JSON_LOG_OPTIONS_INIT;
  counting_allocator_init(&fixture.allocator);
  assert_int_equal(pipe(fixture.ends), 0);
  assert_int_equal(fcntl(fixture.ends[0], F_SETFL, O_NONBLOCK), 0);
  options.fd = fixture.ends[1];
  options.allocator = &fixture.allocator.base;
  assert_int_equal(weir_json_log_new(&options, &fixture.log), WEIR_OK);
  *state = &fixture;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  weir_json_log_release(f->log);
  (void)close(f->ends[0]);
  (void)close(f->ends[1]);
  assert_int_equal(f->allocator.n_outstanding, 0);
  return 0;
}

static void log_lines(const struct fixture *f, int n, enum weir_reason reason, int64_t at_ns) {
  const struct weir_log_sink *sink = weir_json_log_sink(f->log);
  struct weir_log_record record = record_of(reason, at_ns);
  for (int i = 0; i < n; i++) {
    sink->write(sink->context, &record);
  }
}

/* What the lines in the pipe say: how many, and how many were left out by their words. */
struct told {
  int n_lines;
  int64_t n_left_out;
  int64_t last_left_out;
};

static struct told read_lines(const struct fixture *f) {
  static char bytes[1 << 20];
  struct told told = {.n_lines = 0};
  size_t size = 0;
  ssize_t n = 0;
  while ((n = read(f->ends[0], bytes + size, sizeof bytes - 1 - size)) > 0) {
    size += (size_t)n;
  }
  bytes[size] = '\0';
  for (char *line = bytes; *line != '\0';) {
    char *end = strchr(line, '\n');
    assert_non_null(end);
    json_t *json = json_loadb(line, (size_t)(end - line), 0, NULL);
    assert_non_null(json);
    told.last_left_out = json_integer_value(json_object_get(json, "left_out"));
    told.n_left_out += told.last_left_out;
    told.n_lines++;
    json_decref(json);
    line = end + 1;
  }
  return told;
}

static void a_storm_is_ten_lines_and_a_count(void **state) {
  struct fixture *f = *state;
  log_lines(f, 5000, WEIR_REASON_BREAKER_OPEN, 0);
  struct told told = read_lines(f);
  assert_int_equal(told.n_lines, WEIR_JSON_LOG_LINES_PER_SECOND);
  assert_int_equal(told.n_left_out, 0);

  log_lines(f, 1, WEIR_REASON_BREAKER_OPEN, SECOND_NS);
  told = read_lines(f);
  assert_int_equal(told.n_lines, 1);
  assert_int_equal(told.n_left_out, 5000 - WEIR_JSON_LOG_LINES_PER_SECOND);

  log_lines(f, 1, WEIR_REASON_BREAKER_OPEN, SECOND_NS + 1);
  told = read_lines(f);
  assert_int_equal(told.n_lines, 1);
  assert_int_equal(told.n_left_out, 0);
}

static void a_reason_does_not_silence_another(void **state) {
  struct fixture *f = *state;
  log_lines(f, 100, WEIR_REASON_BREAKER_OPEN, 0);
  (void)read_lines(f);
  for (int reason = 0; reason <= WEIR_REASON_NO_MEMORY; reason++) {
    if (reason != WEIR_REASON_BREAKER_OPEN) {
      log_lines(f, 1, (enum weir_reason)reason, 0);
      assert_int_equal(read_lines(f).n_lines, 1);
    }
  }
  assert_int_equal(read_lines(f).n_left_out, 0);
  log_lines(f, 1, WEIR_REASON_BREAKER_OPEN, SECOND_NS);
  assert_int_equal(read_lines(f).n_left_out, 90);
}

static void an_event_does_not_silence_another(void **state) {
  struct fixture *f = *state;
  const struct weir_log_sink *sink = weir_json_log_sink(f->log);
  log_lines(f, 100, WEIR_REASON_NONE, 0);
  assert_int_equal(read_lines(f).n_lines, 10);
  for (int event = WEIR_LOG_CHANNEL_WRAPPED; event <= WEIR_LOG_POLICY_POLLED; event++) {
    struct weir_log_record record = record_of(WEIR_REASON_NONE, 0);
    record.event = (enum weir_log_event)event;
    for (int i = 0; i < 15; i++) {
      sink->write(sink->context, &record);
    }
    assert_int_equal(read_lines(f).n_lines, 10);
  }

  struct weir_log_record later = record_of(WEIR_REASON_NONE, 0);
  later.event = (enum weir_log_event)99;
  sink->write(sink->context, &later);
  assert_int_equal(read_lines(f).n_lines, 1);
}

static void reasons_of_any_number_are_taken(void **state) {
  struct fixture *f = *state;
  static const int reasons[] = {31, 32, 1000, INT32_MAX, -1, INT32_MIN};
  for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
    log_lines(f, 1, (enum weir_reason)reasons[i], 0);
  }
  assert_int_equal(read_lines(f).n_lines, 6);
}

/* A reader that has stopped reading costs lines, and they are counted. */
static void lines_that_there_is_no_room_for_are_told_later(void **state) {
  struct fixture *f = *state;
  int n = 0;
  static const char fill[4096] = "";
  assert_int_equal(fcntl(f->ends[1], F_SETFL, O_NONBLOCK), 0);
  while (write(f->ends[1], fill, sizeof fill) > 0) {
    n++;
  }
  log_lines(f, 7, WEIR_REASON_DEADLINE, 0);
  char drained[sizeof fill];
  for (int i = 0; i < n; i++) {
    assert_int_equal(read(f->ends[0], drained, sizeof drained), sizeof drained);
  }
  assert_int_equal(read_lines(f).n_lines, 0);

  log_lines(f, 1, WEIR_REASON_DEADLINE, 1);
  struct told told = read_lines(f);
  assert_int_equal(told.n_lines, 1);
  assert_int_equal(told.n_left_out, 7);
}

/* A disk that gets full in the middle of a line, and then has room again. */
static void a_line_cut_short_does_not_spoil_the_next(void **state) {
  struct fixture *f = *state;
  struct weir_json_log_options options = WEIR_JSON_LOG_OPTIONS_INIT;
  struct fixture one = *f;
  struct rlimit before;
  FILE *file = tmpfile();
  char written[3 * WEIR__JSON_LINE_BYTES];
  assert_non_null(file);
  assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit small = {.rlim_cur = 100, .rlim_max = before.rlim_max};
  options.fd = fileno(file);
  assert_int_equal(weir_json_log_new(&options, &one.log), WEIR_OK);

  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  log_lines(&one, 2, WEIR_REASON_NONE, 0);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  log_lines(&one, 2, WEIR_REASON_NONE, 0);
  weir_json_log_release(one.log);

  rewind(file);
  size_t size = fread(written, 1, sizeof written - 1, file);
  (void)fclose(file);
  written[size] = '\0';
  assert_int_equal(strcspn(written, "\n"), 100);
  assert_memory_equal(written, "{\"time\"", 7);
  assert_memory_equal(written + 101, "{\"time\"", 7);
  assert_non_null(strstr(written + 101, "\"left_out\":2,"));
  char *last = strchr(written + 101, '\n') + 1;
  assert_memory_equal(last, "{\"time\"", 7); /* no empty line in between */
}

static void the_program_sets_the_limit(void **state) {
  struct fixture *f = *state;
  struct weir_json_log_options options = WEIR_JSON_LOG_OPTIONS_INIT;
  struct fixture one = *f;
  options.fd = f->ends[1];
  options.max_lines_per_second = 1;
  assert_int_equal(weir_json_log_new(&options, &one.log), WEIR_OK);
  log_lines(&one, 5, WEIR_REASON_NONE, 0);
  assert_int_equal(read_lines(f).n_lines, 1);
  log_lines(f, 5, WEIR_REASON_NONE, 0); /* each log has limits of its own */
  assert_int_equal(read_lines(f).n_lines, 5);
  weir_json_log_release(one.log);
}

static void options_out_of_range_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *why;
    size_t size;
    int fd;
    uint32_t max_lines;
    enum weir_error error;
  } rows[] = {
      {"no descriptor", sizeof(struct weir_json_log_options), -1, 10, WEIR_ERROR_INVALID_ARGUMENT},
      {"no lines", sizeof(struct weir_json_log_options), 2, 0, WEIR_ERROR_INVALID_ARGUMENT},
      {"too many", sizeof(struct weir_json_log_options), 2, 10001, WEIR_ERROR_INVALID_ARGUMENT},
      {"no size", 0, 2, 10, WEIR_ERROR_INVALID_ARGUMENT},
      {"the most", sizeof(struct weir_json_log_options), 2, 10000, WEIR_OK},
      {"the size alone: the defaults", sizeof(size_t), -1, 0, WEIR_OK},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct weir_json_log_options options = WEIR_JSON_LOG_OPTIONS_INIT;
    weir_json_log *log = (weir_json_log *)(uintptr_t)1;
    options.size = rows[i].size;
    options.fd = rows[i].fd;
    options.max_lines_per_second = rows[i].max_lines;
    if (weir_json_log_new(&options, &log) != rows[i].error ||
        (log != NULL) != (rows[i].error == WEIR_OK)) {
      fail_msg("%s", rows[i].why);
    }
    weir_json_log_release(log);
  }
}

static void no_memory_is_an_error(void **state) {
  (void)state;
  struct counting_allocator allocator;
  struct weir_json_log_options options = WEIR_JSON_LOG_OPTIONS_INIT;
  weir_json_log *log = (weir_json_log *)(uintptr_t)1;
  counting_allocator_init(&allocator);
  counting_allocator_fail_nth(&allocator, 1);
  options.allocator = &allocator.base;
  assert_int_equal(weir_json_log_new(&options, &log), WEIR_ERROR_NO_MEMORY);
  assert_null(log);
  assert_int_equal(allocator.n_outstanding, 0);
}

static void no_options_are_the_defaults(void **state) {
  (void)state;
  weir_json_log *log = NULL;
  assert_int_equal(weir_json_log_new(NULL, &log), WEIR_OK);
  assert_int_equal(weir_json_log_sink(log)->size, sizeof(struct weir_log_sink));
  weir_json_log_release(log);
}

/* A policy that has been put in force is no warning. */
static void the_default_writes_a_warning_to_standard_error_at_once(void **state) {
  struct fixture *f = *state;
  struct weir_log_record applied = record_of(WEIR_REASON_NONE, 5 * SECOND_NS);
  char line[WEIR__JSON_LINE_BYTES];
  char written[2 * WEIR__JSON_LINE_BYTES];
  struct weir_log_record record = record_of(WEIR_REASON_BUDGET, 5 * SECOND_NS);
  const struct weir_log_sink *sink = weir__json_log_default_sink();
  int standard_error = dup(STDERR_FILENO);
  assert_int_equal(dup2(f->ends[1], STDERR_FILENO), STDERR_FILENO);
  applied.event = WEIR_LOG_POLICY_APPLIED;

  sink->write(sink->context, &applied);
  sink->write(sink->context, &record);

  assert_int_equal(dup2(standard_error, STDERR_FILENO), STDERR_FILENO);
  (void)close(standard_error);
  ssize_t size = read(f->ends[0], written, sizeof written);
  assert_int_equal(size, weir__json_line_format(&record, 0, line));
  assert_memory_equal(written, line, (size_t)size);
  assert_int_equal(sink->size, sizeof(struct weir_log_sink));
}

/* --- threads --- */

#define N_THREADS 4
#define N_EACH 2000

struct crowd {
  const struct fixture *f;
  pthread_barrier_t barrier;
};

/* A millisecond a record: a window has many of each thread's, and the threads are not together. */
static void *log_as_fast_as_can_be(void *argument) {
  struct crowd *crowd = argument;
  (void)pthread_barrier_wait(&crowd->barrier);
  for (int i = 0; i < N_EACH; i++) {
    log_lines(crowd->f, 1, i % 2 == 0 ? WEIR_REASON_BUDGET : WEIR_REASON_THROTTLED, i * MS_NS);
  }
  return NULL;
}

/* Each line is whole, and each record is a line or counted: those that no line has told of are told
 * by the last. */
static void threads_lose_no_count_and_mix_no_lines(void **state) {
  struct fixture *f = *state;
  struct crowd crowd = {.f = f};
  pthread_t threads[N_THREADS];
  assert_int_equal(fcntl(f->ends[1], F_SETFL, O_NONBLOCK), 0); /* nobody reads meanwhile */
  assert_int_equal(pthread_barrier_init(&crowd.barrier, NULL, N_THREADS), 0);
  for (int i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, log_as_fast_as_can_be, &crowd), 0);
  }
  for (int i = 0; i < N_THREADS; i++) {
    (void)pthread_join(threads[i], NULL);
  }
  (void)pthread_barrier_destroy(&crowd.barrier);
  struct told told = read_lines(f);
  log_lines(f, 1, WEIR_REASON_BUDGET, 3600 * SECOND_NS);
  log_lines(f, 1, WEIR_REASON_THROTTLED, 3600 * SECOND_NS);
  struct told last = read_lines(f);

  assert_int_equal(last.n_lines, 2);
  assert_int_equal(told.n_lines + told.n_left_out + last.n_left_out, N_THREADS * N_EACH);
  assert_in_range(told.n_lines, 2 * WEIR_JSON_LOG_LINES_PER_SECOND, N_THREADS * N_EACH / 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_storm_is_ten_lines_and_a_count),
      TEST(a_reason_does_not_silence_another),
      TEST(an_event_does_not_silence_another),
      TEST(reasons_of_any_number_are_taken),
      TEST(lines_that_there_is_no_room_for_are_told_later),
      TEST(a_line_cut_short_does_not_spoil_the_next),
      TEST(the_program_sets_the_limit),
      cmocka_unit_test(options_out_of_range_are_refused),
      cmocka_unit_test(no_memory_is_an_error),
      cmocka_unit_test(no_options_are_the_defaults),
      TEST(the_default_writes_a_warning_to_standard_error_at_once),
      TEST(threads_lose_no_count_and_mix_no_lines),
  };
  return cmocka_run_group_tests_name("json_log", tests, NULL, NULL);
}
