#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install_test.sh SOURCE_ROOT: pip install into a fresh environment, from a copy of the tree, and one answer of each kind of
# model. Exits with 77 (skipped) if the package index cannot be reached. Takes as long as a build of the libraries.
set -eu
root=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/ashlar-pip.XXXXXX")
trap 'rm -rf "$work"' EXIT

mkdir "$work/tree"
(cd "$root" && cp -r CMakeLists.txt README.md LICENSE pyproject.toml cmake include src python "$work/tree")
python3 -m venv "$work/venv"
if ! "$work/venv/bin/pip" install -q --disable-pip-version-check --retries 1 --timeout 20 "$work/tree" >"$work/log" 2>&1; then
  cat "$work/log" >&2
  if grep -q 'Retrying (Retry(' "$work/log"; then
    echo "skipped: the package index cannot be reached" >&2
    exit 77
  fi
  exit 1
fi
cd "$work"
rm -rf tree  # what was installed stands by itself
ASHLAR_MODELS=$root/models venv/bin/python - <<'EOF'
import ashlar

for name in ("pebble-11m", "pebble-11m-sdar"):
    with ashlar.Engine(name, max_context=512) as engine:
        answer = engine.generate([{"role": "user", "content": "What is a harbour?"}], ashlar.SamplingParams(max_tokens=30))
        print(engine, answer)
        assert answer.text and answer.metrics.tokens_per_forward >= 1
EOF
