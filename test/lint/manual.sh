#!/bin/sh
# test/lint/manual.sh - the manual pages are mdoc without a fault, in style too.
#
# SPDX-License-Identifier: Apache-2.0
cd "$(dirname "$0")/../.."
status=0

# Pages of weir's own that a page names are installed beside it, not here.
ours=$(test/lint/files.sh '*.[1-8]' | sed -n 's|.*/\([^/]*\)\.\([1-8]\)$|Xr \1 \2\\b|p' | paste -sd'|')

for page in $(test/lint/files.sh '*.[1-8]'); do
  mandoc -T lint -W style "$page" 2>/dev/null | sed 's/^mandoc: //' |
    grep -vE "referenced manual not found: ($ours)" | grep . && status=1
done

exit "$status"
