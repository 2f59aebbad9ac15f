#!/bin/sh
# bazel/setup.sh - installs the Debian packages of bazel/packages.txt that are missing.
#
#   bazel/setup.sh [group...]      no group: all of them
#
# Does nothing, and needs neither network nor rights, when all are there. Says on stderr what it installs;
# prints nothing on stdout.
#
# SPDX-License-Identifier: Apache-2.0
set -eu

list=$(dirname "$0")/packages.txt
groups=" $* "

say() {
  echo "setup: $*" >&2
}

# "package<TAB>why" of each package that the groups asked for name.
wanted() {
  awk -v groups="$groups" '
    /^[[:space:]]*(#|$)/ { next }
    groups ~ /^ *$/ || index(groups, " " $2 " ") {
      why = $0
      sub(/^[^ ]+ +[^ ]+ +/, "", why)
      if (!seen[$1]++) print $1 "\t" why
    }' "$list"
}

is_installed() {
  [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null | cut -c1-2)" = ii ]
}

if ! command -v dpkg-query >/dev/null 2>&1; then
  say "this is not a Debian system: install what $list names by hand"
  exit 1
fi

missing=""
tab=$(printf '\t')
while IFS=$tab read -r package why; do
  if [ -n "$package" ] && ! is_installed "$package"; then
    say "needs $package: $why"
    missing="$missing $package"
  fi
done <<END
$(wanted)
END

[ -n "$missing" ] || exit 0

if [ "$(id -u)" -eq 0 ]; then
  as_root="env"
elif command -v sudo >/dev/null 2>&1; then
  as_root="sudo env"
else
  say "neither root nor sudo here; as root, run: apt-get install --no-install-recommends$missing"
  exit 1
fi

say "installing$missing"
# $as_root and $missing are lists of words.
$as_root DEBIAN_FRONTEND=noninteractive apt-get -qq update </dev/null >&2
$as_root DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends \
  -o Dpkg::Use-Pty=0 install $missing </dev/null >&2
say "done"
