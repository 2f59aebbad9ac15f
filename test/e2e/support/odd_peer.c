/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/support/odd_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <nghttp2/nghttp2.h>

#define WAIT_LIMIT_S 10
#define CONNECTIONS_MAX 128
#define REQUESTS_MAX 512
#define ENTRIES_MAX 16
#define READ_SIZE 16384
#define FRAME_HEADER_SIZE 9
#define PREFIX_SIZE 5 /* of a message of gRPC */
#define FLOOD_SIZE 65536
#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

struct buffer {
  unsigned char *bytes;
  size_t size;
  size_t capacity;
};

/* A script being run: on a stream, or a connection's greeting. */
struct run {
  struct run *next;
  const struct odd_script *script;
  size_t at;
  int32_t stream;       /* 0 = a greeting */
  size_t request;       /* its record; REQUESTS_MAX = there was no room */
  bool ended;           /* the request is complete */
  int64_t due_at_ns;    /* of a delay that has begun; 0 = none has */
  enum odd_act changes; /* CUT or FLIP, of the next step; END = neither */
  uint32_t seed;        /* of FLIP */

  /* Of a step that sends data. */
  struct buffer payload;
  size_t n_sent;
  bool begun;
  bool sends; /* the session has not taken all of it yet */
};

struct connection {
  struct odd_peer *peer;
  size_t number;
  int fd; /* -1: none, or no more */
  nghttp2_session *session;
  struct run *runs;
  struct buffer out;
  size_t n_written; /* of it */
  bool spoken;      /* the client has begun */
  bool mute;
  bool deaf;
  bool acks;
  bool opens_windows;
};

struct odd_peer {
  struct odd_setup setup;
  int port;
  int listener; /* -1: stopped */
  int wake[2];  /* a byte in it ends the thread */
  pthread_t thread;
  struct connection connections[CONNECTIONS_MAX]; /* the thread's; a place is used once */
  size_t n_connections;
  struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t counts[ODD_N_EVENTS];
    struct odd_request *requests[REQUESTS_MAX];
  } guarded;
};

static const struct odd_script plain_greeting = ODD_SCRIPT(ODD_SETTINGS(0, 0));
static const struct odd_script silence = ODD_SCRIPT({ODD_ACT_END, NULL, 0, 0});

/* A peer that can't go on is a broken test: it says why and ends the process. */
static void check(bool fine, const char *what) {
  if (!fine) {
    perror(what);
    abort();
  }
}

