/* scripted_fallback – a fallback that does what a test says, in threads that the test runs by hand.
 *
 * A question that was asked, and not run yet, is one that the fallback blocks on: the test decides
 * when, and whether, it is over. So there is no thread and no wait, and time is the fake clock's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SUPPORT_SCRIPTED_FALLBACK_H
#define WEIR_TEST_SUPPORT_SCRIPTED_FALLBACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include <weir/fallback.h>

#include "src/fallback/threads.h"

#define SCRIPTED_QUESTIONS 64
#define SCRIPTED_TEXT 512

struct scripted_fallback {
  struct weir_fallback base;             /* what is handed to the code under test */
  struct weir__fallback_threads threads; /* likewise */

  /* What it finds. `text` NULL = no message. */
  enum weir_fallback_found found;
  const char *text;
  const char *source;
  bool empty_is_real;
  bool compressed;
  bool gives_request_back;

  bool has_no_thread; /* none can be made */
  size_t n_started;
  size_t n_asked; /* that ran */
  size_t n_released;

  /* The last question that ran. */
  struct weir_fallback_request request; /* its pointers are not valid any more */
  char path[SCRIPTED_TEXT];
  char message[SCRIPTED_TEXT]; /* "" = none, or empty */
  bool had_message;
  char metadata[SCRIPTED_TEXT]; /* "key=value;" for each */

  struct {
    void *(*run)(void *argument);
    void *argument;
  } questions[SCRIPTED_QUESTIONS]; /* not run yet, the oldest first */
  size_t n_questions;
};

/* One that finds "cached" in the source "cache". */
void scripted_fallback_init(struct scripted_fallback *fallback);

/* Answers the oldest question; fails the test when there is none. */
void scripted_fallback_run(struct scripted_fallback *fallback);
void scripted_fallback_run_all(struct scripted_fallback *fallback);

/* Answers the nth of those that are not run yet, from 0. */
void scripted_fallback_run_nth(struct scripted_fallback *fallback, size_t nth);

#endif /* WEIR_TEST_SUPPORT_SCRIPTED_FALLBACK_H */
