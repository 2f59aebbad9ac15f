#!/bin/sh
# doc/policy/same.sh MADE KEPT - fails, and shows the difference, unless a file is what the build makes.
#
# SPDX-License-Identifier: Apache-2.0
diff -u --label "$2" --label 'what `make docs` makes' "$2" "$1" && exit
echo "$2 is not what is made of the comments of policy.proto: make docs"
exit 1
