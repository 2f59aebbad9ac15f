#!/bin/sh
# test/doc/getting_started_test.sh FLAGS WEIRCTL - doc/getting-started.md, with the libraries of the build.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
CFLAGS=-I$PWD/include
LIBS=$(sed "s|RUNFILES|$PWD|g" "$1")
WEIRCTL=$2
export CFLAGS LIBS WEIRCTL
exec test/doc/getting_started.py doc/getting-started.md
