#!/bin/sh
# packaging/symbols.sh - the functions that a public header, and all that it includes of weir, declares.
#
#   packaging/symbols.sh weir|decide              their names, sorted, one a line
#   packaging/symbols.sh --map weir|decide        a symbol map of them, as in packaging/*.map
#   packaging/symbols.sh --write                  both maps, into their files: after a change of the headers; and what is
#                                                 new into the symbols of the Debian packages, with the version of now
#
# By the compiler, since a name in a comment is no declaration: what is marked WEIR_API has the attribute.
#
# SPDX-License-Identifier: Apache-2.0
set -eu

folder=$(dirname "$0")
include=${WEIR_INCLUDE:-$folder/../include}

names() {
  printf '#include <weir/%s.h>\n' "$1" | ${CC:-cc} -std=c11 -E -P -I "$include" -x c - | tr '\n' ' ' |
    grep -oE '__attribute__ ?\(\(visibility\("default"\)\)\)[^;{]*' |
    sed -e 's/__attribute__ *(([^()]*\(([^()]*)\)*))//g' |
    sed -nE 's/^[^(]*[^A-Za-z0-9_(]([A-Za-z_][A-Za-z0-9_]*) *\(.*$/\1/p; t; s/.*/not understood: &/p' | LC_ALL=C sort -u
}

map() {
  echo "/* The functions of weir/$1.h, and no others: packaging/symbols.sh --write."
  echo " *"
  echo " * SPDX-License-Identifier: Apache-2.0 */"
  echo "WEIR_$("$folder/version.sh" soname) {"
  echo "  global:"
  names "$1" | sed 's/.*/    &;/'
  echo "  local:"
  echo "    *;"
  echo "};"
}

# debian HEADER PACKAGE: adds what is new to the symbols that a package promises. What is gone stays: a package without it
# is not made (doc/install.md).
debian() {
  symbols=$folder/debian/$2.symbols
  soname=$("$folder/version.sh" soname)
  version=$("$folder/version.sh")
  {
    sed -n '/^ /!p' "$symbols"
    {
      sed -n '/^ /p' "$symbols"
      { names "$1"; echo "WEIR_$soname"; } | while read -r name; do
        grep -q "^ $name@" "$symbols" || echo " $name@WEIR_$soname $version"
      done
    } | LC_ALL=C sort
  } >"$symbols.new"
  mv "$symbols.new" "$symbols"
}

case ${1:-} in
  --write)
    map weir > "$folder/libweir.map"
    map decide > "$folder/libweir_decide.map"
    debian weir libweir0
    debian decide libweir-decide0
    ;;
  --map) map "$2" ;;
  weir | decide) names "$1" ;;
  *)
    echo "usage: packaging/symbols.sh [--map] weir|decide | --write" >&2
    exit 2
    ;;
esac
