#!/bin/sh
# packaging/deb.sh - makes Debian packages of what packaging/build.sh has put into out/build; they are then in out/deb.
#
# In a copy of what they are made of, so that debhelper writes nothing into the source tree. lintian looks them over:
# an error of its is one here.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "$(dirname "$0")/.."

mkdir -p out
work=$(mktemp -d out/deb.XXXXXX)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM # which dash does not take for an EXIT
chmod 755 "$work"

tree=$work/weir
mkdir -p "$tree/out" "$work/packages"
# What packaging/build.sh looks at too, so that it sees that all is built.
cp -a BUILD.bazel WORKSPACE .bazelrc Makefile README.md LICENSE bazel cmd examples include interceptors packaging proto \
  src "$tree"
cp -a out/build "$tree/out"
cp -a packaging/debian "$tree/debian"

(cd "$tree" && dpkg-buildpackage -b -us -uc) >"$work/log" 2>&1 || {
  cat "$work/log" >&2
  exit 1
}
mv "$work"/*.deb "$work"/*.changes "$work"/*.buildinfo "$work/packages"
as_user=""
[ "$(id -u)" -ne 0 ] || as_user=--allow-root
# shellcheck disable=SC2086
lintian $as_user --fail-on error "$work"/packages/*.changes >&2

rm -rf out/deb
mv "$work/packages" out/deb
for package in out/deb/*.deb; do
  echo "$package"
done
