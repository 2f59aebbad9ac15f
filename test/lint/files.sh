#!/bin/sh
# test/lint/files.sh - the files that git knows or would know, one a line.
#
#   test/lint/files.sh [pathspec...]
#
# SPDX-License-Identifier: Apache-2.0
cd "$(dirname "$0")/../.."
git ls-files -co --exclude-standard -- "$@" | sort -u | while read -r file; do
  [ ! -f "$file" ] || printf '%s\n' "$file"
done
