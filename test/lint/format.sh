#!/bin/sh
# test/lint/format.sh - every C file is as clang-format writes it (`make format`).
#
# SPDX-License-Identifier: Apache-2.0
cd "$(dirname "$0")/../.."
files=$(test/lint/files.sh '*.c' '*.h')
[ -n "$files" ] || exit 0
# shellcheck disable=SC2086
clang-format --dry-run --Werror $files
