/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include <weir/weir.h>

#include "src/call/rules.h"
#include "src/channel/channel.h"
#include "src/transport/transport.h"

#define N_TAKERS 6
#define N_SWAPPERS 2
#define N_SWAPS 400
#define COUNT_MASK ((UINT64_C(1) << WEIR__RULES_COUNT_BITS) - 1)

/* --- memory that is counted by many threads --- */

static atomic_int n_outstanding;

static void *allocate(void *context, size_t size) {
  (void)context;
  (void)atomic_fetch_add(&n_outstanding, 1);
  return malloc(size);
}

static void release(void *context, void *memory) {
  (void)context;
  (void)atomic_fetch_sub(&n_outstanding, 1);
  free(memory);
}

static const struct weir_allocator allocator = {
    .size = sizeof allocator, .allocate = allocate, .release = release, .context = NULL};

/* --- a channel without a core's --- */

static weir_policy *policy_new(uint32_t number) {
  struct weir_policy_options options = WEIR_POLICY_OPTIONS_INIT;
  struct weir_method_options method = WEIR_METHOD_OPTIONS_INIT;
  weir_policy *policy = NULL;
  method.max_request_bytes = number;
  method.max_response_bytes = number;
  options.methods = &method;
  options.n_methods = 1;
  assert_int_equal(weir_policy_new(&options, &allocator, &policy, NULL), WEIR_OK);
  return policy;
}

static weir_channel *channel_new(void) {
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  weir_channel *channel = NULL;
  options.policy = policy_new(0);
  options.allocator = &allocator;
  assert_int_equal(weir__channel_new("nowhere", weir__transport_core(), WEIR_CORE_RETRIES_OFF,
                                     &options, &channel),
                   WEIR_OK);
  weir_policy_unref(options.policy);
  return channel;
}

/* --- threads --- */

struct race {
  weir_channel *channel;
  atomic_bool over;
  atomic_uint n_odd;
  atomic_uint n_pretended;
  atomic_uint next; /* a policy's number */
};

/* As if so many had taken a share where `rules` are in force, and given it back. The caller has
 * one. */
static void pretend_taken(struct race *race, struct weir__rules *rules) {
  const uint64_t count = WEIR__RULES_MANY - 2;
  _Atomic uint64_t *place = &race->channel->rules.word;
  (void)atomic_fetch_sub(&rules->n_shares, count);
  uint64_t word = atomic_load(place);
  while (weir__rules_of_word(word) == rules && (word & COUNT_MASK) < WEIR__RULES_MANY / 2) {
    if (atomic_compare_exchange_weak(place, &word, word + count)) {
      (void)atomic_fetch_add(&race->n_pretended, 1);
      return;
    }
  }
  (void)atomic_fetch_add(&rules->n_shares, count);
}

static void *run_taker(void *argument) {
  struct race *race = argument;
  while (!atomic_load(&race->over)) {
    struct weir__rules *rules = weir__rules_take(&race->channel->rules);
    const struct weir_method_policy *method = weir_policy_method(rules->policy, "", 0);
    if (method->max_request_bytes != method->max_response_bytes) {
      (void)atomic_fetch_add(&race->n_odd, 1);
    }
    pretend_taken(race, rules);
    weir__rules_release(rules);
  }
  return NULL;
}

static void *run_swapper(void *argument) {
  struct race *race = argument;
  for (size_t i = 0; i < N_SWAPS; i++) {
    weir_policy *policy = policy_new(atomic_fetch_add(&race->next, 1));
    if (weir_channel_set_policy(race->channel, policy, NULL) != WEIR_OK) {
      (void)atomic_fetch_add(&race->n_odd, 1);
    }
    weir_policy_unref(policy);
  }
  return NULL;
}

/* The count in the word is taken down again and again meanwhile, which takes a day of calls
 * otherwise. */
static void rules_end_once_each_whoever_gives_the_last_share_back(void **state) {
  (void)state;
  struct race race = {.channel = channel_new()};
  pthread_t takers[N_TAKERS];
  pthread_t swappers[N_SWAPPERS];
  for (size_t i = 0; i < N_TAKERS; i++) {
    assert_int_equal(pthread_create(&takers[i], NULL, run_taker, &race), 0);
  }
  for (size_t i = 0; i < N_SWAPPERS; i++) {
    assert_int_equal(pthread_create(&swappers[i], NULL, run_swapper, &race), 0);
  }
  for (size_t i = 0; i < N_SWAPPERS; i++) {
    assert_int_equal(pthread_join(swappers[i], NULL), 0);
  }
  atomic_store(&race.over, true);
  for (size_t i = 0; i < N_TAKERS; i++) {
    assert_int_equal(pthread_join(takers[i], NULL), 0);
  }
  assert_int_equal(atomic_load(&race.n_odd), 0);
  assert_true(atomic_load(&race.n_pretended) > 0);
  weir_channel_destroy(race.channel);
  assert_int_equal(atomic_load(&n_outstanding), 0);
}

static void registered_methods_have_room_that_never_moves(void **state) {
  (void)state;
  weir_channel *channel = channel_new();
  struct weir__rules *rules = weir__rules_take(&channel->rules);
  struct weir__call_extras *first = NULL;
  struct weir__call_extras *last = NULL;
  for (uint32_t nth = 0; nth < 1000; nth++) {
    assert_int_equal(weir__rules_make_room(rules, nth), WEIR_OK);
    struct weir__call_extras *extras = weir__rules_registered(rules, nth);
    assert_ptr_not_equal(extras, last);
    last = extras;
    first = nth == 0 ? extras : first;
  }
  assert_ptr_equal(weir__rules_registered(rules, 0), first);
  assert_ptr_equal(weir__rules_registered(rules, 999), last);
  weir__rules_release(rules);
  weir_channel_destroy(channel);
  assert_int_equal(atomic_load(&n_outstanding), 0);
}

/* What an address must not have in its upper bits. */
static void rules_are_found_by_their_address(void **state) {
  (void)state;
  const uint64_t address = (UINT64_C(1) << WEIR__RULES_ADDRESS_BITS) - WEIR__RULES_ALIGNMENT;
  const uint64_t word = address << (64 - WEIR__RULES_ADDRESS_BITS) | COUNT_MASK;
  assert_true((uintptr_t)weir__rules_of_word(word) == address);
  assert_null(weir__rules_of_word(COUNT_MASK));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rules_end_once_each_whoever_gives_the_last_share_back),
      cmocka_unit_test(registered_methods_have_room_that_never_moves),
      cmocka_unit_test(rules_are_found_by_their_address),
  };
  return cmocka_run_group_tests_name("rules", tests, NULL, NULL);
}
