#!/usr/bin/env bash
# cli_test.sh PROGRAM SOURCE_ROOT CASE: the program as a person meets it. A case is a function case_NAME below; without CASE all run.
set -u

ashlar=$1
root=$2
export ASHLAR_MODELS=$root/models NO_COLOR=1 TERM=dumb
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

case_introduction() {
  expect 0 "$ashlar"
  out_has "ashlar run --prompt"
  expect 0 "$ashlar" --help
  for command in run chat inspect demo; do out_has "  $command"; done
  expect 0 "$ashlar" --version
  out_has "ashlar "
  for command in run chat inspect demo; do
    expect 0 "$ashlar" "$command" --help
    out_has "--drafter"
    [ "$(awk '{ if (length($0) > longest) longest = length($0) } END { print longest }' "$work/out")" -le 130 ] ||
      fail "a line of $command --help is too long"
  done
}

case_doctor() {
  expect 0 "$ashlar" doctor --port 0
  out_has "drafted and plain are the same"
  out_has " 0 problems"
  expect 1 "$ashlar" doctor --port 0 --isa abacus --json
  out_has '"severity": "problem"'
  printf 'prot = 1\n' > "$work/bad.toml"
  expect 1 "$ashlar" doctor --port 0 --drafter none --config "$work/bad.toml"
  out_has "bad.toml:1: \"prot\" is no setting"
  expect 1 "$ashlar" health http://127.0.0.1:1
  err_has "no connection"
}

case_generated() {
  for shell in bash zsh fish; do
    expect 0 "$ashlar" completion "$shell"
    out_has "log-format"
  done
  expect 0 "$ashlar" completion bash
  bash -n "$work/out" || fail "bash cannot read its completion"
  bash -c "source '$work/out' && complete -p ashlar" > /dev/null || fail "bash completes nothing"
  expect 2 "$ashlar" completion csh
  expect 0 "$ashlar" man
  out_has ".TH ASHLAR 1"
}

case_settings() {
  expect 0 "$ashlar" serve --config "$root/packaging/ashlar.toml" --print-config
  out_has "port = 8080    # file"
  ASHLAR_PORT=1234 expect 0 "$ashlar" serve --config "$root/packaging/ashlar.toml" --print-config
  out_has "port = 1234    # environment"
  expect 0 "$ashlar" serve --config "$root/packaging/ashlar.toml" --port 99 --print-config
  out_has "port = 99    # command line"
  cp "$work/out" "$work/printed.toml"
  expect 0 "$ashlar" serve --config "$work/printed.toml" --print-config
  out_has "port = 99    # file"
  printf 'port = "x"\n' > "$work/bad.toml"
  # A service manager does not try again what ends with 2 (packaging/ashlar.service).
  expect 2 "$ashlar" serve --config "$work/bad.toml"
  err_has "bad.toml:1: \"port\""
  err_has "See: ashlar serve --help"
  for wrong in 'prot = 1' 'port = ' 'port = 1\nport = 2'; do
    printf '%b\n' "$wrong" > "$work/bad.toml"
    expect 2 "$ashlar" serve --config "$work/bad.toml"
    err_has "bad.toml:"
  done
  expect 2 "$ashlar" serve --config "$work/nosuch.toml"
  err_has "nosuch.toml"
  ASHLAR_CONFIG=$work/nosuch.toml expect 2 "$ashlar" serve --print-config
  expect 1 "$ashlar" doctor --port 0 --drafter none --config "$work"
  out_has "is a folder; expected a TOML file"
  expect 2 "$ashlar" serve --config "$work"
  err_has "is a folder; expected a TOML file"
}

case_taken_port() {
  "$ashlar" serve --port 0 --no-self-test 2> "$work/log" &
  local pid=$! port=""
  for _ in $(seq 100); do
    port=$(sed -n 's/.*listening on http:[^ ]*:\([0-9]*\) .*/\1/p' "$work/log")
    [ -n "$port" ] && break
    sleep 0.1
  done
  local code=0
  "$ashlar" serve --port "$port" > "$work/out" 2> "$work/err" || code=$?
  kill "$pid"
  wait "$pid" || fail "the server did not end well"
  [ "$code" = 1 ] || fail "exit code $code"
  err_has "port $port: Address already in use"
  err_lines 1 # no model was loaded
}

