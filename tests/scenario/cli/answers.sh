# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Answers by run and chat. Sourced by cli_test.sh.

case_identical_with_and_without_drafter() {
  for sampling in "" "--temperature 0.8 --top-p 0.9 --seed 5" "--temperature 1 --repetition-penalty 1.2 --top-k 40 --seed 0"; do
    # shellcheck disable=SC2086 -- several arguments
    for prompt in "Write this sentence in capital letters: The mason cut the stone." "What is a harbour?"; do
      expect 0 "$ashlar" run -n 40 $sampling --prompt "$prompt" --drafter none
      cp "$work/out" "$work/plain"
      [ -s "$work/plain" ] || fail "no answer"
      # Left alone, the width follows measured costs: a busy or instrumented machine may not draft at all.
      expect 0 "$ashlar" run -n 40 $sampling --prompt "$prompt"
      same "$work/plain" "$work/out" "defaults ($sampling)"
      expect 0 "$ashlar" run -n 40 $sampling --prompt "$prompt" --width 16
      same "$work/plain" "$work/out" "drafting ($sampling)"
      err_has "tokens per step"
      expect 0 "$ashlar" run -n 40 $sampling --prompt "$prompt" --width 4 --passes 2 --depth 1 --draft-window 64 --prefill-chunk 5
      same "$work/plain" "$work/out" "other settings ($sampling)"
      expect 0 "$ashlar" run -n 40 $sampling --prompt "$prompt" --drafter ngram --ngram-drafts always
      same "$work/plain" "$work/out" "n-grams ($sampling)"
      err_has "n-gram drafts"
    done
  done
}

case_streams_and_stats() {
  expect 0 "$ashlar" run --prompt "What is a harbour?" -n 20
  err_has "tokens/s"
  expect 0 "$ashlar" run --quiet --prompt "What is a harbour?" -n 20
  [ ! -s "$work/err" ] || fail "--quiet is not quiet"
  cp "$work/out" "$work/argument"
  printf 'What is a harbour?\n' > "$work/question"
  input=$work/question expect 0 "$ashlar" run -n 20
  same "$work/argument" "$work/out" "prompt from standard input"
  expect 0 "$ashlar" run -n 20 --prompt-file "$work/question"
  same "$work/argument" "$work/out" "prompt from a file"
  expect 0 "$ashlar" run -n 20 --prompt-file <(cat "$work/question")
  same "$work/argument" "$work/out" "prompt from a pipe"
  ASHLAR_THREADS=1 expect 0 "$ashlar" run -n 20 --prompt "What is a harbour?"
  same "$work/argument" "$work/out" "one thread"
  grep -q '<|' "$work/out" && fail "special tokens are shown"
  return 0
}

