#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install_test.sh BUILD_FOLDER: what cmake --install puts in place works from there.
set -eu
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
fail() { echo "FAILED: $1"; exit 1; }

cmake --install "$1" --prefix "$prefix" > "$prefix/log" || { cat "$prefix/log"; fail "the installation"; }
cd /
unset ASHLAR_MODELS
export CUDA_VISIBLE_DEVICES=  # the processor is meant, whatever the machine has
"$prefix/bin/ashlar" inspect --no-self-test --json > "$prefix/inspect" || fail "the program does not run"
grep -qF "$prefix/share/ashlar/models/" "$prefix/inspect" || fail "the models are not those that were installed"
# In a chroot there may be no /proc, which says where a program lies.
if unshare -rm mount -t tmpfs none /proc 2> /dev/null; then
  unshare -rm sh -c "mount -t tmpfs none /proc && \"$prefix/bin/ashlar\" list" > "$prefix/list"
  grep -q "^pebble-11m " "$prefix/list" || fail "no models without /proc"
fi
grep -q "^.TH ASHLAR 1" "$prefix/share/man/man1/ashlar.1" || fail "no manual page"
bash -n "$prefix/share/bash-completion/completions/ashlar" || fail "no completion for bash"
[ -s "$prefix/share/zsh/site-functions/_ashlar" ] || fail "no completion for zsh"
[ -s "$prefix/share/fish/vendor_completions.d/ashlar.fish" ] || fail "no completion for fish"
grep -q "^ExecStart=$prefix/bin/ashlar " "$prefix/lib/systemd/system/ashlar.service" || fail "the unit does not start what was installed"
documents=$prefix/share/doc/ashlar
for file in LICENSE README.md docs/serving.md examples/ashlar.toml examples/grafana-dashboard.json; do
  [ -s "$documents/$file" ] || fail "no $file"
done
