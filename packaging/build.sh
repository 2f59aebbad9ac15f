#!/bin/sh
# packaging/build.sh - builds what is installed, and puts it into out/build.
#
#   packaging/build.sh                 asks Bazel
#   packaging/build.sh --if-changed    asks it only where a file has changed since
#
# out/build is replaced as a whole, when all is built: what installs from it gets all that belongs together, whatever
# Bazel is asked meanwhile, by whom and with which options. With --if-changed, root can install what somebody else has
# built, without a build of root's own.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "$(dirname "$0")/.."

say() {
  echo "build: $*" >&2
}

inputs="BUILD.bazel WORKSPACE .bazelrc bazel cmd include interceptors packaging proto src"

is_up_to_date() {
  # $inputs is a list of words.
  [ -f out/build/made ] && [ -z "$(find $inputs -type f -newer out/build/made -print -quit)" ]
}

if [ "${1:-}" = --if-changed ]; then
  ! is_up_to_date || exit 0
  owner=$(stat -c %u .)
  if [ -n "${SUDO_UID:-}" ] && [ "$owner" -ne 0 ] && [ "$(id -u)" -eq 0 ]; then
    say "not built, or changed since: run 'make build' first, without sudo"
    exit 1
  fi
fi

bazel/setup.sh build
mkdir -p out
new=$(mktemp -d out/build.XXXXXX)
trap 'rm -rf "$new"' EXIT
trap 'exit 130' HUP INT TERM # which dash does not take for an EXIT
touch "$new/made" # a file that changes from here on is newer

bazel=${BAZEL:-bazel}
$bazel build --config=opt //packaging:libraries //cmd/weirctl >&2
bin=$($bazel info --config=opt bazel-bin 2>/dev/null)
for name in libweir libweir_decide; do
  install -m 644 "$bin/packaging/$name.so" "$bin/packaging/$name.a" "$new"
done
install -m 755 "$bin/cmd/weirctl/weirctl" "$new"

chmod 755 "$new"
rm -rf out/build
mv "$new" out/build
trap - EXIT
