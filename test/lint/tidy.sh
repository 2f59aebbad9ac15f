#!/bin/sh
# test/lint/tidy.sh - clang-tidy over weir's own C, with the flags that Bazel compiles each file with.
#
#   test/lint/tidy.sh [file...]      no file: all
#
# SPDX-License-Identifier: Apache-2.0
cd "$(dirname "$0")/../.."
bazel=${BAZEL:-bazel}
# The configuration of CI, so that what was built there serves.
quiet="--config=ci --noshow_progress --noshow_loading_progress --ui_event_filters=-info"

[ -n "$(test/lint/files.sh '*.c')" ] || exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Generated headers have to be there; nothing is built when they are.
# shellcheck disable=SC2086
$bazel build $quiet //... >"$work/build" 2>&1 || {
  cat "$work/build"
  exit 1
}
# shellcheck disable=SC2086
root=$($bazel info $quiet execution_root 2>/dev/null)
# shellcheck disable=SC2086
$bazel aquery $quiet --include_artifacts=false 'mnemonic("CppCompile", //...)' >"$work/actions" 2>/dev/null || exit 1

# compile_commands.json of our own C files: what matters to a parser of the flags.
awk -v root="$root" '
  function word(line) {
    sub(/^[[:space:]]+/, "", line)
    sub(/[[:space:]]*\\?$/, "", line)
    sub(/\)$/, "", line)
    gsub(/^\047|\047$/, "", line)
    gsub(/\\/, "\\\\", line)
    gsub(/"/, "\\\"", line)
    return line
  }
  function keep(flag) { flags = flags ", \"" flag "\"" }
  BEGIN { print "[" }
  /^action / { flags = ""; command = 0 }
  /^  Command Line: / { command = 1; next }
  !command { next }
  /^$/ { command = 0; next }
  {
    flag = word($0)
    if (pair) { keep(pair); keep(flag); pair = "" }
    else if (flag == "-iquote" || flag == "-isystem") pair = flag
    else if (flag ~ /^-I/ || flag ~ /^-std=/ || (flag ~ /^-[DU]/ && flag !~ /__(DATE|TIME|TIMESTAMP)__/)) keep(flag)
    else if (flag == "-c") source = 1
    else if (source) {
      source = 0
      if (flag ~ /\.c$/ && flag !~ /^(bazel-out|external)\// && !seen[flag]++)
        printf "%s{\"directory\": \"%s\", \"file\": \"%s\", \"arguments\": [\"clang\"%s, \"-c\", \"%s\"]}\n", \
          n++ ? "," : "", root, flag, flags, flag
    }
  }
  END { print "]" }' "$work/actions" >"$work/compile_commands.json"

cp .clang-tidy "$work/config"
sed -n 's/.*"file": "\([^"]*\)".*/\1/p' "$work/compile_commands.json" | sort >"$work/all"
if [ $# -gt 0 ]; then
  printf '%s\n' "$@" | sort | comm -12 - "$work/all" >"$work/files"
else
  cp "$work/all" "$work/files"
fi

cd "$root" || exit 1
# shellcheck disable=SC2016
xargs -a "$work/files" -r -P "$(nproc)" -n 1 sh -c '
  case $1 in
    test/*) checks="-clang-analyzer-*" ;; # which takes most of the time: the sanitizers see what the tests do
    *) checks= ;;
  esac
  out=$(clang-tidy --quiet --config-file="$0/config" --checks="$checks" -p "$0" "$1" 2>"$0/log.$$") && exit 0
  printf "%s\n" "$out" | sed "s#$PWD/##"
  grep "error:" "$0/log.$$"
  exit 1' "$work"
