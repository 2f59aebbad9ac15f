#!/bin/sh
# decisions.sh - what weir's decisions cost, beside what others' do. A part of bench.sh, read by it.
#
# Peers that can be built from Debian's packages are measured in turn with weir, in the same run; of the others the report
# tells what peers/reported.tsv holds, with its source.
#
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # bench.sh sets what is common to its parts

# How often the programs run in turn, how many series each then makes, and for callgrind a short one and a long one.
if [ "$quick" = yes ]; then
  TURNS=1
  ROUNDS=10
  COUNTED="100 300"
else
  TURNS=5
  ROUNDS=400
  COUNTED="300 900"
fi

# Go's packages of Debian lie where GOPATH says; no module is looked for elsewhere.
build_go_peer() {
  command -v go >/dev/null 2>&1 &&
    GO111MODULE=off GOPATH=/usr/share/gocode GOFLAGS='' GOCACHE="$work/go-cache" CGO_ENABLED=0 \
      go build -o "$work/go_resiliency" "$here/peers/go_resiliency.go" 2> "$work/go-log"
}

if [ "$quick" = yes ]; then
  say "go-resiliency is not measured: compiling it takes longer than all else"
elif ! build_go_peer; then
  say "go-resiliency is not measured: there is no Go, or no package of it"
fi

for _ in $(seq "$TURNS"); do
  "$here/decide" time "$ROUNDS"
  [ ! -x "$work/go_resiliency" ] || "$work/go_resiliency" "$ROUNDS"
done > "$work/turns"

# Of several turns the fastest counts, of ratios the middle one.
awk '!/_2_threads / && (!($1 in best) || $2 < best[$1]) { best[$1] = $2 } END { for (name in best) print name, best[name] }' \
  "$work/turns" > "$work/times"
awk '/_2_threads / { print $1 }' "$work/turns" | sort -u | while read -r name; do
  echo "$name $(of "$name" "$work/turns" | middle)"
done > "$work/ratios"

# a_second NANOSECONDS
a_second() {
  awk -v ns="${1:-0}" 'BEGIN { if (ns > 0) printf "%d", 1e9 / ns }'
}

lame=$(a_second "$(of peer.core.lame "$work/times")")
while read -r name ns; do
  case $name in
    peer.*) ;;
    refuse_*)
      figure "$name.calls_per_second" "$(a_second "$ns")"
      peer "$name.calls_per_second" core_lame_channel "$lame"
      ;;
    *) figure "${name}_ns" "$ns" ;;
  esac
done < "$work/times"
while read -r name ratio; do
  case $name in
    peer.*) ;;
    *) figure "${name}_ratio" "$ratio" ;;
  esac
done < "$work/ratios"
figure registry.lookup_10000_ratio "$(quotient registry.lookup_10000 registry.lookup_10 "$work/times")"
figure registry.lookup_10000_known_ratio "$(quotient registry.lookup_10000_known registry.lookup_10_known "$work/times")"

# "peer.PEER.OPERATION" is told beside the figure of "*.OPERATION".
for operation in admit_settle_without_clock admit_fail refuse; do
  peer "breaker.${operation}_ns" go_resiliency "$(of "peer.go_resiliency.$operation" "$work/times")"
  peer "breaker.${operation}_2_threads_ratio" go_resiliency "$(of "peer.go_resiliency.${operation}_2_threads" "$work/ratios")"
done
for operation in record record_full record_failure; do
  peer "throttle.${operation}_ns" grpc_core "$(of "peer.core_throttle.$operation" "$work/times")"
done

"$here/decide" bytes > "$work/bytes"
read -r bytes bytes_known < "$work/bytes"
figure registry.bytes_10000 "$bytes"
figure registry.bytes_10000_known "$bytes_known"

# --- instructions and allocations ---

# Threads apart: what those of libgrpc do meanwhile is no part of it.
# shellcheck disable=SC2086
callgrind --separate-threads=yes "$here/decide" count $COUNTED
place=0
while read -r name; do
  for series in $((2 * place + 1)) $((2 * place + 2)); do
    awk '/^totals:/ { print $2 }' "$work/counts.$series-01"
  done | awk -v name="$name" -v lengths="$COUNTED" '
    { total[NR] = $1 }
    END { split(lengths, length_of, " "); printf "%s %d\n", name, (total[2] - total[1]) / (length_of[2] - length_of[1]) + 0.5 }'
  place=$((place + 1))
done < "$work/counted" > "$work/of-decisions"
while read -r name n; do
  figure "$name.instructions" "$n"
done < "$work/of-decisions"
figure timer.of_100000_over_1000_ratio "$(quotient timer.of_100000 timer.of_1000 "$work/of-decisions")"

"$here/decide" allocations > "$work/allocations"
while read -r name n; do
  figure "$name.allocations" "$n"
done < "$work/allocations"
