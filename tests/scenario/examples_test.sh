#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples_test.sh BUILD ASHLAR SOURCE: the installed library is all that a program outside the tree needs, it shows what its
# headers declare and no more, and the example over it says what the program says.
set -eu
build=$1
ashlar=$2
source=$3
models=$source/models
export CUDA_VISIBLE_DEVICES=  # the processor is meant, whatever the machine has
work=$(mktemp -d "${TMPDIR:-/tmp}/ashlar-examples.XXXXXX")
trap 'rm -rf "$work"' EXIT

quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }; }
quietly cmake --install "$build" --component library --prefix "$work/prefix"
cp -r "$source/examples" "$work/source"
quietly cmake -S "$work/source" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Debug
quietly cmake --build "$work/build"
generate=$work/build/generate

if grep -hE '^ *# *include *"' "$work/prefix/include/ashlar/"*.h | grep -v '"ashlar/'; then
  echo "the installed headers include what is not installed (above)" >&2
  exit 1
fi
foreign=$(nm -DC --defined-only "$work/prefix/lib"*/libashlar.so | cut -c 20- |
  grep -vE '(^|[ *&])ashlar::(Llm[A-Za-z]*|chat|llm_bytes|llm_version)\b|(^|[ *&(])std::|^(vtable|typeinfo|typeinfo name|VTT) for (std|ashlar::LlmError)|GLIBC|^operator|__gnu_cxx|__gnu_unique' || true)
if [ -n "$foreign" ]; then
  echo "the library shows names that its headers do not declare:" >&2
  echo "$foreign" | head -20 >&2
  exit 1
fi

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
