/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <grpc/grpc.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/odd_case.h"
#include "test/e2e/seen.h"
#include "test/e2e/shaped_call.h"
#include "test/e2e/support/odd_peer.h"

/* What comes of it is not asked here, but for three things: the process goes on, each tag comes
 * once, and no secret is seen of a boundary call that failed. */

#define POLICY "{" NO_BREAKER "," METHODS(RETRY("2", "0.001s", CODES_ALL)) "}"
#define TIMEOUT MS(250)

/* Calls that are under way at a time, each to a peer of its own. */
#define AT_A_TIME 16

struct victim {
  struct odd_script answer;
  struct odd_script greeting;
  struct odd_peer *peer;
  weir_channel *channel;
  struct shaped_call call;
};

static void victim_start(struct victim *victim, enum shape shape, weir_completion_queue *queue) {
  bool greets_oddly = victim->greeting.steps[0].act != ODD_ACT_END;
  victim->peer = odd_peer_new(&(struct odd_setup){.greetings = &victim->greeting,
                                                  .n_greetings = greets_oddly ? 1 : 0,
                                                  .answers = &victim->answer,
                                                  .n_answers = 1});
  victim->channel = channel_new(&(struct channel_setup){
      .port = odd_peer_port(victim->peer), .policy = POLICY, .own_connection = true});
  shaped_start(&victim->call, shape, victim->channel, queue,
               &(struct unary_setup){.timeout_ns = TIMEOUT});
}

static void victim_end(struct victim *victim, const char *why, uint32_t seed) {
  static struct seen seen;
  struct unary *unary = &victim->call.unary;
  unary_read_report(unary);
  if (unary->code != GRPC_STATUS_OK && victim->call.shape == SHAPE_ONE_BATCH) {
    seen.size = 0;
    see_unary(&seen, unary);
    if (count_seen(&seen, SECRET) > 0 || unary->message != NULL) {
      fail_msg("%s, seed %u: it is seen with %s", why, seed, weir_status_code_name(unary->code));
    }
  }
  shaped_fini(&victim->call);
  weir_channel_destroy(victim->channel);
  odd_peer_release(victim->peer);
}

static void take_tag(struct victim *victims, size_t n_victims, void *tag, bool ok) {
  for (size_t i = 0; i < n_victims; i++) {
    if (shaped_on_tag(&victims[i].call, tag, ok)) {
      return;
    }
  }
  fail_msg("a tag came that was not owed");
}

static size_t n_under_way(const struct victim *victims, size_t n_victims) {
  size_t n = 0;
  for (size_t i = 0; i < n_victims; i++) {
    n += victims[i].call.n_under_way;
  }
  return n;
}

typedef void make_fn(struct victim *victim, uint32_t seed);

/* Makes victims by their seeds, some at a time, and sees each to its end. */
static void attack(const char *why, make_fn *make, uint32_t n_seeds) {
  static struct victim victims[AT_A_TIME];
  for (uint32_t first = 0; first < n_seeds; first += AT_A_TIME) {
    weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
    for (uint32_t i = 0; i < AT_A_TIME; i++) {
      memset(&victims[i], 0, sizeof victims[i]);
      make(&victims[i], first + i);
      victim_start(&victims[i], (enum shape)((first + i) % N_SHAPES), queue);
    }
    while (n_under_way(victims, AT_A_TIME) > 0) {
      gpr_timespec limit =
          gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(30, GPR_TIMESPAN));
      grpc_event event = weir_completion_queue_next(queue, limit, NULL);
      if (event.type != GRPC_OP_COMPLETE) {
        fail_msg("%s, seeds from %u: a tag is owed", why, first);
      }
      take_tag(victims, AT_A_TIME, event.tag, event.success != 0);
    }
    for (uint32_t i = 0; i < AT_A_TIME; i++) {
      victim_end(&victims[i], why, first + i);
    }
    queue_end(queue);
  }
}

