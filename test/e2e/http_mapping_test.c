/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <grpc/grpc.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/odd_case.h"
#include "test/e2e/support/odd_peer.h"

#define PAGE "<html>" SECRET "</html>"
#define HTML(status) ":status " #status "\ncontent-type text/html\nx-served-by " SECRET "\n"

/* A proxy's page, and the same status without one; gRPC's http-grpc-status-mapping.md. The core
 * cancels the stream at such headers, so nothing is committed. */
#define MAPPED(status, mapped)                                                         \
  {.why = "HTTP " #status " with a page",                                              \
   .script = ODD_SCRIPT(ODD_HEADERS(HTML(status)), ODD_BODY(PAGE)),                    \
   .code = mapped,                                                                     \
   .origin = WEIR_ORIGIN_TRANSPORT_RESET,                                              \
   .n_requests = ALL_ATTEMPTS},                                                        \
  {                                                                                    \
    .why = "HTTP " #status " alone", .script = ODD_SCRIPT(ODD_TRAILERS(HTML(status))), \
    .code = mapped, .origin = WEIR_ORIGIN_TRANSPORT_RESET, .n_requests = ALL_ATTEMPTS, \
  }

static const struct odd_case mapped_cases[] = {
    MAPPED(400, GRPC_STATUS_INTERNAL),          MAPPED(401, GRPC_STATUS_UNAUTHENTICATED),
    MAPPED(403, GRPC_STATUS_PERMISSION_DENIED), MAPPED(404, GRPC_STATUS_UNIMPLEMENTED),
    MAPPED(429, GRPC_STATUS_UNAVAILABLE),       MAPPED(502, GRPC_STATUS_UNAVAILABLE),
    MAPPED(503, GRPC_STATUS_UNAVAILABLE),       MAPPED(504, GRPC_STATUS_UNAVAILABLE),
    MAPPED(100, GRPC_STATUS_UNKNOWN),           MAPPED(204, GRPC_STATUS_UNKNOWN),
    MAPPED(302, GRPC_STATUS_UNKNOWN),           MAPPED(405, GRPC_STATUS_UNKNOWN),
    MAPPED(431, GRPC_STATUS_UNKNOWN), /* INTERNAL in later texts of the mapping */
    MAPPED(500, GRPC_STATUS_UNKNOWN),           MAPPED(501, GRPC_STATUS_UNKNOWN),
    MAPPED(999, GRPC_STATUS_UNKNOWN),
};

static void a_http_status_is_mapped_as_grpc_says_and_its_page_is_not_shown(void **state) {
  (void)state;
  odd_cases_assert(mapped_cases, COUNT_OF(mapped_cases));
}

/* In the same header block as the HTTP status. */
static const struct odd_case with_grpc_status_cases[] = {
    {.why = "503, and grpc-status 5",
     .script = ODD_SCRIPT(ODD_TRAILERS(HTML(503) "grpc-status 5\ngrpc-message " SECRET "\n")),
     .code = GRPC_STATUS_NOT_FOUND,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS},
    {.why = "503, and grpc-status 0",
     .script = ODD_SCRIPT(ODD_TRAILERS(HTML(503) "grpc-status 0\n")),
     .code = GRPC_STATUS_OK,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1},
    {.why = "404, and grpc-status 14",
     .script = ODD_SCRIPT(ODD_TRAILERS(HTML(404) "grpc-status 14\n")),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS},
    {.why = "200 and HTML, and grpc-status 14",
     .script = ODD_SCRIPT(ODD_TRAILERS(HTML(200) "grpc-status 14\n")),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS},
    /* The core has ended the stream by the time they come. */
    {.why = "503, and grpc-status 5 in trailers of their own",
     .script = ODD_SCRIPT(ODD_HEADERS(HTML(503)), ODD_TRAILERS(ODD_STATUS(5))),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_TRANSPORT_RESET,
     .n_requests = ALL_ATTEMPTS},
};

static void a_grpc_status_wins_over_the_http_status(void **state) {
  (void)state;
  odd_cases_assert(with_grpc_status_cases, COUNT_OF(with_grpc_status_cases));
}

