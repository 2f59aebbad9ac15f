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

# One grep reads them all: one for each file takes minutes.
test/lint/files.sh ':!test/lint/' ':!LICENSE' | xargs grep -HnIE '(TODO|FIXME)' | grep -vE '(TODO|FIXME)\(#[0-9]+\)' |
  refuse "name the issue: TODO(#12)" && status=1
test/lint/files.sh ':!test/lint/' ':!LICENSE' | xargs grep -HnIE '(^|[^A-Za-z0-9_.})])/(work|root|home|Users)/' |
  refuse "a path of somebody's machine" && status=1
test/lint/files.sh '*.c' '*.h' '*.proto' '*.bzl' '*.sh' '*.awk' '*.pml' | xargs grep -L 'SPDX-License-Identifier: Apache-2.0' |
  sed 's|$|:1: no SPDX-License-Identifier: Apache-2.0|' | grep . && status=1

exit "$status"
