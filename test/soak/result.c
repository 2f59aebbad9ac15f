/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/result.h"

#include <inttypes.h>

#include <weir/weir.h>

#include "test/soak/plan.h"

static const unsigned permilles[] = {500, 900, 990, 999, 1000};
#define N_PERMILLES (sizeof permilles / sizeof permilles[0])

static double seconds(int64_t ns) {
  return (double)ns / (double)WEIR_SECOND_NS;
}

/* --- tables --- */

static uint64_t count_code(const struct tally *tally, grpc_status_code code) {
  uint64_t n = 0;
  for (size_t shape = 0; shape < PLAN_N_SHAPES; shape++) {
    n += atomic_load(&tally->n_ended[shape][code]);
  }
  return n;
}

static void print_row(const char *name, const struct tally *tally, int code, FILE *file) {
  uint64_t sum = 0;
  (void)fprintf(file, "%-20s", name);
  for (size_t shape = 0; shape < PLAN_N_SHAPES; shape++) {
    uint64_t n = code >= 0 ? atomic_load(&tally->n_ended[shape][code])
                           : atomic_load(&tally->n_let_go[shape]);
    sum += n;
    (void)fprintf(file, " %13" PRIu64, n);
  }
  (void)fprintf(file, " %9" PRIu64 "\n", sum);
}

static void print_outcomes(const struct tally *tally, FILE *file) {
  (void)fprintf(file, "%-20s", "calls that ended");
  for (size_t shape = 0; shape < PLAN_N_SHAPES; shape++) {
    (void)fprintf(file, " %13s", plan_shape_name((enum plan_shape)shape));
  }
  (void)fprintf(file, " %9s\n", "all");
  for (int code = 0; code < (int)TALLY_CODES; code++) {
    if (count_code(tally, (grpc_status_code)code) > 0) {
      print_row(weir_status_code_name((grpc_status_code)code), tally, code, file);
    }
  }
  print_row("(let go)", tally, -1, file);
}

static void print_faults(const struct soak_result *result, FILE *file) {
  (void)fprintf(file, "\n%-20s %13s %13s\n", "faults", "before A", "before B");
  for (size_t fault = PROXY_FAULT_DELAY; fault < PROXY_N_FAULTS; fault++) {
    (void)fprintf(file, "%-20s %13" PRIu64 " %13" PRIu64 "\n",
                  proxy_fault_name((enum proxy_fault)fault), result->proxies[0].n_faults[fault],
                  result->proxies[1].n_faults[fault]);
  }
  (void)fprintf(file, "%-20s %13" PRIu64 " %13" PRIu64 "\n", "(connections)",
                result->proxies[0].n_connections, result->proxies[1].n_connections);
}

static void print_reasons(const struct tally *tally, FILE *file) {
  (void)fprintf(file, "\nreasons:");
  for (size_t reason = 0; reason < TALLY_REASONS; reason++) {
    uint64_t n = atomic_load(&tally->n_reasons[reason]);
    if (n > 0) {
      (void)fprintf(file, " %s %" PRIu64, weir_reason_name((enum weir_reason)reason), n);
    }
  }
  (void)fprintf(file, "\n");
}

static uint64_t count_fallbacks(const struct tally *tally, enum weir_fallback_result result) {
  uint64_t n = 0;
  for (size_t i = 0; i < PLAN_CLIENT_CHANNELS; i++) {
    n += atomic_load(&tally->channels[i].n_fallbacks[result]);
  }
  return n;
}

static void print_fallbacks(const struct tally *tally, FILE *file) {
  (void)fprintf(file, "fallbacks:");
  for (size_t result = WEIR_FALLBACK_HIT; result < TALLY_FALLBACKS; result++) {
    uint64_t n = count_fallbacks(tally, (enum weir_fallback_result)result);
    if (n > 0) {
      (void)fprintf(file, " %s %" PRIu64,
                    weir_fallback_result_name((enum weir_fallback_result)result), n);
    }
  }
  (void)fprintf(file, "\n");
}

static void print_memory(const struct soak_result *result, FILE *file) {
  (void)fprintf(file, "\n%-15s %9s %12s %12s %12s %8s %12s\n", "process", "calls", "RSS KiB",
                "in use", "weir's", "threads", "descriptors");
  for (size_t process = 0; process < CHECKPOINT_PROCESSES; process++) {
    for (size_t i = 0; i < result->n_checkpoints; i++) {
      const struct process_state *state = &result->checkpoints[i].processes[process];
      (void)fprintf(file,
                    "%-15s %9" PRId64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %8" PRIu64
                    " %12" PRIu64 "\n",
                    checkpoint_process_name(process), result->checkpoints[i].n_calls,
                    state->footprint.rss_kib, state->footprint.heap_bytes, state->live_bytes,
                    state->footprint.n_threads, state->footprint.n_descriptors);
    }
  }
}

void result_print(struct soak_result *result, FILE *file) {
  struct tally *tally = result->tally;
  print_outcomes(tally, file);
  print_reasons(tally, file);
  print_fallbacks(tally, file);
  (void)fprintf(file,
                "attempts %" PRIu64 ", cancelled or let go by the client %" PRIu64
                ", trips of its breakers %" PRIu64 ", closed again %" PRIu64 "\n",
                atomic_load(&tally->n_attempts), atomic_load(&tally->n_cancelled), result->n_trips,
                result->n_closed);
  (void)fprintf(file, "ended after their deadlines: %u;", atomic_load(&tally->n_late));
  for (size_t i = 0; i < N_PERMILLES; i++) {
    (void)fprintf(file, " %.1f %% by %.1f ms", (double)permilles[i] / 10.0,
                  (double)tally_late_us(tally, permilles[i]) / 1000.0);
  }
  (void)fprintf(file, "\n");
  print_faults(result, file);
  print_memory(result, file);
  (void)fprintf(file, "\nsoak: --seed %" PRIu64 " --calls %u: %u promises broken, %.1f s\n",
                result->options.seed, result->options.n_calls, result->n_broken,
                seconds(result->took_ns));
}

