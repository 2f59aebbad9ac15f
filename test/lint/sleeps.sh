#!/bin/sh
# test/lint/sleeps.sh - no test sleeps: time is injected, and what really takes time is waited for by its event.
#
# SPDX-License-Identifier: Apache-2.0
cd "$(dirname "$0")/../.."
files=$(test/lint/files.sh 'test/*.[ch]' '*_test.c')
[ -n "$files" ] || exit 0
# shellcheck disable=SC2086
! awk -f test/lint/code.awk $files |
  grep -E '(^|[^A-Za-z0-9_])(sleep|usleep|nanosleep|clock_nanosleep|thrd_sleep|gpr_sleep_until)[[:space:]]*\(' |
  sed 's|$|    <- a test does not sleep|' | grep .
