#!/bin/sh
# test/lint/docs_in_sync.sh - the code that the documents show is the code that is built:
#   README.md          its C is examples/unary.c
#   doc/fallback.md    its C is examples/fallback.c
#   doc/migration.md   its diff is the one between examples/client_before.c and client_after.c, which differ in prefixes,
#                      the channel's creation and the header only
#
# SPDX-License-Identifier: Apache-2.0
cd "$(dirname "$0")/../.."
status=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# block LANGUAGE FILE: the first fenced block of that language
block() {
  awk -v fence="\`\`\`$1" '
    inside && /^```/ { exit }
    inside { print }
    $0 == fence { inside = 1 }' "$2"
}

# same WHERE EXPECTED ACTUAL: fails, showing the difference, unless the two files are equal
same() {
  diff -u "$2" "$3" >"$scratch/difference" && return
  sed "s|^|$1: |" "$scratch/difference"
  status=1
}

block c README.md >"$scratch/readme.c"
same README.md examples/unary.c "$scratch/readme.c"

block c doc/fallback.md >"$scratch/fallback.c"
same doc/fallback.md examples/fallback.c "$scratch/fallback.c"

block diff doc/migration.md >"$scratch/shown.diff"
(cd examples && diff -u --label client_before.c --label client_after.c client_before.c client_after.c) >"$scratch/real.diff"
same doc/migration.md "$scratch/real.diff" "$scratch/shown.diff"

# The one header more, and the one argument more of the channel's creation, undone by hand; the rest by the prefix.
sed -e '/^#include <weir\/weir.h>$/,/^$/d' -e 's/weir_channel_create(\(.*\), NULL, NULL)/grpc_channel_create(\1, NULL)/' \
  -e 's/weir_/grpc_/g' examples/client_after.c >"$scratch/unprefixed.c"
same examples/client_after.c examples/client_before.c "$scratch/unprefixed.c"

exit "$status"
