# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Words, flags, settings and what the program says of itself. Sourced by cli_test.sh.

case_introduction() {
  expect 0 "$ashlar"
  out_has "ashlar run --prompt"
  expect 0 "$ashlar" --help
  for command in run chat inspect demo; do out_has "  $command"; done
  commands=$(sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p' "$work/out")
  expect 0 "$ashlar" --version
  out_has "ashlar "
  for command in $commands; do
    expect 0 "$ashlar" "$command" --help
    case $command in run | chat | inspect | demo | train) out_has "--drafter" ;; esac
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
  err_has "is a server running there?"
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
  err_has '"is a harbour" belongs to no flag, and ashlar run takes no further value; a prompt goes after its flag'
  expect 2 "$ashlar" rnu
  err_has "did you mean run?"
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

case_demo() {
  expect 0 "$ashlar" demo -n 24 --rounds 1
  out_has "identical: yes"
  grep -qE '^speed-up: [0-9]+\.[0-9]x$' "$work/out" || fail "no speed-up"
  out_has "mean acceptance length: "
  grep -qE '^tokens per forward: [0-9.]+, [0-9]+ tokens/s; one token per forward: ' "$work/out" || fail "no blocks"
  expect 0 "$ashlar" demo -n 12 --rounds 2 --temperature 0.7 --prompt "What is a harbour?"
  out_has "identical: yes"
  expect 1 "$ashlar" demo --drafter none
  expect 0 "$ashlar" demo -n 16 --rounds 1 --json "$work/demo.json"
  python3 - "$work/demo.json" "$(sed -n 's/^speed-up: //p' "$work/out")" <<'EOF' || fail "the figures in JSON"
import json, sys
figures = json.load(open(sys.argv[1]))
drafting = figures["drafting"]
assert drafting["identical"] and len(drafting["prompts"]) == 6 and drafting["model"].endswith("pebble-11m"), drafting
assert all(one["tokens"] <= 16 and one["identical"] for one in drafting["prompts"])
assert f'{drafting["speed_up"]:.1f}x' == sys.argv[2], sys.argv[2]
assert figures["blocks"]["prompts"] == 3 and figures["blocks"]["tokens_per_forward"] > 0
EOF
  expect 1 "$ashlar" demo --json "$work/no/such/folder.json"
}
