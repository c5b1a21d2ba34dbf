# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Models and drafters: looked at, measured, trained. Sourced by cli_test.sh.

case_train() {
  local data=$work/chats.jsonl i
  for i in $(seq 12); do
    printf '{"prompt": "What is %d plus 1?", "response": "%d plus 1 is %d, and that is all there is to say."}\n' "$i" "$i" $((i + 1))
  done > "$data"
  train() { expect "$1" "$ashlar" train pebble-11m --threads 1 "${@:2}"; }
  # Mistakes, each before a model is loaded.
  train 2 -o "$work/d"
  err_has "--data is required"
  train 2 --data "$data"
  err_has "--output is required"
  train 2 --data "$data" -o "$work/d" --block-size 65
  err_has "--block-size is 65; expected a whole number from 2 to 64"
  train 2 --data "$data" -o "$work/d" --preset nosuch
  err_has "nosuch"
  err_has "tiny, small"
  train 2 --data "$data" -o "$work/d" --steps 5 --minutes 5
  err_has "--minutes"
  train 1 --data "$work/nowhere.jsonl" -o "$work/d"
  err_has "nowhere.jsonl: there is no such file"
  : > "$work/empty.jsonl"
  train 1 --data "$work/empty.jsonl" -o "$work/d"
  err_has "empty.jsonl: is empty; expected a JSON object a line"
  printf '{"text": "fine"}\n{"txt": "x"}\n' > "$work/bad.jsonl"
  train 1 --data "$work/bad.jsonl" -o "$work/d"
  err_has "bad.jsonl:2: holds nothing to learn; expected one of the fields"
  train 1 --data "$data" -o "$root/models/pebble-11m"
  err_has "holds other files"
  train 1 --data "$data" -o "$data"
  err_has "is no folder"
  train 1 --data "$data" -o "$root/models/pebble-11m-dflash"
  err_has "holds a drafter already"
  train 1 --data "$data" -o "$work/d" --resume
  err_has "has no state of a training run"
  train 1 --data "$data" -o "$work/d" --json "$work/no/such/folder/report.json"
  err_has "report.json"
  [ ! -e "$work/d" ] || fail "training began although its report cannot be written"
  train 1 --data "$data" -o "$work/d" --evaluate
  err_has "is no drafter to evaluate"
  train 1 --data "$data" -o "$work/d" --gpus 2
  err_has "--gpus 2 needs GPUs, and there is one cpu device; several GPUs need --device cuda"
  printf 'stpes = 3\n' > "$work/train.toml"
  train 2 --data "$data" -o "$work/d" --config "$work/train.toml"
  err_has "did you mean steps?"
  [ ! -e "$work/d" ] || fail "a refused run left a folder"

  printf 'data = ["%s"]\nsteps = 2\nbatch-tokens = 100\n' "$data" > "$work/train.toml"
  train 1 --data "$data:0" -o "$work/d"
  err_has "has a weight of 0; expected 0.001 to 1000"
  train 0 -o "$work/d" --config "$work/train.toml" --dry-run
  out_has "12 documents"
  out_has "mask token 3 <|mask|>"
  out_has "time     about"
  [ ! -e "$work/d" ] || fail "a dry run left a folder"

  train 0 -o "$work/d" --config "$work/train.toml"
  out_has "as served, temperature 0"
  err_has "step 2 of 2  loss "
  [ "$(wc -l < "$work/d/train-log.jsonl")" = 2 ] || fail "the log has not a line a step"
  grep -q '"weight": 1.0' "$work/d/train.json" || fail "train.json does not say what the data were"
  train 0 -o "$work/again" --config "$work/d/train.toml"
  same "$work/again/train-state.safetensors" "$work/d/train-state.safetensors" "train.toml did not make the same run"
  expect 0 "$ashlar" train plot "$work/d" "$work/d/train-log.jsonl" -o "$work/run.html"
  out_has "d: 2 steps, loss "
  python3 -c 'import sys, xml.dom.minidom as dom
page = dom.parseString(open(sys.argv[1]).read().replace("<!doctype html>", "").replace("<meta charset=\"utf-8\">", ""))
sys.exit(len(page.getElementsByTagName("svg")) != 5)' "$work/run.html" || fail "the page has not five charts"
  : > "$work/empty-log.jsonl"
  expect 1 "$ashlar" train plot "$work/empty-log.jsonl" -o "$work/run.html"
  err_has "empty-log.jsonl: has no step; expected the log of a training"
  printf '{"step": 1}\n{"step": 2}\n' > "$work/bad-log.jsonl"
  expect 1 "$ashlar" train plot "$work/bad-log.jsonl" -o "$work/run.html"
  err_has "bad-log.jsonl:1: \"loss\": expected a number"
  expect 2 "$ashlar" train plot "$work/d"
  err_has "--output is required"
  expect 1 "$ashlar" train prepare --data "$data"
  err_has "there is no prepare: data are read, rendered and packed as training goes on; --dry-run"
  expect 1 "$ashlar" train capture --data "$data"
  err_has "--hidden-states FOLDER --capture"
  train 1 -o "$work/h" --config "$work/train.toml" --hidden-states "$work/states"
  err_has "is no folder; --capture writes hidden states there"
  train 0 -o "$work/h" --config "$work/train.toml" --hidden-states "$work/states" --capture
  err_has "all are there"
  [ ! -e "$work/h" ] || fail "a capture left a drafter's folder"
  head -c 4096 /dev/zero | dd of="$work/states/hs_1.safetensors" bs=1 seek=9000 conv=notrunc 2> /dev/null
  train 1 -o "$work/h" --config "$work/train.toml" --hidden-states "$work/states"
  err_has "hs_1.safetensors: is damaged: what it holds has the hash"
  rm -r "$work/h"
  train 0 -o "$work/h" --config "$work/train.toml" --hidden-states "$work/states" --capture
  err_has "it is made anew"
  train 0 -o "$work/h" --config "$work/train.toml" --hidden-states "$work/states" --format speculators
  same "$work/h/train-state.safetensors" "$work/d/train-state.safetensors" "stored hidden states made other weights"
  train 1 -o "$work/d" --config "$work/train.toml"
  err_has "--resume goes on with its training"
  train 1 -o "$work/d" --config "$work/train.toml" --resume --batch-tokens 99
  err_has "was trained with batch_tokens 100, and now it is 99"
  train 0 -o "$work/d" --config "$work/train.toml" --resume
  expect 0 "$ashlar" run pebble-11m --drafter none --prompt "What is 2 plus 1?" -n 40 --quiet
  cp "$work/out" "$work/plain"
  expect 0 "$ashlar" run pebble-11m --drafter "$work/d" --no-self-test --prompt "What is 2 plus 1?" -n 40 --quiet
  same "$work/out" "$work/plain" "a trained drafter changed an answer"
  expect 0 "$ashlar" run pebble-11m --drafter "$work/h" --no-self-test --prompt "What is 2 plus 1?" -n 40 --quiet
  same "$work/out" "$work/plain" "a drafter in the speculators form changed an answer"

  # The bundled drafter gets a head, in either form, and the answer stays.
  for form in z-lab speculators; do
    train 0 -o "$work/$form" --data "$data" --from "$root/models/pebble-11m-dflash" --head dspark --format "$form" --steps 2 --batch-tokens 100
    expect 0 "$ashlar" run pebble-11m --drafter "$work/$form" --no-self-test --prompt "What is 2 plus 1?" -n 40 --quiet
    same "$work/out" "$work/plain" "a drafter with a head changed an answer"
  done
  same "$work/z-lab/train-state.safetensors" "$work/speculators/train-state.safetensors" "the form changed what was learnt"
  train 0 -o "$work/z-lab" --config "$work/z-lab/train.toml" --resume

  # Ctrl-C: the step ends, all is saved, and the run goes on from there.
  "$ashlar" train pebble-11m --threads 1 --data "$data" -o "$work/i" --steps 1000000 --batch-tokens 100 > "$work/out" 2> "$work/err" &
  local pid=$! code=0
  for _ in $(seq 300); do
    [ -s "$work/i/train-log.jsonl" ] && break
    sleep 0.1
  done
  kill -INT "$pid"
  wait "$pid" || code=$?
  [ "$code" = 130 ] || fail "exit code $code after Ctrl-C"
  err_has "of 1000000; all is saved in $work/i, the same command with --resume goes on"
  [ -s "$work/i/train-state.safetensors" ] || fail "nothing was saved after Ctrl-C"
}

