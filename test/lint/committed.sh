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
    *) [ "$(wc -c < "$file")" -gt 524288 ] || continue; why="larger than 512 KiB" ;;
  esac
  echo "$file:1: $why, it does not belong in git"
  status=1
done

exit "$status"
