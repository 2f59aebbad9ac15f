/* link – one connection of a proxy's: a socket on each side, what is on its way between them, and
 * the fault that it has or is to have.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_LINK_H
#define WEIR_TEST_SOAK_LINK_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "test/soak/proxy.h"

/* An instant that does not come. */
#define LINK_NEVER INT64_MAX

struct link;

/* What a link asks its proxy, and counts there. */
struct link_owner {
  void (*plan)(void *context, bool accepting, struct proxy_plan *plan_out);
  void (*fault_begun)(void *context, enum proxy_fault fault);
  void (*bytes_moved)(void *context, uint64_t n_bytes);
  void *context;
};

/* Takes an accepted socket over. `owner` is borrowed until the release. Aborts without memory. */
struct link *link_new(int client_fd, int upstream_port, const struct link_owner *owner,
                      int64_t now_ns);

/* Resets both ends, if they are open still. */
void link_release(struct link *link);

/* What to wait for: the two sockets (a negative one = nothing), and an instant. */
void link_wants(const struct link *link, struct pollfd fds_out[2]);
int64_t link_due_at_ns(const struct link *link, int64_t now_ns);

/* Does what there is to be done. */
void link_step(struct link *link, int64_t now_ns);

bool link_is_closed(const struct link *link);

/* From now on it goes by what is planned for it. */
void link_storm(struct link *link);

/* It is to have no fault any more; resets one that has one, or was about to. */
void link_calm(struct link *link);

/* A socket that does not block, closes with the process's next program, and does not wait for more
 * before it sends. */
void link_prepare_socket(int fd);

/* Closes it so that the other end is reset. */
void link_reset_socket(int fd);

#endif /* WEIR_TEST_SOAK_LINK_H */
