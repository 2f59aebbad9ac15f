/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/raw_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WAIT_LIMIT_S 10
#define CONNECTIONS_MAX 16
#define REQUESTS_MAX 64
#define BLOCK_MAX 2048
#define BUFFER_SIZE 65536
#define PREFACE_SIZE 24
#define FRAME_HEADER_SIZE 9

enum frame_type {
  FRAME_DATA = 0,
  FRAME_HEADERS = 1,
  FRAME_RST_STREAM = 3,
  FRAME_SETTINGS = 4,
  FRAME_PING = 6,
  FRAME_GOAWAY = 7
};

#define FLAG_ACK 0x1
#define FLAG_END_STREAM 0x1
#define FLAG_END_HEADERS 0x4

struct connection {
  int fd; /* -1: none */
  bool greeted;
  size_t n_read;
  unsigned char read[BUFFER_SIZE];
};

struct request {
  size_t size;
  unsigned char block[BLOCK_MAX];
};

struct raw_peer {
  enum raw_greeting greeting;
  const struct raw_script *scripts;
  size_t n_scripts;
  int port;
  int listener;
  int wake[2]; /* a byte in it ends the thread */
  pthread_t thread;
  struct connection connections[CONNECTIONS_MAX]; /* the thread's */
  struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t n_headers; /* requests that began */
    size_t n_requests;
    struct request requests[REQUESTS_MAX];
  } guarded;
};

/* A peer that can't go on is a broken test: it says why and ends the process. */
static void check(bool fine, const char *what) {
  if (!fine) {
    perror(what);
    abort();
  }
}

/* --- writing --- */

static void put(const struct connection *connection, const void *bytes, size_t size) {
  const unsigned char *next = bytes;
  while (size > 0) {
    ssize_t sent = send(connection->fd, next, size, MSG_NOSIGNAL);
    if (sent <= 0) {
      return; /* the other side is gone: the test will see that */
    }
    next += sent;
    size -= (size_t)sent;
  }
}

static void put_u32(unsigned char *out, uint32_t value) {
  out[0] = (unsigned char)(value >> 24);
  out[1] = (unsigned char)(value >> 16);
  out[2] = (unsigned char)(value >> 8);
  out[3] = (unsigned char)value;
}

static void put_frame(const struct connection *connection, enum frame_type type,
                      unsigned char flags, uint32_t stream, const void *payload, size_t size) {
  unsigned char header[FRAME_HEADER_SIZE];
  put_u32(header, (uint32_t)size << 8);
  header[3] = (unsigned char)type;
  header[4] = flags;
  put_u32(header + 5, stream);
  put(connection, header, sizeof header);
  put(connection, payload, size);
}

/* An HPACK string literal, not compressed (RFC 7541, 5.1 and 5.2). */
static size_t hpack_string(unsigned char *out, const char *text, size_t length) {
  size_t n = 0;
  size_t rest = length;
  if (length < 127) {
    out[n++] = (unsigned char)length;
  } else {
    out[n++] = 127;
    for (rest -= 127; rest >= 128; rest >>= 7) {
      out[n++] = (unsigned char)(rest % 128 + 128);
    }
    out[n++] = (unsigned char)rest;
  }
  memcpy(out + n, text, length);
  return n + length;
}

/* Literal fields that are not indexed (RFC 7541, 6.2.2). */
static void put_headers(const struct connection *connection, uint32_t stream, unsigned char flags,
                        const char *lines) {
  unsigned char block[BLOCK_MAX];
  size_t size = 0;
  while (*lines != '\0') {
    size_t key = strcspn(lines, " ");
    size_t line = strcspn(lines, "\n");
    check(line > key && size + line + 16 < sizeof block, "raw peer: headers");
    block[size++] = 0;
    size += hpack_string(block + size, lines, key);
    size += hpack_string(block + size, lines + key + 1, line - key - 1);
    lines += line + 1;
  }
  put_frame(connection, FRAME_HEADERS, flags | FLAG_END_HEADERS, stream, block, size);
}

