#!/bin/sh
# test/lint/text.sh - what no file holds: a TODO or FIXME without an issue ("TODO(#12)"), a path of somebody's
# machine; and what every source file holds: its licence.
#
# SPDX-License-Identifier: Apache-2.0
cd "$(dirname "$0")/../.."
status=0

# refuse WHY: prints what is on standard input, with the reason; succeeds if there was anything
refuse() {
  sed "s|\$|    <- $1|" | grep .
}

for file in $(test/lint/files.sh ':!test/lint/' ':!LICENSE'); do
  grep -HnIE '(TODO|FIXME)' "$file" | grep -vE '(TODO|FIXME)\(#[0-9]+\)' | refuse "name the issue: TODO(#12)" && status=1
  grep -HnIE '(^|[^A-Za-z0-9_.})])/(work|root|home|Users)/' "$file" | refuse "a path of somebody's machine" && status=1
done

for file in $(test/lint/files.sh '*.c' '*.h' '*.proto' '*.bzl' '*.sh' '*.awk' '*.pml'); do
  grep -q 'SPDX-License-Identifier: Apache-2.0' "$file" || echo "$file:1: no SPDX-License-Identifier: Apache-2.0"
done | grep . && status=1

exit "$status"
