#!/bin/sh
# decisions.sh - what weir's decisions cost, beside what others' do. A part of bench.sh, read by it.
#
# Peers that can be built from Debian's packages are measured in turn with weir, in the same run; of the others the table
# tells what peers/reported.tsv holds, with its source.
#
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # bench.sh sets what is common to its parts

# How often the programs run in turn, how many series each then makes, and for callgrind a short one and a long one.
if [ "$quick" = yes ]; then
  TURNS=1
  ROUNDS=30
  COUNTED="100 300"
else
  TURNS=5
  ROUNDS=400
  COUNTED="300 900"
fi

# The peers' own words for their programs, as they stand in "peer.NAME.FIGURE".
peer_label() {
  case $1 in
    core_throttle) echo "gRPC core" ;;
    go_resiliency) echo "go-resiliency" ;;
    *) echo "$1" ;;
  esac
}

# Go's packages of Debian lie where GOPATH says; no module is looked for elsewhere.
build_go_peer() {
  command -v go >/dev/null 2>&1 &&
    GO111MODULE=off GOPATH=/usr/share/gocode GOFLAGS='' GOCACHE="$work/go-cache" CGO_ENABLED=0 \
      go build -o "$work/go_resiliency" "$here/peers/go_resiliency.go" 2> "$work/go-log"
}

if ! build_go_peer; then
  echo "bench: go-resiliency is not measured: there is no Go, or no package of it" >&2
fi

for _ in $(seq "$TURNS"); do
  "$here/decide" time "$ROUNDS"
  [ ! -x "$work/go_resiliency" ] || "$work/go_resiliency" "$ROUNDS"
done > "$work/times"
"$here/decide" allocations > "$work/allocations"
read -r bytes bytes_known <<END
$("$here/decide" bytes)
END

# Of several turns the fastest counts, of ratios the middle one. Nothing: it was not measured.
time_of() {
  awk -v name="$1" '$1 == name && (best == "" || $2 < best) { best = $2 } END { print best }' "$work/times"
}

ratio_of() {
  awk -v name="$1_2_threads" '$1 == name { print $2 }' "$work/times" | middle
}

counted_allocations() {
  awk -v name="$1" '$1 == name { print $2 + 0 }' "$work/allocations"
}

# --- the table ---

# beside FIGURE UNIT: what is told of peers. Those of this run come first.
beside() {
  awk -F "$tab" -v name="$1" -v unit="$2" '
    $1 == name { printf "%s%s %s %s%s", n++ ? ", " : "", $2, $3, unit, $4 == "" ? "" : " (reported)" }' "$work/peers"
}

# is_met VALUE UNIT BUDGET
is_met() {
  awk -v value="$1" -v unit="$2" -v budget="$3" 'BEGIN { exit !(unit == "calls/s" ? value >= budget : value <= budget) }'
}

# decision FIGURE LABEL VALUE UNIT BUDGET: a row of the table, and a figure; peers have been told of before.
decision() {
  if [ -z "$3" ]; then
    printf '  %-52s %s\n' "$2" "not measured: no two processors were free at once" >> "$work/table"
    return
  fi
  figure "$1" "$3" "$4" "$5"
  said=$5
  if [ "$5" != - ]; then
    if is_met "$3" "$4" "$5"; then said="$5 met"; else said="$5 MISSED"; fi
  fi
  printf '  %-52s %12s %-12s %-16s %s\n' "$2" "$3" "$4" "$said" "$(beside "$1" "$4")" >> "$work/table"
}

# reported FIGURE: what is known of peers that are not measured here.
reported() {
  while IFS=$tab read -r told other value source; do
    [ "$told" != "$1" ] || peer "$told" "$other" "$value" "$source"
  done < "$here/peers/reported.tsv"
}

# measured FIGURE VALUES PEER...: what this run found of PEER, in the same terms; VALUES is time_of or ratio_of.
measured() {
  told=$1
  values=$2
  work_done=${1%_ns}
  work_done=${work_done%_2_threads_ratio}
  shift 2
  for other in "$@"; do
    value=$($values "peer.$other.${work_done#*.}")
    [ -z "$value" ] || peer "$told" "$(peer_label "$other")" "$value" ""
  done
}

# timed NAME LABEL BUDGET [PEER...]
timed() {
  name=$1
  label=$2
  budget=$3
  shift 3
  measured "${name}_ns" time_of "$@"
  reported "${name}_ns"
  decision "${name}_ns" "$label" "$(time_of "$name")" ns "$budget"
}

# two_threads NAME LABEL BUDGET [PEER...]
two_threads() {
  name=$1
  label=$2
  budget=$3
  shift 3
  measured "${name}_2_threads_ratio" ratio_of "$@"
  reported "${name}_2_threads_ratio"
  decision "${name}_2_threads_ratio" "$label" "$(ratio_of "$name")" ratio "$budget"
}

