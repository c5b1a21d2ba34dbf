# SPDX-License-Identifier: Apache-2.0
"""A model that fills blocks, in the same APIs: one server for the whole file."""

import concurrent.futures
import json
import re

import httpx
import openai
import pytest

from support import Server, chat, eventually, stream

ASK = "Repeat this sentence exactly: The wall was built of grey stone, and the gate was made of oak."
GREEDY = {"temperature": 0, "max_tokens": 48}
FREE = "Write a short list of things that float on water."
WARM = {"temperature": 1.0, "max_tokens": 24, "seed": 7, "n": 3}


@pytest.fixture(scope="module")
def blocks():
    server = Server.start(model="pebble-11m-sdar")
    yield server
    server.kill()


@pytest.fixture(scope="module")
def http(blocks):
    with httpx.Client(base_url=blocks.url, timeout=120, verify=False) as client:
        yield client


@pytest.fixture(autouse=True)
def idle_again(blocks):
    yield
    eventually(lambda: blocks.idle(), 10, "the server is not idle: " + str(blocks.stats()))


def post(http, path, body):
    response = http.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json()


def complete(http, prompt=ASK, **fields):
    return post(http, "/v1/chat/completions", chat(prompt, **fields))


def texts(answer):
    return [choice["message"]["content"] for choice in answer["choices"]]


def test_short_and_cached_prompts_are_answered(http):
    for prompt in ("The", "The sea is", ASK):
        body = {"prompt": prompt, "temperature": 0, "max_tokens": 12, "ignore_eos": True}
        first, second = (post(http, "/v1/completions", body) for _ in range(2))
        assert first["choices"] == second["choices"] and first["usage"]["completion_tokens"] == 12


def test_stream_is_the_body(blocks):
    client = openai.OpenAI(base_url=blocks.url + "/v1", api_key="none", max_retries=0, timeout=120)
    ask = {"model": "pebble-11m-sdar", "messages": [{"role": "user", "content": ASK}], **GREEDY, "logprobs": True}
    body = client.chat.completions.create(**ask)
    text, steps = "", []
    for chunk in client.chat.completions.create(**ask, stream=True):
        text += chunk.choices[0].delta.content or ""
        if chunk.choices[0].logprobs:
            steps += [token.step for token in chunk.choices[0].logprobs.content]
    assert text == body.choices[0].message.content and "grey stone" in text
    assert steps == [token.step for token in body.choices[0].logprobs.content]
    assert all(token.logprob <= 0 for token in body.choices[0].logprobs.content)
    assert len(set(steps)) > 1 and steps != sorted(steps), f"positions were unmasked from left to right: {steps}"


def test_figures(http):
    figures = complete(http, **GREEDY)["metrics"]["dllm"]
    assert figures["blocks"] > 1 and figures["tokens_per_forward"] > 1
    assert sum(figures["decided_per_forward"]) == figures["forwards"]
    decided = sum(n * times for n, times in enumerate(figures["decided_per_forward"]))
    assert decided == pytest.approx(figures["tokens_per_forward"] * figures["forwards"])
    assert sum(figures["unmasked_in_pass"]) <= decided  # what stands after the end is unmasked, and not part of the answer
    single = complete(http, **GREEDY, speculative=False)["metrics"]["dllm"]
    assert single["tokens_per_forward"] <= 1 < figures["tokens_per_forward"]
    page = http.get("/metrics").text
    for name in ("forwards", "decided_tokens", "blocks"):
        assert float(re.search(rf"ashlar:decode_{name}_total{{[^}}]*}} (\S+)", page)[1]) > 0


def test_an_answer_depends_on_nothing_but_itself(http):
    alone = texts(complete(http, FREE, **WARM))
    assert len(set(alone)) > 1
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        others = [pool.submit(complete, http, FREE, **{**WARM, "seed": 100 + i}) for i in range(6)]
        same = [pool.submit(complete, http, FREE, **WARM) for _ in range(2)]
        assert [texts(future.result()) for future in same] == [alone, alone]
        assert all(texts(future.result()) != alone for future in others)


def test_algorithm_by_request(http):
    strict, loose = (complete(http, **GREEDY, dllm={"algorithm": "low_confidence", "threshold": t})["metrics"]["dllm"]
                     for t in (1.0, 0.2))
    assert strict["tokens_per_forward"] <= 1 < loose["tokens_per_forward"]
    answer = post(http, "/generate", {"text": "The sea is", "sampling_params": {"temperature": 0, "max_new_tokens": 12},
                                      "dllm": {"threshold": 1.0}})
    assert answer["meta_info"]["metrics"]["dllm"]["tokens_per_forward"] <= 1


