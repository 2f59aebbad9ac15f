#!/usr/bin/env bash
# packaging/check_deb.sh - installs the packages in out/deb on this system, compiles and runs a program with them, purges
# them, and sees that nothing is left. As root, where no package of weir's is installed.
#
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  echo "check-deb: $*" >&2
  exit 1
}

[ "$(id -u)" -eq 0 ] || fail "needs root, to install packages"
packages=()
for file in out/deb/*.deb; do
  packages+=("$(dpkg-deb -f "$file" Package)")
done
! dpkg-query -W -f '${db:Status-Status}\n' "${packages[@]}" 2>/dev/null | grep -vx not-installed ||
  fail "some of these are there already: ${packages[*]}"

work=$(mktemp -d)
server_pid=""
installed=""
finish() {
  [ -z "$server_pid" ] || kill "$server_pid"
  [ -z "$installed" ] || dpkg --purge "${packages[@]}" >&2
  rm -rf "$work"
}
trap finish EXIT

# All files where a package may have some, and the state of all packages.
system() {
  find /etc /usr /opt /srv /var -xdev \( -path /var/log -o -path /var/cache -o -path /var/tmp -o -name '__pycache__' \) -prune -o \
    ! -path '/var/lib/dpkg/*-old' ! -path '/var/lib/apt/*' -printf '%p %y %l\n' | LC_ALL=C sort
  dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\n' | LC_ALL=C sort
  ldconfig -p | grep weir || true
}

system >"$work/before"
installed=yes
dpkg -i out/deb/*.deb >"$work/dpkg" 2>&1 || { cat "$work/dpkg" >&2; fail "dpkg -i"; }
for package in "${packages[@]}"; do
  dpkg --verify "$package" || fail "$package: its files are not what its md5sums say"
done

gcc test/consumer/server.c -lgrpc -lgpr -o "$work/server"
mkfifo "$work/port"
"$work/server" >"$work/port" &
server_pid=$!
read -r port <"$work/port"

strict=(-std=c11 -Wall -Wextra -Werror -pedantic)
# Words that pkg-config prints are options.
# shellcheck disable=SC2046
{
  gcc "${strict[@]}" /usr/share/doc/libweir-dev/examples/unary.c $(pkg-config --cflags --libs weir) -o "$work/unary"
  gcc "${strict[@]}" /usr/share/doc/libweir-decide-dev/examples/knock.c $(pkg-config --cflags --libs weir_decide) \
    -o "$work/knock"
}
"$work/unary" "127.0.0.1:$port" | tee "$work/said" >&2
grep -qx 'attempts: 1, OK: ' "$work/said" || fail "unary is not answered"
"$work/knock" "$port" 1 | grep -qx connected || fail "knock is not let in"
printf '%s\n' 'cmake_minimum_required(VERSION 3.13)' 'project(one C)' 'find_package(weir REQUIRED COMPONENTS weir decide)' \
  'add_executable(one /usr/share/doc/libweir-dev/examples/unary.c)' 'target_link_libraries(one weir::weir)' \
  >"$work/CMakeLists.txt"
cmake -S "$work" -B "$work/cmake" >"$work/log" && cmake --build "$work/cmake" >>"$work/log" || { cat "$work/log" >&2; fail cmake; }
"$work/cmake/one" "127.0.0.1:$port" | grep -qx 'attempts: 1, OK: ' || fail "one is not answered"
[ "$(weirctl --version)" = "weirctl $(packaging/version.sh)" ] || fail "weirctl tells another version"
for page in /usr/share/man/man1/weirctl.1.gz /usr/share/man/man3/weir.3.gz; do
  [ -f "$page" ] || fail "no $page"
done

dpkg --purge "${packages[@]}" >"$work/dpkg" 2>&1 || { cat "$work/dpkg" >&2; fail "dpkg --purge"; }
installed=""
system >"$work/after"
diff "$work/before" "$work/after" >&2 || fail "the system is not as it was (<), but (>)"
echo "check-deb: installed ${packages[*]}; used and purged them, nothing is left"
