#!/bin/sh
# policy.sh - what a policy of 10,000 methods costs to load and to look into. A part of bench.sh, read by it.
#
# Two documents are loaded: one whose entries each have a timeout and retries, and one whose entries have a translation and
# a fallback beside.
#
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # bench.sh sets what is common to its parts

LOAD_BUDGET=100
PEAK_BUDGET=$((16 * 1024 * 1024))
LOOKUP_BUDGET=1.2

# Of so many loads, each after one that is not timed, the twentieth part from below counts.
if [ "$quick" = yes ]; then
  LOADS=2
else
  LOADS=40
fi

"$here/policy" time "$LOADS" > "$work/policy-times"
"$here/policy" bytes > "$work/policy-bytes"
rm -f "$work"/policy-counts*
valgrind --tool=callgrind --zero-before=series --dump-after=series --callgrind-out-file="$work/policy-counts" \
  "$here/policy" count > "$work/log" 2>&1 || {
  cat "$work/log" >&2
  exit 1
}

# policy_row FIGURE LABEL VALUE UNIT BUDGET
policy_row() {
  figure "$1" "$3" "$4" "$5"
  said=$5
  if [ "$5" != - ]; then
    if awk -v value="$3" -v budget="$5" 'BEGIN { exit !(value <= budget) }'; then
      said="$5 met"
    else
      said="$5 MISSED"
    fi
  fi
  printf '  %-52s %12s %-12s %s\n' "$2" "$3" "$4" "$said" >> "$work/table"
}

policy_time() {
  awk -v kind="$1" -v name="$2" '$1 == kind && $2 == name { print $3 }' "$work/policy-times"
}

# policy_load NAME TITLE NTH
policy_load() {
  echo "$2" >> "$work/table"
  policy_row "$1.load_ms" "load" "$(awk -v ns="$(policy_time load "$1")" 'BEGIN { printf "%.1f", ns / 1e6 }')" ms "$LOAD_BUDGET"
  policy_row "$1.load_instructions" "instructions of it" "$(awk '/^totals:/ { print $2 }' "$work/policy-counts.$3")" instructions -
  policy_row "$1.peak_bytes" "memory meanwhile, the text included" \
    "$(awk -v name="$1" '$1 == name { print $2 }' "$work/policy-bytes")" bytes "$PEAK_BUDGET"
  policy_row "$1.kept_bytes" "memory of the policy" "$(awk -v name="$1" '$1 == name { print $3 }' "$work/policy-bytes")" bytes -
}

printf '  %-52s %12s %-12s %s\n' "" "" "" budget >> "$work/table"
policy_load policy_10000 "a policy of 10,000 methods, each with retries" 1
policy_load policy_10000_full "the same, each with a translation and a fallback, too" 2
echo "what holds for a method" >> "$work/table"
policy_row policy.lookup_10_ns "look-up, of 10" "$(policy_time lookup policy.lookup_10)" ns -
policy_row policy.lookup_10000_ns "look-up, of 10,000, the same 10 in use" "$(policy_time lookup policy.lookup_10000)" ns -
policy_row policy.lookup_10000_over_10_ratio "of 10,000 / of 10" \
  "$(awk -v many="$(policy_time lookup policy.lookup_10000)" -v few="$(policy_time lookup policy.lookup_10)" \
    'BEGIN { printf "%.3f", many / few }')" ratio "$LOOKUP_BUDGET"