@pytest.mark.parametrize("choice, field", [({"algorithm": "nonesuch"}, "dllm.algorithm"), ({"treshold": 0.5}, "dllm.treshold"),
                                           ({"threshold": 1.5}, "dllm.threshold"), ({"threshold": "high"}, "dllm.threshold")])
def test_wrong_choices_are_named(http, choice, field):
    for path, body in (("/v1/chat/completions", chat(ASK)), ("/generate", {"text": "The sea is"})):
        response = http.post(path, json={**body, "dllm": choice, "stream": True})
        assert response.status_code == 400 and response.json()["error"]["param"] == field, response.text


def test_other_models_refuse_a_choice(server):
    response = server.client.post("/v1/chat/completions", json=chat(ASK, dllm={"threshold": 0.5}))
    assert response.status_code == 400 and response.json()["error"]["param"] == "dllm"
    assert "one after another" in response.json()["error"]["message"]


def test_constraints_hold(http):
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}},
              "required": ["name", "age"], "additionalProperties": False}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    for sampling in ({"temperature": 0}, {"temperature": 1, "seed": 3}):
        value = json.loads(texts(complete(http, **sampling, max_tokens=96, response_format=wanted))[0])
        assert set(value) == {"name", "age"} and isinstance(value["age"], int)
        got = texts(complete(http, **sampling, max_tokens=24, structured_outputs={"regex": "(yes|no)[!?]{3}"}))[0]
        assert re.fullmatch("(yes|no)[!?]{3}", got)
    tool = {"type": "function", "function": {"name": "add", "parameters": {
        "type": "object", "properties": {"a": {"type": "integer", "maximum": 99}}, "required": ["a"],
        "additionalProperties": False}}}
    choice = complete(http, temperature=0, max_tokens=96, tools=[tool], tool_choice="required")["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert "a" in json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])


def test_sampling_fields_act(http):
    plain = texts(complete(http, **GREEDY))[0]
    assert texts(complete(http, **GREEDY, stop=["built"]))[0] == plain.split("built")[0]
    banned = http.post("/tokenize", json={"prompt": " stone", "add_special_tokens": False}).json()["tokens"][0]
    assert texts(complete(http, **GREEDY, logit_bias={str(banned): -1000}))[0] != plain
    assert texts(complete(http, **GREEDY, presence_penalty=2, frequency_penalty=2, repetition_penalty=1.5))[0] != plain


def test_generate_takes_batches_and_streams(http):
    body = {"text": ["The sea is", "import os"], "sampling_params": {"temperature": 0, "max_new_tokens": 20}, "return_logprob": True}
    whole = post(http, "/generate", body)
    last = {}
    for event in stream(http, "/generate", body):
        last[event["index"]] = event
    assert [last[i]["text"] for i in (0, 1)] == [one["text"] for one in whole]
    alone = post(http, "/generate", {**body, "text": "import os"})
    assert alone["text"] == whole[1]["text"]
    info = whole[1]["meta_info"]
    assert len(info["output_token_steps"]) == len(info["output_token_logprobs"]) and "spec_verify_ct" not in info


def test_the_other_apis(http):
    answer = post(http, "/v1/responses", {"input": ASK, "temperature": 0, "max_output_tokens": 48})
    text = answer["output"][0]["content"][0]["text"]
    assert text == texts(complete(http, **GREEDY))[0] and answer["metrics"]["dllm"]["forwards"] > 0
    message = post(http, "/v1/messages", {"messages": [{"role": "user", "content": ASK}], "temperature": 0, "max_tokens": 48})
    assert message["content"][0]["text"] == text
    for path, body in (("/v1/chat/completions", chat(ASK, **GREEDY)), ("/v1/completions", {"prompt": "The sea is", **GREEDY})):
        events = stream(http, path, {**body, "stream_options": {"include_blocks": True}})
        marks = [event["block"] for event in events if event.get("block")]
        assert marks and all({"tokens", "drafted", "step", "at"} == set(mark) and 0 <= mark["at"] < 8 for mark in marks)


def test_a_context_that_is_cut_to_whole_blocks_is_the_one_reported():
    server = Server.start("--max-context", "100", model="pebble-11m-sdar")  # blocks of 8: the engine holds 96
    try:
        got = server.stats()["context"]
        assert got == 96
        for n, status in ((got - 1, 200), (got, 400), (got + 1, 400)):
            answer = server.client.post("/v1/completions", json={"prompt": [7] * n, "max_tokens": 1}, timeout=60)
            assert answer.status_code == status, (n, answer.text)
            if status == 400:
                assert answer.json()["error"]["code"] == "context_length_exceeded"
    finally:
        server.kill()
