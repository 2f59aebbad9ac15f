#!/bin/sh
# bench - what weir costs: calls and messages beside the bare core's, its decisions beside others', many calls at once, and
# policies of up to 10,000 methods.
#
#   bench [--json] [--quick] [--plots[=FOLDER]] [calls|decisions|many|policy]...
#   bench --replot[=FOLDER]
#
# A table, or with --json a list of {"name", "value", "unit", "budget", "peer": {NAME: {"value", "measured", "source"}}},
# and {"over": {"by", "why"}} where a budget is exceeded. bench/figures.tsv has the names, units and budgets,
# bench/reasons.tsv the reasons. "measured": by this very run; what is not is told with its source.
#
# --plots measures all, and writes results.json, results.md and the plots into FOLDER (doc/bench); --replot draws them
# anew of what results.json has. --quick shows that everything runs, and no figure of it is worth much.
# doc/bench.md says what each figure means and how it is measured.
#
# SPDX-License-Identifier: Apache-2.0
set -eu

usage() {
  echo "usage: bench [--json] [--quick] [--plots[=FOLDER]] [calls|decisions|many|policy]..." >&2
  echo "       bench --replot[=FOLDER]" >&2
  exit 2
}

format=table
quick=no
plots=""
replot=""
parts=""
for argument in "$@"; do
  case $argument in
    --json) format=json ;;
    --quick) quick=yes ;;
    --plots) plots=doc/bench ;;
    --plots=?*) plots=${argument#*=} ;;
    --replot) replot=doc/bench ;;
    --replot=?*) replot=${argument#*=} ;;
    calls | decisions | many | policy) parts="$parts $argument" ;;
    *) usage ;;
  esac
done

here="$0.runfiles/weir/bench"
[ -d "$here" ] || here=$(cd "$(dirname "$0")" && pwd)

if [ -n "$replot" ]; then
  exec python3 -B "$here/report.py" plots "$replot"
fi
if [ -n "$plots" ]; then
  # Results are of all, and of a run that is worth it.
  [ -z "$parts" ] || usage
  [ "$quick" = no ] || [ "$plots" != doc/bench ] || usage
  mkdir -p "$plots"
fi

work=$(mktemp -d)
clean() {
  exec 9>&- || true
  rm -rf "$work"
}
trap clean EXIT
: > "$work/figures"
: > "$work/peers"

# figure NAME VALUE: what this run found. No VALUE: it could not be measured.
figure() {
  [ -z "$2" ] || printf '%s\t%s\n' "$1" "$2" >> "$work/figures"
}

# peer NAME PEER VALUE: what this run found of PEER, in the terms of the figure NAME.
peer() {
  [ -z "$3" ] || printf '%s\t%s\t%s\n' "$1" "$2" "$3" >> "$work/peers"
}

# The middle one of the numbers on standard input, the lower one of two.
middle() {
  sort -n | awk '{ value[NR] = $1 } END { if (NR > 0) print value[int((NR + 1) / 2)] }'
}

# of NAME FILE: what stands behind NAME there.
of() {
  awk -v name="$1" '$1 == name { print $2 }' "$2"
}

# quotient NAME NAME FILE: of what stands behind the two.
quotient() {
  awk -v over="$1" -v under="$2" '
    $1 == over { above = $2 }
    $1 == under { below = $2 }
    END { if (above != "" && below > 0) printf "%.3f", above / below }' "$3"
}

# callgrind OPTION... PROGRAM ARGUMENT...: standard output into $work/counted, series into $work/counts.1 and on.
callgrind() {
  rm -f "$work"/counts*
  valgrind --tool=callgrind --zero-before=series --dump-after=series --callgrind-out-file="$work/counts" "$@" \
    > "$work/counted" 2> "$work/log" || {
    cat "$work/log" >&2
    exit 1
  }
}

say() {
  echo "bench: $*" >&2
}

load=$(cut -d ' ' -f 1 /proc/loadavg)
for part in ${parts:-calls decisions many policy}; do
  say "$part"
  # shellcheck source=/dev/null
  . "$here/$part.sh"
done

if [ -n "$plots" ]; then
  python3 -B "$here/report.py" results "$work" "$load" "$plots"
  python3 -B "$here/report.py" plots "$plots"
fi
python3 -B "$here/report.py" "$format" "$work"
