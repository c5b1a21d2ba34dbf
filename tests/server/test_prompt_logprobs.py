# SPDX-License-Identifier: Apache-2.0
"""Log-probabilities of prompts in every API that has them, against transformers' values; and how lm-eval adds them up."""

import json
from pathlib import Path

import pytest

from support import stream

CASES = json.loads((Path(__file__).parents[1] / "data" / "pebble-11m" / "prompt_logprobs.json").read_text())["cases"]
ECHO = {"temperature": 0, "max_tokens": 0, "echo": True, "logprobs": 1}


def near(values):
    # The cpu device rounds activations to bf16; the C++ tests hold the ref device to 1e-3.
    return pytest.approx(values, abs=0.05)


@pytest.mark.parametrize("case", CASES)
def test_echo_has_those_of_the_prompt(http, case):
    choice = http.post("/v1/completions", json={**ECHO, "prompt": case["ids"]}).json()["choices"][0]
    got = choice["logprobs"]
    assert choice["finish_reason"] == "length"
    assert got["token_logprobs"][0] is None and got["top_logprobs"][0] is None
    assert got["token_logprobs"][1:] == near(case["logprobs"])
    assert [max(top.values()) for top in got["top_logprobs"][1:]] == near(case["highest"])
    assert len(got["tokens"]) == len(got["text_offset"]) == len(case["ids"])
    assert [choice["text"][at:].startswith(token) for token, at in zip(got["tokens"], got["text_offset"]) if "�" not in token].count(False) == 0


def test_a_stream_says_the_same(http):
    body = {**ECHO, "prompt": CASES[0]["ids"], "max_tokens": 3}
    whole = http.post("/v1/completions", json=body).json()["choices"][0]
    parts = [choice for chunk in stream(http, "/v1/completions", body) for choice in chunk["choices"]]
    assert "".join(part["text"] for part in parts) == whole["text"]
    for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        assert [value for part in parts if part["logprobs"] for value in part["logprobs"][name]] == whole["logprobs"][name]


def test_other_apis_agree(http):
    ids, expected = CASES[1]["ids"], CASES[1]["logprobs"]
    body = {"prompt": ids, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 2}
    entries = http.post("/v1/completions", json=body).json()["choices"][0]["prompt_logprobs"]
    assert entries[0] is None
    assert [entry[str(token)]["logprob"] for token, entry in zip(ids[1:], entries[1:])] == near(expected)
    assert all(1 in (found["rank"] for found in entry.values()) for entry in entries[1:])
    sampling = {"max_new_tokens": 0, "temperature": 0}
    for start in (0, 5):
        info = http.post("/generate", json={"input_ids": ids, "sampling_params": sampling, "return_logprob": True,
                                            "logprob_start_len": start, "top_logprobs_num": 1}).json()["meta_info"]
        assert [token for _, token, _ in info["input_token_logprobs"]] == ids[start:]
        values = [value for value, _, _ in info["input_token_logprobs"]]
        assert values[1:] == near(expected[start:]) and (values[0] is None) == (start == 0)
        assert len(info["input_top_logprobs"]) == len(ids) - start
    chat = http.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "hi"}], "max_tokens": 0, "prompt_logprobs": 0})
    answer = chat.json()
    assert len(answer["prompt_logprobs"]) == answer["usage"]["prompt_tokens"] and answer["usage"]["completion_tokens"] == 0


# lm-eval's local-completions: it asks for one token and leaves out the last of the list, so that an end token must be listed, too.
def test_log_likelihoods_as_lm_eval_adds_them_up(http):
    for case in CASES:
        context = len(case["ids"]) // 2
        for bias in ({}, {"2": 100}):  # the second: the answer ends at once
            body = {"prompt": [case["ids"]], "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True, "logit_bias": bias}
            got = http.post("/v1/completions", json=body).json()["choices"][0]["logprobs"]
            assert sum(got["token_logprobs"][context:-1]) == pytest.approx(sum(case["logprobs"][context - 1:]), abs=0.2)
            greedy = all(own == max(top.values()) for own, top in zip(got["token_logprobs"][context:-1], got["top_logprobs"][context:-1]))
            assert greedy == (max(case["ranks"][context - 1:]) == 1)


def test_an_answer_of_no_tokens_needs_a_reason(http):
    refused = http.post("/v1/completions", json={"prompt": "hi", "max_tokens": 0})
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "max_tokens"