static void script_add(struct odd_script *script, const struct odd_step *step) {
  for (size_t i = 0; i < ODD_STEPS_MAX; i++) {
    if (script->steps[i].act == ODD_ACT_END) {
      script->steps[i] = *step;
      return;
    }
  }
  fail_msg("too many steps");
}

#define ADD(script, ...) script_add(script, &(struct odd_step)__VA_ARGS__)

/* --- noise --- */

/* Behind SETTINGS, as soon as there is a connection. */
static void make_noise_at_once(struct victim *victim, uint32_t seed) {
  ADD(&victim->greeting, ODD_SETTINGS(0, 0));
  ADD(&victim->greeting, ODD_RANDOM_BYTES(seed, 1 + seed * 7 % 300));
}

/* In the place of SETTINGS. */
static void make_noise_first(struct victim *victim, uint32_t seed) {
  ADD(&victim->greeting, ODD_RANDOM_BYTES(seed, 1 + seed * 7 % 300));
}

/* In the place of an answer, and behind its headers. */
static void make_noise_late(struct victim *victim, uint32_t seed) {
  if (seed % 2 == 0) {
    ADD(&victim->answer, ODD_HEADERS(ODD_OK "x-served-by " SECRET "\n"));
  }
  ADD(&victim->answer, ODD_RANDOM_BYTES(seed, 1 + seed * 7 % 300));
}

static void random_bytes_end_nothing_but_their_call(void **state) {
  (void)state;
  attack("noise first", make_noise_first, 48);
  attack("noise at once", make_noise_at_once, 96);
  attack("noise late", make_noise_late, 96);
}

static void make_frames(struct victim *victim, uint32_t seed) {
  if (seed % 3 == 0) {
    ADD(&victim->answer, ODD_HEADERS(ODD_OK "x-served-by " SECRET "\n"));
  }
  ADD(&victim->answer, ODD_RANDOM_FRAMES(seed, 1 + seed % 12));
  if (seed % 2 == 0) {
    ADD(&victim->answer, ODD_TRAILERS(ODD_OK ODD_STATUS(14) "grpc-message " SECRET "\n"));
  }
}

static void random_frames_end_nothing_but_their_call(void **state) {
  (void)state;
  attack("frames", make_frames, 192);
}

/* --- an answer with a few wrong bits --- */

static void make_flipped(struct victim *victim, uint32_t seed) {
  struct odd_script *answer = &victim->answer;
  unsigned place = seed % 4;
  if (place == 0) {
    ADD(&victim->greeting, ODD_FLIP(seed));
    ADD(&victim->greeting, ODD_SETTINGS(4, 65535));
  }
  if (place == 1) {
    ADD(answer, ODD_FLIP(seed));
  }
  ADD(answer, ODD_HEADERS(ODD_OK "grpc-encoding identity\nx-served-by " SECRET "\n"));
  if (place == 2) {
    ADD(answer, ODD_FLIP(seed));
  }
  ADD(answer, ODD_MESSAGE(SECRET));
  if (place == 3) {
    ADD(answer, ODD_FLIP(seed));
  }
  ADD(answer, ODD_TRAILERS(ODD_STATUS(14) "grpc-message " SECRET "\nx-blob-bin c2VzYW1l\n"));
}

static void make_flipped_trailers_only(struct victim *victim, uint32_t seed) {
  ADD(&victim->answer, ODD_FLIP(seed));
  ADD(&victim->answer, ODD_TRAILERS(ODD_OK ODD_STATUS(14) "grpc-message " SECRET
                                                          "\ngrpc-status-details-bin c2VzYW1l\n"
                                                          "grpc-retry-pushback-ms 5\n"));
}

static void wrong_bits_end_nothing_but_their_call(void **state) {
  (void)state;
  attack("wrong bits", make_flipped, 192);
  attack("wrong bits in Trailers-Only", make_flipped_trailers_only, 192);
}

/* --- frames that no peer should send --- */

/* HTTP/2's numbers of frames. */
enum frame_type {
  DATA = 0,
  HEADERS = 1,
  PRIORITY = 2,
  RST_STREAM = 3,
  SETTINGS = 4,
  PUSH_PROMISE = 5,
  PING = 6,
  GOAWAY = 7,
  WINDOW_UPDATE = 8,
  CONTINUATION = 9
};

