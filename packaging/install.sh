#!/bin/sh
# packaging/install.sh - installs what packaging/build.sh has put into out/build, or takes it away again.
#
#   packaging/install.sh install|uninstall|list
#
# `make install` names the folders, in the environment: prefix, exec_prefix, bindir, libdir, includedir, datarootdir,
# mandir, bashcompletiondir, fishcompletiondir, zshcompletiondir; DESTDIR stands before all of them. Nothing in the
# source tree is written.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
umask 022
DESTDIR=${DESTDIR:-}
case $DESTDIR in
  '' | /*) ;;
  *) DESTDIR=$PWD/$DESTDIR ;;
esac
cd "$(dirname "$0")/.."

fail() {
  echo "install: $*" >&2
  exit 1
}

for name in prefix exec_prefix bindir libdir includedir datarootdir mandir bashcompletiondir fishcompletiondir \
  zshcompletiondir; do
  eval "folder=\${$name:-}"
  case $folder in
    /*) ;;
    *) fail "$name must be an absolute path, not '$folder'" ;;
  esac
done

version=$(packaging/version.sh)
soname=$(packaging/version.sh soname)
built=out/build
cmakedir=$libdir/cmake/weir
pkgconfigdir=$libdir/pkgconfig

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
trap 'exit 130' HUP INT TERM # which dash does not take for an EXIT

# --- files that name others ----------------------------------------------------------------------------------------

# below VARIABLE FOLDER PATH: PATH by way of VARIABLE, where it is below FOLDER
below() {
  case $3 in
    "$2"/*) printf '${%s}/%s' "$1" "${3#"$2"/}" ;;
    "$2") printf '${%s}' "$1" ;;
    *) printf '%s' "$3" ;;
  esac
}

# As pkg-config wants a path, and then sed the text: a space, a quote, a hash; a backslash, and what ends the command.
quoted() {
  printf '%s' "$1" | sed -e 's/[][ "#'\''()&;<>*?|~`\\]/\\&/g' -e 's/[\\&|]/\\&/g'
}

# fill FILE: the template of it, filled in; prints where
fill() {
  target=$made/${1##*/}
  sed -e "s|@prefix@|$(quoted "$prefix")|" \
    -e "s|@exec_prefix@|$(quoted "$(below prefix "$prefix" "$exec_prefix")")|" \
    -e "s|@libdir@|$(quoted "$(below exec_prefix "$exec_prefix" "$libdir")")|" \
    -e "s|@includedir@|$(quoted "$(below prefix "$prefix" "$includedir")")|" \
    -e "s|@includedir_from_cmake@|$(realpath -ms --relative-to="$cmakedir" "$includedir" | sed 's/[&|\\]/\\&/g')|" \
    -e "s|@version@|$version|g; s|@soname@|$soname|g" \
    -e "s|@major@|${version%%.*}|g; s|@minor@|$(echo "$version" | cut -d. -f2)|g" \
    -e "s|@pointer_bits@|$(getconf LONG_BIT)|g; s|@pointer_bytes@|$(($(getconf LONG_BIT) / 8))|g" \
    "packaging/$1.in" > "$target"
  echo "$target"
}

# --- what goes where -----------------------------------------------------------------------------------------------

# One a line, separated by tabs: mode, source, target. The mode of a symbolic link is "link".
files() {
  for library in weir weir_decide; do
    printf '644\t%s\t%s\n' "$built/lib$library.so" "$libdir/lib$library.so.$version"
    printf 'link\t%s\t%s\n' "lib$library.so.$version" "$libdir/lib$library.so.$soname"
    printf 'link\t%s\t%s\n' "lib$library.so.$soname" "$libdir/lib$library.so"
    printf '644\t%s\t%s\n' "$built/lib$library.a" "$libdir/lib$library.a"
  done
  # All that weir.h includes of weir, itself among them.
  for header in $({ echo '<weir/weir.h>' && sed -n 's/^#include \(<weir\/.*>\)$/\1/p' include/weir/weir.h; } | tr -d '<>'); do
    printf '644\t%s\t%s\n' "include/$header" "$includedir/$header"
  done
  for name in weir weir_static weir_cxx weir_decide; do
    printf '644\t%s\t%s\n' "$(fill pkgconfig/$name.pc)" "$pkgconfigdir/$name.pc"
  done
  for name in weir-config weir-config-version weir-component-weir weir-component-decide; do
    printf '644\t%s\t%s\n' "$(fill cmake/$name.cmake)" "$cmakedir/$name.cmake"
  done
  printf '755\t%s\t%s\n' "$built/weirctl" "$bindir/weirctl"
  printf '644\t%s\t%s\n' cmd/weirctl/weirctl.1 "$mandir/man1/weirctl.1"
  printf '644\t%s\t%s\n' packaging/weir.3 "$mandir/man3/weir.3"
  printf '644\t%s\t%s\n' cmd/weirctl/completion/weirctl.bash "$bashcompletiondir/weirctl"
  printf '644\t%s\t%s\n' cmd/weirctl/completion/weirctl.fish "$fishcompletiondir/weirctl.fish"
  printf '644\t%s\t%s\n' cmd/weirctl/completion/_weirctl "$zshcompletiondir/_weirctl"
}

# Folders that are weir's, and those of others' things which no system is without for being empty; inner ones first. Not
# zsh's, which Debian's package of it makes below /usr/local, empty.
folders() {
  printf '%s\n' "$includedir/weir" "$cmakedir" "$libdir/cmake" "$pkgconfigdir" "$mandir/man1" "$mandir/man3"
  for folder in "$bashcompletiondir" "$fishcompletiondir"; do
    printf '%s\n' "$folder" "${folder%/*}"
  done
}

tab=$(printf '\t')
files > "$made/list"

# The dynamic linker's list, where it is this system's.
refresh_links() {
  [ -z "$DESTDIR" ] && [ "$(id -u)" -eq 0 ] && command -v ldconfig >/dev/null 2>&1 || return 0
  ldconfig || echo "install: ldconfig failed; programs may not find libweir.so.$soname" >&2
}

case ${1:-} in
  install)
    while IFS=$tab read -r mode source target; do
      [ "$mode" = link ] || [ -f "$source" ] || fail "$source is missing; nothing is installed"
    done < "$made/list"
    while IFS=$tab read -r mode source target; do
      if [ "$mode" = link ]; then
        ln -sfn "$source" "$DESTDIR$target"
      else
        install -D -m "$mode" "$source" "$DESTDIR$target"
      fi
    done < "$made/list"
    refresh_links
    ;;
  uninstall)
    while IFS=$tab read -r mode source target; do
      rm -f "$DESTDIR$target"
    done < "$made/list"
    folders | while read -r folder; do
      [ ! -d "$DESTDIR$folder" ] || rmdir --ignore-fail-on-non-empty "$DESTDIR$folder"
    done
    refresh_links
    ;;
  list) cut -f3 "$made/list" ;;
  *)
    echo "usage: packaging/install.sh install|uninstall|list" >&2
    exit 2
    ;;
esac
