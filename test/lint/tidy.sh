#!/bin/sh
# test/lint/tidy.sh - clang-tidy over weir's own C, with the flags that Bazel compiles each file with; and what clang
# itself warns of, as errors, so that CI need not compile all files with clang a second time.
#
#   test/lint/tidy.sh [file...]      no file: all
#
# SPDX-License-Identifier: Apache-2.0
cd "$(dirname "$0")/../.."
bazel=${BAZEL:-bazel}
# CONFIG names a configuration of which everything is built already, so that nothing is built for this.
quiet="--config=${CONFIG:-ci} --noshow_progress --noshow_loading_progress --ui_event_filters=-info"

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

# compile_commands.json of our own C files: what matters to a parser of the flags. Warnings, of which some are gcc's
# alone, are errors by .clang-tidy. protobuf-c's initialisers drop a const, which gcc does not say of a system header's
# macro.
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
    else if (flag ~ /^-W/ && flag !~ /^-W(error|l,)/) keep(flag)
    else if (flag == "-c") source = 1
    else if (source) {
      source = 0
      keep("-Wno-unknown-warning-option")
      keep("-Wno-cast-qual")
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

# tidy CHECKS COUNT OPTION...: of the files on standard input, so many by each process.
tidy() {
  checks=$1
  count=$2
  shift 2
  # shellcheck disable=SC2016
  xargs -r -P "$(nproc)" -n "$count" sh -c '
    work=$0
    out=$(clang-tidy --quiet --config-file="$work/config" -p "$work" "$@" 2>"$work/log.$$") && exit 0
    printf "%s\n" "$out" | sed "s#$PWD/##"
    grep "error:" "$work/log.$$"
    exit 1' "$work" --checks="$checks" "$@"
}

status=0
# One by one: clang 14's analyzer takes what it knows of the first file to hold for the next ones. Of each function it looks
# at a third of the states that it would by itself: in the largest ones the rest takes half of all time.
grep '^\(src\|interceptors\)/' "$work/files" |
  tidy '' 1 --extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg=max-nodes=75000 || status=1
# Without the analyzer, which takes most of the time: what programs and tests do, the sanitizers see. Some at once, since
# clang-tidy takes long to start; few enough for all cores to be at work to the end.
grep -v '^\(src\|interceptors\)/' "$work/files" | tidy '-clang-analyzer-*' 6 || status=1
exit "$status"