#define PADDED 0x8
#define PRIORITY_FLAG 0x20

static const struct odd_script wicked[] = {
    ODD_SCRIPT(ODD_FRAME(WINDOW_UPDATE, 0, "\0\0\0\0")),
    ODD_SCRIPT(ODD_FRAME(WINDOW_UPDATE, 0, "\0\0")),
    ODD_SCRIPT(ODD_FRAME(RST_STREAM, 0, "\0\0")),
    ODD_SCRIPT(ODD_FRAME(PING, 0, "\0\0\0\0")),
    ODD_SCRIPT(ODD_FRAME(SETTINGS, 0, "\0\4\0\0\0\0")), /* on a stream */
    ODD_SCRIPT(ODD_FRAME(SETTINGS, 1, "\0\4\0\0\0\0")), /* an acknowledgement that says something */
    ODD_SCRIPT(ODD_FRAME(GOAWAY, 0, "\0\0")),
    ODD_SCRIPT(ODD_FRAME(PUSH_PROMISE, ODD_FLAG_END_HEADERS, "\0\0\0\2\210"), ODD_ONLY(14)),
    ODD_SCRIPT(ODD_FRAME(CONTINUATION, ODD_FLAG_END_HEADERS, "\210")),
    ODD_SCRIPT(ODD_FRAME(PRIORITY, 0, "\0"), ODD_ONLY(14)),
    ODD_SCRIPT(ODD_FRAME(DATA, PADDED, "\377")), /* more padding than there is */
    ODD_SCRIPT(ODD_FRAME(HEADERS, ODD_FLAG_END_HEADERS | PADDED, "\377\210")),
    ODD_SCRIPT(ODD_FRAME(HEADERS, ODD_FLAG_END_HEADERS | PRIORITY_FLAG, "\0\0")),
    ODD_SCRIPT(ODD_FRAME(HEADERS, ODD_FLAG_END_HEADERS, "")),
    ODD_SCRIPT(ODD_FRAME(HEADERS, ODD_FLAG_END_HEADERS | ODD_FLAG_END_STREAM, "")),
    ODD_SCRIPT(ODD_FRAME(HEADERS, ODD_FLAG_END_HEADERS, "\200")), /* index 0 */
    ODD_SCRIPT(ODD_FRAME(HEADERS, ODD_FLAG_END_HEADERS, "\377\377\377\377\377\377\377\377\177")),
    ODD_SCRIPT(
        ODD_FRAME(HEADERS, ODD_FLAG_END_HEADERS, "\77\377\377\377\377\17")), /* a table of 4 GiB */
    ODD_SCRIPT(
        ODD_FRAME(HEADERS, ODD_FLAG_END_HEADERS, "\0\177\377\377\377\17")), /* a key of 4 GiB */
    ODD_SCRIPT(
        ODD_FRAME(HEADERS, ODD_FLAG_END_HEADERS, "\0\201\377\201\377")), /* no Huffman code */
    ODD_SCRIPT(ODD_FRAME(HEADERS, ODD_FLAG_END_HEADERS, "\0\0\0")),      /* no key */
    ODD_SCRIPT(ODD_RAW_HEADERS(ODD_FLAG_NONE, ODD_OK), ODD_FRAME(DATA, 0, "x")),
    ODD_SCRIPT(ODD_RAW_HEADERS(ODD_FLAG_NONE, ODD_OK), ODD_PINGS(1)),
    ODD_SCRIPT(ODD_RAW_HEADERS(ODD_FLAG_NONE, ODD_OK), ODD_CONTINUATIONS(10000)),
    ODD_SCRIPT(ODD_RAW_HEADERS(ODD_FLAG_NONE, ODD_OK), ODD_CONTINUATIONS(0)),
    ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_FRAME(HEADERS, ODD_FLAG_END_HEADERS, "\210")),
    ODD_SCRIPT(ODD_ONLY(14), ODD_FRAME(DATA, 0, "\0\0\0\0\1x"), ODD_FRAME(DATA, 1, "")),
    ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_FRAME(DATA, 1, "\0\0\0\0\1x"), ODD_FRAME(DATA, 0, "x")),
    ODD_SCRIPT(ODD_SETTINGS(5, 16777215), ODD_SETTINGS(1, 0), ODD_SETTINGS(6, 1), ODD_ONLY(14)),
    ODD_SCRIPT(ODD_PINGS(10000), ODD_HEADERS(ODD_OK), ODD_PINGS(10000),
               ODD_TRAILERS(ODD_STATUS(0))),
    ODD_SCRIPT(ODD_GRACEFUL_GOAWAY, ODD_GRACEFUL_GOAWAY, ODD_GOAWAY(1), ODD_GOAWAY(1),
               ODD_ONLY(14)),
    ODD_SCRIPT(ODD_RST(7), ODD_FRAME(RST_STREAM, 0, "\0\0\0\7"),
               ODD_FRAME(RST_STREAM, 0, "\0\0\0\2")),
    ODD_SCRIPT(ODD_BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), ODD_ONLY(14)),
    ODD_SCRIPT(ODD_BYTES("HTTP/1.1 503 Service Unavailable\r\n\r\n" SECRET), ODD_CLOSE),
};

