#!/bin/sh
# test/lint/seams.sh - what the outside world is reached through, each in its one place:
#   the calls and completion queues of the core   src/transport/
#   clocks                                        src/time/
#   memory                                        src/base/allocator.c, by an allocator of the application's; and
#                                                 the throttles, which outlive any (src/decide/throttle_registry.c)
# and no interceptor decides by a raw status code: src/outcome/ has classified it.
#
# SPDX-License-Identifier: Apache-2.0
cd "$(dirname "$0")/../.."
status=0

# code PATHSPEC...: file:line:code of these files
code() {
  files=$(test/lint/files.sh "$@")
  # shellcheck disable=SC2086
  [ -z "$files" ] || awk -f test/lint/code.awk $files
}

# refuse WHY: prints what is on standard input, with the reason; succeeds if there was anything
refuse() {
  sed "s|\$|    <- $1|" | grep .
}

word='(^|[^A-Za-z0-9_])'
end='([^A-Za-z0-9_]|$)'
core='grpc_(census_)?call_[a-z_]+|grpc_completion_queue_[a-z_]+'
core="$core|grpc_channel_(create_call|create_registered_call|register_call|watch_connectivity_state|get_target)"
# Types, and functions on plain data.
harmless='grpc_call_(error|details|details_init|details_destroy|error_to_string|credentials)|grpc_completion_queue_(functor|attributes|factory)'

found=$(code 'src/*.[ch]' 'interceptors/*.[ch]' ':!src/transport/' |
  awk -v harmless="$word($harmless)$end" -v core="$word($core)$end" '{
    line = $0
    while (match(line, harmless)) line = substr(line, 1, RSTART) " " substr(line, RSTART + RLENGTH - 1)
    if (line ~ core) print
  }')
printf '%s' "$found" | refuse "only src/transport/ starts, cancels and drains calls of the core" && status=1

code 'src/*.[ch]' 'interceptors/*.[ch]' ':!src/time/' |
  grep -E "$word(clock_gettime|gpr_now|gettimeofday|timespec_get|time|clock)[[:space:]]*\(" |
  refuse "only src/time/ reads a clock" && status=1

code 'src/*.[ch]' 'interceptors/*.[ch]' ':!src/base/allocator.c' ':!src/decide/throttle_registry.c' |
  grep -E "$word(malloc|calloc|realloc|aligned_alloc|posix_memalign|strdup|strndup|asprintf|open_memstream|getline|free)[[:space:]]*\(" |
  refuse "memory comes from a weir_allocator, so that it may run out" && status=1

code 'interceptors/*.[ch]' | grep 'GRPC_STATUS_' |
  grep -E "$word(case|switch)$end|[=!]=" |
  refuse "an interceptor asks the outcome, not the status code" && status=1

exit "$status"