case_many_prompts() {
  printf 'What is a harbour?\n\nCount from 1 to 5.\nWhat is a groundnut?\n' > "$work/prompts.txt"
  expect 0 "$ashlar" run --prompts "$work/prompts.txt" -n 16 --json --quiet
  [ "$(wc -l < "$work/out")" = 3 ] || fail "not three answers"
  cp "$work/out" "$work/together"
  sed -n 2p "$work/together" | grep -q '"prompt_index":1,"prompt":"Count from 1 to 5."' || fail "out of order"
  expect 0 "$ashlar" run --prompt "Count from 1 to 5." -n 16 --json --quiet
  tokens() { sed 's/.*"tokens":\(\[[^]]*\]\).*/\1/' "$1"; }
  [ "$(tokens "$work/out")" = "$(sed -n 2p "$work/together" > "$work/one"; tokens "$work/one")" ] || fail "alone is not as together"
  {
    echo '{"prompt": "What is a harbour?", "category": "words"}'
    echo '{"messages": [{"role": "user", "content": "Count from 1 to 5."}]}'
  } > "$work/prompts.jsonl"
  expect 0 "$ashlar" run --prompts "$work/prompts.jsonl" -n 8
  out_has "[1/2] What is a harbour?"
  out_has "[2/2] Count from 1 to 5."
  input=$work/prompts.jsonl expect 0 "$ashlar" run --prompts - -n 8
  out_has "[2/2] Count from 1 to 5."
  cp "$work/prompts.jsonl" "$work/prompts.json"
  expect 0 "$ashlar" run --prompts "$work/prompts.json" -n 8
  out_has "[2/2] Count from 1 to 5."
  expect 0 "$ashlar" run --prompts <(cat "$work/prompts.txt") -n 8
  out_has "[3/3] What is a groundnut?"
  expect 0 "$ashlar" eval dllm --prompts "$work/prompts.txt" -n 8 --algorithms low_confidence --thresholds 0.9
  { echo "What is a harbour?"; printf 'word %.0s' $(seq 100); } > "$work/uneven.txt"
  expect 1 "$ashlar" run --prompts "$work/uneven.txt" -n 4 --max-context 48
  err_has "prompt 2: "
  expect 0 "$ashlar" run --prompt "What is a harbour?" --n 3 --temperature 1 -n 12
  out_has "(answer 3)"
  echo '{"nothing": 1}' > "$work/wrong.jsonl"
  expect 1 "$ashlar" run --prompts "$work/wrong.jsonl"
  err_has "wrong.jsonl:1"

  broken_model
  echo "{% if messages[0].role != 'user' %}{{ raise_exception('begin with a user') }}{% endif %}{{ messages[0].content }}" \
    > "$work/broken/chat_template.jinja"
  {
    echo '{"prompt": "What is a harbour?"}'
    echo
    echo '{"messages": [{"role": "system", "content": "Be brief."}]}'
    echo '{"prompt": "Count from 1 to 5."}'
  } > "$work/refused.jsonl"
  expect 1 "$ashlar" run "$work/broken" --drafter none --prompts "$work/refused.jsonl" -n 4 --json -q
  [ "$(wc -l < "$work/out")" = 3 ] || fail "not three answers"
  sed -n 2p "$work/out" | grep -q '"finish":"error","error":".*begin with a user' || fail "the refused prompt has no error"
  [ "$(grep -c '"finish":"error"' "$work/out")" = 1 ] || fail "the others have no answers"
  err_has "prompt 2: "
  err_has "begin with a user"
  expect 1 "$ashlar" eval dllm "$root/models/pebble-11m-sdar" --prompts <(echo '{"prompt_ids": [5, 99999999]}')
  err_has "token id 99999999"
  cp -r "$root/models/pebble-11m-dflash" "$work/broken-dflash"
  expect 1 "$ashlar" eval acceptance "$work/broken" --no-self-test --prompts "$work/refused.jsonl" -n 4
  err_has "refused.jsonl:3: "
  err_has "begin with a user"
  expect 1 "$ashlar" inspect "$root/models/pebble-11m-sdar" --drafter "$root/models/pebble-11m-dflash"
  out_has "works without a drafter"
  expect 1 "$ashlar" eval acceptance "$root/models/pebble-11m-sdar" -n 4
  err_has "use ashlar eval dllm"
  echo '{"messages": [{"role": "user", "content": [{"type": "text", "text": "Count from 1 "}, {"type": "text", "text": "to 5."}]}]}' \
    > "$work/parts.jsonl"
  expect 0 "$ashlar" run --prompts "$work/parts.jsonl" -n 16 --json --quiet
  [ "$(tokens "$work/out")" = "$(tokens "$work/one")" ] || fail "text parts are no text"
  echo '{"messages": [{"role": "user", "content": 5}]}' > "$work/parts.jsonl"
  expect 1 "$ashlar" run --prompts "$work/parts.jsonl" -n 4
  err_has "parts.jsonl:1: messages[0].content is 5; expected a string"
  printf '{"prompt": "fine"}\n{"prompt_ids": [5, 99999999]}\n' > "$work/ids.jsonl"
  expect 1 "$ashlar" eval acceptance --no-self-test --prompts "$work/ids.jsonl" -n 4
  err_has "ids.jsonl:2: has token id 99999999; the vocabulary has "

  printf '\xEF\xBB\xBFCount from 1 to 5.\n' > "$work/marked.txt"
  expect 0 "$ashlar" run --prompt-file "$work/marked.txt" -n 16 --json --quiet
  out_has '"prompt":"Count from 1 to 5."'
  [ "$(tokens "$work/out")" = "$(tokens "$work/one")" ] || fail "a byte order mark is part of the prompt"
}