static void make_wicked(struct victim *victim, uint32_t seed) {
  victim->answer = wicked[seed / N_SHAPES % COUNT_OF(wicked)];
}

static void frames_that_break_the_rules_end_nothing_but_their_call(void **state) {
  (void)state;
  attack("wicked", make_wicked, (uint32_t)(COUNT_OF(wicked) * N_SHAPES));
}

/* As a greeting, on stream 0 and before SETTINGS, or behind them. */
static void make_wicked_greeting(struct victim *victim, uint32_t seed) {
  const struct odd_script *script = &wicked[seed / 2 % COUNT_OF(wicked)];
  if (seed % 2 == 0) {
    ADD(&victim->greeting, ODD_SETTINGS(0, 0));
  }
  for (size_t i = 0; i < ODD_STEPS_MAX; i++) {
    enum odd_act act = script->steps[i].act;
    if (act == ODD_ACT_FRAME || act == ODD_ACT_BYTES || act == ODD_ACT_PINGS ||
        act == ODD_ACT_SETTINGS || act == ODD_ACT_CLOSE) {
      script_add(&victim->greeting, &script->steps[i]);
    }
  }
}

static void they_do_not_as_a_greeting_either(void **state) {
  (void)state;
  attack("wicked greeting", make_wicked_greeting, (uint32_t)(COUNT_OF(wicked) * 2));
}

/* --- afterwards --- */

static void a_call_to_a_good_peer_works_after_all_that(void **state) {
  (void)state;
  const struct odd_script script =
      ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_MESSAGE("yes"), ODD_TRAILERS(ODD_STATUS(0)));
  struct odd_peer *peer = odd_peer_answering(&script);
  weir_channel *channel = channel_to(odd_peer_port(peer), "{}");
  for (int shape = 0; shape < N_SHAPES; shape++) {
    struct shaped_call call;
    shaped_run(&call, (enum shape)shape, channel, NULL);
    assert_int_equal(call.unary.code, GRPC_STATUS_OK);
    assert_true(message_is(call.unary.message, "yes"));
    shaped_fini(&call);
  }
  weir_channel_destroy(channel);
  odd_peer_release(peer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_bytes_end_nothing_but_their_call),
      cmocka_unit_test(random_frames_end_nothing_but_their_call),
      cmocka_unit_test(wrong_bits_end_nothing_but_their_call),
      cmocka_unit_test(frames_that_break_the_rules_end_nothing_but_their_call),
      cmocka_unit_test(they_do_not_as_a_greeting_either),
      cmocka_unit_test(a_call_to_a_good_peer_works_after_all_that),
  };
  return cmocka_run_group_tests_name("hostile", tests, start_core, stop_core);
}
