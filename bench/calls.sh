#!/bin/sh
# calls.sh - what calls and messages cost the client: the bare core beside weir with all four layers, in one run. A part
# of bench.sh, read by it.
#
# Instructions are counted by callgrind, of all threads of the client, as the difference of a long and a short series; the
# server is a process of its own. The core's threads meet at its locks by chance, and what goes out in one write depends on
# when: of several series the middle one counts. Times are told as ratios only, of series on weir and on the bare core, run
# in turn by one process without callgrind.
#
# weir sends two headers with each call (weir-budget-us, weir-retry-owner). What the core takes to check, keep and write
# them is a part of the price, and can be told apart: the bare core is also measured with the same two.
#
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # bench.sh sets what is common to its parts

# Instructions over the bare core; at this stage.
CALL_BUDGET=1500
MESSAGE_BUDGET=200

# Series for callgrind: how many calls or messages a short one has, and a long one, and how many of each there are; and
# series that are timed: how many calls, and how many pairs of them.
if [ "$quick" = yes ]; then
  CALLS="8 16 1"
  MESSAGES="8 16 1"
  TIMED="16 3"
else
  CALLS="128 512 7"
  MESSAGES="200 1200 7"
  TIMED="256 100"
fi

mkfifo "$work/stop" "$work/port"
"$here/server" < "$work/stop" > "$work/port" &
exec 9> "$work/stop"
read -r port < "$work/port"

# The middle one of the counts of every second series, from $1 to $2.
middle_count() {
  for series in $(seq "$1" 2 "$2"); do
    awk '/^totals:/ { print $2 }' "$work/counts.$series"
  done | middle
}

# count SCENARIO SIDE SHORT LONG N: instructions of one call, or message.
count() {
  rm -f "$work"/counts*
  valgrind --tool=callgrind --zero-before=series --dump-after=series --callgrind-out-file="$work/counts" \
    "$here/client" count "$1" "$2" "$port" "$3" "$4" "$5" > "$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 1
  }
  short=$(middle_count 1 $((2 * $5)))
  long=$(middle_count 2 $((2 * $5)))
  echo $(((long - short) / ($4 - $3)))
}

# row LABEL INSTRUCTIONS OVER_BARE BUDGET
row() {
  said=$4
  if [ "$4" != - ] && [ "$3" -gt "$4" ]; then
    said="$4, exceeded by $(($3 - $4))"
  fi
  printf '  %-40s %12s %10s   %s\n' "$1" "$2" "$3" "$said" >> "$work/table"
}

# compare SCENARIO TITLE SUFFIX BUDGET SHORT LONG N: the bare core and weir. Leaves both in $bare and $weir.
compare() {
  bare=$(count "$1" bare "$5" "$6" "$7")
  weir=$(count "$1" weir "$5" "$6" "$7")
  figure "$1.instructions_bare$3" "$bare" instructions -
  figure "$1.instructions_over_bare$3" $((weir - bare)) instructions "$4"
  echo "$2" >> "$work/table"
  row "bare core" "$bare" - -
  row "weir, all four layers" "$weir" $((weir - bare)) "$4"
}

# time_both SCENARIO LABEL LENGTH N
time_both() {
  ratio=$("$here/client" wall "$1" "$port" "$3" "$4")
  figure "$1.wall_ratio" "$ratio" ratio -
  printf '  %-40s %12s\n' "$2" "$ratio" >> "$work/table"
}

printf '  %-40s %12s %10s   %s\n' "" instructions "over bare" budget >> "$work/table"
# shellcheck disable=SC2086
{
  compare unary_one_batch "a unary call in one batch" "" "$CALL_BUDGET" $CALLS
  headers=$(count unary_one_batch bare_headers $CALLS)
  core=$(count unary_one_batch core_retries $CALLS)
  figure unary_one_batch.instructions_over_bare_with_headers $((weir - headers)) instructions -
  figure two_headers.instructions_over_bare $((headers - bare)) instructions -
  figure core_retries.instructions_over_bare $((core - bare)) instructions -
  peer unary_one_batch.instructions_over_bare core_retries $((core - bare)) ""
  row "bare core, sending weir's two headers" "$headers" $((headers - bare)) -
  row "core with its own retries" "$core" $((core - bare)) -
  compare unary_six_batches "a unary call in six batches" "" - $CALLS
  compare unary_64_at_once "a unary call in one batch, 64 at once" "" - $CALLS
  compare stream "a message received, of a stream" _per_message "$MESSAGE_BUDGET" $MESSAGES
  compare client_stream "a message sent, of a stream" _per_message "$MESSAGE_BUDGET" $MESSAGES
  echo "time on weir / on the bare core" >> "$work/table"
  time_both unary_one_batch "a unary call in one batch" $TIMED
  time_both unary_64_at_once "a unary call in one batch, 64 at once" $TIMED
}