case_seeds() {
  local ask=("$ashlar" run --prompt "Name a stone." --drafter none --no-self-test -n 24)
  # Greedy: no seed to speak of. With a temperature: a fresh one, which is said and gives the same answer again.
  expect 0 "${ask[@]}"
  grep -q "seed" "$work/err" && fail "a seed where nothing is left to chance"
  expect 0 "${ask[@]}" --temperature 1.5 --json
  local seed
  seed=$(sed -n 's/.*"seed":\([0-9]*\),.*/\1/p' "$work/out")
  [ -n "$seed" ] || fail "no seed in the object"
  err_has "--seed $seed"
  sed 's/"stats".*//' "$work/out" > "$work/first"
  expect 0 "${ask[@]}" --temperature 1.5 --json --seed "$seed"
  sed 's/"stats".*//' "$work/out" > "$work/second"
  same "$work/first" "$work/second" "the same seed"
  grep -q "seed" "$work/err" && fail "a seed that was given is said again"
  expect 0 "${ask[@]}" --temperature 1.5 --json
  grep -q "\"seed\":$seed," "$work/out" && fail "the same seed twice"
  expect 0 "${ask[@]}" --temperature 1.5 -q
  err_lines 0
}

case_chat() {
  cat > "$work/talk" <<'TALK'
What is a harbour?
/set temperature 0.5
/set nonsense 1
/set top_p 7
And what is a groundnut?
/stats
/save saved.json
/reset
/load saved.json
/system Be brief.
/retry
/whatever
/quit
this is never read
TALK
  cd "$work" || exit 1
  input=$work/talk expect 0 "$ashlar" chat -n 20
  out_has "temperature is now 0.5"
  out_has "there is no setting nonsense"
  out_has "top_p must be"
  out_has "2 answers"
  out_has "saved 4 messages in saved.json"
  out_has "loaded 4 messages"
  out_has "there is no question yet"
  out_has "there is no command /whatever"
  grep -q 'never read' "$work/out" && fail "went on after /quit"
  grep -q '"content": "What is a harbour?"' saved.json || fail "the question was not saved"
  if command -v script > /dev/null; then  # on a terminal, what is pasted is one text
    printf '\033[200~first line\rsecond line\033[201~ more\r/save pasted.json\r/quit\r' > "$work/typed"
    TERM=xterm script -qec "'$ashlar' chat --no-history -n 4 --drafter none --no-self-test" /dev/null \
      < "$work/typed" > "$work/out" 2>&1
    grep -q '"content": "first line\\nsecond line more"' pasted.json || fail "pasted lines are no text"
  fi
  printf 'word %.0s' $(seq 100) > "$work/talk"
  input=$work/talk expect 0 "$ashlar" chat --max-context 48
  err_has "too many"
}

case_terminal() {
  expect 0 python3 "$root/tests/scenario/terminal_test.py" "$ashlar"
}

