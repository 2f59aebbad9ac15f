#!/bin/sh
# test/lint/manual.sh - the manual page is mdoc without a fault, in style too.
#
# SPDX-License-Identifier: Apache-2.0
cd "$(dirname "$0")/../.."
status=0

for page in $(test/lint/files.sh '*.1'); do
  mandoc -T lint -W style "$page" | sed 's/^mandoc: //' | grep . && status=1
done

exit "$status"