static void put_message(const struct connection *connection, uint32_t stream, const char *text) {
  unsigned char framed[BLOCK_MAX];
  size_t size = strlen(text);
  check(size + 5 < sizeof framed, "raw peer: message");
  framed[0] = 0;
  put_u32(framed + 1, (uint32_t)size);
  memcpy(framed + 5, text, size);
  put_frame(connection, FRAME_DATA, 0, stream, framed, size + 5);
}

static void connection_close(struct connection *connection, bool by_reset) {
  if (by_reset) {
    const struct linger none = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
  }
  (void)close(connection->fd);
  connection->fd = -1;
}

static void step_do(struct connection *connection, uint32_t stream, const struct raw_step *step) {
  unsigned char bytes[8];
  switch (step->act) {
  case RAW_END:
    break;
  case RAW_HEADERS:
    put_headers(connection, stream, 0, step->text);
    break;
  case RAW_TRAILERS:
    put_headers(connection, stream, FLAG_END_STREAM, step->text);
    break;
  case RAW_MESSAGE:
    put_message(connection, stream, step->text);
    break;
  case RAW_BODY:
    put_frame(connection, FRAME_DATA, FLAG_END_STREAM, stream, step->text, strlen(step->text));
    break;
  case RAW_RST:
    put_u32(bytes, step->number);
    put_frame(connection, FRAME_RST_STREAM, 0, stream, bytes, 4);
    break;
  case RAW_GOAWAY:
    put_u32(bytes, stream - step->number);
    put_u32(bytes + 4, 0);
    put_frame(connection, FRAME_GOAWAY, 0, 0, bytes, 8);
    break;
  case RAW_CLOSE:
    connection_close(connection, false);
    break;
  case RAW_ABORT:
    connection_close(connection, true);
    break;
  }
}

/* --- reading --- */

static void keep_headers(struct raw_peer *peer, const unsigned char *block, size_t size) {
  (void)pthread_mutex_lock(&peer->guarded.mutex);
  if (peer->guarded.n_headers < REQUESTS_MAX) {
    struct request *request = &peer->guarded.requests[peer->guarded.n_headers];
    request->size = size < BLOCK_MAX ? size : BLOCK_MAX;
    memcpy(request->block, block, request->size);
  }
  peer->guarded.n_headers++;
  (void)pthread_mutex_unlock(&peer->guarded.mutex);
}

static void answer(struct raw_peer *peer, struct connection *connection, uint32_t stream) {
  (void)pthread_mutex_lock(&peer->guarded.mutex);
  size_t index = peer->guarded.n_requests++;
  (void)pthread_cond_broadcast(&peer->guarded.changed);
  (void)pthread_mutex_unlock(&peer->guarded.mutex);
  if (peer->n_scripts == 0) {
    return;
  }
  const struct raw_script *script =
      &peer->scripts[index < peer->n_scripts ? index : peer->n_scripts - 1];
  for (size_t i = 0; i < RAW_STEPS_MAX && connection->fd >= 0; i++) {
    step_do(connection, stream, &script->steps[i]);
  }
}

static void on_frame(struct raw_peer *peer, struct connection *connection,
                     const unsigned char *frame, size_t size) {
  enum frame_type type = (enum frame_type)frame[3];
  unsigned char flags = frame[4];
  uint32_t stream = (uint32_t)frame[5] << 24 | (uint32_t)frame[6] << 16 | (uint32_t)frame[7] << 8 |
                    (uint32_t)frame[8];
  const unsigned char *payload = frame + FRAME_HEADER_SIZE;
  if (type == FRAME_SETTINGS && (flags & FLAG_ACK) == 0) {
    put_frame(connection, FRAME_SETTINGS, FLAG_ACK, 0, NULL, 0);
  } else if (type == FRAME_PING && (flags & FLAG_ACK) == 0) {
    put_frame(connection, FRAME_PING, FLAG_ACK, 0, payload, size);
  } else if (type == FRAME_HEADERS) {
    keep_headers(peer, payload, size);
  }
  if ((type == FRAME_HEADERS || type == FRAME_DATA) && (flags & FLAG_END_STREAM) != 0) {
    answer(peer, connection, stream);
  }
}

