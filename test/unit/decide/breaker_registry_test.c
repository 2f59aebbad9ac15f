/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "src/decide/breaker_registry.h"
#include "test/unit/decide/breaker_fixture.h"

static void registry_begin(struct fixture *f, struct weir__breaker_registry *registry,
                           enum weir_breaker_scope scope, uint32_t max_breakers) {
  f->options.scope = scope;
  f->options.max_breakers = max_breakers;
  assert_int_equal(weir__breaker_registry_init(registry, &f->options, &f->allocator), WEIR_OK);
}

static weir_breaker *enter(struct weir__breaker_registry *registry, const char *path) {
  weir_breaker *breaker = weir__breaker_registry_enter(registry, path, strlen(path));
  assert_non_null(breaker);
  return breaker;
}

static const weir_breaker *find(const struct weir__breaker_registry *registry, const char *path) {
  return weir__breaker_registry_find(registry, path, strlen(path));
}

static void channel_has_one_breaker(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_CHANNEL, 1024);
  size_t n_before = f->n_allocations;
  assert_ptr_equal(enter(&registry, "/a.A/M"), enter(&registry, "/b.B/N"));
  assert_ptr_equal(find(&registry, "/c.C/O"), enter(&registry, "/a.A/M"));
  assert_int_equal(f->n_allocations, n_before);
  assert_int_equal(weir__breaker_registry_n_overflowed(&registry), 0);
  weir__breaker_registry_fini(&registry);
}

static const struct {
  const char *why;
  const char *one;
  const char *other;
  bool same_service;
  bool same_method;
} rows[] = {
    {"the same method", "/a.A/M", "/a.A/M", true, true},
    {"a sibling", "/a.A/M", "/a.A/N", true, false},
    {"another service", "/a.A/M", "/a.B/M", false, false},
    {"a service whose name goes on", "/a.A/M", "/a.AB/M", false, false},
    {"a method whose name goes on", "/a.A/M", "/a.A/MN", true, false},
    {"another case", "/a.A/M", "/a.a/M", false, false},
    {"no service", "/M", "/N", false, false},
    {"no slash", "M", "N", false, false},
    {"nothing at all", "", "/", false, false},
    {"more slashes", "/x/a.A/M", "/x/a.A/N", true, false},
    {"eight bytes and nine", "/a.A/abc", "/a.A/abcd", true, false},
    {"a difference in the last of many bytes", "/pkg.of.a.long.name.Service/MethodA",
     "/pkg.of.a.long.name.Service/MethodB", true, false},
};

static void scope_says_which_calls_share_a_breaker(void **state) {
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct weir__breaker_registry by_service;
    struct weir__breaker_registry by_method;
    registry_begin(f, &by_service, WEIR_BREAKER_SCOPE_SERVICE, 1024);
    registry_begin(f, &by_method, WEIR_BREAKER_SCOPE_METHOD, 1024);
    if ((enter(&by_service, rows[i].one) == enter(&by_service, rows[i].other)) !=
        rows[i].same_service) {
      fail_msg("by service: %s", rows[i].why);
    }
    if ((enter(&by_method, rows[i].one) == enter(&by_method, rows[i].other)) !=
        rows[i].same_method) {
      fail_msg("by method: %s", rows[i].why);
    }
    weir__breaker_registry_fini(&by_method);
    weir__breaker_registry_fini(&by_service);
  }
}

static void path_need_not_be_terminated(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 1024);
  weir_breaker *breaker = weir__breaker_registry_enter(&registry, "/a.A/MORE", 6);
  assert_ptr_equal(breaker, enter(&registry, "/a.A/M"));
  weir__breaker_registry_fini(&registry);
}

static void looking_makes_no_breaker(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 1024);
  assert_null(find(&registry, "/a.A/M"));
  assert_int_equal(weir__breaker_registry_n_breakers(&registry), 0);
  weir_breaker *breaker = enter(&registry, "/a.A/M");
  assert_ptr_equal(find(&registry, "/a.A/M"), breaker);
  assert_null(find(&registry, "/a.A/N"));
  weir__breaker_registry_fini(&registry);
}

