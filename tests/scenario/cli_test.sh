#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cli_test.sh PROGRAM SOURCE_ROOT CASE: the program as a person meets it. A case is a function case_NAME of cli/*.sh;
# without CASE all run.
set -u

ashlar=$1
root=$2
export ASHLAR_MODELS=$root/models NO_COLOR=1 TERM=dumb
export CUDA_VISIBLE_DEVICES=  # the processor is meant, whatever the machine has
unset ASHLAR_FORCE_ISA ASHLAR_THREADS ASHLAR_DRAFTER ASHLAR_MODEL ASHLAR_DEVICE ASHLAR_SEED ASHLAR_KV_MEMORY
unset ASHLAR_PORT ASHLAR_CONFIG ASHLAR_API_KEY ASHLAR_LOG_FORMAT
unset ASHLAR_DLLM_ALGORITHM ASHLAR_DLLM_ALGORITHM_CONFIG ASHLAR_DLLM_BLOCK_SIZE
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME=$work/state

fail() {
  echo "FAILED: $1"
  echo "--- stdout"; head -c 2000 "$work/out" 2>/dev/null
  echo "--- stderr"; head -c 2000 "$work/err" 2>/dev/null
  exit 1
}
# expect CODE COMMAND...: runs it with empty input; its output is then in $work/out and $work/err.
expect() {
  local want=$1 code=0
  shift
  "$@" > "$work/out" 2> "$work/err" < "${input:-/dev/null}" || code=$?
  [ "$code" = "$want" ] || fail "exit code $code instead of $want: $*"
}
out_has() { grep -qF -- "$1" "$work/out" || fail "no \"$1\" on stdout"; }
err_has() { grep -qF -- "$1" "$work/err" || fail "no \"$1\" on stderr"; }
err_lines() { [ "$(wc -l < "$work/err")" -le "$1" ] || fail "more than $1 lines on stderr"; }
same() { cmp -s "$1" "$2" || { diff "$1" "$2" | head -20; fail "$1 and $2 differ: $3"; }; }
is_utf8() { iconv -f UTF-8 -t UTF-8 "$1" > /dev/null 2>&1 || fail "$1 is not UTF-8"; }
broken_model() { cp -r "$root/models/pebble-11m" "$work/broken" && chmod -R u+w "$work/broken"; }

for part in "$(dirname "$0")"/cli/*.sh; do
  . "$part"
done

if [ $# -ge 3 ]; then
  "case_$3"
else
  for name in $(declare -F | sed -n 's/^declare -f case_//p'); do
    echo "== $name"
    ("case_$name") || exit 1
  done
fi
