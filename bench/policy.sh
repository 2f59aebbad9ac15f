#!/bin/sh
# policy.sh - what policies of 10 to 10,000 methods cost to load and to look into. A part of bench.sh, read by it.
#
# The documents' entries each have a timeout and retries; those of one more have a translation and a fallback beside.
#
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # bench.sh sets what is common to its parts

# Of so many loads, each after one that is not timed, the twentieth part from below counts.
if [ "$quick" = yes ]; then
  LOADS=2
else
  LOADS=40
fi

"$here/policy" time "$LOADS" > "$work/policy-times"
"$here/policy" bytes > "$work/policy-bytes"

while read -r kind name ns; do
  case $kind:$name in
    load:peer.core.*) peer "${name#peer.core.}.load_ms" grpc_core "$(awk -v ns="$ns" 'BEGIN { printf "%.1f", ns / 1e6 }')" ;;
    load:*) figure "$name.load_ms" "$(awk -v ns="$ns" 'BEGIN { printf "%.3g", ns / 1e6 }')" ;;
    lookup:*) figure "${name}_ns" "$ns" ;;
  esac
done < "$work/policy-times"
figure policy.lookup_10000_over_10_ratio "$(awk '{ print $2, $3 }' "$work/policy-times" > "$work/policy-lookups"
  quotient policy.lookup_10000 policy.lookup_10 "$work/policy-lookups")"

while read -r name peak kept; do
  figure "$name.peak_bytes" "$peak"
  figure "$name.kept_bytes" "$kept"
done < "$work/policy-bytes"

if [ "$quick" = no ]; then
  for name in policy_10000 policy_10000_full; do
    callgrind "$here/policy" count "$name"
    figure "$name.load_instructions" "$(awk '/^totals:/ { print $2 }' "$work/counts.1")"
  done
fi
