#!/bin/sh
# test/lint/committed.sh - what is generated, built or somebody else's stays out of git: the build makes or fetches it.
#
# SPDX-License-Identifier: Apache-2.0
cd "$(dirname "$0")/../.."
status=0

for file in $(test/lint/files.sh); do
  case $file in
    *.upb.[ch] | *.upbdefs.[ch] | *.pb-c.[ch] | *.pb.h | *.pb.cc) why="generated from a .proto" ;;
    *.o | *.a | *.so | *.so.* | *.tar | *.tar.* | *.gz | *.xz | *.zip) why="built or packed" ;;
    third_party/* | */third_party/* | vendor/* | */vendor/*) why="somebody else's" ;;
    *) continue ;;
  esac
  echo "$file:1: $why, it does not belong in git"
  status=1
done

test/lint/files.sh | xargs wc -c |
  awk '$2 != "total" && $1 > 524288 { print $2 ":1: larger than 512 KiB, it does not belong in git" }' | grep . && status=1

exit "$status"