# Some of the last allocations of a short command, one a run: where nothing can catch that one failed, it is still reported.
case_out_of_memory() {
  [ -n "${ASHLAR_FAILING_MALLOC:-}" ] || return 0
  expect 0 env LD_PRELOAD="$ASHLAR_FAILING_MALLOC" ASHLAR_COUNT_FILE="$work/count" "$ashlar" serve --print-config
  local total code reported=0 n
  total=$(cat "$work/count")
  for n in $(seq $((total - 300)) 4 "$total"); do
    code=0
    env LD_PRELOAD="$ASHLAR_FAILING_MALLOC" ASHLAR_FAIL_AT="$n" "$ashlar" serve --print-config \
      > "$work/out" 2> "$work/err" < /dev/null || code=$?
    [ "$code" = 0 ] || [ "$code" = 1 ] || [ "$code" = 2 ] || fail "exit code $code with allocation $n failing"
    [ "$code" = 0 ] || grep -q '^error: ' "$work/err" || fail "no error is reported with allocation $n failing"
    ! grep -q 'error: out of memory; a smaller --kv-memory' "$work/err" || reported=$((reported + 1))
  done
  [ "$reported" -gt 0 ] || fail "no run said that memory ran out"
}

case_full_disk() {
  [ -w /dev/full ] || return 0
  full() {
    local code=0
    "$@" > /dev/full 2> "$work/err" < /dev/null || code=$?
    : > "$work/out"
    [ "$code" = 1 ] || fail "exit code $code on a full disk: $*"
    err_has "standard output: No space left on device"
  }
  full "$ashlar"
  full "$ashlar" --help
  full "$ashlar" --version
  full "$ashlar" man
  full "$ashlar" completion zsh
  full "$ashlar" inspect --no-self-test
  full "$ashlar" serve --print-config
  full "$ashlar" run -p hi -n 5
  full "$ashlar" run -p hi -n 5 --json
  # A reader that has enough is no failure, and nothing is said of it.
  { "$ashlar" man 2> "$work/err" || true; } | head -1 > "$work/out"
  err_lines 0
  local code=0
  "$ashlar" man >&- 2> "$work/err" < /dev/null || code=$?
  [ "$code" = 1 ] || fail "exit code $code without standard output"
  err_has "standard output: "
}

case_words() {
  expect 2 "$ashlar" run --promt x
  err_has "--promt is no flag of ashlar run; did you mean --prompt?"
  expect 2 "$ashlar" ru --prompt x
  err_has "ashlar has no command ru; did you mean run?"
  expect 2 "$ashlar" eval accept
  err_has "did you mean acceptance?"
  expect 2 "$ashlar" eval-dllm --help
  err_has "did you mean eval dllm?"
  expect 2 "$ashlar" eval --foo
  err_has "--foo is no flag of ashlar eval"
  expect 2 "$ashlar" run -n
  err_has "--max-tokens needs a value"
  expect 2 "$ashlar" run what is a harbour
  err_has '"is a harbour" belongs to no flag'
  expect 2 "$ashlar" eval
  err_has "ashlar eval needs one of its commands: acceptance dllm perplexity logits"
  expect 2 "$ashlar" run --schedule foo
  err_has "error: --schedule is foo; expected cosine, linear or sqrt"
  expect 2 "$ashlar" run --temperature nan
  err_has "--temperature is nan; expected a number from 0 to 100"
  expect 2 "$ashlar" run --top-p 0
  err_has "--top-p is 0; expected a number above 0 and up to 1"
  expect 2 "$ashlar" serve --drain -1
  err_has "--drain is -1; expected a number from 0 to 100000"
  expect 0 "$ashlar" help
  out_has "  serve "
  expect 0 "$ashlar" help eval dllm
  out_has "--thresholds"
  expect 0 "$ashlar" version
  out_has "ashlar "
  cp "$work/out" "$work/version"
  expect 0 "$ashlar" -V
  same "$work/version" "$work/out" "-V"
}

