#!/bin/sh
# bench - what a unary call costs the client: the bare core, the core's own retries, and weir with all four layers.
#
# Counted in instructions by callgrind, in one run against one server, as the difference of a long and a short series of
# calls. The core's threads meet at its locks by chance, which adds up to a thousand instructions to a call, so each figure
# is the least of three.
#
# weir sends two headers with each call (weir-budget-us, weir-retry-owner). What the core takes to check, keep and write
# them is a part of the price, and can be told apart: the bare core is also measured with the same two.
#
#   bench           a table
#   bench --json    a list of {"name", "value", "unit", "budget"}
#
# SPDX-License-Identifier: Apache-2.0
set -eu

# At this stage.
BUDGET=1500
SHORT=200
LONG=1200

here=$(cd "$(dirname "$0")" && pwd)
[ -x "$here/client" ] || here="$0.runfiles/weir/bench"
work=$(mktemp -d)
mkfifo "$work/stop" "$work/port"
cleanup() {
  exec 9>&- || true
  rm -rf "$work"
}
trap cleanup EXIT

"$here/server" < "$work/stop" > "$work/port" &
exec 9> "$work/stop"
read -r port < "$work/port"

# Instructions of a series of $2 calls in mode $1.
count() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$here/client" "$1" "$port" "$2" > "$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 1
  }
  awk '/Collected/ { print $4 }' "$work/log"
}

# Instructions of one call in mode $1.
per_call() {
  for _ in 1 2 3; do
    short=$(count "$1" "$SHORT")
    long=$(count "$1" "$LONG")
    echo $(((long - short) / (LONG - SHORT)))
  done | sort -n | head -n 1
}

bare=$(per_call bare)
headers=$(per_call bare_headers)
core=$(per_call core_retries)
weir=$(per_call weir)

if [ "${1:-}" = --json ]; then
  cat <<JSON
[{"name": "unary_one_batch.instructions_bare", "value": $bare, "unit": "instructions", "budget": null},
 {"name": "unary_one_batch.instructions_over_bare", "value": $((weir - bare)), "unit": "instructions", "budget": $BUDGET},
 {"name": "unary_one_batch.instructions_over_bare_with_headers", "value": $((weir - headers)), "unit": "instructions", "budget": null},
 {"name": "two_headers.instructions_over_bare", "value": $((headers - bare)), "unit": "instructions", "budget": null},
 {"name": "core_retries.instructions_over_bare", "value": $((core - bare)), "unit": "instructions", "budget": null}]
JSON
  exit 0
fi
row() {
  printf '%-40s %12s %10s %8s\n' "$@"
}
row "one successful unary call, one batch" instructions "over bare" budget
row "bare core" "$bare" "" ""
row "bare core, sending weir's two headers" "$headers" $((headers - bare)) ""
row "core with its own retries" "$core" $((core - bare)) ""
row "weir, all four layers" "$weir" $((weir - bare)) "$BUDGET"
if [ $((weir - bare)) -gt "$BUDGET" ]; then
  echo "weir is $((weir - bare - BUDGET)) over its budget; $((headers - bare)) of its cost are the two headers, in the core"
fi
