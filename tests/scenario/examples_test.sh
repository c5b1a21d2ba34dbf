#!/usr/bin/env bash
# examples_test.sh GENERATE ASHLAR MODELS: the examples over the C++ header say what the program says.
set -eu
generate=$1
ashlar=$2
models=$3
work=$(mktemp -d "${TMPDIR:-/tmp}/ashlar-examples.XXXXXX")
trap 'rm -rf "$work"' EXIT

first="What is a harbour?"
second="Solve for x: 8x + 5 = 3x + 45"
for model in pebble-11m pebble-11m-sdar; do
  "$generate" "$models/$model" "$first" "$second" >"$work/example" 2>"$work/figures"
  for prompt in "$first" "$second"; do
    "$ashlar" run "$models/$model" --drafter none -q -n 48 --prompt "$prompt"
  done >"$work/program"
  if ! diff "$work/program" "$work/example"; then
    echo "$model: the example (>) answers otherwise than the program (<)" >&2
    exit 1
  fi
  if [ "$(grep -c ' after [0-9]* tokens, [1-9][0-9.]* a forward$' "$work/figures")" != 2 ]; then
    echo "$model: expected figures of two answers; found:" >&2
    cat "$work/figures" >&2
    exit 1
  fi
done

if "$generate" "$work" "$first" 2>"$work/error" || ! grep -q "$work" "$work/error"; then
  echo "a folder without a model: expected exit code 1 and its name; found: $(cat "$work/error")" >&2
  exit 1
fi