case_variables() {
  ASHLAR_PORT=99999 ASHLAR_TLS_CERT=x expect 0 "$ashlar" run -p hi -n 4
  ASHLAR_THREADS=abc expect 1 "$ashlar" health http://127.0.0.1:1
  err_has "no connection"
  ASHLAR_THREADS=abc expect 2 "$ashlar" run -p hi
  err_has "ASHLAR_THREADS is abc; expected a whole number from 0 to 1024"
  err_has "See: ashlar run --help"
  ASHLAR_PORT=tcp://10.0.0.1:8080 expect 0 "$ashlar" serve --print-config
  out_has "port = 8080    # default"
  err_has "Kubernetes"
  ASHLAR_PORT=tcp://10.0.0.1:8080 expect 0 "$ashlar" serve --print-config --log-format json
  [ "$(grep -cv '^{"time":.*}$' "$work/err")" = 0 ] || fail "a line that is no JSON"
  ASHLAR_PORT=tcp://10.0.0.1:8080 expect 1 "$ashlar" health --timeout 1
  err_has "127.0.0.1:8080"
  ASHLAR_PORT=99999 expect 0 "$ashlar" man
  out_has "ASHLAR_PORT"
}

case_usage_errors() {
  for arguments in "run --nonsense" "run --temperature -1" "run --width 1" "run --threads many" "run --logit-bias 5" \
    "run --scheme other" "run --kv-memory much" "run --schedule never" "walk" "run -p a -f b" "run --n 0"; do
    # shellcheck disable=SC2086 -- several arguments
    expect 2 "$ashlar" $arguments
    err_has "error: "
    err_has "See: ashlar"
    err_lines 2
  done
  expect 2 "$ashlar" run --prompt ""
  err_has "the prompt is empty"
  expect 2 "$ashlar" run # nothing on standard input either
  err_has "the prompt is empty"
}

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
  printf 'stpes = 3\n' > "$work/train.toml"
  train 2 --data "$data" -o "$work/d" --config "$work/train.toml"
  err_has "did you mean steps?"
  [ ! -e "$work/d" ] || fail "a refused run left a folder"

  printf 'data = ["%s"]\nsteps = 2\nbatch-tokens = 100\n' "$data" > "$work/train.toml"
  train 0 -o "$work/d" --config "$work/train.toml" --dry-run
  out_has "12 documents"
  out_has "mask token 3 <|mask|>"
  out_has "time     about"
  [ ! -e "$work/d" ] || fail "a dry run left a folder"

  train 0 -o "$work/d" --config "$work/train.toml"
  out_has "as served, temperature 0"
  err_has "step 2 of 2  loss "
  [ "$(wc -l < "$work/d/train-log.jsonl")" = 2 ] || fail "the log has not a line a step"
  train 1 -o "$work/d" --config "$work/train.toml"
  err_has "--resume goes on with its training"
  train 1 -o "$work/d" --config "$work/train.toml" --resume --batch-tokens 99
  err_has "was trained with batch_tokens 100, and now it is 99"
  train 0 -o "$work/d" --config "$work/train.toml" --resume
  expect 0 "$ashlar" run pebble-11m --drafter none --prompt "What is 2 plus 1?" -n 40 --quiet
  cp "$work/out" "$work/plain"
  expect 0 "$ashlar" run pebble-11m --drafter "$work/d" --no-self-test --prompt "What is 2 plus 1?" -n 40 --quiet
  same "$work/out" "$work/plain" "a trained drafter changed an answer"

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