static void known_path_is_found_without_memory(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 1024);
  weir_breaker *breaker = enter(&registry, "/a.A/M");
  size_t n_before = f->n_allocations;
  for (int i = 0; i < 1000; i++) {
    assert_ptr_equal(enter(&registry, "/a.A/M"), breaker);
  }
  assert_int_equal(f->n_allocations, n_before);
  weir__breaker_registry_fini(&registry);
}

static void a_hundred_thousand_paths_take_bounded_memory(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 1000);
  weir_breaker *known = enter(&registry, "/real.Service/Method");
  size_t n_at_the_bound = 0;
  for (int i = 0; i < 100000; i++) {
    char path[64];
    (void)snprintf(path, sizeof path, "/x.S/%08x-%04x", (unsigned)i * 2654435761U, (unsigned)i);
    (void)enter(&registry, path);
    if (i == 1000) {
      n_at_the_bound = atomic_load(&f->n_outstanding);
    }
  }
  assert_int_equal(weir__breaker_registry_n_breakers(&registry), 1000);
  assert_int_equal(atomic_load(&f->n_outstanding), n_at_the_bound);
  assert_int_equal(weir__breaker_registry_n_overflowed(&registry), 100000 - 999);
  assert_ptr_equal(enter(&registry, "/real.Service/Method"), known);
  assert_ptr_equal(enter(&registry, "/x.S/new"), enter(&registry, "/x.S/newer"));
  assert_ptr_equal(find(&registry, "/x.S/new"), enter(&registry, "/x.S/new"));
  assert_ptr_not_equal(enter(&registry, "/x.S/new"), known);
  weir__breaker_registry_fini(&registry);
}

static void no_memory_for_a_breaker_shares_one_until_there_is(void **state) {
  struct fixture *f = *state;
  for (size_t nth = 1; nth <= 1; nth++) {
    struct weir__breaker_registry registry;
    registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 1024);
    weir_breaker *other = enter(&registry, "/a.A/Other");
    f->fails_at = f->n_allocations + nth;
    weir_breaker *shared = enter(&registry, "/a.A/M");
    assert_ptr_not_equal(shared, other);
    assert_int_equal(weir__breaker_registry_n_overflowed(&registry), 1);
    assert_int_equal(weir__breaker_registry_n_breakers(&registry), 1);
    f->fails_at = 0;
    assert_ptr_not_equal(enter(&registry, "/a.A/M"), shared);
    assert_int_equal(weir__breaker_registry_n_overflowed(&registry), 1);
    weir__breaker_registry_fini(&registry);
  }
}

static void no_memory_for_the_registry_leaves_nothing(void **state) {
  struct fixture *f = *state;
  f->options.scope = WEIR_BREAKER_SCOPE_SERVICE;
  for (size_t nth = 1;; nth++) {
    struct weir__breaker_registry registry;
    f->n_allocations = 0;
    f->fails_at = nth;
    enum weir_error error = weir__breaker_registry_init(&registry, &f->options, &f->allocator);
    if (error == WEIR_OK) {
      assert_int_equal(nth, 3);
      weir__breaker_registry_fini(&registry);
      return;
    }
    assert_int_equal(error, WEIR_ERROR_NO_MEMORY);
    assert_int_equal(atomic_load(&f->n_outstanding), 0);
  }
}

static void a_bound_of_billions_costs_nothing_at_first(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, UINT32_MAX);
  assert_ptr_not_equal(enter(&registry, "/a.A/M"), enter(&registry, "/a.A/N"));
  weir__breaker_registry_fini(&registry);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(channel_has_one_breaker),
      TEST(scope_says_which_calls_share_a_breaker),
      TEST(path_need_not_be_terminated),
      TEST(looking_makes_no_breaker),
      TEST(known_path_is_found_without_memory),
      TEST(a_hundred_thousand_paths_take_bounded_memory),
      TEST(no_memory_for_a_breaker_shares_one_until_there_is),
      TEST(no_memory_for_the_registry_leaves_nothing),
      TEST(a_bound_of_billions_costs_nothing_at_first),
  };
  return cmocka_run_group_tests_name("breaker registry", tests, NULL, NULL);
}
