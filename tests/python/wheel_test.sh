#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# wheel_test.sh BUILD_FOLDER SOURCE_ROOT: a wheel of tools/make-wheel in a fresh environment: command, package and bundled models.
# Exits with 77 (skipped) where Python has no venv.
set -eu
build=$1
root=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/ashlar-wheel-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv" 2> "$work/log" || { cat "$work/log" >&2; exit 77; }

"$root/tools/make-wheel" "$build" "$work/dist"
"$work/venv/bin/pip" install -q --disable-pip-version-check --no-index "$work"/dist/*.whl
if grep -rlaF "$root/" "$work"/venv/lib/python*/site-packages/ashlar*; then
  echo "FAILED: paths of the machine that built it are in the files above"
  exit 1
fi
# Licence, the notices of what is compiled in, and of each library that was copied into the wheel.
info=$(echo "$work"/venv/lib/python*/site-packages/ashlar-*.dist-info)
for library in CLI pybind11 nlohmann spdlog; do
  grep -qF "usr/include/$library/" "$info/licenses/copyright" || { echo "FAILED: no notice of $library"; exit 1; }
done
for library in "$work"/venv/lib/python*/site-packages/ashlar.libs/*; do
  [ -e "$library" ] || continue  # without auditwheel it has none
  name=$(basename "$library" | sed -E 's/-[0-9a-f]{8}\..*//')
  found=no
  for package in $(dpkg-query -S "*/$name[.-]*" | sed 's/[:,].*//' | sort -u); do
    if [ -s "$info/licenses/libraries/$package" ]; then found=yes; fi
  done
  [ "$found" = yes ] || { echo "FAILED: no notice of $name"; exit 1; }
done
grep -q '^License-File: copyright$' "$info/METADATA" || { echo "FAILED: the metadata names no notices"; exit 1; }
"$work/venv/bin/pip" check --disable-pip-version-check
cd /
unset ASHLAR_MODELS PYTHONPATH
"$work/venv/bin/ashlar" list --json > "$work/list"
grep -qF "$work/venv/" "$work/list" || { cat "$work/list"; echo "FAILED: the command's models are not those of the wheel"; exit 1; }
"$work/venv/bin/ashlar" run --prompt "What is a harbour?" -n 8 --no-self-test > "$work/answer"
"$work/venv/bin/python" - "$work/answer" "$work/venv" <<'PYTHON'
import os
import sys

import ashlar

assert os.environ["ASHLAR_MODELS"].startswith(sys.argv[2]), os.environ["ASHLAR_MODELS"]
with ashlar.Engine(max_context=256) as engine:
    answer = engine.generate([{"role": "user", "content": "What is a harbour?"}], ashlar.SamplingParams(max_tokens=8))
assert answer.text.strip() == open(sys.argv[1], encoding="utf-8").read().strip(), answer.text
PYTHON