case_block_diffusion() {
  local ask=(--prompt "What is a harbour?" -n 16)
  expect 0 "$ashlar" run pebble-11m-sdar "${ask[@]}"
  err_has "block diffusion, low_confidence (threshold 0.9), block 8"
  err_has " tokens per forward"
  expect 0 "$ashlar" run pebble-11m-sdar "${ask[@]}" --logprobs 1 -q
  [ "$(grep -cE '   step [0-9]+   best: ' "$work/out")" = "$(grep -c 'best: ' "$work/out")" ] || fail "a token without its step"
  expect 0 "$ashlar" run pebble-11m-sdar "${ask[@]}" --logprobs 1 --json -q
  out_has '"step":0'
  out_has '"tokens_per_forward":'
  grep -q mean_acceptance_length "$work/out" && fail "a figure of drafting"
  expect 0 "$ashlar" run pebble-11m-sdar "${ask[@]}" --scheme rejection
  err_has "there are no drafts: --scheme changes nothing"
  expect 0 "$ashlar" run --drafter none --isa portable --weights int8 -n 2 --prompt hello
  err_has "--weights changes nothing"
  printf 'algorithm: JointThreshold\nthreshold: 0.7\nblock_size: 4\n' > "$work/dllm.yaml"
  expect 0 "$ashlar" run pebble-11m-sdar "${ask[@]}" --dllm-algorithm-config "$work/dllm.yaml"
  err_has "joint_threshold (threshold 0.7, edit_threshold 0, max_post_edit_steps 16, penalty_lambda 0), block 4"
  expect 1 "$ashlar" run pebble-11m-sdar "${ask[@]}" --dllm-algorithm-config "$work/dllm.yaml" --dllm-algorithm factor
  err_has "dllm.yaml:2: the algorithm factor has no parameter 'threshold'; expected one of factor"
  expect 2 "$ashlar" run pebble-11m-sdar "${ask[@]}" --dllm-algorithm best
  err_has "expected one of low_confidence"
  expect 1 "$ashlar" run pebble-11m "${ask[@]}" --dllm-block-size 4
  err_has "is an autoregressive model"
  expect 1 "$ashlar" run pebble-11m-sdar "${ask[@]}" --max-context 7
  err_has "the context is 7 tokens, less than one block of 8; make it longer (--max-context) or blocks shorter (--dllm"
  expect 1 "$ashlar" serve pebble-11m-sdar --port 0 --max-context 7
  err_has "less than one block of 8"
  expect 1 "$ashlar" eval dllm --limit 1 -n 8 --max-context 40 --blocks 4,64
  err_has "the context is 40 tokens, less than one block of 64"
  expect 0 "$ashlar" inspect pebble-11m-sdar
  grep -qE "diffusion +blocks of 8, mask token [0-9]" "$work/out" || fail "says nothing of blocks"
  expect 0 "$ashlar" eval dllm --limit 2 -n 16 --algorithms factor,low-confidence --thresholds 0.9 \
    --blocks 4,8 --json "$work/dllm.json" --svg "$work/dllm.svg"
  [ "$(grep -cE "^ +(sequential|factor|low_confidence) " "$work/out")" = 12 ] || fail "not 12 lines"
  grep -q '"forwards_per_block"' "$work/dllm.json" || fail "no figures in the file"
  grep -q "</svg>" "$work/dllm.svg" || fail "no picture"
  # What the file configures is what is measured, at its own value too.
  printf 'algorithm: s2d2\nthreshold: 0.3\n' > "$work/dllm.yaml"
  local few=(--limit 1 -n 8 --dllm-algorithm-config "$work/dllm.yaml")
  expect 0 "$ashlar" eval dllm "${few[@]}"
  [ "$(grep -c "[01] of 1 " "$work/out")" = 4 ] || fail "not sequential and three of s2d2"
  out_has "s2d2        min_span 1, threshold 0.3"
  printf 'threshold: 0.6\nalgorithm: LowConfidence\n' > "$work/dllm.yaml"
  expect 0 "$ashlar" eval dllm "${few[@]}"
  [ "$(sed -n 's/.*low_confidence  *threshold \([0-9.]*\) .*/\1/p' "$work/out" | xargs)" = "0.5 0.6 0.7 0.9 0.95" ] ||
    fail "not the usual thresholds and the file's"
  expect 0 "$ashlar" eval dllm "${few[@]}" --thresholds 0.8
  [ "$(grep -c "low_confidence" "$work/out")" = 1 ] || fail "other thresholds than the one asked for"
  expect 1 "$ashlar" eval dllm pebble-11m
  err_has "eval dllm measures block-diffusion models"
}

# With privileges the limit is raised, without them everything runs on a thread of its own.
case_small_stacks() {
  local plain=("$ashlar" run --prompt "What is a harbour?" --max-tokens 12 --no-self-test)
  expect 0 "${plain[@]}"
  mv "$work/out" "$work/whole"
  for start in "" "setpriv --reuid 65534 --clear-groups --bounding-set -all --inh-caps -all"; do
    [ -z "$start" ] || $start true 2> /dev/null || continue
    chmod 755 "$work"
    expect 0 bash -c 'ulimit -s 256; exec "$@"' _ $start "${plain[@]}"
    same "$work/whole" "$work/out" "with a stack of 256 KiB"
    expect 1 bash -c 'ulimit -s 256; exec "$@"' _ $start "$ashlar" run "$work/nowhere" --prompt hello
    err_has "$work/nowhere"
  done
}
