#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# package_test.sh BUILD_FOLDER: what cpack packs works from where it is unpacked. Exits with 77 (skipped) without dpkg's tools.
set -eu
command -v dpkg-deb >/dev/null && command -v dpkg-shlibdeps >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $1"; exit 1; }

(cd "$1" && cpack -B "$work") > "$work/log" 2>&1 || { cat "$work/log"; fail "cpack"; }
deb=$(echo "$work"/ashlar_*.deb)
tarball=$(echo "$work"/ashlar-*.tar.gz)
[ -f "$deb" ] && [ -f "$tarball" ] || fail "a package is missing: $(ls "$work")"

dpkg-deb --contents "$deb" | awk '{print $6}' > "$work/contents"
for file in bin/ashlar lib/systemd/system/ashlar.service share/man/man1/ashlar.1.gz share/doc/ashlar/LICENSE share/doc/ashlar/copyright \
  share/doc/ashlar/changelog.gz \
  share/doc/ashlar/docs/serving.md share/doc/ashlar/examples/grafana-dashboard.json share/ashlar/models/pebble-11m/config.json \
  share/zsh/vendor-completions/_ashlar; do
  grep -qx "\./usr/$file" "$work/contents" || fail "$file is not in the .deb"
done
grep -vE '^\./(usr/.*)?$' "$work/contents" | grep . && fail "files outside of /usr"
dpkg-deb --field "$deb" Depends | grep -q libc6 || fail "the .deb depends on nothing"
dpkg-deb --field "$deb" Maintainer | grep -qE '^[^<>]+ <[^ @]+@[^ @]+\.[a-z]+>$' || fail "the maintainer has no address"
mkdir "$work/deb" && dpkg-deb --extract "$deb" "$work/deb"
grep -q "^ExecStart=/usr/bin/ashlar " "$work/deb/usr/lib/systemd/system/ashlar.service" || fail "the unit starts another program"

gzip -dc "$work/deb/usr/share/doc/ashlar/changelog.gz" > "$work/changelog"
dpkg-parsechangelog -l "$work/changelog" -S Version | grep -qx "$(dpkg-deb --field "$deb" Version)" ||
  fail "the changelog is of another version"
# Whose headers are compiled in is named in the packages, with the licence.
for library in CLI nlohmann spdlog fmt toml++; do
  grep -qF "Files: usr/include/$library/*" "$work/deb/usr/share/doc/ashlar/copyright" || fail "no notice of $library"
done
if command -v lintian >/dev/null && lintian --allow-root --fail-on error --tags malformed-contact,no-changelog,uncompressed-manual-page,copyright-without-copyright-notice,extended-description-line-too-long "$deb" | grep .; then
  fail "lintian finds the above"
fi

tar -xzf "$tarball" -C "$work"
unset ASHLAR_MODELS
cd /
program=$(echo "$work"/ashlar-*/bin/ashlar)
grep -qF "usr/include/CLI" "$work"/ashlar-*/share/doc/ashlar/copyright || fail "no notices in the tarball"
"$program" inspect --no-self-test --json > "$work/inspect" || fail "the program does not run from the tarball"
grep -qF "/share/ashlar/models/" "$work/inspect" || fail "the models are not those of the tarball"
# Whatever lies on this machine where the program was built is not its own: a package has its models with it or none.
source=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$1/CMakeCache.txt")
if grep -rlaF "$source/" "$work/deb" "$work"/ashlar-*/; then fail "paths of the machine that built it are in the files above"; fi
rm -r "$work"/ashlar-*/share/ashlar/models
if "$program" inspect --no-self-test > "$work/inspect" 2>&1; then fail "models of the sources are found"; fi
if grep -qF "$source/models" "$work/inspect"; then fail "the sources are looked at: $(cat "$work/inspect")"; fi