/* Takes what is complete out of the buffer. */
static void parse(struct raw_peer *peer, struct connection *connection) {
  size_t at = 0;
  if (!connection->greeted) {
    if (connection->n_read < PREFACE_SIZE) {
      return;
    }
    connection->greeted = true;
    at = PREFACE_SIZE;
  }
  while (connection->fd >= 0 && connection->n_read - at >= FRAME_HEADER_SIZE) {
    const unsigned char *frame = connection->read + at;
    size_t size = (size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2];
    if (connection->n_read - at < FRAME_HEADER_SIZE + size) {
      break;
    }
    on_frame(peer, connection, frame, size);
    at += FRAME_HEADER_SIZE + size;
  }
  connection->n_read -= at;
  memmove(connection->read, connection->read + at, connection->n_read);
}

static void on_readable(struct raw_peer *peer, struct connection *connection) {
  ssize_t n = recv(connection->fd, connection->read + connection->n_read,
                   sizeof connection->read - connection->n_read, 0);
  if (n <= 0) {
    connection_close(connection, false);
    return;
  }
  if (peer->greeting == RAW_GREET_NOTHING) {
    return;
  }
  connection->n_read += (size_t)n;
  parse(peer, connection);
}

static void on_connection(struct raw_peer *peer) {
  struct connection *free_one = NULL;
  for (size_t i = 0; i < CONNECTIONS_MAX && free_one == NULL; i++) {
    free_one = peer->connections[i].fd < 0 ? &peer->connections[i] : NULL;
  }
  check(free_one != NULL, "raw peer: connections");
  free_one->fd = accept(peer->listener, NULL, NULL);
  check(free_one->fd >= 0, "raw peer: accept");
  free_one->n_read = 0;
  free_one->greeted = false;
  if (peer->greeting == RAW_GREET) {
    put_frame(free_one, FRAME_SETTINGS, 0, 0, NULL, 0);
  } else if (peer->greeting == RAW_GREET_CLOSE) {
    connection_close(free_one, false);
  }
}

static void *serve(void *argument) {
  struct raw_peer *peer = argument;
  for (;;) {
    struct pollfd fds[CONNECTIONS_MAX + 2];
    fds[0] = (struct pollfd){.fd = peer->wake[0], .events = POLLIN};
    fds[1] = (struct pollfd){.fd = peer->listener, .events = POLLIN};
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
      fds[i + 2] = (struct pollfd){.fd = peer->connections[i].fd, .events = POLLIN};
    }
    if (poll(fds, CONNECTIONS_MAX + 2, -1) < 0) {
      continue;
    }
    if (fds[0].revents != 0) {
      return NULL;
    }
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
      if (fds[i + 2].revents != 0) {
        on_readable(peer, &peer->connections[i]);
      }
    }
    if (fds[1].revents != 0) {
      on_connection(peer);
    }
  }
}

/* --- life --- */

static void listen_on_loopback(struct raw_peer *peer) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t size = sizeof address;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  peer->listener = socket(AF_INET, SOCK_STREAM, 0);
  check(peer->listener >= 0, "raw peer: socket");
  check(bind(peer->listener, (struct sockaddr *)&address, size) == 0, "raw peer: bind");
  check(listen(peer->listener, CONNECTIONS_MAX) == 0, "raw peer: listen");
  check(getsockname(peer->listener, (struct sockaddr *)&address, &size) == 0, "raw peer: port");
  peer->port = ntohs(address.sin_port);
}

