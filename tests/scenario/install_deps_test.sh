#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install_deps_test.sh SOURCE_ROOT: what tools/install-deps chooses on other releases, by tables of what their package lists had in
# November 2026. Exits with 77 (skipped) without dpkg.
set -eu
root=$1
command -v dpkg > /dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $1"; cat "$work/out" "$work/err"; exit 1; }

# Nothing is installed, and what there is stands in the table.
mkdir "$work/bin"
printf '#!/bin/sh\nexit 1\n' > "$work/bin/dpkg-query"
cat > "$work/bin/apt-cache" <<'STUB'
#!/bin/sh
version=$(sed -n "s/^$2 //p" "$TABLE")
[ -z "$version" ] || printf '%s:\n  Installed: (none)\n  Candidate: %s\n' "$2" "$version"
STUB
chmod +x "$work/bin/"*
export TABLE=$work/table PATH=$work/bin:$PATH

same="ninja-build pkg-config libutf8proc-dev libcli11-dev libedit-dev libssl-dev libspdlog-dev libtomlplusplus-dev libsqlite3-dev
  libgtest-dev libgmock-dev python3-venv python3-dev"
table() {
  for name in $same; do echo "$name 1.0"; done
  for pair in "$@"; do echo "${pair%=*} ${pair#*=}"; done
}
run() {
  code=0
  "$root/tools/install-deps" --tests --fuzz --print > "$work/out" 2> "$work/err" || code=$?
}
chooses() {
  [ "$code" = 0 ] || fail "$1: exit code $code"
  for name in $2; do grep -qx "$name" "$work/out" || fail "$1: not $name"; done
  while read -r name; do grep -q "^$name " "$TABLE" || fail "$1 has no $name"; done < "$work/out"
}

table g++=4:12.2.0-3 cmake=3.25.1-1 nlohmann-json3-dev=3.11.2-2 libpcre2-dev=10.42-1+deb12u2 libboost1.81-dev=1.81.0-5+deb12u1 \
  libboost-dev=1.74.0.3 libcurl4-openssl-dev=7.88.1-10+deb12u15 pybind11-dev=2.10.3-1 clang-14=1:14.0.6-12 \
  libclang-rt-14-dev=1:14.0.6-12 > "$TABLE"
run
chooses "Debian 12" "libboost1.81-dev clang-14"

table g++=4:14.2.0-1 cmake=3.31.6-2 nlohmann-json3-dev=3.11.3-2.1 libpcre2-dev=10.46-1~deb13u3 libboost1.83-dev=1.83.0-4.2 \
  libboost1.88-dev=1.88.0-1 libboost-dev=1.83.0.2+b2 libcurl4-openssl-dev=8.14.1-2+deb13u7 pybind11-dev=2.13.6-2 \
  clang-19=1:19.1.7-3+b1 clang=1:19.0-63 libclang-rt-19-dev=1:19.1.7-3+b1 > "$TABLE"
run
chooses "Debian 13" "libboost1.83-dev clang-19 libclang-rt-19-dev"

table g++=4:13.2.0-7ubuntu1 cmake=3.28.3-1build7 nlohmann-json3-dev=3.11.3-1 libpcre2-dev=10.42-4ubuntu2 \
  libboost1.83-dev=1.83.0-2.1ubuntu3 libboost-dev=1.83.0.1ubuntu2 libcurl4-openssl-dev=8.5.0-2ubuntu10 pybind11-dev=2.11.1-2 \
  clang-14=1:14.0.6-19build4 libclang-rt-14-dev=1:14.0.6-19build4 > "$TABLE"
run
chooses "Ubuntu 24.04" "libboost1.83-dev clang-14"

table g++=4:11.2.0-1ubuntu1 cmake=3.22.1-1ubuntu1 nlohmann-json3-dev=3.10.5-2 libpcre2-dev=10.39-3ubuntu0.1 \
  libboost-dev=1.74.0.3ubuntu7 libcurl4-openssl-dev=7.81.0-1ubuntu1 pybind11-dev=2.9.1-2 clang-14=1:14.0.0-1ubuntu1 > "$TABLE"
run
[ "$code" = 1 ] || fail "Ubuntu 22.04: exit code $code"
for words in "nlohmann-json3-dev is 3.10.5-2 here; expected 3.11 or newer" "libcurl4-openssl-dev is 7.81.0" "libboost-dev is 1.74" \
  "libpcre2-dev is 10.39" "packaging/Dockerfile"; do
  grep -qF "$words" "$work/err" || fail "Ubuntu 22.04: no word of $words"
done

# Elsewhere the names are those of that system.
mkdir "$work/other"
for tool in bash cat sed env; do ln -s "$(command -v $tool)" "$work/other/$tool"; done
PATH=$work/other "$root/tools/install-deps" > "$work/out" 2> "$work/err" || fail "elsewhere"
for words in "neither Debian nor Ubuntu" "dnf install gcc-c++" "pacman -S gcc" nlohmann-json3-dev; do
  grep -qF "$words" "$work/err" || fail "elsewhere: no word of $words"
done
