/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "src/base/allocator.h"
#include "src/queue/kept_events.h"
#include "src/queue/tag_table.h"
#include "test/support/counting_allocator.h"

#define N_MANY 10000

struct fixture {
  struct counting_allocator counting;
  struct weir__tag_table table;
  struct weir__kept_events kept;
};

static int setup(void **state) {
  static struct fixture fixture;
  memset(&fixture, 0, sizeof fixture);
  counting_allocator_init(&fixture.counting);
  weir__tag_table_init(&fixture.table);
  *state = &fixture;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  assert_int_equal(f->table.n_entries, 0);
  weir__tag_table_fini(&f->table, &f->counting.base);
  weir__kept_events_fini(&f->kept, &f->counting.base);
  assert_int_equal(f->counting.n_outstanding, 0);
  return 0;
}

static void put(struct fixture *f, uintptr_t tag, int success) {
  const grpc_event event = {.type = GRPC_OP_COMPLETE, .success = success, .tag = (void *)tag};
  if (f->kept.free == NULL) {
    weir__kept_events_add(&f->kept, weir__kept_chunk_new(&f->counting.base));
  }
  weir__tag_table_put(&f->table, weir__kept_events_keep(&f->kept, &event));
}

/* Takes the first with the tag, and gives its success; -1 = there is none. */
static int take(struct fixture *f, uintptr_t tag) {
  struct weir__completion *completion = weir__tag_table_take(&f->table, (void *)tag);
  if (completion == NULL) {
    return -1;
  }
  assert_true(weir__completion_is_kept_event(completion));
  grpc_event event = weir__kept_events_take(&f->kept, completion);
  assert_int_equal(event.type, GRPC_OP_COMPLETE);
  assert_ptr_equal(event.tag, (void *)tag);
  return event.success;
}

static void grow(struct fixture *f) {
  size_t length = weir__tag_table_wanted_length(&f->table);
  if (length != 0) {
    struct weir__tag_bucket *buckets = weir__tag_buckets_new(&f->counting.base, length);
    weir__free(&f->counting.base, weir__tag_table_grow(&f->table, buckets, length));
    assert_int_equal(weir__tag_table_wanted_length(&f->table), 0);
  }
}

static void what_has_one_tag_is_taken_in_order(void **state) {
  struct fixture *f = *state;
  assert_int_equal(take(f, 0), -1);
  for (int i = 0; i < 40; i++) { /* so that buckets are shared */
    put(f, 0, i);
    put(f, (uintptr_t)i * 16 + 1, i);
  }
  for (int i = 0; i < 40; i++) {
    assert_int_equal(take(f, 0), i);
  }
  assert_int_equal(take(f, 0), -1);
  for (int i = 40; i-- > 0;) {
    assert_int_equal(take(f, (uintptr_t)i * 16 + 1), i);
    put(f, 7, i); /* behind one that was the last */
    assert_int_equal(take(f, 7), i);
  }
}

static void who_waits_for_one_tag_is_found_in_order(void **state) {
  struct fixture *f = *state;
  struct weir__tag_waiter waiters[60];
  for (size_t i = 0; i < 60; i++) {
    waiters[i].tag = (void *)(uintptr_t)(i % 20);
    weir__tag_table_add_waiter(&f->table, &waiters[i]);
  }
  grow(f);
  assert_null(weir__tag_table_find_waiter(&f->table, (void *)20));
  weir__tag_table_remove_waiter(&f->table, &waiters[25]); /* one in the middle */
  for (size_t i = 0; i < 60; i++) {
    if (i != 25) {
      assert_ptr_equal(weir__tag_table_find_waiter(&f->table, waiters[i].tag), &waiters[i]);
      weir__tag_table_remove_waiter(&f->table, &waiters[i]);
    }
  }
}

static void a_table_that_grows_keeps_the_order(void **state) {
  struct fixture *f = *state;
  for (int i = 0; i < N_MANY; i++) {
    put(f, (uintptr_t)(i % (N_MANY / 4)) * 64, i);
    grow(f);
  }
  for (int i = 0; i < N_MANY; i++) {
    assert_int_equal(take(f, (uintptr_t)(i % (N_MANY / 4)) * 64), i);
  }
}

static void a_table_that_does_not_grow_works_on(void **state) {
  struct fixture *f = *state;
  for (int i = 0; i < 1000; i++) {
    put(f, (uintptr_t)i, i);
  }
  assert_true(weir__tag_table_wanted_length(&f->table) >= 1000);
  for (int i = 1000; i-- > 0;) {
    assert_int_equal(take(f, (uintptr_t)i), i);
  }
}

static void what_is_kept_needs_room(void **state) {
  struct fixture *f = *state;
  const grpc_event event = {.type = GRPC_OP_COMPLETE, .success = 1, .tag = NULL};
  assert_null(weir__kept_events_keep(&f->kept, &event));
  counting_allocator_fail_nth(&f->counting, 1);
  assert_null(weir__kept_chunk_new(&f->counting.base));
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      CLAIM(what_has_one_tag_is_taken_in_order),
      CLAIM(who_waits_for_one_tag_is_found_in_order),
      CLAIM(a_table_that_grows_keeps_the_order),
      CLAIM(a_table_that_does_not_grow_works_on),
      CLAIM(what_is_kept_needs_room),
  };
  return cmocka_run_group_tests_name("tag table", tests, NULL, NULL);
}
