#!/bin/sh
# packaging/version.sh - the numbers of include/weir/version.h, for whatever is made from them.
#
#   packaging/version.sh             0.1.0
#   packaging/version.sh soname      0, of libweir.so.0
#
# SPDX-License-Identifier: Apache-2.0
set -eu

header=${WEIR_VERSION_H:-$(dirname "$0")/../include/weir/version.h}

number() {
  sed -n "s/^#define WEIR_VERSION_$1 \([0-9][0-9]*\)\$/\1/p" "$header" | grep . || {
    echo "$header:1: no WEIR_VERSION_$1" >&2
    exit 1
  }
}

case ${1:-} in
  '')
    major=$(number MAJOR) minor=$(number MINOR) patch=$(number PATCH)
    echo "$major.$minor.$patch"
    ;;
  soname) number ABI ;;
  *)
    echo "usage: packaging/version.sh [soname]" >&2
    exit 2
    ;;
esac
