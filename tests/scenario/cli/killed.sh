# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Training that ends in the midst of anything. Sourced by cli_test.sh.

# A kill -9 leaves a folder that the same command goes on with, to the bytes of a run that was never killed.
case_train_killed() {
  local data=$work/chats.jsonl whole=$work/whole rounds=6 kills=0 began took pause round try code resume folder
  [ -n "${ASHLAR_LONG_TESTS:-}" ] && rounds=50
  for i in $(seq 9); do printf '{"prompt": "What is %d plus 1?", "response": "%d plus 1 is %d."}\n' "$i" "$i" $((i + 1)); done > "$data"
  local command=("$ashlar" train pebble-11m --threads 1 --data "$data" --steps 3 --batch-tokens 40 --anchors 1 --checkpoint-every 1)
  began=$(date +%s%N)
  expect 0 "${command[@]}" -o "$whole"
  took=$((($(date +%s%N) - began) / 1000000))
  is_whole() {
    for file in train-state.safetensors model.safetensors config.json train.json; do same "$1/$file" "$whole/$file" "$2"; done
    [ "$(wc -l < "$1/train-log.jsonl")" = 3 ] || fail "$2: the log has not a line a step"
    ! compgen -G "$1/*.new-*" > /dev/null || fail "$2: unfinished files are left"
  }
  # The first checkpoint: in its state, and between that and the drafter.
  for files in "" train-state.safetensors; do
    rm -rf "$work/first" && mkdir "$work/first"
    cp "$whole/train.json" "$whole/train-log.jsonl" "$work/first"
    for file in $files; do cp "$whole/$file" "$work/first"; done
    head -c 1000000 "$whole/train-state.safetensors" > "$work/first/train-state.safetensors.new-1-0"
    expect 0 "${command[@]}" -o "$work/first" --resume
    is_whole "$work/first" "killed in the first checkpoint, with $files"
  done
  # The last one.
  rm "$work/first/model.safetensors"
  expect 0 "${command[@]}" -o "$work/first" --resume
  is_whole "$work/first" "killed in the last checkpoint"
  # A drafter whose state was removed is none of these, and stays.
  rm "$work/first/train-state.safetensors"
  expect 1 "${command[@]}" -o "$work/first" --resume
  err_has "holds a drafter without train-state.safetensors"
  same "$work/first/model.safetensors" "$whole/model.safetensors" "a drafter without a state"
  same "$work/first/train-log.jsonl" "$whole/train-log.jsonl" "the log of a drafter without a state"
  # Any moment, several times in a row.
  RANDOM=8
  for round in $(seq "$rounds"); do
    folder=$work/killed$round
    for try in 1 2 3; do
      resume=
      [ -e "$folder/train.json" ] && resume=--resume
      code=0
      "${command[@]}" -o "$folder" $resume > "$work/out" 2> "$work/err" &
      pause=$((RANDOM * took / 32768))
      sleep "$((pause / 1000)).$(printf '%03d' $((pause % 1000)))"
      kill -9 $! 2> /dev/null
      wait $! 2> /dev/null || code=$?
      case $code in 0) ;; 137) kills=$((kills + 1)) ;; *) fail "exit code $code in round $round, try $try" ;; esac
    done
    resume=
    [ -e "$folder/train.json" ] && resume=--resume
    expect 0 "${command[@]}" -o "$folder" $resume
    is_whole "$folder" "round $round"
    rm -rf "$folder"
  done
  [ "$kills" -gt 0 ] || fail "nothing was killed"
}