# However slow a model is, a part of a benchmark takes about as long as it was given.
case_bench() {
  expect 0 "$ashlar" bench --repeat 100 --seconds 0.001 --json "$work/bench.json"
  out_has "a cycle costs"
  out_has "identical: 12 of 12"
  out_has "5 of 100 rounds, 6 answers of at most 16 tokens one at a time; 1 at once 1 of 8; 4 at once 4 of 8"
  grep -q '"shortened": true' "$work/bench.json" || fail "the report does not say that it was shortened"
  expect 0 "$ashlar" bench "$root/models/pebble-11m-sdar" --repeat 1 -n 8 --seconds 0.001
  out_has "1 of 1 rounds, 6 answers of at most 8 tokens"
  expect 0 "$ashlar" bench --drafter ngram --repeat 1 -n 8 --seconds 0.001 --json "$work/bench.json"
  out_has "n-gram drafts"
  out_has "identical: 6 of 6"
  grep -q '"cycle"' "$work/bench.json" && fail "a cycle without a drafter"
  expect 2 "$ashlar" bench --seconds -1

  # A head that reads the newest hidden state drafts in every cycle, where an answer is as short as one, too.
  echo '{"text": "A harbour is a place on the coast where ships may shelter."}' > "$work/text.jsonl"
  expect 0 "$ashlar" train --data "$work/text.jsonl" -o "$work/head" --method eagle3 --steps 1 --anchors 1
  expect 0 "$ashlar" bench --drafter "$work/head" --no-self-test --width 16 --branches 0 --repeat 20 -n 16 --seconds 0.3 --concurrency 1 --json "$work/bench.json"
  python3 -c 'import json, sys
cycle = json.load(open(sys.argv[1]))["cycle"]
sys.exit(not cycle["draft_ms"] > 0.05 * cycle["verify_ms"] and f"{cycle} has no drafting")' "$work/bench.json" || fail "a cycle without drafts"

  # Drafts of a wished quality: the tokens stay, and their number a step is what was asked for, less what the last step
  # of a short answer has no room for.
  expect 0 "$ashlar" bench --width 16 --accept-length 5 --repeat 1 -n 64 --seconds 0 --concurrency 2 --json "$work/bench.json"
  out_has "identical: 24 of 24"
  out_has "replaced by ones that give 5.00 tokens a step"
  python3 -c 'import json, sys
found = json.load(open(sys.argv[1]))["drafted_answers"]["acceptance_length_per_step"]
sys.exit(not 4.1 < found < 5.2 and f"{found} tokens a step")' "$work/bench.json" || fail "not about 5 tokens a step"
  expect 1 "$ashlar" bench --accept-length 17 --repeat 1
  err_has "blocks give 1 to 16"
  expect 1 "$ashlar" bench --drafter none --accept-length 2 --repeat 1
  err_has "--drafter FOLDER"
  expect 2 "$ashlar" bench --accept-length 2 --contexts 200

  expect 0 "$ashlar" bench --kernels --repeat 3 --context 64 --json "$work/kernels.json"
  out_has "draft pass"
  out_has "between ops"
  python3 -c 'import json, sys
passes = json.load(open(sys.argv[1]))["kernels"]
sys.exit(len(passes) != 4 or any(not 0 < one["ms_in_ops"] <= one["ms"] for one in passes))' "$work/kernels.json" || fail "ops do not add up"
  for other in "--contexts 200" "--concurrency 4" "-n 8" "--accept-length 4"; do
    expect 2 "$ashlar" bench --kernels $other
  done
}