case_missing_things() {
  expect 1 "$ashlar" run "$work/nowhere" --prompt hello
  err_has "$work/nowhere"
  err_lines 1
  expect 1 "$ashlar" run "what is a harbour" --prompt hello
  err_has "--prompt"
  expect 1 "$ashlar" run --drafter "$work/nowhere" --prompt hello
  err_has "$work/nowhere"
  expect 1 "$ashlar" run pebble-11m-dflash --prompt hello
  err_has "is a drafter"
  expect 1 "$ashlar" run --drafter ngram --ngram-drafts never --prompt hello
  err_has "--drafter none for plain decoding"
  expect 1 "$ashlar" run pebble-11m-sdar --drafter ngram --prompt hello
  err_has "fills blocks and needs no drafts"
  expect 1 "$ashlar" run --prompt-file "$work/nowhere"
  err_has "$work/nowhere"
  expect 1 "$ashlar" run --isa imaginary --prompt hello
  err_has "imaginary"
  ASHLAR_FORCE_ISA=imaginary expect 1 "$ashlar" run --prompt hello
  err_has "imaginary"
  mkdir "$work/empty"
  expect 1 "$ashlar" run --kv-memory 99999G --prompt hello
  err_has "are free"
  err_lines 1
  expect 1 "$ashlar" run --kv-memory 1M --prompt hello
  err_has "31.0 MiB"
  err_has "raise --kv-memory or lower --max-context"
  expect 2 "$ashlar" run hello
  err_has "hello was taken as the model's name"
  expect 2 "$ashlar" run --raw --system x --prompt hello
  expect 2 "$ashlar" run --stop "" --prompt hello
  # A path that exists nowhere is no name of the hub's, where its first part is a folder here.
  mkdir "$work/models"
  cd "$work" || exit 1
  HF_ENDPOINT=http://127.0.0.1:1 expect 1 "$ashlar" serve models/mistyped --port 0
  err_has "models/mistyped is not a folder"
  # What can be known to be wrong is reported before a model is fetched or loaded.
  expect 1 "$ashlar" serve models/mistyped --port 0 --tls-cert nowhere.pem --tls-key nowhere.pem
  err_has "nowhere.pem"
  expect 2 "$ashlar" serve --allowed-origin foo
  err_has "--allowed-origin is foo; expected a scheme and a host"
  expect 2 "$ashlar" serve --allowed-host http://x
  expect 1 "$ashlar" serve models/mistyped --port 0 --log-format json
  [ "$(grep -cv '^{"time":.*}$' "$work/err")" = 0 ] || fail "a line that is no JSON"
  expect 1 "$ashlar" inspect "$work/empty"
  err_has "config.json"
  expect 1 "$ashlar" run models/mistyped.gguf --prompt x
  err_has "models/mistyped.gguf is not a file"
  printf 'GGUF\3\0\0\0' > "$work/cut.gguf"
  for command in "run --prompt x" inspect; do
    # shellcheck disable=SC2086 -- several arguments
    expect 1 "$ashlar" $command "$work/cut.gguf"
    err_has "cut.gguf: ends within the number of tensors"
    err_has "is the file truncated?"
  done
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

case_pull() {
  export HF_HUB_CACHE=$work/hub HF_HUB_OFFLINE=1
  expect 0 "$ashlar" pull --help
  out_has "What is fetched is checked by its hash; of a file that is there already only the length"
  expect 2 "$ashlar" pull pebble
  err_has "expected ORG/MODEL"
  expect 1 "$ashlar" pull harbour/pebble
  err_has "HF_HUB_OFFLINE"
  expect 1 "$ashlar" run harbour/pebble --prompt hello
  err_has "ashlar pull harbour/pebble"
  local commit=0123456789abcdef0123456789abcdef01234567
  local repo=$work/hub/models--harbour--pebble
  mkdir -p "$repo/snapshots" "$repo/refs"
  cp -r "$root/models/pebble-11m" "$repo/snapshots/$commit"
  printf %s $commit > "$repo/refs/main"
  expect 0 "$ashlar" pull harbour/pebble
  out_has "$repo/snapshots/$commit"
  expect 0 "$ashlar" run harbour/pebble --prompt hello -n 4
  # Half of a model, as an interrupted download leaves it.
  chmod -R u+w "$repo" && rm "$repo/snapshots/$commit/tokenizer.json"
  for command in "serve harbour/pebble --port 0" "pull harbour/pebble" "run harbour/pebble --prompt hello"; do
    # shellcheck disable=SC2086 -- several arguments
    expect 1 "$ashlar" $command
    err_has "it lacks tokenizer.json"
    err_has "ashlar pull harbour/pebble"
  done
  HF_HUB_OFFLINE=0 HF_ENDPOINT=http://127.0.0.1:1 HF_HUB_CACHE=$work/file/x expect 1 "$ashlar" inspect other/model
  err_has "ashlar pull other/model"
}

case_broken_models() {
  broken_model
  truncate -s 100000 "$work/broken/model-00002-of-00002.safetensors"
  expect 1 "$ashlar" run "$work/broken" --prompt hello
  err_has "model-00002-of-00002.safetensors"
  cp "$root/models/pebble-11m/model-00002-of-00002.safetensors" "$work/broken/"
  chmod u+w "$work/broken/model-00002-of-00002.safetensors"
  rm "$work/broken/tokenizer.json"
  expect 1 "$ashlar" run "$work/broken" --prompt hello
  err_has "tokenizer.json"
  echo '{"version": "1.0"}' > "$work/broken/tokenizer.json"
  expect 1 "$ashlar" run "$work/broken" --prompt hello
  err_has "tokenizer.json"
  cp "$root/models/pebble-11m/tokenizer.json" "$work/broken/"
  echo '{"chat_template": "{% for a in range(100000000) %}{{ a }}{% endfor %}"}' > "$work/broken/tokenizer_config.json"
  expect 1 "$ashlar" run "$work/broken" --prompt hello
  err_has "[template]"
  printf '%s' "{{ raise_exception('\\x1b]0;owned\\x07\\x1b[2J') }}" > "$work/broken/chat_template.jinja"
  expect 1 "$ashlar" run "$work/broken" --prompt hello
  err_has "the template refuses this conversation: ?]0;owned??[2J"
  rm "$work/broken/chat_template.jinja" "$work/broken/tokenizer_config.json"
  expect 1 "$ashlar" chat "$work/broken"
  err_has "no chat template"
  expect 0 "$ashlar" run "$work/broken" --prompt "The stone" -n 4
}

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

case_limits_and_stops() {
  printf 'word %.0s' $(seq 200) > "$work/long"
  expect 1 "$ashlar" run --prompt-file "$work/long" --max-context 64
  err_has "too many"
  expect 0 "$ashlar" run --raw --prompt "1, 2, 3, 4," --stop ", 12" -n 40
  grep -q 12 "$work/out" && fail "the stop string is shown"
  expect 0 "$ashlar" run --raw --prompt "1, 2, 3, 4," -n 40 --stop nothing --stop ", 12" --json
  out_has '"finish":"stop"'
  out_has '"stop_string":", 12"'
  expect 0 "$ashlar" run --prompt "What is a harbour?" -n 5 --logprobs 2 -q
  [ "$(grep -c 'best: ' "$work/out")" = 5 ] || fail "not five rows of log-probabilities"
  expect 1 "$ashlar" run --prompt hello --logit-bias 99999999:1
  err_has "99999999"
  expect 0 "$ashlar" run --max-context 40 --prompt "Count from 1 to 100." --json
  out_has '"finish":"length"'
  for n in 1 2 3 4 5 6 7; do
    expect 0 "$ashlar" run --raw --prompt "größer – ‘naïve’ café 日本語 🙂 größer – ‘naïve’ café 日本語 🙂 " -n "$n" --temperature 1 --quiet
    is_utf8 "$work/out"
  done
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
    [ -s "$work/out" ] && fail "help instead of a hint: $words"
  done
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

case_demo() {
  expect 0 "$ashlar" demo -n 24 --rounds 1
  out_has "identical: yes"
  grep -qE '^speed-up: [0-9]+\.[0-9]x$' "$work/out" || fail "no speed-up"
  out_has "mean acceptance length: "
  grep -qE '^tokens per forward: [0-9.]+, [0-9]+ tokens/s; one token per forward: ' "$work/out" || fail "no blocks"
  expect 0 "$ashlar" demo -n 12 --rounds 2 --temperature 0.7 --prompt "What is a harbour?"
  out_has "identical: yes"
  expect 1 "$ashlar" demo --drafter none
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

case_interrupt() {
  "$ashlar" run --raw --prompt "1, 2, 3," --device ref --no-self-test --logit-bias 2:-100 --logit-bias 0:-100 > "$work/out" 2> "$work/err" &
  local pid=$!
  for _ in $(seq 100); do
    [ -s "$work/out" ] && break
    sleep 0.1
  done
  kill -INT "$pid"
  local code=0
  wait "$pid" || code=$?
  [ "$code" = 130 ] || fail "exit code $code after Ctrl-C"
  err_has "cancelled"
}

if [ $# -ge 3 ]; then
  "case_$3"
else
  for name in $(declare -F | sed -n 's/^declare -f case_//p'); do
    echo "== $name"
    ("case_$name") || exit 1
  done
fi
