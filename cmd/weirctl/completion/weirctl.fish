# weirctl.fish - completion for fish: verbs, options, their values, files.
#
# Verbs and options are those that `weirctl --help` and `weirctl VERB --help` tell.
#
# SPDX-License-Identifier: Apache-2.0

function __weirctl_verbs
    weirctl --help 2>/dev/null | string replace -rf '^  ([a-z]+) +(.*)' '$1\t$2'
end

function __weirctl_options
    set -l words (commandline -opc)
    weirctl $words[2] --help 2>/dev/null | string replace -rf '^ *(?:-., )?(--[a-z-]+)(?: [A-Z.]+)? +(.*)' '$1\t$2'
end

# Whether what stands before the cursor is the option that is named, and waits for its value.
function __weirctl_after
    contains -- (commandline -opc)[-1] $argv
end

set -l codes OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED \
    RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS \
    UNAUTHENTICATED
set -l origins PEER TRANSPORT_CONNECT TRANSPORT_RESET LOCAL_DEADLINE LOCAL_CANCEL LOCAL_BREAKER LOCAL_LIMIT \
    LOCAL_SHUTDOWN

complete -c weirctl -n __fish_use_subcommand -f -a '(__weirctl_verbs)'
complete -c weirctl -n __fish_use_subcommand -f -l version -d 'tells the version'
complete -c weirctl -n 'not __fish_use_subcommand; and string match -q -- "-*" (commandline -ct)' -f -a '(__weirctl_options)'
complete -c weirctl -n '__weirctl_after --color' -f -a 'auto always never'
complete -c weirctl -n '__weirctl_after --code' -f -a "$codes"
complete -c weirctl -n '__weirctl_after --origin' -f -a "$origins"
complete -c weirctl -n '__weirctl_after --bound' -f -a 'CALL PARENT POLICY ATTEMPT'
complete -c weirctl -n '__weirctl_after --service --attempt --pushback' -f