case_synth() {
  sed 's/"vocab_size": *[0-9]*/"vocab_size": 300/' "$root/tests/data/families/qwen3/config.json" > "$work/tiny.json"
  expect 0 "$ashlar" synth "$work/tiny.json" -o "$work/made" --drafter
  out_has "$work/made-dflash: "
  expect 0 "$ashlar" run "$work/made" --drafter "$work/made-dflash" --no-self-test --prompt hello -n 8
  err_has "made with made-dflash"
  expect 0 "$ashlar" synth "$work/tiny.json" -o "$work/more" --drafters dflash2,eagle3
  out_has "$work/more-dflash2: "
  out_has "$work/more-eagle3: "
  expect 0 "$ashlar" bench "$work/more" --drafters "$work/more-dflash2,$work/more-eagle3" --repeat 1 --context 16
  out_has "more-eagle3, plain steps"
  expect 1 "$ashlar" bench "$work/more" --drafters ngram
  err_has "ngram: drafts nothing by itself"
  expect 1 "$ashlar" bench "$work/more" --drafters "$work/more-eagle3,$work/more-eagle3"
  err_has "is named twice"
  mkdir "$work/bare"
  cp "$work/tiny.json" "$work/bare/config.json"
  touch "$work/bare/model.safetensors.index.json"
  cp -r "$work/more-eagle3" "$work/bare-eagle3"
  expect 1 "$ashlar" doctor --port 0 "$work/bare"
  out_has "no weights are here"
  expect 1 "$ashlar" inspect "$work/bare"
  parameters=$(sed -n 's/.*parameters *\([0-9,]*\) .*/\1/p' "$work/out")
  out_has "NOT HERE"
  out_has "ashlar synth $work/bare -o FOLDER"
  expect 0 "$ashlar" inspect "$work/made" --no-self-test
  out_has "parameters      $parameters "
  expect 1 "$ashlar" synth "$work/tiny.json" -o "$work/made"
  err_has "has files in it"
  expect 0 "$ashlar" synth "$work/made" -o "$work/made" --force
  expect 1 "$ashlar" synth no-such-shape -o "$work/none"
  err_has "expected one of qwen3-0.6b"
}

