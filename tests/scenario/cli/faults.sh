# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What fails: files, disks, memory, the network, Ctrl-C. Sourced by cli_test.sh.

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
  cp "$work/out" "$work/plain"
  expect 2 "$ashlar" pull harbour/pebble --with-drafter
  err_has "no drafter is known for harbour/pebble"
  # A drafter by its name: its model is named in it, or stands in the table.
  cp -r "$root/models/pebble-11m-dflash" "$work/spec" && chmod -R u+w "$work/spec"
  sed -i '1s|^{|{"speculators_config": {"verifier": {"name_or_path": "harbour/pebble"}},|' "$work/spec/config.json"
  expect 0 "$ashlar" run "$work/spec" --prompt hello -n 4
  same "$work/plain" "$work/out" "by the drafter's name"
  sed -i '1s|harbour/pebble|harbour/other|' "$work/spec/config.json"
  for command in "run --prompt hello" "eval acceptance" "serve --port 0"; do
    # shellcheck disable=SC2086 -- several arguments
    expect 1 "$ashlar" $command "$work/spec"
    err_has "harbour/other"
  done
  mkdir -p "$work/config/ashlar"
  echo '{"harbour/pebble": "harbour/drafter"}' > "$work/config/ashlar/drafters.json"
  XDG_CONFIG_HOME=$work/config expect 0 "$ashlar" pull harbour/pebble
  err_has "a drafter for it: harbour/drafter; --with-drafter fetches that too"
  echo '[]' > "$work/config/ashlar/drafters.json"
  for command in "run harbour/pebble --prompt hello -n 4" "pull harbour/pebble"; do  # which need no such table
    # shellcheck disable=SC2086
    XDG_CONFIG_HOME=$work/config expect 0 "$ashlar" $command
    err_has "drafters.json: is no object; expected"
  done
  XDG_CONFIG_HOME=$work/config expect 1 "$ashlar" pull harbour/pebble --with-drafter
  err_has "drafters.json: is no object; expected"
  HF_HUB_OFFLINE=0 HF_ENDPOINT=http://no-such-host.invalid expect 1 "$ashlar" pull other/model
  err_has "check HF_ENDPOINT, which is http://no-such-host.invalid"
  grep -q "trying again" "$work/err" && fail "an unknown host is asked again"
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
