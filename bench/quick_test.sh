#!/bin/sh
# quick_test.sh - the benchmarks run: every figure that is promised is there, with a number, its unit, its budget and its
# peers. What the numbers are is another matter: the build is not optimised, and the series are short.
#
# Without the peers that only `make bench` builds.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
here=$(dirname "$0")

"$here/bench.sh" --quick --json > "$TEST_TMPDIR/figures.json"

python3 - "$TEST_TMPDIR/figures.json" "$here/figures.tsv" <<'END'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as text:
    figures = json.load(text)
with open(sys.argv[2], encoding="utf-8") as text:
    defined = [line.split("\t") for line in text if "\t" in line and not line.startswith("#")]
failures = []


def must(fine, what):
    if not fine:
        failures.append(what)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# What readers of the JSON were told to look for.
promised = {
    "unary_one_batch.instructions_over_bare": 1000,
    "unary_one_batch.allocations": 0,
    "unary_one_batch.wall_ratio": None,
    "core_retries.instructions_over_bare": None,
    "stream.instructions_over_bare_per_message": 200,
    "breaker.admit_settle_ns": 45,
    "breaker.admit_settle_2_threads_ratio": 1.2,
    "breaker.refuse_ns": 15,
    "throttle.record_ns": 10,
    "refuse_unary.calls_per_second": 5000000,
    "call.bytes": 1024,
    "policy_10000.load_ms": 100,
    "policy.lookup_10000_over_10_ratio": 1.2,
}
# Of a quick run: what takes long, or a compiler; and of a machine that has no two processors to itself, ratios of two threads.
left_out = ("backoff_100000.", "grpcpp_interceptors.", "policy_10000.load_instructions", "policy_10000_full.load_instructions")

by_name = {figure["name"]: figure for figure in figures}
must(len(by_name) == len(figures), "a name stands twice")
for name, budget in promised.items():
    missing = name not in by_name and "2_threads" not in name
    must(not missing, f"{name}: missing")
    must(name not in by_name or by_name[name]["budget"] == budget, f"{name}: its budget is not {budget}")
for name, unit, *_ in defined:
    must(name in by_name or name.startswith(left_out) or "2_threads" in name, f"{name}: missing")
    must(name not in by_name or by_name[name]["unit"] == unit, f"{name}: its unit is not {unit}")
for figure in figures:
    name = figure["name"]
    if not is_number(figure["value"]) or not (figure["budget"] is None or is_number(figure["budget"])):
        failures.append(f"{name}: no number")
        continue
    must(set(figure) - {"over"} == {"name", "value", "unit", "budget", "peer"}, f"{name}: other keys")
    for peer, entry in figure["peer"].items():
        must(is_number(entry["value"]) and isinstance(entry["measured"], bool) and entry["source"],
             f"{name}: an odd peer {peer}")
    beyond = figure["budget"] is not None and (
        figure["value"] < figure["budget"] if figure["unit"] == "calls/s" else figure["value"] > figure["budget"])
    must(("over" in figure) == beyond, f"{name}: an exceeded budget is not told, or one that is met is")

# What has to hold of a build without optimisation, too.
values = {name: figure["value"] for name, figure in by_name.items()}
must(values.get("unary_one_batch.allocations") == 0, "a call in the steady state asks for memory")
must(values.get("unary_one_batch.instructions_bare", 0) > 10000, "a call on the bare core costs nothing")
must(values.get("core_retries.instructions_over_bare", 0) > 0, "the core's own retries cost nothing")
for name, peer in (("unary_one_batch.instructions_over_bare", "core_retries"), ("breaker.refuse_ns", "gobreaker"),
                   ("throttle.record_ns", "grpc_core"), ("call.bytes", "core_retries")):
    must(peer in by_name.get(name, {"peer": {}})["peer"], f"{name}: {peer} is not told of")

for failure in failures:
    print(failure)
print(f"{len(figures)} figures, {len(failures)} failures")
sys.exit(bool(failures))
END
