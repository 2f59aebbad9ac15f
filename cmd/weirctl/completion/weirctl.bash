# weirctl.bash - completion for bash: verbs, options, their values, files.
#
# Verbs and options are those that `weirctl --help` and `weirctl VERB --help` tell.
#
# SPDX-License-Identifier: Apache-2.0

# The values of an option that has some of its own; fails for all others.
_weirctl_values() {
  case $1 in
    --color) echo auto always never ;;
    --code)
      echo OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED \
        RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS \
        UNAUTHENTICATED
      ;;
    --origin)
      echo PEER TRANSPORT_CONNECT TRANSPORT_RESET LOCAL_DEADLINE LOCAL_CANCEL LOCAL_BREAKER LOCAL_LIMIT LOCAL_SHUTDOWN
      ;;
    --bound) echo CALL PARENT POLICY ATTEMPT ;;
    *) return 1 ;;
  esac
}

_weirctl() {
  local program=${COMP_WORDS[0]} verb=${COMP_WORDS[1]} current=${COMP_WORDS[COMP_CWORD]}
  local previous=${COMP_WORDS[COMP_CWORD - 1]} words
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="--help --version $("$program" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p')"
  else
    # "--color=al" is three words.
    if [ "$current" = = ]; then
      current=
    elif [ "$previous" = = ] && [ "$COMP_CWORD" -gt 2 ]; then
      previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if ! words=$(_weirctl_values "$previous"); then
      case $current in
        -*) words=$("$program" "$verb" --help 2>/dev/null | sed -n 's/^ *\(-., \)\{0,1\}\(--[a-z-]*\).*/\2/p') ;;
        *)
          # A file: an operand, or the value of an option. What is neither has no completion.
          mapfile -t COMPREPLY < <(compgen -f -- "$current")
          case $previous in
            --service | --attempt | --pushback) COMPREPLY=() ;;
          esac
          return
          ;;
      esac
    fi
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -o filenames -F _weirctl weirctl
