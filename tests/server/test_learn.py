# SPDX-License-Identifier: Apache-2.0
"""Traffic that the operator keeps to train a drafter on: tokens of whole answers, and of no others."""

import json
import os
import stat
import subprocess

from support import MODEL, chat, eventually, events


def kept(folder):
    return [json.loads(line) for name in sorted(os.listdir(folder)) for line in open(os.path.join(folder, name), encoding="utf-8")]


def test_answers_are_kept_as_training_data(start, tmp_path):
    folder = tmp_path / "traffic"
    server = start("--learn", str(folder))

    def ask(path, body):
        answer = server.client.post(path, json=body, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()

    question = chat("Count to ten.", max_tokens=8, temperature=1, seed=5)
    ask("/v1/chat/completions", {**question, "n": 2})
    ask("/v1/chat/completions", {**question, "store": False})
    raw = ask("/generate", {"input_ids": [5, 6, 7], "return_logprob": True, "sampling_params": {"max_new_tokens": 4, "temperature": 0, "ignore_eos": True}})
    with server.client.stream("POST", "/v1/chat/completions", json={**question, "stream": True}, timeout=60) as response:
        assert list(events(response))
    with server.client.stream("POST", "/v1/chat/completions", json=chat("Go on.", max_tokens=3000, ignore_eos=True, stream=True), timeout=60) as response:
        next(events(response))  # and then the client leaves
    eventually(lambda: server.stats()["running"] == 0, 20, "it runs on")
    server.terminate()
    assert server.wait(20) == 0

    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    lines = kept(folder)
    assert len(lines) == 4
    answers = [[i for i, learnt in zip(line["ids"], line["mask"]) if learnt] for line in lines]
    prompts = [line["ids"][:len(line["ids"]) - len(answer)] for line, answer in zip(lines, answers)]
    assert prompts[2] == [5, 6, 7] and answers[2] == [token for _, token, *_ in raw["meta_info"]["output_token_logprobs"]]
    assert prompts[0] == prompts[1] == prompts[3] and answers[0] != answers[1]
    assert answers[3] == answers[0]  # the same seed, as a stream
    assert "Count" not in json.dumps(lines)


def test_a_trainer_takes_the_folder(start, tmp_path):
    server = start("--learn", str(tmp_path))
    for seed in range(3):
        body = chat("Tell me a story.", max_tokens=20, temperature=1, seed=seed)
        assert server.client.post("/v1/chat/completions", json=body, timeout=60).status_code == 200
    server.terminate()
    assert server.wait(20) == 0
    program, model = os.environ["ASHLAR_TEST_PROGRAM"], os.environ["ASHLAR_TEST_ROOT"] + "/models/" + MODEL
    plan = subprocess.run([program, "train", model, "--data", str(tmp_path), "-o", str(tmp_path / "drafter"), "--dry-run"],
                          capture_output=True, text=True, timeout=120)
    assert plan.returncode == 0, plan.stderr
    assert "3 documents" in plan.stdout + plan.stderr
