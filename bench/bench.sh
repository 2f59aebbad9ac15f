#!/bin/sh
# bench - what weir costs: its decisions by themselves, beside others', calls and messages beside the bare core's, and a
# policy of 10,000 methods.
#
#   bench [--json] [--quick] [decisions|calls|policy]
#
# A table, or with --json a list of {"name", "value", "unit", "budget", "peer": {NAME: {"value", "measured", "source"}}};
# budgets are what is not to be exceeded, those of calls a second what is to be reached. "measured": by this very run;
# what is not is told with its source. --quick shows that everything runs, and no figure of it is worth much.
# doc/bench.md says what each figure means and how it is measured.
#
# SPDX-License-Identifier: Apache-2.0
set -eu

usage() {
  echo "usage: bench [--json] [--quick] [decisions|calls|policy]" >&2
  exit 2
}

format=table
quick=no
parts=""
for argument in "$@"; do
  case $argument in
    --json) format=json ;;
    --quick)
      # shellcheck disable=SC2034 # the parts look at it
      quick=yes
      ;;
    decisions | calls | policy) parts="$parts $argument" ;;
    *) usage ;;
  esac
done
parts=${parts:-decisions calls policy}

here="$0.runfiles/weir/bench"
[ -d "$here" ] || here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
clean() {
  exec 9>&- || true
  rm -rf "$work"
}
trap clean EXIT
: > "$work/figures"
: > "$work/peers"
: > "$work/table"
tab=$(printf '\t')

# figure NAME VALUE UNIT BUDGET: for --json. "-" = no budget.
figure() {
  printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >> "$work/figures"
}

# peer NAME PEER VALUE SOURCE: what is told beside the figure NAME. SOURCE empty = measured in this run.
peer() {
  printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >> "$work/peers"
}

# The middle one of the numbers on standard input, the lower one of two.
middle() {
  sort -n | awk '{ value[NR] = $1 } END { if (NR > 0) print value[int((NR + 1) / 2)] }'
}

for part in $parts; do
  # shellcheck source=/dev/null
  . "$here/$part.sh"
done

if [ "$format" = table ]; then
  cat "$work/table"
  exit 0
fi
awk -F "$tab" '
  FILENAME ~ /peers$/ {
    entry = sprintf("\"%s\": {\"value\": %s, \"measured\": %s, \"source\": \"%s\"}", $2, $3, $4 == "" ? "true" : "false", $4 == "" ? "this run" : $4)
    peers[$1] = peers[$1] (peers[$1] == "" ? "" : ", ") entry
    next
  }
  {
    printf "%s{\"name\": \"%s\", \"value\": %s, \"unit\": \"%s\", \"budget\": %s, \"peer\": {%s}}", \
      n++ ? ",\n " : "[", $1, $2, $3, $4 == "-" ? "null" : $4, peers[$1]
  }
  END { print n ? "]" : "[]" }' "$work/peers" "$work/figures"
