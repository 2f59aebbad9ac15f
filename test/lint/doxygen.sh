#!/bin/sh
# test/lint/doxygen.sh - Doxygen finds nothing to warn of in the public headers: everything has a comment, and every
# comment means to it what it says.
#
# SPDX-License-Identifier: Apache-2.0
cd "$(dirname "$0")/../.."
doc/doxygen/run check
