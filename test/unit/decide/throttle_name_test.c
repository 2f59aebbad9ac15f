/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/decide/throttle.h"

/* The test's, to be freed. */
static char *name_of(const char *target) {
  char *name = malloc(weir__throttle_name_size(target));
  assert_non_null(name);
  weir__throttle_name(target, name);
  assert_true(strlen(name) < weir__throttle_name_size(target));
  return name;
}

static const struct {
  const char *target;
  const char *name;
} rows[] = {
    /* how to find a host is no part of which host it is */
    {"cart.example:50051", "cart.example:50051"},
    {"dns:cart.example:50051", "cart.example:50051"},
    {"dns:///cart.example:50051", "cart.example:50051"},
    {"dns://8.8.8.8/cart.example:50051", "cart.example:50051"},
    {"dns://[2001:db8::53]:53/cart.example:50051", "cart.example:50051"},
    {"ipv4:10.0.0.1:80", "10.0.0.1:80"},
    {"ipv4:///10.0.0.1:80", "10.0.0.1:80"},
    {"10.0.0.1:80", "10.0.0.1:80"},
    /* letters */
    {"DNS:///Cart.Example:50051", "cart.example:50051"},
    {"LOCALHOST:1", "localhost:1"},
    /* the port that the core takes when there is none */
    {"cart.example", "cart.example:443"},
    {"cart.example:", "cart.example:443"},
    {"cart.example:443", "cart.example:443"},
    {"dns:cart.example", "cart.example:443"},
    {"10.0.0.1", "10.0.0.1:443"},
    {"cart.example:https", "cart.example:https"}, /* what that is, the system's files say */
    {"cart.example:0443", "cart.example:0443"},
    /* IPv6 */
    {"ipv6:[::1]:80", "[::1]:80"},
    {"[::1]:80", "[::1]:80"},
    {"dns:///[::1]:80", "[::1]:80"},
    {"ipv6:%5B::1%5D:80", "[::1]:80"},
    {"ipv6:%5b0:0:0:0:0:0:0:1%5d:80", "[::1]:80"},
    {"[2001:DB8:0:0::1]:80", "[2001:db8::1]:80"},
    {"ipv6:::1", "[::1]:443"},
    {"[::1]", "[::1]:443"},
    {"[::ffff:c0a8:1]:80", "[::ffff:192.168.0.1]:80"},
    {"[fe80::1%25eth0]:80", "[fe80::1%eth0]:80"},
    {"[fe80::1%25ETH0]:80", "[fe80::1%eth0]:80"},
    /* may be other servers */
    {"cart.example.:50051", "cart.example.:50051"},
    {"cart:1", "cart:1"},
    {"cart.:1", "cart.:1"},
    {"unix:/run/Cart", "unix:/run/Cart"},
    {"unix:run/cart", "unix:run/cart"},
    {"unix:///run/cart", "unix:/run/cart"},
    {"unix-abstract:Cart", "unix-abstract:Cart"},
    {"/run/cart", "/run/cart"},
    {"vsock:2:1", "vsock:2:1"},
    {"xds:///Cart", "xds:///Cart"},
    {"google-c2p-experimental:///Cart", "google-c2p-experimental:///Cart"},
    {"own://Place/Cart", "own://Place/Cart"},
    /* lists of addresses, as they stand */
    {"ipv4:10.0.0.1:80,10.0.0.2:80", "10.0.0.1:80,10.0.0.2:80"},
    {"ipv6:[::1]:80,[::2]:80", "[::1]:80,[::2]:80"},
    /* what makes no sense to anyone stays what it is */
    {"", ""},
    {"dns:", "dns:"},
    {"dns:///", "dns:///"},
    {":80", ":80"},
    {"[]:80", "[]:80"},
    {"[::1", "[::1"},
    {"[::1]80", "[::1]80"},
    {"cart.example:1234567890", "cart.example:1234567890"},
    {"cart%", "cart%:443"},
    {"cart%4", "cart%4:443"},
    {"cart%zz", "cart%zz:443"},
    {"cart%00", "cart%00:443"}, /* would end it */
};

static void a_targets_name_is_that_of_the_server(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char *name = name_of(rows[i].target);
    if (strcmp(name, rows[i].name) != 0) {
      fail_msg("\"%s\": \"%s\", not \"%s\"", rows[i].target, name, rows[i].name);
    }
    free(name);
  }
}

/* Of a host: what is one as it stands is its own name. */
static void a_name_is_its_own_name(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char *name = name_of(rows[i].name);
    if (strcmp(name, rows[i].name) != 0 && strchr(rows[i].name, '%') == NULL) {
      fail_msg("\"%s\": \"%s\"", rows[i].name, name);
    }
    free(name);
  }
}

static void a_long_name_is_kept_whole(void **state) {
  (void)state;
  char target[5000];
  memset(target, 'A', sizeof target - 1);
  target[sizeof target - 1] = '\0';

  char *name = name_of(target);

  assert_int_equal(strlen(name), sizeof target - 1);
  assert_int_equal(name[sizeof target - 2], 'a');
  free(name);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_targets_name_is_that_of_the_server),
      cmocka_unit_test(a_name_is_its_own_name),
      cmocka_unit_test(a_long_name_is_kept_whole),
  };
  return cmocka_run_group_tests_name("throttle_name", tests, NULL, NULL);
}
