#!/bin/sh
# many.sh - what many calls at once take, under way and in backoff, beside the core's own retries. A part of bench.sh, read
# by it.
#
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # bench.sh sets what is common to its parts

# Of so many calls under way each takes its share of what is taken for many at once.
if [ "$quick" = yes ]; then
  UNDER_WAY=1000
  IN_BACKOFF="1 1000"
else
  UNDER_WAY=10000
  IN_BACKOFF="1 1000 100000"
fi

# The core looks through all that is under way whenever something ends: 100,000 would take it minutes.
IN_CORE_BACKOFF="1 1000"

{
  "$here/many" bytes "$UNDER_WAY"
  for n in $IN_BACKOFF; do
    "$here/many" backoff "$n"
  done
} > "$work/many"
for n in $IN_CORE_BACKOFF; do
  "$here/many" core_backoff "$n"
done > "$work/core-many"

while read -r name value; do
  case $name in
    peer.*) ;;
    *) figure "$name" "$value" ;;
  esac
done < "$work/many"
core_bytes=$(of peer.core_retries.call.bytes_over_bare "$work/many")
peer call.bytes core_retries "$core_bytes"
peer call.bytes_over_bare core_retries "$core_bytes"
while read -r name value; do
  peer "${name#peer.core_retries.}" core_retries "$value"
done < "$work/core-many"