case_bench_serve() {
  expect 2 "$ashlar" bench serve
  err_has "--url"
  err_has "See: ashlar bench serve --help"
  expect 2 "$ashlar" bench serve --url http://127.0.0.1:1 --rate 1 --concurrency 2
  expect 1 "$ashlar" bench serve --url http://127.0.0.1:1
  err_has "is the server running"
  err_lines 1
  expect 1 "$ashlar" bench serve --url http://127.0.0.1:1 --json "$work/nowhere/a.json"
  err_has "$work/nowhere/a.json"
  err_has "No such file or directory"
  echo old > "$work/report.json"
  expect 1 "$ashlar" bench serve --url http://127.0.0.1:1 --json "$work/report.json"
  [ "$(cat "$work/report.json")" = old ] || fail "an earlier report is gone"
  expect 0 "$ashlar" bench serve --help
  out_has "--slo-ttft"
}

case_local_models() {
  export HF_HUB_CACHE=$work/hub
  mkdir -p "$work/hub/models--org--stone/snapshots/$(printf 'a%.0s' $(seq 40))" "$work/hub/models--org--stone/blobs"
  printf 'x%.0s' $(seq 2000) > "$work/hub/models--org--stone/blobs/bb"
  expect 0 "$ashlar" list
  out_has "pebble-11m-dflash"
  grep -qE "^org/stone +2.00 kB  model, pulled" "$work/out" || fail "the pulled model is not listed"
  expect 0 "$ashlar" list --json
  out_has '"name":"org/stone"'
  expect 1 "$ashlar" run stone --prompt hello
  err_has "did you mean org/stone?"
  expect 1 "$ashlar" rm pebble-11m
  err_has "expected ORG/MODEL"
  expect 0 "$ashlar" rm org/stone
  err_has "frees 2.00 kB"
  expect 1 "$ashlar" rm org/stone
  err_has "is not among the models pulled"
  expect 1 "$ashlar" run pebble-11n --prompt hello
  err_has "did you mean pebble-11m?"
  for words in "run -hf org/model" "-m x.gguf -p hi" "run -c 4096" "serve -t 8" "ps" "serve --model x"; do
    # shellcheck disable=SC2086 -- several arguments
    expect 2 "$ashlar" $words
    err_has "here "
    [ ! -s "$work/out" ] || fail "help instead of a hint: $words"
  done
}