static const struct odd_case without_status_cases[] = {
    {.why = "Trailers-Only",
     .script = ODD_SCRIPT(ODD_TRAILERS(ODD_OK)),
     .code = GRPC_STATUS_UNKNOWN,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS},
    {.why = "trailers after headers",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_TRAILERS("x-served-by " SECRET "\n")),
     .code = GRPC_STATUS_UNKNOWN,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1},
    {.why = "trailers after a message",
     .script =
         ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_MESSAGE(SECRET), ODD_TRAILERS("grpc-message x\n")),
     .code = GRPC_STATUS_UNKNOWN,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1,
     .shown_early = true},
    {.why = "the stream ends with data",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_BODY("")),
     .code = GRPC_STATUS_UNKNOWN,
     .origin = WEIR_ORIGIN_TRANSPORT_RESET,
     .n_requests = 1},
    {.why = "the stream ends behind a message",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_MESSAGE(SECRET), ODD_BODY("")),
     .code = GRPC_STATUS_UNKNOWN,
     .origin = WEIR_ORIGIN_TRANSPORT_RESET,
     .n_requests = 1,
     .shown_early = true},
    /* Not cancelled: 200 looks like gRPC to the core, and these are response headers. */
    {.why = "200 with a page",
     .script = ODD_SCRIPT(ODD_HEADERS(HTML(200)), ODD_BODY(PAGE)),
     .code = GRPC_STATUS_UNKNOWN,
     .origin = WEIR_ORIGIN_TRANSPORT_RESET,
     .n_requests = 1,
     .shown_early = true},
    {.why = "200 and HTML, alone",
     .script = ODD_SCRIPT(ODD_TRAILERS(HTML(200))),
     .code = GRPC_STATUS_UNKNOWN,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS},
    {.why = "no HTTP status either",
     .script = ODD_SCRIPT(ODD_TRAILERS("content-type application/grpc\n")),
     .code = GRPC_STATUS_UNKNOWN,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS},
    {.why = "a HTTP status that is no number",
     .script = ODD_SCRIPT(ODD_TRAILERS(":status " SECRET "\n")),
     .code = GRPC_STATUS_UNKNOWN,
     .origin = WEIR_ORIGIN_TRANSPORT_RESET,
     .n_requests = ALL_ATTEMPTS},
};

static void no_grpc_status_is_unknown_and_does_not_end_the_process(void **state) {
  (void)state;
  odd_cases_assert(without_status_cases, COUNT_OF(without_status_cases));
}

/* The core, whose wish for application/grpc is not strict, takes all of them. */
static const struct odd_case content_type_cases[] = {
    {.why = "no content-type",
     .script =
         ODD_SCRIPT(ODD_HEADERS(":status 200\n"), ODD_MESSAGE("yes"), ODD_TRAILERS(ODD_STATUS(0))),
     .code = GRPC_STATUS_OK,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1},
    {.why = "application/grpc+proto",
     .script = ODD_SCRIPT(ODD_HEADERS(":status 200\ncontent-type application/grpc+proto\n"),
                          ODD_MESSAGE("yes"), ODD_TRAILERS(ODD_STATUS(0))),
     .code = GRPC_STATUS_OK,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1},
    {.why = "text/html before a failure",
     .script = ODD_SCRIPT(ODD_HEADERS(HTML(200)), ODD_TRAILERS(ODD_STATUS(14))),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1,
     .shown_early = true},
};

static void the_status_counts_whatever_the_content_type_is(void **state) {
  (void)state;
  odd_cases_assert(content_type_cases, COUNT_OF(content_type_cases));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_http_status_is_mapped_as_grpc_says_and_its_page_is_not_shown),
      cmocka_unit_test(a_grpc_status_wins_over_the_http_status),
      cmocka_unit_test(no_grpc_status_is_unknown_and_does_not_end_the_process),
      cmocka_unit_test(the_status_counts_whatever_the_content_type_is),
  };
  return cmocka_run_group_tests_name("HTTP mapping", tests, start_core, stop_core);
}
