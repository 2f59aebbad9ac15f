#!/bin/sh
# bazel/upb_source.sh - unpacks into the present folder the upb that the installed gRPC was built with.
#
# It comes out of Debian's source package of gRPC; no binary package has its headers. apt gets a configuration of
# its own, made here from the system's sources, so the system's lists and settings stay as they are.
#
#   upb/            the headers and sources of upb and of its code generators
#   generated/      ready code for google/protobuf/*.proto and google/rpc/status.proto
#   soname          the file name of the shared library that goes with them
#
# SPDX-License-Identifier: Apache-2.0
set -eu

fail() {
  printf '\n\nupb: %s\n\n' "$*" >&2
  exit 1
}

# --- which version ---------------------------------------------------------------------------------------------

installed=$(dpkg-query -W -f '${source:Version}' libgrpc-dev 2>/dev/null) || installed=""
[ -n "$installed" ] || fail "libgrpc-dev is not installed. Install it: apt-get install libgrpc-dev"

upstream_of() {
  printf '%s\n' "$1" | sed -e 's/^[0-9]*://' -e 's/-[^-]*$//'
}

upstream=$(upstream_of "$installed")

# --- a private configuration of apt ----------------------------------------------------------------------------

apt=$PWD/apt
rm -rf "$apt"
mkdir -p "$apt/sources" "$apt/lists/partial" "$apt/cache/archives/partial"

codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")

eval "$(apt-config shell source_list Dir::Etc::sourcelist/f source_parts Dir::Etc::sourceparts/d)"

# The paragraphs of a deb822 file that name Debian's main component, turned into ones for sources.
sources_of_deb822() {
  awk -v codename="$codename" '
    function flush() {
      if (types && main && debian && suite && enabled) printf "Types: deb-src\n%s\n", text
      text = ""; types = main = debian = suite = 0; enabled = 1
    }
    BEGIN { enabled = 1 }
    /^#/ { next }
    /^[[:space:]]*$/ { flush(); next }
    /^[^[:space:]]/ { field = tolower($1) }
    { line = " " tolower($0) " " }
    field == "types:" { if (line ~ / deb /) types = 1; next }
    field == "architectures:" { next }
    field == "enabled:" { if (line ~ / (no|false|without|off|disable) /) enabled = 0 }
    field == "components:" { if (line ~ / main /) main = 1 }
    field == "uris:" { if (line ~ /\/debian/) debian = 1 }
    field == "suites:" { if (codename == "" || index(line, codename) || line ~ /stable/) suite = 1 }
    { text = text $0 "\n" }
    END { flush() }' "$@"
}

# The same of one-line files.
sources_of_list() {
  awk -v codename="$codename" '
    $1 != "deb" { next }
    !/\/debian/ || !/ main( |$)/ { next }
    codename != "" && !index($0, codename) && !/stable/ { next }
    {
      sub(/^[[:space:]]*deb/, "deb-src")
      gsub(/arch(itectures)?=[^] ]* ?/, "")
      sub(/\[ *\]/, "")
      print
    }' "$@"
}

for file in "${source_parts%/}"/*.sources; do
  [ ! -f "$file" ] || sources_of_deb822 "$file" >> "$apt/sources/debian.sources"
done
for file in "$source_list" "${source_parts%/}"/*.list; do
  [ ! -f "$file" ] || sources_of_list "$file" >> "$apt/sources/debian.list"
done
[ -s "$apt/sources/debian.sources" ] || [ -s "$apt/sources/debian.list" ] ||
  fail "the system's apt sources name no Debian archive (component main) to take the source of gRPC from"

cat > "$apt/apt.conf" <<END
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$apt/sources";
Dir::State::Lists "$apt/lists";
Dir::Cache "$apt/cache";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "2";
#clear APT::Update;
#clear DPkg::Post-Invoke;
END

# --- fetch -----------------------------------------------------------------------------------------------------

# An archive among several may be out of reach: what counts is whether the source package is found.
apt-get -c "$apt/apt.conf" -qq update > "$apt/log" 2>&1 || true

available=$(apt-cache -c "$apt/apt.conf" showsrc --only-source grpc 2>> "$apt/log" |
  sed -n 's/^Version: //p' | sort -u)
version=""
for candidate in $available; do
  if [ "$candidate" = "$installed" ]; then
    version=$candidate
    break
  elif [ "$(upstream_of "$candidate")" = "$upstream" ]; then
    version=$candidate
  fi
done
if [ -z "$version" ]; then
  cat "$apt/log" >&2
  fail "the installed libgrpc-dev is gRPC $upstream (source package grpc $installed), but the archives have the" \
    "source of ${available:-no version}. The headers must match the library: bring libgrpc-dev up to date" \
    "(apt-get update, apt-get install libgrpc-dev), or check that the archive can be reached."
fi

(cd "$apt" && apt-get -c apt.conf -qq source --download-only "grpc=$version") >> "$apt/log" 2>&1 || {
  cat "$apt/log" >&2
  fail "fetching the source package grpc $version failed"
}

# --- unpack ----------------------------------------------------------------------------------------------------

tarball=$(ls "$apt/grpc_$upstream".orig.tar.* 2>/dev/null | head -n 1)
[ -n "$tarball" ] || fail "the source package grpc $version holds no grpc_$upstream.orig.tar.*"

# unpack FOLDER PARTS MEMBER...: into FOLDER, without the first PARTS parts of each name
unpack() {
  folder=$1
  parts=$2
  shift 2
  mkdir -p "$folder"
  tar -xf "$tarball" -C "$folder" --no-same-owner --strip-components="$parts" --wildcards "$@" ||
    fail "$tarball does not hold what it should: $*"
}

unpack upb 3 '*/third_party/upb/LICENSE' '*/third_party/upb/upb/*' '*/third_party/upb/upbc/*'
unpack generated 5 '*/src/core/ext/upb-generated/google/*' '*/src/core/ext/upbdefs-generated/google/*'

# Folders of upb with a BUILD file would be packages of their own.
find upb -name BUILD -o -name BUILD.bazel -o -name WORKSPACE | xargs rm -f

# The library by its versioned name: when the system's gRPC moves on, the link fails instead of mixing two upbs.
library=$(cc -print-file-name=libupb.so)
[ -e "$library" ] || fail "libupb.so is missing. Install it: apt-get install libgrpc-dev"
readlink "$library" > soname

rm -rf "$apt"
