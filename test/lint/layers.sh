#!/bin/sh
# test/lint/layers.sh - who may depend on whom: base <- time <- decide, outcome <- interceptors/*, and no
# interceptor on another; decide does not know gRPC. By the includes, and by what Bazel says of the libraries.
#
# SPDX-License-Identifier: Apache-2.0
cd "$(dirname "$0")/../.."
status=0
bazel=${BAZEL:-bazel}

is_package() {
  [ -f "$1/BUILD.bazel" ]
}

for file in $(test/lint/files.sh 'interceptors/*.[ch]'); do
  layer=$(printf '%s' "$file" | cut -d/ -f2)
  grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]interceptors/' "$file" |
    grep -v "interceptors/$layer/" | sed "s|^|$file:|; s|\$|    <- an interceptor does not know another|" |
    grep . && status=1
done

# only LIBRARIES ALLOWED...: of weir's own libraries, those of the package LIBRARIES need none outside it and ALLOWED.
only() {
  package=$1
  is_package "$package" || return 0
  allowed="//$package/..."
  shift
  for other in "$@"; do
    ! is_package "$other" || allowed="$allowed union //$other/..."
  done
  own="kind(cc_library, //$package/...)"
  layers=""
  for folder in src interceptors; do
    ! find "$folder" -name BUILD.bazel 2>/dev/null | grep -q . || layers="${layers:+$layers union }//$folder/..."
  done
  too_far="(kind(cc_library, $layers) except ($allowed))"
  needed=$($bazel query --noshow_progress --noshow_loading_progress "deps($own) intersect $too_far" 2>"$log") || {
    cat "$log" >&2
    status=1
    return
  }
  for target in $needed; do
    echo "$package/BUILD.bazel:1: depends on $target, by way of:"
    $bazel query --noshow_progress --noshow_loading_progress "somepath($own, $target)" 2>/dev/null | sed 's/^/    /'
    status=1
  done
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT

only src/base
only src/time src/base
only src/outcome src/base src/time
only src/decide src/base src/time
for folder in interceptors/*/; do
  only "${folder%/}" src/base src/time src/outcome src/decide
done

# //:weir_decide is for programs without gRPC.
if is_package src/decide && $bazel query --noshow_progress --noshow_loading_progress \
  'somepath(//:weir_decide, @grpc//...)' 2>/dev/null | grep .; then
  echo "BUILD.bazel:1: //:weir_decide depends on gRPC, as above"
  status=1
fi

exit "$status"
