/* proxy – a listener on the loopback that hands each connection's bytes on to another port, and
 * does to them what a bad network does.
 *
 * What it does is planned for each connection, one fault after the other: so many bytes are handed
 * on in both directions together, then the fault begins, at exactly that byte; when its time is
 * over the connection heals, or is reset, and the next plan is asked for. Beside that, the port can
 * be closed and opened again: who connects meanwhile is refused.
 *
 * One thread serves all connections. Nothing but sockets and poll.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_PROXY_H
#define WEIR_TEST_SOAK_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum proxy_fault {
  PROXY_FAULT_NONE = 0,
  PROXY_FAULT_DELAY,         /* what is handed on comes `delay_ns` late */
  PROXY_FAULT_THROTTLE,      /* `n_bytes` each `delay_ns`, in each direction */
  PROXY_FAULT_TRICKLE,       /* each byte is a write of its own */
  PROXY_FAULT_BLACKHOLE,     /* nothing is handed on, and nobody is told */
  PROXY_FAULT_ONE_WAY,       /* the same, in one direction */
  PROXY_FAULT_FIN,           /* both ends are closed in order; what is under way is lost */
  PROXY_FAULT_RST,           /* both ends are reset */
  PROXY_FAULT_RST_AT_ACCEPT, /* the client's end is, before anything is read */
  PROXY_FAULT_SILENCE,       /* it is accepted, and nobody is asked; reset when the time is over */
  PROXY_FAULT_REFUSAL, /* the port was closed for a time; no plan's, but counted as the others */
  PROXY_N_FAULTS
};

/* E.g. "RST_AT_ACCEPT"; static. */
const char *proxy_fault_name(enum proxy_fault fault);

enum proxy_direction { PROXY_FORTH = 0, PROXY_BACK, PROXY_N_DIRECTIONS };

/* What is done to a connection next. */
struct proxy_plan {
  enum proxy_fault fault;
  uint64_t after_bytes; /* UINT64_MAX = never */
  int64_t lasts_ns;     /* of what does not end the connection */
  int64_t delay_ns;
  uint32_t n_bytes;
  enum proxy_direction direction; /* of ONE_WAY */
  bool resets;                    /* when the time is over; else the connection heals */
};

/* For how long the port is closed next, and when: counted from when it was opened. */
struct proxy_gap {
  int64_t after_ns;
  int64_t lasts_ns;
};

/* Both run in the proxy's thread. `number` counts the plans, or the gaps, of this proxy from 0; a
 * connection's first plan is asked for when it is accepted (`accepting`), and only that one may be
 * RST_AT_ACCEPT or SILENCE. */
struct proxy_planner {
  void (*plan)(void *context, uint64_t number, bool accepting, struct proxy_plan *plan_out);
  void (*gap)(void *context, uint64_t number, struct proxy_gap *gap_out); /* NULL = no gaps */
  void *context;
};

struct proxy;

/* Listens on a port that the system chooses, and hands on to `upstream_port` of the loopback.
 * Aborts if it can't. `planner` (NULL = no faults at all) is borrowed until the release. It begins
 * calm: see proxy_calm. */
struct proxy *proxy_new(int upstream_port, const struct proxy_planner *planner);

/* Resets what is open. */
void proxy_release(struct proxy *proxy);
int proxy_port(const struct proxy *proxy);

/* Each of these has been done when it returns. */

/* From now on, faults, also of connections that are open. */
void proxy_storm(struct proxy *proxy);

/* No more faults, and the port is open. Connections that had a fault before them or on them are
 * reset. */
void proxy_calm(struct proxy *proxy);

/* Who connects is refused, until the port is opened. What is open stays so. */
void proxy_close_port(struct proxy *proxy);
void proxy_open_port(struct proxy *proxy);

struct proxy_counts {
  uint64_t n_connections;            /* that were accepted */
  uint64_t n_open;                   /* now */
  uint64_t n_bytes;                  /* handed on */
  uint64_t n_writes;                 /* that took */
  uint64_t n_faults[PROXY_N_FAULTS]; /* that have begun */
};

void proxy_read_counts(struct proxy *proxy, struct proxy_counts *counts_out);

#endif /* WEIR_TEST_SOAK_PROXY_H */