/* --- JSON: all names are ours, and need no escapes --- */

static void print_json_outcomes(const struct tally *tally, FILE *file) {
  (void)fprintf(file, "\"outcomes\":{");
  for (size_t shape = 0; shape < PLAN_N_SHAPES; shape++) {
    (void)fprintf(file, "%s\"%s\":{", shape > 0 ? "," : "",
                  plan_shape_name((enum plan_shape)shape));
    for (size_t code = 0; code < TALLY_CODES; code++) {
      uint64_t n = atomic_load(&tally->n_ended[shape][code]);
      if (n > 0) {
        (void)fprintf(file, "\"%s\":%" PRIu64 ",", weir_status_code_name((grpc_status_code)code),
                      n);
      }
    }
    (void)fprintf(file, "\"let_go\":%" PRIu64 "}", atomic_load(&tally->n_let_go[shape]));
  }
  (void)fprintf(file, "},");
}

static void print_json_reasons(const struct tally *tally, FILE *file) {
  (void)fprintf(file, "\"reasons\":{");
  for (size_t reason = 0; reason < TALLY_REASONS; reason++) {
    (void)fprintf(file, "%s\"%s\":%" PRIu64, reason > 0 ? "," : "",
                  weir_reason_name((enum weir_reason)reason),
                  atomic_load(&tally->n_reasons[reason]));
  }
  (void)fprintf(file, "},");
}

static void print_json_fallbacks(const struct tally *tally, FILE *file) {
  (void)fprintf(file, "\"fallbacks\":{");
  for (size_t result = WEIR_FALLBACK_HIT; result < TALLY_FALLBACKS; result++) {
    (void)fprintf(file, "%s\"%s\":%" PRIu64, result > WEIR_FALLBACK_HIT ? "," : "",
                  weir_fallback_result_name((enum weir_fallback_result)result),
                  count_fallbacks(tally, (enum weir_fallback_result)result));
  }
  (void)fprintf(file, "},");
}

static void print_json_faults(const struct soak_result *result, FILE *file) {
  (void)fprintf(file, "\"faults\":[");
  for (size_t i = 0; i < 2; i++) {
    (void)fprintf(file, "%s{\"before\":\"%s\",\"connections\":%" PRIu64, i > 0 ? "," : "",
                  i == 0 ? "A" : "B", result->proxies[i].n_connections);
    for (size_t fault = PROXY_FAULT_DELAY; fault < PROXY_N_FAULTS; fault++) {
      (void)fprintf(file, ",\"%s\":%" PRIu64, proxy_fault_name((enum proxy_fault)fault),
                    result->proxies[i].n_faults[fault]);
    }
    (void)fprintf(file, "}");
  }
  (void)fprintf(file, "],");
}

static void print_json_memory(const struct soak_result *result, FILE *file) {
  (void)fprintf(file, "\"checkpoints\":[");
  for (size_t i = 0; i < result->n_checkpoints; i++) {
    (void)fprintf(file, "%s{\"calls\":%" PRId64, i > 0 ? "," : "", result->checkpoints[i].n_calls);
    for (size_t process = 0; process < CHECKPOINT_PROCESSES; process++) {
      const struct process_state *state = &result->checkpoints[i].processes[process];
      (void)fprintf(
          file,
          ",\"%s\":{\"rss_kib\":%" PRIu64 ",\"heap_bytes\":%" PRIu64 ",\"weir_bytes\":%" PRIu64
          ",\"threads\":%" PRIu64 ",\"descriptors\":%" PRIu64 "}",
          checkpoint_process_name(process), state->footprint.rss_kib, state->footprint.heap_bytes,
          state->live_bytes, state->footprint.n_threads, state->footprint.n_descriptors);
    }
    (void)fprintf(file, "}");
  }
  (void)fprintf(file, "],");
}

void result_print_json(struct soak_result *result, FILE *file) {
  struct tally *tally = result->tally;
  (void)fprintf(file, "{\"seed\":%" PRIu64 ",\"calls\":%u,\"broken\":%u,\"seconds\":%.3f,",
                result->options.seed, result->options.n_calls, result->n_broken,
                seconds(result->took_ns));
  print_json_outcomes(tally, file);
  print_json_reasons(tally, file);
  print_json_fallbacks(tally, file);
  (void)fprintf(file,
                "\"attempts\":%" PRIu64 ",\"cancelled\":%" PRIu64 ",\"breaker_trips\":%" PRIu64
                ",\"breakers_closed\":%" PRIu64 ",\"late\":{\"calls\":%u",
                atomic_load(&tally->n_attempts), atomic_load(&tally->n_cancelled), result->n_trips,
                result->n_closed, atomic_load(&tally->n_late));
  for (size_t i = 0; i < N_PERMILLES; i++) {
    (void)fprintf(file, ",\"p%g_ms\":%.3f", (double)permilles[i] / 10.0,
                  (double)tally_late_us(tally, permilles[i]) / 1000.0);
  }
  (void)fprintf(file, "},");
  print_json_faults(result, file);
  print_json_memory(result, file);
  (void)fprintf(file, "\"ok\":%s}\n", result->n_broken == 0 ? "true" : "false");
}