case_inspect() {
  expect 0 "$ashlar" inspect pebble-11m
  out_has "qwen3"
  out_has "<|im_end|>"
  grep -qE "fits +yes" "$work/out" || fail "does not fit"
  grep -qE "self-test +good" "$work/out" || fail "self-test is not good"
  err_lines 0
  expect 0 "$ashlar" inspect pebble-11m --json --no-self-test
  out_has '"fits": true'
  out_has '"kv_bytes_per_token": 6144'
  out_has '"drafter_kv_bytes_per_token": 1024'
  out_has '"full_context_bytes": 29360128'
  out_has '"state_bytes_per_sequence": 0'
  out_has '"branch_bytes": 3145728'  # 16 trees of 16 rows, 8 in a page of 96 KiB
  # 12 frames of 16 KiB for the drafter instead of 256 pages.
  expect 0 "$ashlar" inspect pebble-11m --json --no-self-test --draft-window 64 --max-sequences 1
  out_has '"drafter_kv_bytes_per_token": 0'
  out_has '"drafter_window_bytes": 196608'
  out_has '"full_context_bytes": 25362432'
  expect 0 "$ashlar" inspect pebble-11m --no-self-test --draft-window 64
  out_has "at most 3.00 MiB for the drafter"
  expect 0 "$ashlar" inspect "$root/models/pebble-11m-dflash/"
  out_has "drafter pebble-11m-dflash"
  expect 1 "$ashlar" inspect pebble-11m --drafter "$root/tests/data/drafters/dflash_fitted"
  out_has "NO: "
  # What no model can be made of, in the words of run.
  cp -r "$root/models/pebble-11m" "$work/flipped"
  local shard more
  shard=$(ls "$work"/flipped/*.safetensors | head -1)
  printf '\200\177' | dd of="$shard" bs=1 seek=$(($(stat -c %s "$shard") - 2)) conv=notrunc status=none  # infinity
  for more in --device=cpu --json; do
    expect 1 "$ashlar" inspect "$work/flipped" --drafter none "$more"
    out_has "expected finite numbers, found infinity or NaN at element"
  done
  expect 0 "$ashlar" inspect "$work/flipped" --drafter none --no-self-test
  expect 1 "$ashlar" run "$work/flipped" --drafter none -p hi
  err_has "expected finite numbers, found infinity or NaN at element"
  cp -r "$root/models/pebble-11m" "$work/garbled"
  echo '{% for x in %}' > "$work/garbled/chat_template.jinja"
  for more in --drafter=none --json "--drafter=$root/models/pebble-11m-dflash"; do
    expect 1 "$ashlar" inspect "$work/garbled" "$more"
    out_has "unexpected '%}', expected an expression"
  done
  out_has "UNUSABLE"
  expect 1 "$ashlar" run "$work/garbled" --drafter none -p hi
  # Shards need no index.
  cp -r "$root/models/pebble-11m" "$work/unlisted"
  rm "$work/unlisted/model.safetensors.index.json"
  expect 0 "$ashlar" run "$work/unlisted" --drafter none -p "What is a harbour?" -n 4

  broken_model
  sed -i 's/"rope_type": *"default"/"rope_type": "yarn", "factor": 2.0/' "$work/broken/config.json"
  expect 0 "$ashlar" inspect "$work/broken" --drafter none --json
  out_has '"rope_scaling": "yarn"'
  out_has '"context": 8192'
  out_has '"full_context_bytes": 50331648'  # 8192 times 6144
  printf 'word %.0s' $(seq 6000) > "$work/long"
  expect 0 "$ashlar" run "$work/broken" --drafter none --prompt-file "$work/long" -n 2 --json -q
  grep -qE '"prompt_tokens":[6-7][0-9]{3}' "$work/out" || fail "not a prompt of more than 4096 tokens"
  expect 1 "$ashlar" run "$work/broken" --drafter none --prompt-file "$work/long" -n 2 --max-context 5000
  err_has "the context holds 5000"
}

case_drafter_self_test() {
  cp -r "$root/models/pebble-11m-dflash" "$work/wrong" && chmod -R u+w "$work/wrong"
  sed -i 's/"mask_token_id": 3/"mask_token_id": 300/' "$work/wrong/config.json"
  expect 0 "$ashlar" run --drafter "$work/wrong" --prompt "What is a harbour?" -n 8
  err_has "hardly predicts"
  err_has "mask_token_id"
  expect 0 "$ashlar" run --drafter "$work/wrong" --prompt "What is a harbour?" -n 8 --no-self-test
  grep -q predicts "$work/err" && fail "--no-self-test tests"
  expect 0 "$ashlar" run --prompt "What is a harbour?" -n 8
  grep -q predicts "$work/err" && fail "warns of the bundled drafter"
  return 0
}
