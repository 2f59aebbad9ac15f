#!/bin/sh
# calls.sh - what calls and messages cost the client: the bare core beside weir with all four layers, with one and with
# none, the core with its own retries, and gRPC C++ with four interceptors beside itself without. A part of bench.sh, read
# by it.
#
# Instructions are counted by callgrind, of all threads of the client, as the difference of a long and a short series; the
# server is a process of its own. The core's threads meet at its locks by chance, and what goes out in one write depends on
# when: of several series the middle one counts. Times are told as ratios only, of series run in turn by one process
# without callgrind.
#
# weir sends two headers with each call (weir-budget-us, weir-retry-owner). What the core takes to check, keep and write
# them is a part of the price, and can be told apart: the bare core is also measured with the same two. And weir tells the
# core that there is no keepalive, which any program might: the bare core is also measured so.
#
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # bench.sh sets what is common to its parts

# Series for callgrind: how many calls or messages a short one has, and a long one, and how many of each there are; and
# series that are timed: how many calls, and how many rounds of them; and
# calls whose requests for memory are counted, after as many others.
if [ "$quick" = yes ]; then
  CALLS="8 16 1"
  MESSAGES=$CALLS
  TIMED="16 3"
  ALLOCATING=100
else
  CALLS="128 512 5"
  MESSAGES="200 1200 5"
  TIMED="256 60"
  ALLOCATING=1000
fi

UNARY="unary_one_batch unary_64k unary_8_at_once unary_64_at_once"
STREAMS="stream client_stream"
LAYERS="none deadline translation breaker retry"

mkfifo "$work/stop" "$work/port"
"$here/server" < "$work/stop" > "$work/port" &
exec 9> "$work/stop"
read -r port < "$work/port"

# What only `make bench` builds may not be there.
grpcpp=""
if [ -x "$here/grpcpp_client" ]; then
  grpcpp="$here/grpcpp_client"
else
  say "gRPC C++ is not measured: its client was not built"
fi

# The middle one of the counts of every second series, from $1 to $2.
middle_count() {
  for series in $(seq "$1" 2 "$2"); do
    awk '/^totals:/ { print $2 }' "$work/counts.$series"
  done | middle
}

# count PROGRAM SHORT LONG N SCENARIO:SIDE...: adds "SCENARIO:SIDE INSTRUCTIONS", of one call or message, to
# $work/instructions.
count() {
  program=$1
  short=$2
  long=$3
  n=$4
  shift 4
  callgrind "$program" count "$port" "$short" "$long" "$n" "$@"
  place=0
  while read -r name of_side; do
    first=$((2 * n * place + 1))
    last=$((first + 2 * n - 1))
    of_long=$(middle_count $((first + 1)) "$last")
    of_short=$(middle_count "$first" "$last")
    echo "$name:$of_side $(((of_long - of_short) / (long - short)))" >> "$work/instructions"
    place=$((place + 1))
  done < "$work/counted"
}

# sides SCENARIO SIDE...
sides() {
  scenario=$1
  shift
  for side in "$@"; do
    printf '%s:%s ' "$scenario" "$side"
  done
}

# Each scenario in a process of its own, or, where only that it runs matters, all in one, since one takes seconds to start.
# shellcheck disable=SC2046,SC2086
count_all() {
  layers=$(sides unary_one_batch bare_headers bare_no_keepalive; for layer in $LAYERS; do sides unary_one_batch "weir_$layer"; done)
  if [ "$quick" = yes ]; then
    count "$here/client" $CALLS $layers $(sides unary_six_batches bare weir) \
      $(for scenario in $UNARY $STREAMS; do sides "$scenario" bare weir core_retries; done)
    [ -z "$grpcpp" ] || count "$grpcpp" $CALLS $(for scenario in $UNARY $STREAMS; do sides "$scenario" plain interceptors; done)
    return
  fi
  count "$here/client" $CALLS $layers
  count "$here/client" $CALLS $(sides unary_six_batches bare weir core_retries)
  for scenario in $UNARY $STREAMS; do
    lengths=$CALLS
    case $scenario in *stream) lengths=$MESSAGES ;; esac
    count "$here/client" $lengths $(sides "$scenario" bare weir core_retries)
    [ -z "$grpcpp" ] || count "$grpcpp" $lengths $(sides "$scenario" plain interceptors)
  done
}

instructions() {
  of "$1:$2" "$work/instructions"
}

# over SCENARIO SIDE BASE: how many more instructions than BASE. Nothing: one of them was not counted.
over() {
  awk -v over="$1:$2" -v under="$1:$3" '
    $1 == over { above = $2 }
    $1 == under { below = $2 }
    END { if (above != "" && below != "") print above - below }' "$work/instructions"
}

: > "$work/instructions"
count_all
for scenario in $UNARY unary_six_batches $STREAMS; do
  per=""
  case $scenario in *stream) per=_per_message ;; esac
  name=$scenario.instructions_over_bare$per
  figure "$scenario.instructions_bare$per" "$(instructions "$scenario" bare)"
  figure "$name" "$(over "$scenario" weir bare)"
  peer "$name" core_retries "$(over "$scenario" core_retries bare)"
  peer "$name" grpcpp_interceptors "$(over "$scenario" interceptors plain)"
done
for layer in $LAYERS; do
  figure "unary_one_batch.instructions_over_bare_$layer" "$(over unary_one_batch "weir_$layer" bare)"
done
figure unary_one_batch.instructions_over_bare_with_headers "$(over unary_one_batch weir bare_headers)"
figure unary_one_batch.instructions_over_bare_no_keepalive "$(over unary_one_batch weir bare_no_keepalive)"
figure two_headers.instructions_over_bare "$(over unary_one_batch bare_headers bare)"
figure core_retries.instructions_over_bare "$(over unary_one_batch core_retries bare)"
figure grpcpp_interceptors.instructions_over_bare "$(over unary_one_batch interceptors plain)"

"$here/client" allocations "$port" "$ALLOCATING" unary_one_batch unary_six_batches stream client_stream > "$work/call-allocations"
while read -r scenario of_weir over_bare core_over_bare; do
  figure "$scenario.allocations" "$of_weir"
  figure "$scenario.mallocs_over_bare" "$over_bare"
  # What streams differ by is when their messages came.
  case $scenario in
    unary*)
      peer "$scenario.allocations" core_retries "$core_over_bare"
      peer "$scenario.mallocs_over_bare" core_retries "$core_over_bare"
      ;;
  esac
done < "$work/call-allocations"

for scenario in $UNARY stream; do
  # shellcheck disable=SC2086
  "$here/client" wall "$port" $TIMED "$scenario" weir core_retries > "$work/wall"
  # shellcheck disable=SC2086
  [ -z "$grpcpp" ] || "$grpcpp" wall "$port" $TIMED "$scenario" >> "$work/wall"
  figure "$scenario.wall_ratio" "$(of weir "$work/wall")"
  peer "$scenario.wall_ratio" core_retries "$(of core_retries "$work/wall")"
  peer "$scenario.wall_ratio" grpcpp_interceptors "$(of interceptors "$work/wall")"
done
