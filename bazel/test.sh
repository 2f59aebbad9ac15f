#!/bin/sh
# bazel/test.sh - runs all tests, then says in a line how many test functions passed and failed.
#
#   bazel/test.sh [option of bazel test...]
#
# Where WEIR_COUNTS names a file, "passed failed" is added to it too.
#
# SPDX-License-Identifier: Apache-2.0
set -u
cd "$(dirname "$0")/.."

events=$(mktemp)
trap 'rm -f "$events"' EXIT

# Many tests wait, for timers and for peers, and leave the cores idle: two at once for each. What is compiled
# meanwhile still is so on as many cores as there are.
jobs=$((2 * $(nproc)))

${BAZEL:-bazel} test --jobs="$jobs" --local_test_jobs="$jobs" --build_event_text_file="$events" "$@" //...
status=$?

# "status log" of each test program that Bazel has a result of, from this run or from an earlier one.
results() {
  awk '
    /^test_result {/ { inside = 1; log_file = ""; status = "UNKNOWN" }
    inside && /name: "test.log"/ { named = 1; next }
    inside && named && /uri: / { log_file = $2; gsub(/"|file:\/\//, "", log_file); named = 0 }
    inside && /^  status: / { status = $2 }
    inside && /^}/ { if (log_file != "") print status, log_file; inside = 0 }' "$events"
}

passed=0
failed=0
programs=0
while read -r result log; do
  [ -n "$result" ] || continue
  # cmocka ends a group with "[  PASSED  ] 3 test(s)." and, if need be, "[  FAILED  ] 1 test(s), listed below:".
  counts=$(awk '
    /^\[  PASSED  \] [0-9]+ test/ { passed += $4 }
    /^\[  FAILED  \] [0-9]+ test/ { failed += $4 }
    END { print passed + 0, failed + 0 }' "$log")
  [ "$result" = PASSED ] || [ "${counts#* }" -gt 0 ] || counts="${counts% *} 1"
  passed=$((passed + ${counts% *}))
  failed=$((failed + ${counts#* }))
  programs=$((programs + 1))
done <<END
$(results)
END

# What did not build, or did not start.
[ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1

echo "check: $passed test functions passed and $failed failed, in $programs test programs"
[ -z "${WEIR_COUNTS:-}" ] || echo "$passed $failed" >> "$WEIR_COUNTS"
exit "$status"