static int64_t now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* splitmix64 */
static uint64_t random_next(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

/* --- bytes --- */

/* Makes room for `size` bytes more, and says where. */
static unsigned char *buffer_extend(struct buffer *buffer, size_t size) {
  if (buffer->size + size > buffer->capacity) {
    buffer->capacity = 2 * (buffer->size + size);
    buffer->bytes = realloc(buffer->bytes, buffer->capacity);
    check(buffer->bytes != NULL, "odd peer: memory");
  }
  unsigned char *end = buffer->bytes + buffer->size;
  buffer->size += size;
  return end;
}

static void buffer_append(struct buffer *buffer, const void *bytes, size_t size) {
  if (size > 0) {
    memcpy(buffer_extend(buffer, size), bytes, size);
  }
}

static void put_u32(unsigned char *out, uint32_t value) {
  out[0] = (unsigned char)(value >> 24);
  out[1] = (unsigned char)(value >> 16);
  out[2] = (unsigned char)(value >> 8);
  out[3] = (unsigned char)value;
}

static uint32_t get_u32(const unsigned char *bytes) {
  return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void put(struct connection *connection, const void *bytes, size_t size) {
  if (!connection->mute) {
    buffer_append(&connection->out, bytes, size);
  }
}

static void put_frame(struct connection *connection, uint8_t type, uint8_t flags, int32_t stream,
                      const void *payload, size_t size) {
  unsigned char header[FRAME_HEADER_SIZE];
  put_u32(header, (uint32_t)size << 8);
  header[3] = type;
  header[4] = flags;
  put_u32(header + 5, (uint32_t)stream);
  put(connection, header, sizeof header);
  put(connection, payload, size);
}

static bool is_ack(const uint8_t *frame) {
  return (frame[3] == NGHTTP2_SETTINGS || frame[3] == NGHTTP2_PING) &&
         (frame[4] & NGHTTP2_FLAG_ACK) != 0;
}

/* Takes what the session wants to send. */
static void collect(struct connection *connection) {
  const uint8_t *frame = NULL;
  ssize_t size = 0;
  while ((size = nghttp2_session_mem_send(connection->session, &frame)) > 0) {
    if (connection->acks || !is_ack(frame)) {
      put(connection, frame, (size_t)size);
    }
  }
}

/* Whether all is written. */
static bool flush(struct connection *connection) {
  struct buffer *out = &connection->out;
  while (connection->fd >= 0 && connection->n_written < out->size) {
    ssize_t n = send(connection->fd, out->bytes + connection->n_written,
                     out->size - connection->n_written, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      return false; /* no room, or the other side is gone: reading will tell */
    }
    connection->n_written += (size_t)n;
  }
  out->size = 0;
  connection->n_written = 0;
  return true;
}

/* --- headers --- */

/* Lines as entries that point into a copy of them. */
struct block {
  char *text;
  size_t n_entries;
  nghttp2_nv entries[ENTRIES_MAX];
};

static void block_init(struct block *block, const char *lines, size_t padding) {
  size_t size = strlen(lines);
  block->n_entries = 0;
  block->text = malloc(size + padding + 1);
  check(block->text != NULL, "odd peer: memory");
  memcpy(block->text, lines, size + 1);
  for (char *line = block->text; *line != '\0';) {
    size_t key = strcspn(line, " ");
    size_t length = strcspn(line, "\n");
    check(key < length && line[length] == '\n' && block->n_entries < ENTRIES_MAX,
          "odd peer: headers");
    nghttp2_nv *entry = &block->entries[block->n_entries++];
    *entry = (nghttp2_nv){.name = (uint8_t *)line,
                          .namelen = key,
                          .value = (uint8_t *)line + key + 1,
                          .valuelen = length - key - 1,
                          .flags = NGHTTP2_NV_FLAG_NONE};
    line += length + 1;
  }
  check(block->n_entries > 0, "odd peer: headers");
  if (padding > 0) {
    nghttp2_nv *last = &block->entries[block->n_entries - 1];
    memset(last->value + last->valuelen, 'x', padding);
    last->valuelen += padding;
  }
}

static void block_fini(struct block *block) {
  free(block->text);
}

static void send_headers(struct connection *connection, const struct run *run, uint8_t flags,
                         const struct odd_step *step) {
  struct block block;
  block_init(&block, step->text, step->number);
  int error = nghttp2_submit_headers(connection->session, flags, run->stream, NULL, block.entries,
                                     block.n_entries, NULL);
  check(error == 0, "odd peer: submit headers");
  block_fini(&block);
}

static bool do_headers(struct connection *connection, struct run *run,
                       const struct odd_step *step) {
  send_headers(connection, run, NGHTTP2_FLAG_NONE, step);
  return true;
}

static bool do_trailers(struct connection *connection, struct run *run,
                        const struct odd_step *step) {
  send_headers(connection, run, NGHTTP2_FLAG_END_STREAM, step);
  return true;
}

/* The block leaves the tables of both sides as they are. */
static bool do_raw_headers(struct connection *connection, struct run *run,
                           const struct odd_step *step) {
  struct block block;
  nghttp2_hd_deflater *deflater = NULL;
  block_init(&block, step->text, 0);
  for (size_t i = 0; i < block.n_entries; i++) {
    block.entries[i].flags = NGHTTP2_NV_FLAG_NO_INDEX;
  }
  check(nghttp2_hd_deflate_new(&deflater, NGHTTP2_DEFAULT_HEADER_TABLE_SIZE) == 0,
        "odd peer: deflater");
  size_t bound = nghttp2_hd_deflate_bound(deflater, block.entries, block.n_entries);
  unsigned char *bytes = malloc(bound);
  check(bytes != NULL, "odd peer: memory");
  ssize_t size = nghttp2_hd_deflate_hd(deflater, bytes, bound, block.entries, block.n_entries);
  check(size >= 0, "odd peer: deflate");
  put_frame(connection, NGHTTP2_HEADERS, (uint8_t)step->number, run->stream, bytes, (size_t)size);
  free(bytes);
  nghttp2_hd_deflate_del(deflater);
  block_fini(&block);
  return true;
}

/* Each holds one short entry. */
static bool do_continuations(struct connection *connection, struct run *run,
                             const struct odd_step *step) {
  static const char entry[] = "\0\1x\1y"; /* a literal that is not indexed (RFC 7541, 6.2.2) */
  bool for_ever = step->number == 0;
  for (uint32_t i = 0; for_ever ? connection->out.size < FLOOD_SIZE : i < step->number; i++) {
    if (connection->mute) {
      return true;
    }
    put_frame(connection, NGHTTP2_CONTINUATION, 0, run->stream, entry, sizeof entry - 1);
  }
  return !for_ever;
}

/* --- data --- */

static ssize_t read_payload(nghttp2_session *session, int32_t stream, uint8_t *out, size_t size,
                            uint32_t *flags, nghttp2_data_source *source, void *context) {
  (void)session;
  (void)stream;
  (void)context;
  struct run *run = source->ptr;
  size_t left = run->payload.size - run->n_sent;
  size_t n = left < size ? left : size;
  if (n > 0) {
    memcpy(out, run->payload.bytes + run->n_sent, n);
    run->n_sent += n;
  }
  if (n == left) {
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    run->sends = false;
  }
  return (ssize_t)n;
}

static void make_payload(struct run *run, const struct odd_step *step) {
  struct buffer *payload = &run->payload;
  run->n_sent = 0;
  if (step->act != ODD_ACT_MESSAGE) {
    buffer_append(payload, step->text, step->size);
    return;
  }
  size_t size = step->text != NULL ? strlen(step->text) : step->size;
  unsigned char *prefix = buffer_extend(payload, PREFIX_SIZE);
  prefix[0] = 0; /* not compressed */
  put_u32(prefix + 1, (uint32_t)size);
  if (step->text != NULL) {
    buffer_append(payload, step->text, size);
  } else {
    memset(buffer_extend(payload, size), 'x', size);
  }
}

/* What is too much for the other side's window waits for it. */
static bool do_data(struct connection *connection, struct run *run, const struct odd_step *step) {
  if (!run->begun) {
    make_payload(run, step);
    nghttp2_data_provider provider = {.source = {.ptr = run}, .read_callback = read_payload};
    uint8_t flags = step->act == ODD_ACT_BODY ? NGHTTP2_FLAG_END_STREAM : NGHTTP2_FLAG_NONE;
    run->begun = true;
    run->sends = nghttp2_submit_data(connection->session, flags, run->stream, &provider) == 0;
    collect(connection);
  }
  if (run->sends && nghttp2_session_find_stream(connection->session, run->stream) != NULL) {
    return false;
  }
  run->sends = false;
  run->payload.size = 0;
  return true;
}

/* --- noise --- */

static bool do_frame(struct connection *connection, struct run *run, const struct odd_step *step) {
  put_frame(connection, (uint8_t)(step->number >> 8), (uint8_t)step->number, run->stream,
            step->text, step->size);
  return true;
}

static bool do_bytes(struct connection *connection, struct run *run, const struct odd_step *step) {
  (void)run;
  put(connection, step->text, step->size);
  return true;
}

static bool do_random_bytes(struct connection *connection, struct run *run,
                            const struct odd_step *step) {
  (void)run;
  uint64_t state = step->number;
  for (size_t i = 0; i < step->size; i++) {
    unsigned char byte = (unsigned char)random_next(&state);
    put(connection, &byte, 1);
  }
  return true;
}

static bool do_random_frames(struct connection *connection, struct run *run,
                             const struct odd_step *step) {
  uint64_t state = step->number;
  for (size_t i = 0; i < step->size; i++) {
    unsigned char payload[64];
    uint64_t random = random_next(&state);
    size_t size = random % sizeof payload;
    for (size_t at = 0; at < size; at++) {
      payload[at] = (unsigned char)random_next(&state);
    }
    const int32_t streams[] = {0, run->stream, run->stream, (int32_t)(random >> 40 & 7)};
    put_frame(connection, (uint8_t)(random >> 8) % 11, (uint8_t)(random >> 16),
              streams[random >> 32 & 3], payload, size);
  }
  return true;
}

/* Flips one to four bits of what is behind `from`. */
static void flip_bits(struct buffer *out, size_t from, uint32_t seed) {
  uint64_t state = seed;
  uint64_t n_bits = random_next(&state) % 4 + 1;
  for (uint64_t i = 0; i < n_bits && out->size > from; i++) {
    uint64_t bit = random_next(&state) % ((out->size - from) * 8);
    out->bytes[from + bit / 8] ^= (unsigned char)(1u << bit % 8);
  }
}

static bool do_change(struct connection *connection, struct run *run, const struct odd_step *step) {
  (void)connection;
  run->changes = step->act;
  run->seed = step->number;
  return true;
}

/* The bytes behind `from` are the step's. */
static void change(struct connection *connection, struct run *run, size_t from) {
  struct buffer *out = &connection->out;
  if (run->changes == ODD_ACT_FLIP) {
    flip_bits(out, from, run->seed);
  } else if (run->changes == ODD_ACT_CUT && out->size > from) {
    out->size = from + (out->size - from) / 2;
    connection->mute = true;
  }
  run->changes = ODD_ACT_END;
}

/* --- the connection --- */

static bool do_rst(struct connection *connection, struct run *run, const struct odd_step *step) {
  /* fails when the stream is closed already: the test will see that */
  (void)nghttp2_submit_rst_stream(connection->session, NGHTTP2_FLAG_NONE, run->stream,
                                  step->number);
  return true;
}

static bool do_settings(struct connection *connection, struct run *run,
                        const struct odd_step *step) {
  (void)run;
  const nghttp2_settings_entry entry = {.settings_id = (int32_t)step->number,
                                        .value = (uint32_t)step->size};
  check(nghttp2_submit_settings(connection->session, NGHTTP2_FLAG_NONE, &entry,
                                step->number != 0 ? 1 : 0) == 0,
        "odd peer: submit settings");
  return true;
}

static void send_goaway(struct connection *connection, int32_t last_stream,
                        const struct odd_step *step) {
  check(nghttp2_submit_goaway(connection->session, NGHTTP2_FLAG_NONE, last_stream, NGHTTP2_NO_ERROR,
                              (const uint8_t *)step->text, step->size) == 0,
        "odd peer: submit goaway");
}

/* Clients have the odd streams. */
static bool do_goaway(struct connection *connection, struct run *run, const struct odd_step *step) {
  int32_t last = run->stream - 2 * (int32_t)step->number;
  send_goaway(connection, last > 0 ? last : 0, step);
  return true;
}

static bool do_graceful_goaway(struct connection *connection, struct run *run,
                               const struct odd_step *step) {
  (void)run;
  send_goaway(connection, INT32_MAX, step);
  return true;
}

static bool do_pings(struct connection *connection, struct run *run, const struct odd_step *step) {
  (void)run;
  for (uint32_t i = 0; i < step->number; i++) {
    check(nghttp2_submit_ping(connection->session, NGHTTP2_FLAG_NONE, NULL) == 0,
          "odd peer: submit ping");
  }
  return true;
}

static bool do_delay(struct connection *connection, struct run *run, const struct odd_step *step) {
  (void)connection;
  if (run->due_at_ns == 0) {
    run->due_at_ns = now_ns() + step->number * NS_PER_MS;
  }
  if (now_ns() < run->due_at_ns) {
    return false;
  }
  run->due_at_ns = 0;
  return true;
}

static bool do_await_end(struct connection *connection, struct run *run,
                         const struct odd_step *step) {
  (void)connection;
  (void)step;
  return run->ended;
}

/* MUTE, DEAF, NO_ACKS, NO_WINDOW */
static bool do_mode(struct connection *connection, struct run *run, const struct odd_step *step) {
  (void)run;
  connection->mute = connection->mute || step->act == ODD_ACT_MUTE;
  connection->deaf = connection->deaf || step->act == ODD_ACT_DEAF;
  connection->acks = connection->acks && step->act != ODD_ACT_NO_ACKS;
  connection->opens_windows = connection->opens_windows && step->act != ODD_ACT_NO_WINDOW;
  return true;
}

static void stop_listening(struct odd_peer *peer) {
  if (peer->listener >= 0) {
    (void)close(peer->listener);
    peer->listener = -1;
  }
}

static bool do_stop_listening(struct connection *connection, struct run *run,
                              const struct odd_step *step) {
  (void)run;
  (void)step;
  stop_listening(connection->peer);
  return true;
}

static void connection_close(struct connection *connection) {
  (void)close(connection->fd);
  connection->fd = -1;
}

/* What the other side still has to say is read, or the end would be a reset. */
static bool do_close(struct connection *connection, struct run *run, const struct odd_step *step) {
  (void)run;
  (void)step;
  if (!flush(connection)) {
    return false;
  }
  (void)shutdown(connection->fd, SHUT_WR);
  connection->mute = true;
  return true;
}

static bool do_abort(struct connection *connection, struct run *run, const struct odd_step *step) {
  (void)run;
  (void)step;
  const struct linger none = {.l_onoff = 1, .l_linger = 0};
  if (!flush(connection)) {
    return false;
  }
  (void)setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
  connection_close(connection);
  return true;
}

/* --- scripts --- */

/* Does a step, and says whether it is over; if not, it is tried again when something has
 * happened. */
typedef bool step_fn(struct connection *connection, struct run *run, const struct odd_step *step);

static step_fn *const step_fns[ODD_N_ACTS] = {
    [ODD_ACT_HEADERS] = do_headers,
    [ODD_ACT_TRAILERS] = do_trailers,
    [ODD_ACT_MESSAGE] = do_data,
    [ODD_ACT_DATA] = do_data,
    [ODD_ACT_BODY] = do_data,
    [ODD_ACT_RST] = do_rst,
    [ODD_ACT_SETTINGS] = do_settings,
    [ODD_ACT_GOAWAY] = do_goaway,
    [ODD_ACT_GRACEFUL_GOAWAY] = do_graceful_goaway,
    [ODD_ACT_PINGS] = do_pings,
    [ODD_ACT_RAW_HEADERS] = do_raw_headers,
    [ODD_ACT_CONTINUATIONS] = do_continuations,
    [ODD_ACT_FRAME] = do_frame,
    [ODD_ACT_BYTES] = do_bytes,
    [ODD_ACT_RANDOM_BYTES] = do_random_bytes,
    [ODD_ACT_RANDOM_FRAMES] = do_random_frames,
    [ODD_ACT_CUT] = do_change,
    [ODD_ACT_FLIP] = do_change,
    [ODD_ACT_DELAY] = do_delay,
    [ODD_ACT_AWAIT_END] = do_await_end,
    [ODD_ACT_MUTE] = do_mode,
    [ODD_ACT_DEAF] = do_mode,
    [ODD_ACT_NO_ACKS] = do_mode,
    [ODD_ACT_NO_WINDOW] = do_mode,
    [ODD_ACT_STOP_LISTENING] = do_stop_listening,
    [ODD_ACT_CLOSE] = do_close,
    [ODD_ACT_ABORT] = do_abort,
};

/* Goes one step on, and says whether there was one that is over. */
static bool run_advance(struct connection *connection, struct run *run) {
  const struct odd_step *step = &run->script->steps[run->at];
  bool may_begin = run->stream == 0 || run->ended || run->script->early;
  if (!may_begin || run->at == ODD_STEPS_MAX || step->act == ODD_ACT_END) {
    return false;
  }
  enum odd_act changes = run->changes;
  size_t from = connection->out.size;
  bool over = step_fns[step->act](connection, run, step);
  collect(connection);
  if (changes != ODD_ACT_END) {
    change(connection, run, from);
  }
  if (over) {
    run->at++;
    run->begun = false;
  }
  return over;
}

/* Does all that can be done now, of each script as much as can be before the next. */
static void connection_pump(struct connection *connection) {
  collect(connection);
  for (struct run *run = connection->runs; run != NULL; run = run->next) {
    while (connection->fd >= 0 && run_advance(connection, run)) {
      /* the next step */
    }
  }
  (void)flush(connection);
}

static struct run *run_new(struct connection *connection, const struct odd_script *script) {
  struct run *run = calloc(1, sizeof *run);
  check(run != NULL, "odd peer: memory");
  run->script = script;
  run->next = connection->runs;
  connection->runs = run;
  return run;
}

static const struct odd_script *script_for(const struct odd_script *scripts, size_t n_scripts,
                                           size_t index, const struct odd_script *otherwise) {
  if (n_scripts == 0) {
    return otherwise;
  }
  return &scripts[index < n_scripts ? index : n_scripts - 1];
}

/* --- what comes in --- */

static void count(struct odd_peer *peer, enum odd_event event) {
  peer->guarded.counts[event]++;
  (void)pthread_cond_broadcast(&peer->guarded.changed);
}

static void count_locking(struct odd_peer *peer, enum odd_event event) {
  (void)pthread_mutex_lock(&peer->guarded.mutex);
  count(peer, event);
  (void)pthread_mutex_unlock(&peer->guarded.mutex);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *context) {
  struct connection *connection = context;
  struct odd_peer *peer = connection->peer;
  if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
    return 0;
  }
  (void)pthread_mutex_lock(&peer->guarded.mutex);
  size_t index = peer->guarded.counts[ODD_REQUESTS];
  if (index < REQUESTS_MAX) {
    struct odd_request *request = calloc(1, sizeof *request);
    check(request != NULL, "odd peer: memory");
    request->connection = connection->number;
    request->began_at_ns = now_ns();
    peer->guarded.requests[index] = request;
  }
  count(peer, ODD_REQUESTS);
  (void)pthread_mutex_unlock(&peer->guarded.mutex);
  struct run *run =
      run_new(connection, script_for(peer->setup.answers, peer->setup.n_answers, index, &silence));
  run->stream = frame->hd.stream_id;
  run->request = index;
  (void)nghttp2_session_set_stream_user_data(session, run->stream, run);
  return 0;
}

typedef void keep_fn(struct odd_peer *peer, struct odd_request *request, const void *argument);

/* Writes to the record of a stream's request, if there is one. The run is the stream's, or NULL. */
static struct run *keep(nghttp2_session *session, struct connection *connection, int32_t stream,
                        keep_fn *keep_with, const void *argument) {
  struct odd_peer *peer = connection->peer;
  struct run *run = nghttp2_session_get_stream_user_data(session, stream);
  if (run != NULL && run->request < REQUESTS_MAX) {
    (void)pthread_mutex_lock(&peer->guarded.mutex);
    keep_with(peer, peer->guarded.requests[run->request], argument);
    (void)pthread_mutex_unlock(&peer->guarded.mutex);
  }
  return run;
}

struct entry {
  const uint8_t *name;
  size_t name_size;
  const uint8_t *value;
  size_t value_size;
};

static void keep_entry(struct odd_peer *peer, struct odd_request *request, const void *argument) {
  (void)peer;
  const struct entry *entry = argument;
  if (request->lines_size + entry->name_size + entry->value_size + 3 > sizeof request->lines) {
    return;
  }
  char *line = request->lines + request->lines_size;
  memcpy(line, entry->name, entry->name_size);
  line[entry->name_size] = ' ';
  memcpy(line + entry->name_size + 1, entry->value, entry->value_size);
  line[entry->name_size + 1 + entry->value_size] = '\n';
  request->lines_size += entry->name_size + entry->value_size + 2;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *context) {
  (void)flags;
  const struct entry entry = {name, name_size, value, value_size};
  (void)keep(session, context, frame->hd.stream_id, keep_entry, &entry);
  return 0;
}

struct chunk {
  const uint8_t *bytes;
  size_t size;
};

static void keep_chunk(struct odd_peer *peer, struct odd_request *request, const void *argument) {
  (void)peer;
  const struct chunk *chunk = argument;
  if (request->data_size < sizeof request->data) {
    size_t room = sizeof request->data - request->data_size;
    memcpy(request->data + request->data_size, chunk->bytes,
           chunk->size < room ? chunk->size : room);
  }
  request->data_size += chunk->size;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *bytes,
                   size_t size, void *context) {
  (void)flags;
  struct connection *connection = context;
  const struct chunk chunk = {bytes, size};
  (void)keep(session, connection, stream, keep_chunk, &chunk);
  if (connection->opens_windows) {
    (void)nghttp2_session_consume(session, stream, size);
  }
  return 0;
}

static void keep_end(struct odd_peer *peer, struct odd_request *request, const void *argument) {
  (void)argument;
  request->ended = true;
  count(peer, ODD_ENDS);
}

static void keep_reset(struct odd_peer *peer, struct odd_request *request, const void *argument) {
  const nghttp2_frame *frame = argument;
  request->reset = true;
  request->reset_code = frame->rst_stream.error_code;
  count(peer, ODD_RESETS);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context) {
  bool may_end = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
  if (may_end && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
    struct run *run = keep(session, context, frame->hd.stream_id, keep_end, NULL);
    if (run != NULL) {
      run->ended = true;
    }
  } else if (frame->hd.type == NGHTTP2_RST_STREAM) {
    (void)keep(session, context, frame->hd.stream_id, keep_reset, frame);
  }
  return 0;
}

static void connection_read(struct connection *connection) {
  uint8_t bytes[READ_SIZE];
  ssize_t n = recv(connection->fd, bytes, sizeof bytes, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (n > 0 && !connection->spoken) {
    connection->spoken = true;
    count_locking(connection->peer, ODD_PREFACES);
  }
  if (n <= 0 || nghttp2_session_mem_recv(connection->session, bytes, (size_t)n) < 0) {
    connection_close(connection);
  }
}

/* --- the thread --- */

static nghttp2_session *session_new(struct connection *connection) {
  nghttp2_session_callbacks *callbacks = NULL;
  nghttp2_option *option = NULL;
  nghttp2_session *session = NULL;
  check(nghttp2_session_callbacks_new(&callbacks) == 0, "odd peer: callbacks");
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
  check(nghttp2_option_new(&option) == 0, "odd peer: option");
  nghttp2_option_set_no_auto_window_update(option, 1);
  check(nghttp2_session_server_new2(&session, callbacks, connection, option) == 0,
        "odd peer: session");
  nghttp2_option_del(option);
  nghttp2_session_callbacks_del(callbacks);
  return session;
}

static void on_connection(struct odd_peer *peer) {
  check(peer->n_connections < CONNECTIONS_MAX, "odd peer: connections");
  int fd = accept(peer->listener, NULL, NULL);
  if (fd < 0) {
    return; /* it is gone again */
  }
  struct connection *connection = &peer->connections[peer->n_connections];
  connection->peer = peer;
  connection->number = peer->n_connections++;
  connection->fd = fd;
  connection->acks = true;
  connection->opens_windows = true;
  connection->session = session_new(connection);
  (void)run_new(connection, script_for(peer->setup.greetings, peer->setup.n_greetings,
                                       connection->number, &plain_greeting));
  count_locking(peer, ODD_CONNECTIONS);
  connection_pump(connection);
}

/* Until the first delay is over; -1 = there is none. */
static int wait_ms(const struct odd_peer *peer) {
  int64_t due_at_ns = INT64_MAX;
  for (size_t i = 0; i < peer->n_connections; i++) {
    const struct connection *connection = &peer->connections[i];
    for (const struct run *run = connection->runs; run != NULL && connection->fd >= 0;
         run = run->next) {
      if (run->due_at_ns != 0 && run->due_at_ns < due_at_ns) {
        due_at_ns = run->due_at_ns;
      }
    }
  }
  if (due_at_ns == INT64_MAX) {
    return -1;
  }
  int64_t left_ns = due_at_ns - now_ns();
  return left_ns > 0 ? (int)((left_ns + NS_PER_MS - 1) / NS_PER_MS) : 0;
}

static short events_of(const struct connection *connection) {
  bool has_more = connection->n_written < connection->out.size;
  return (short)((connection->deaf ? 0 : POLLIN) | (has_more ? POLLOUT : 0));
}

static void *serve(void *argument) {
  struct odd_peer *peer = argument;
  for (;;) {
    struct pollfd fds[CONNECTIONS_MAX + 2];
    size_t n_connections = peer->n_connections;
    fds[0] = (struct pollfd){.fd = peer->wake[0], .events = POLLIN};
    fds[1] = (struct pollfd){.fd = peer->listener, .events = POLLIN};
    for (size_t i = 0; i < n_connections; i++) {
      const struct connection *connection = &peer->connections[i];
      fds[i + 2] = (struct pollfd){.fd = connection->fd, .events = events_of(connection)};
    }
    if (poll(fds, n_connections + 2, wait_ms(peer)) < 0) {
      continue;
    }
    if (fds[0].revents != 0) {
      return NULL;
    }
    for (size_t i = 0; i < n_connections; i++) {
      struct connection *connection = &peer->connections[i];
      if (connection->fd >= 0 && (fds[i + 2].revents & ~POLLOUT) != 0) {
        connection_read(connection);
      }
      connection_pump(connection);
    }
    if (fds[1].revents != 0 && peer->listener >= 0) {
      on_connection(peer);
    }
  }
}

/* --- life --- */

static int listen_on_loopback(int *port_out) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t size = sizeof address;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  check(listener >= 0, "odd peer: socket");
  check(bind(listener, (struct sockaddr *)&address, size) == 0, "odd peer: bind");
  check(listen(listener, CONNECTIONS_MAX) == 0, "odd peer: listen");
  check(getsockname(listener, (struct sockaddr *)&address, &size) == 0, "odd peer: port");
  *port_out = ntohs(address.sin_port);
  return listener;
}

int odd_closed_port(void) {
  int port = 0;
  (void)close(listen_on_loopback(&port));
  return port;
}

struct odd_peer *odd_peer_new(const struct odd_setup *setup) {
  struct odd_peer *peer = calloc(1, sizeof *peer);
  pthread_condattr_t monotonic;
  check(peer != NULL, "odd peer: memory");
  peer->setup = *setup;
  peer->listener = listen_on_loopback(&peer->port);
  check(pipe(peer->wake) == 0, "odd peer: pipe");
  (void)pthread_mutex_init(&peer->guarded.mutex, NULL);
  (void)pthread_condattr_init(&monotonic);
  (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  (void)pthread_cond_init(&peer->guarded.changed, &monotonic);
  (void)pthread_condattr_destroy(&monotonic);
  check(pthread_create(&peer->thread, NULL, serve, peer) == 0, "odd peer: thread");
  return peer;
}

struct odd_peer *odd_peer_answering(const struct odd_script *answer) {
  return odd_peer_new(&(struct odd_setup){.answers = answer, .n_answers = answer != NULL ? 1 : 0});
}

static void connection_fini(struct connection *connection) {
  if (connection->fd >= 0) {
    connection_close(connection);
  }
  nghttp2_session_del(connection->session);
  while (connection->runs != NULL) {
    struct run *run = connection->runs;
    connection->runs = run->next;
    free(run->payload.bytes);
    free(run);
  }
  free(connection->out.bytes);
}

void odd_peer_release(struct odd_peer *peer) {
  check(write(peer->wake[1], "x", 1) == 1, "odd peer: wake");
  (void)pthread_join(peer->thread, NULL);
  for (size_t i = 0; i < peer->n_connections; i++) {
    connection_fini(&peer->connections[i]);
  }
  for (size_t i = 0; i < REQUESTS_MAX; i++) {
    free(peer->guarded.requests[i]);
  }
  stop_listening(peer);
  (void)close(peer->wake[0]);
  (void)close(peer->wake[1]);
  (void)pthread_cond_destroy(&peer->guarded.changed);
  (void)pthread_mutex_destroy(&peer->guarded.mutex);
  free(peer);
}

int odd_peer_port(const struct odd_peer *peer) {
  return peer->port;
}

/* --- what it has seen --- */

size_t odd_peer_count(struct odd_peer *peer, enum odd_event event) {
  (void)pthread_mutex_lock(&peer->guarded.mutex);
  size_t n = peer->guarded.counts[event];
  (void)pthread_mutex_unlock(&peer->guarded.mutex);
  return n;
}

bool odd_peer_wait(struct odd_peer *peer, enum odd_event event, size_t wanted) {
  struct timespec until;
  int error = clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += WAIT_LIMIT_S;
  (void)pthread_mutex_lock(&peer->guarded.mutex);
  while (peer->guarded.counts[event] < wanted && error == 0) {
    error = pthread_cond_timedwait(&peer->guarded.changed, &peer->guarded.mutex, &until);
  }
  bool reached = peer->guarded.counts[event] >= wanted;
  (void)pthread_mutex_unlock(&peer->guarded.mutex);
  return reached;
}

bool odd_peer_request(struct odd_peer *peer, size_t index, struct odd_request *request_out) {
  (void)pthread_mutex_lock(&peer->guarded.mutex);
  bool found = index < REQUESTS_MAX && peer->guarded.requests[index] != NULL;
  if (found) {
    *request_out = *peer->guarded.requests[index];
  }
  (void)pthread_mutex_unlock(&peer->guarded.mutex);
  return found;
}

bool odd_request_value(const struct odd_request *request, const char *key, char *value_out,
                       size_t value_size) {
  size_t key_size = strlen(key);
  value_out[0] = '\0';
  for (const char *line = request->lines; *line != '\0'; line += strcspn(line, "\n") + 1) {
    if (strncmp(line, key, key_size) == 0 && line[key_size] == ' ') {
      const char *value = line + key_size + 1;
      (void)snprintf(value_out, value_size, "%.*s", (int)strcspn(value, "\n"), value);
      return true;
    }
  }
  return false;
}

/* Where message `index` begins, without its prefix; NULL = it did not come as a whole. */
static const unsigned char *find_message(const struct odd_request *request, size_t index,
                                         size_t *size_out) {
  size_t kept =
      request->data_size < sizeof request->data ? request->data_size : sizeof request->data;
  size_t at = 0;
  for (;;) {
    if (kept - at < PREFIX_SIZE) {
      return NULL;
    }
    *size_out = get_u32(request->data + at + 1);
    if (kept - at - PREFIX_SIZE < *size_out) {
      return NULL;
    }
    at += PREFIX_SIZE;
    if (index-- == 0) {
      return request->data + at;
    }
    at += *size_out;
  }
}

bool odd_request_message_is(const struct odd_request *request, size_t index, const char *text) {
  size_t size = 0;
  const unsigned char *message = find_message(request, index, &size);
  return message != NULL && size == strlen(text) && memcmp(message, text, size) == 0;
}

size_t odd_request_n_messages(const struct odd_request *request) {
  size_t n_messages = 0;
  size_t size = 0;
  while (find_message(request, n_messages, &size) != NULL) {
    n_messages++;
  }
  return n_messages;
}