heading() {
  printf '%s\n' "$1" >> "$work/table"
}

printf '  %-52s %12s %-12s %-16s %s\n' "" "" "" budget peers >> "$work/table"
heading "a breaker"
timed breaker.admit_settle "CLOSED: admit and settle, the clock read once" 45
timed breaker.admit_settle_without_clock "the same, the time being known" 20 go_resiliency
two_threads breaker.admit_settle "the clock read: two threads at once / one" 1.2
two_threads breaker.admit_settle_without_clock "the time being known: two threads at once / one" 1.2 go_resiliency
timed breaker.admit_fail "CLOSED: admit and settle a failure" - go_resiliency
timed breaker.refuse "OPEN: refuse" 15 go_resiliency
two_threads breaker.refuse "OPEN: two threads at once / one" 1.2
timed breaker_layer.admit_settle "its layer, CLOSED: admit, settle and release" -
timed breaker_layer.refuse "its layer, OPEN: refuse" -
timed clock.read "a look at the clock, for comparison" -

refuse_ns=$(time_of refuse_unary)
heading "weir_unary while the breaker is OPEN"
decision refuse_unary.calls_per_second "refused calls" \
  "$(awk -v ns="$refuse_ns" 'BEGIN { printf "%d", 1e9 / ns }')" calls/s 5000000
two_threads refuse_unary "two threads at once / one" -

heading "many breakers"
timed registry.lookup_10 "look-up, of 10" -
timed registry.lookup_10000 "look-up, of 10,000, the same 10 in use" -
decision registry.lookup_10000_ratio "of 10,000 / of 10" \
  "$(awk -v many="$(time_of registry.lookup_10000)" -v few="$(time_of registry.lookup_10)" \
    'BEGIN { printf "%.3f", many / few }')" ratio 1.2
timed registry.lookup_10000_all "look-up, all 10,000 in random order: their memory" -
timed registry.lookup_10_known "look-up, of 10 that somebody has named" -
timed registry.lookup_10000_known "look-up, of 10,000 named, the same 10 in use" -
decision registry.lookup_10000_known_ratio "of 10,000 / of 10" \
  "$(awk -v many="$(time_of registry.lookup_10000_known)" -v few="$(time_of registry.lookup_10_known)" \
    'BEGIN { printf "%.3f", many / few }')" ratio 1.2
decision registry.bytes_10000 "what 10,000 breakers take" "$bytes" bytes 4194304
decision registry.bytes_10000_known "what 10,000 of named methods take" "$bytes_known" bytes 4194304

heading "the retry throttle"
timed throttle.record "a success, the bucket not full" 10 core_throttle
timed throttle.record_full "a success, the bucket full" 10 core_throttle
timed throttle.record_failure "a failure" 10 core_throttle
two_threads throttle.record "a success, not full: two threads at once / one" -
two_threads throttle.record_full "a success, full: two threads at once / one" 1.2
timed backoff.delay "a backoff's length" -

# --- instructions and allocations ---

rm -f "$work"/counts*
# Threads apart: what those of libgrpc do meanwhile is no part of it.
# shellcheck disable=SC2086
valgrind --tool=callgrind --separate-threads=yes --zero-before=series --dump-after=series --callgrind-out-file="$work/counts" \
  "$here/decide" count $COUNTED > "$work/counted" 2> "$work/log" || {
  cat "$work/log" >&2
  exit 1
}

# instructions N: of one operation, the Nth that was counted.
instructions() {
  for series in $((2 * $1 - 1)) $((2 * $1)); do
    awk '/^totals:/ { print $2 }' "$work/counts.$series-01"
  done | awk -v lengths="$COUNTED" '
    { total[NR] = $1 }
    END { split(lengths, length_of, " "); printf "%d", (total[2] - total[1]) / (length_of[2] - length_of[1]) + 0.5 }'
}

heading "instructions, and requests for memory, of one"
place=0
while read -r name; do
  place=$((place + 1))
  n_instructions=$(instructions "$place")
  n_allocations=$(counted_allocations "$name")
  figure "$name.instructions" "$n_instructions" instructions -
  budget=0
  [ "$name" != refuse_unary ] || budget=1
  figure "$name.allocations" "$n_allocations" allocations "$budget"
  said="$n_allocations requests, budget $budget"
  if is_met "$n_allocations" allocations "$budget"; then said="$said met"; else said="$said MISSED"; fi
  printf '  %-52s %12s instructions %s\n' "$name" "$n_instructions" "$said" >> "$work/table"
done < "$work/counted"
