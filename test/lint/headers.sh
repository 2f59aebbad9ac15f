#!/bin/sh
# test/lint/headers.sh - every public header compiles alone, as C11 and as C++17, with two compilers.
#
# SPDX-License-Identifier: Apache-2.0
cd "$(dirname "$0")/../.."
status=0

# alone HEADER COMPILER...
alone() {
  header=$1
  shift
  printf '#include <%s>\ntypedef int not_empty;\n' "${header#include/}" |
    "$@" -fsyntax-only -Wall -Wextra -Wpedantic -Werror -Iinclude - || {
    echo "$header:1: does not compile alone with: $*"
    status=1
  }
}

for header in $(test/lint/files.sh 'include/weir/*.h'); do
  alone "$header" gcc -x c -std=c11
  alone "$header" clang -x c -std=c11
  alone "$header" g++ -x c++ -std=c++17
  alone "$header" clang++ -x c++ -std=c++17
done

exit "$status"
