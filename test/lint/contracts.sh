#!/bin/sh
# test/lint/contracts.sh - every public function says who owns what, on which threads it may be called, and how it
# fails: the comment right before it has "Ownership:", "Threads:" and "Errors:", in that order.
#
# SPDX-License-Identifier: Apache-2.0
cd "$(dirname "$0")/../.."
files=$(test/lint/files.sh 'include/weir/*.h')
[ -n "$files" ] || exit 0
# shellcheck disable=SC2086
awk '
  FNR == 1 { in_comment = 0; comment = ""; ended = 0 }

  in_comment || /^[[:space:]]*\/\*/ {
    if (!in_comment) comment = ""
    comment = comment "\n" $0
    in_comment = $0 !~ /\*\//
    if (!in_comment) ended = FNR
    next
  }

  /(^|[^A-Za-z0-9_])WEIR_API([^A-Za-z0-9_]|$)/ && !/^[[:space:]]*#/ {
    ownership = index(comment, "Ownership:")
    threads = index(comment, "Threads:")
    errors = index(comment, "Errors:")
    if (ended != FNR - 1) {
      printf "%s:%d: a public function without a comment right before it\n", FILENAME, FNR
      bad = 1
    } else if (!ownership || ownership > threads || threads > errors) {
      printf "%s:%d: the comment must have \"Ownership:\", \"Threads:\" and \"Errors:\", in that order\n", FILENAME, FNR
      bad = 1
    }
  }

  END { exit bad }' $files