struct raw_peer *raw_peer_new(enum raw_greeting greeting, const struct raw_script *scripts,
                              size_t n_scripts) {
  struct raw_peer *peer = calloc(1, sizeof *peer);
  pthread_condattr_t monotonic;
  check(peer != NULL, "raw peer: memory");
  peer->greeting = greeting;
  peer->scripts = scripts;
  peer->n_scripts = n_scripts;
  for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
    peer->connections[i].fd = -1;
  }
  listen_on_loopback(peer);
  check(pipe(peer->wake) == 0, "raw peer: pipe");
  (void)pthread_mutex_init(&peer->guarded.mutex, NULL);
  (void)pthread_condattr_init(&monotonic);
  (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  (void)pthread_cond_init(&peer->guarded.changed, &monotonic);
  (void)pthread_condattr_destroy(&monotonic);
  check(pthread_create(&peer->thread, NULL, serve, peer) == 0, "raw peer: thread");
  return peer;
}

void raw_peer_release(struct raw_peer *peer) {
  check(write(peer->wake[1], "x", 1) == 1, "raw peer: wake");
  (void)pthread_join(peer->thread, NULL);
  for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
    if (peer->connections[i].fd >= 0) {
      connection_close(&peer->connections[i], false);
    }
  }
  (void)close(peer->listener);
  (void)close(peer->wake[0]);
  (void)close(peer->wake[1]);
  (void)pthread_cond_destroy(&peer->guarded.changed);
  (void)pthread_mutex_destroy(&peer->guarded.mutex);
  free(peer);
}

int raw_peer_port(const struct raw_peer *peer) {
  return peer->port;
}

/* --- what it has seen --- */

size_t raw_peer_n_requests(struct raw_peer *peer) {
  (void)pthread_mutex_lock(&peer->guarded.mutex);
  size_t n_requests = peer->guarded.n_requests;
  (void)pthread_mutex_unlock(&peer->guarded.mutex);
  return n_requests;
}

bool raw_peer_wait_requests(struct raw_peer *peer, size_t n_requests) {
  struct timespec until;
  int error = clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += WAIT_LIMIT_S;
  (void)pthread_mutex_lock(&peer->guarded.mutex);
  while (peer->guarded.n_requests < n_requests && error == 0) {
    error = pthread_cond_timedwait(&peer->guarded.changed, &peer->guarded.mutex, &until);
  }
  bool reached = peer->guarded.n_requests >= n_requests;
  (void)pthread_mutex_unlock(&peer->guarded.mutex);
  return reached;
}

/* Where `text` ends in a block; NULL: it is not in it. */
static const unsigned char *find_end(const struct request *request, const char *text) {
  size_t length = strlen(text);
  for (size_t i = 0; i + length <= request->size; i++) {
    if (memcmp(request->block + i, text, length) == 0) {
      return request->block + i + length;
    }
  }
  return NULL;
}

bool raw_peer_request_holds(struct raw_peer *peer, size_t index, const char *text) {
  (void)pthread_mutex_lock(&peer->guarded.mutex);
  bool holds = index < peer->guarded.n_headers && index < REQUESTS_MAX &&
               find_end(&peer->guarded.requests[index], text) != NULL;
  (void)pthread_mutex_unlock(&peer->guarded.mutex);
  return holds;
}

bool raw_peer_request_value(struct raw_peer *peer, size_t index, const char *key, char *value_out,
                            size_t value_size) {
  bool copied = false;
  (void)pthread_mutex_lock(&peer->guarded.mutex);
  if (index < peer->guarded.n_headers && index < REQUESTS_MAX) {
    const struct request *request = &peer->guarded.requests[index];
    const unsigned char *value = find_end(request, key);
    size_t rest = value != NULL ? request->size - (size_t)(value - request->block) : 0;
    /* A length below 127, and the text (RFC 7541, 5.2). */
    if (rest > 0 && *value < 127 && *value < rest && *value < value_size) {
      memcpy(value_out, value + 1, *value);
      value_out[*value] = '\0';
      copied = true;
    }
  }
  (void)pthread_mutex_unlock(&peer->guarded.mutex);
  return copied;
}
