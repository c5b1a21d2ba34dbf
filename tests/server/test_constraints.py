# SPDX-License-Identifier: Apache-2.0
"""Constrained answers: what ends by itself validates with the packages jsonschema and re; drafting changes nothing."""

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor

import jsonschema
import pytest

from schemas import schema
from support import MODEL, Server, with_template, chat, stream


def answers(http, bodies, threads=8):
    def ask(body):
        response = http.post("/v1/chat/completions", json=body)
        assert response.status_code == 200, (body, response.text)
        choice = response.json()["choices"][0]
        return choice["message"]["content"], choice["finish_reason"]

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(ask, bodies))


@pytest.mark.parametrize("temperature", [0, 1])
def test_schemas(http, long, temperature):
    schemas = [schema(number) for number in range(1000 if long else 100)]
    bodies = []
    for number, one in enumerate(schemas):
        form = {"type": "json_schema", "json_schema": {"name": "s", "schema": one, "strict": True}}
        bodies.append(chat("Fill in the form.", response_format=form, temperature=temperature, seed=number, max_tokens=256))
    got = answers(http, bodies)
    plain = answers(http, [{**body, "speculative": False} for body in bodies])
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    ended = 0
    for one, (text, reason), other in zip(schemas, got, plain):
        assert (text, reason) == other, one
        if reason == "stop":
            ended += 1
            jsonschema.Draft202012Validator(one, format_checker=checker).validate(json.loads(text))
        else:
            assert reason == "length"
    assert ended >= 0.6 * len(schemas), ended  # greedy lists may go on for ever


@pytest.fixture(scope="module")
def thinking(tmp_path_factory):
    """The model with a template that opens its thinking; </think> is its special token 5."""
    folder = with_template(
        tmp_path_factory.mktemp("thinking"),
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content.split('</think>')[-1] }}<|im_end|>\n{% endfor %}"
        "<|im_start|>assistant\n<think>\n")
    drafter = f"{os.environ['ASHLAR_TEST_ROOT']}/models/{MODEL}-dflash"
    server = Server.start("--drafter", drafter, folder=folder)
    yield server
    server.kill()


def test_thinking_ends_before_the_answer_does(thinking):
    form = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["a"],
            "additionalProperties": False}
    bodies = [chat("Tell me of the sea.", seed=seed, temperature=1, max_tokens=300, logit_bias={"5": 16},
                   response_format={"type": "json_schema", "json_schema": {"name": "s", "schema": form}}) for seed in range(24)]
    got = answers(thinking.client, bodies)
    assert got == answers(thinking.client, [{**body, "speculative": False} for body in bodies])
    ended = [text for text, reason in got if reason == "stop"]
    assert len(ended) > 8, got
    for text in ended:
        jsonschema.validate(json.loads(text), form)


REGEXES = [r"[a-c]{3,9}", r"(yes|no)( please)?", r"\d{4}-\d\d-\d\d", r"[A-Z][a-z]+ is [0-9]{1,3} years old\.",
           r"((ab)*c){2}", r"[\u00e9\u6d77]{2}", r"a?b+c*", r"[^x]{5}", r"\w+@\w+\.(com|org)", r".{4}", r"(|empty)"]


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("regex", REGEXES)
def test_regexes(http, regex, temperature):
    body = chat("Say something.", guided_regex=regex, temperature=temperature, seed=3, max_tokens=96)
    spellings = [body, {**body, "speculative": False}]
    structured = {k: v for k, v in body.items() if k != "guided_regex"}
    spellings.append({**structured, "structured_outputs": {"regex": regex}})
    got = answers(http, spellings)
    assert got[0] == got[1] == got[2]
    if got[0][1] == "stop":
        assert re.fullmatch(regex, got[0][0])
    generated = http.post("/generate", json={"text": "Say", "sampling_params": {
        "regex": regex, "temperature": temperature, "sampling_seed": 3, "max_new_tokens": 96}}).json()
    if generated["meta_info"]["finish_reason"]["type"] == "stop":
        assert re.fullmatch(regex, generated["text"])


@pytest.mark.parametrize("temperature", [0, 1])
def test_choices(http, temperature):
    choices = ["red", "redder", "dark red", "\u8d64\u3044", "a \"quoted\" one", "<b>"]
    bodies = [chat("Which colour?", guided_choice=choices, temperature=temperature, seed=seed, max_tokens=32)
              for seed in range(16)]
    got = answers(http, bodies)
    assert got == answers(http, [{**body, "speculative": False} for body in bodies])
    assert all(text in choices and reason == "stop" for text, reason in got)
    if temperature:
        assert len(set(got)) > 1


GRAMMARS = [('root ::= "(" root ")" | "x"', r"\(*x\)*"), ('root ::= [a-c]+ " " digits\ndigits ::= [0-9] [0-9]?', r"[a-c]+ \d\d?"),
            ('root ::= item ("," item)*\nitem ::= "one" | "two"', r"(one|two)(,(one|two))*")]


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("grammar,law", GRAMMARS)
def test_grammars(http, grammar, law, temperature):
    body = chat("Say something.", guided_grammar=grammar, temperature=temperature, seed=4, max_tokens=128)
    got = answers(http, [body, {**body, "speculative": False}])
    assert got[0] == got[1]
    text, reason = got[0]
    if reason == "stop":
        assert re.fullmatch(law, text) and text.count("(") == text.count(")")
    generated = http.post("/generate", json={"text": "Say", "sampling_params": {
        "ebnf": grammar, "temperature": temperature, "max_new_tokens": 128}}).json()
    if generated["meta_info"]["finish_reason"]["type"] == "stop":
        assert re.fullmatch(law, generated["text"])


def test_json_schema_of_generate_and_of_completions(http):
    wanted = {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"], "additionalProperties": False}
    generated = http.post("/generate", json={"text": "b?", "sampling_params": {
        "json_schema": json.dumps(wanted), "temperature": 0, "max_new_tokens": 64}}).json()
    jsonschema.validate(json.loads(generated["text"]), wanted)
    completed = http.post("/v1/completions", json={"prompt": "b?", "guided_json": wanted, "max_tokens": 64}).json()
    jsonschema.validate(json.loads(completed["choices"][0]["text"]), wanted)


TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {"word": {"type": "string"}}}}}


def test_a_shape_with_tools_that_may_be_called(http):
    form = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}
    body = chat("Fill in the form.", tools=[TOOL], response_format=form, temperature=0, max_tokens=60)
    for more in ({}, {"speculative": False}, {"parallel_tool_calls": False}):
        message = http.post("/v1/chat/completions", json={**body, **more}).json()["choices"][0]["message"]
        assert message.get("tool_calls") or set(json.loads(message["content"])) == {"a"}
    # The bracket that only a call begins with.
    bias = {str(i): 100 for i in http.post("/tokenize", json={"prompt": "<"}).json()["tokens"]}
    got = http.post("/v1/chat/completions", json={**body, "logit_bias": bias, "max_tokens": 200}).json()["choices"][0]
    assert got["message"]["tool_calls"][0]["function"]["name"] == "look_up"


def test_strict_tools_are_held_to_their_schemas_where_the_model_chooses_to_call(http):
    parameters = {"type": "object", "properties": {"unit": {"enum": ["metre", "mile"]}, "count": {"type": "integer", "minimum": 3, "maximum": 5}},
                  "required": ["unit", "count"], "additionalProperties": False}
    tag = http.post("/tokenize", json={"prompt": "<tool_call>"}).json()["tokens"]
    assert len(tag) == 1
    body = chat("How far is it?", logit_bias={str(tag[0]): 100}, max_tokens=120, temperature=1)

    def calls(strict, **more):
        function = {"name": "measure", "parameters": parameters, "strict": strict}
        response = http.post("/v1/chat/completions", json={**body, "tools": [{"type": "function", "function": function}], **more})
        assert response.status_code == 200, response.text
        choice = response.json()["choices"][0]
        return choice["message"]["content"], [call["function"] for call in choice["message"].get("tool_calls") or []]

    for seed in range(6):
        got = calls(True, seed=seed, parallel_tool_calls=False)
        assert got == calls(True, seed=seed, parallel_tool_calls=False, speculative=False)
        assert len(got[1]) == 1
        jsonschema.validate(json.loads(got[1][0]["arguments"]), parameters)
        for call in calls(True, seed=seed)[1][:-1]:  # the last one may be cut off
            jsonschema.validate(json.loads(call["arguments"]), parameters)
        assert calls(False, seed=seed)[1] == []  # what this model writes after the tag is no call
    refused = {"name": "f", "strict": True, "parameters": {"type": "object", "properties": {"a": {"$dynamicRef": "#x"}}}}
    for strict, status in ((True, 400), (False, 200)):
        tools = [{"type": "function", "function": {**refused, "strict": strict}}]
        for shape in ({}, {"response_format": {"type": "json_object"}}):
            response = http.post("/v1/chat/completions", json=chat("hi", tools=tools, max_tokens=4, **shape))
            assert response.status_code == status, response.text
            if strict:
                assert response.json()["error"]["param"] == "tools" and "$dynamicRef" in response.text


def test_strict_tools_in_streams_and_in_other_shapes(http):
    parameters = {"type": "object", "properties": {"unit": {"enum": ["metre", "mile"]}}, "required": ["unit"], "additionalProperties": False}
    tag = http.post("/tokenize", json={"prompt": "<tool_call>"}).json()["tokens"]
    more = {"max_tokens": 80, "temperature": 1, "logit_bias": {str(tag[0]): 100}, "parallel_tool_calls": False}
    function = {"name": "measure", "parameters": parameters, "strict": True}
    for seed in range(3):
        body = chat("How far is it?", seed=seed, tools=[{"type": "function", "function": function}], **more)
        [whole] = http.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["tool_calls"]
        jsonschema.validate(json.loads(whole["function"]["arguments"]), parameters)
        parts = [call["function"] for chunk in stream(http, "/v1/chat/completions", body) for choice in chunk["choices"]
                 for call in choice["delta"].get("tool_calls", [])]
        assert "".join(part.get("name", "") for part in parts) == "measure"
        assert "".join(part["arguments"] for part in parts) == whole["function"]["arguments"]
    # Shapes without a bias choose for themselves: that a tool which cannot be held is refused shows that they hold it.
    for schema_of_tool, status in ((parameters, 200), ({"type": "object", "properties": {"a": {"$dynamicRef": "#x"}}}, 400)):
        got = http.post("/v1/responses", json={"input": "hi", "max_output_tokens": 16, "tools": [
            {"type": "function", "name": "f", "parameters": schema_of_tool, "strict": True}]})
        assert got.status_code == status, got.text
        got = http.post("/v1/messages", json={**chat("hi", max_tokens=16), "tools": [
            {"name": "f", "input_schema": schema_of_tool, "strict": True}]})
        assert got.status_code == status, got.text


def test_stop_tokens_that_are_text_end_constrained_answers_as_stop_strings_do(http):
    [seven] = http.post("/tokenize", json={"prompt": "7"}).json()["tokens"]
    body = chat("Say a number.", guided_regex="[a-f]{3}7!", temperature=1, max_tokens=20)
    for seed in range(4):
        [by_text] = answers(http, [{**body, "seed": seed, "stop": "7"}])
        assert re.fullmatch("[a-f]{3}", by_text[0]) and by_text[1] == "stop"
        for more in ({}, {"speculative": False}):
            assert answers(http, [{**body, "seed": seed, "stop_token_ids": [seven], **more}]) == [by_text]
    # Where the shape has ended only what is no text may still end the answer.
    [end] = http.post("/tokenize", json={"prompt": "<|im_start|>"}).json()["tokens"]
    got = answers(http, [{**body, "guided_regex": "yes", "stop_token_ids": [end, seven]}])
    assert got == [("yes", "stop")]


def test_a_demanded_call_has_arguments_whatever_its_schema_takes(http):
    for parameters in ({}, {"anyOf": [{"type": "object"}, {"type": "string"}]}, {"description": "nothing"}):
        tool = {"type": "function", "function": {"name": "a", "parameters": parameters}}
        body = chat("hi", tools=[tool], tool_choice="required", parallel_tool_calls=False, max_tokens=500, temperature=1.3)
        for seed in range(3):
            choice = http.post("/v1/chat/completions", json={**body, "seed": seed}).json()["choices"][0]
            assert choice["finish_reason"] == "length" or (choice["finish_reason"] == "tool_calls" and not choice["message"]["content"])
            for call in choice["message"]["tool_calls"] if choice["finish_reason"] == "tool_calls" else []:
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
    tool = {"type": "function", "function": {"name": "a", "parameters": {"type": "string"}}}
    refused = http.post("/v1/chat/completions", json=chat("hi", tools=[tool], tool_choice="required"))
    assert refused.status_code == 400 and "an object" in refused.text and "[grammar]" not in refused.text


def test_a_call_that_was_cut_off_may_be_sent_back(http):
    body = chat("Look up a word.", tools=[TOOL], tool_choice="required", temperature=0, max_tokens=40)
    got = http.post("/v1/chat/completions", json=body).json()["choices"][0]
    assert got["finish_reason"] == "length"
    message = got["message"]
    calls = message["tool_calls"]
    with pytest.raises(ValueError):
        json.loads(calls[0]["function"]["arguments"])
    body["messages"] += [message, {"role": "tool", "tool_call_id": calls[0]["id"], "content": "?"}]
    assert http.post("/v1/chat/completions", json=body).status_code == 200


def test_a_demanded_call_that_is_cut_leaves_no_markup(http):
    """Wherever the limit falls: the name or nothing, the arguments as far as they came, and the same in a stream."""
    for limit in range(1, 34, 2):
        body = chat("Look up a word.", tools=[TOOL], tool_choice="required", temperature=0, max_tokens=limit)
        message = http.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]
        assert not message["content"], limit
        calls = message.get("tool_calls") or []
        assert all(call["function"]["name"] == "look_up" for call in calls)
        deltas = [choice["delta"] for chunk in stream(http, "/v1/chat/completions", body) for choice in chunk["choices"]]
        assert not any(delta.get("content") for delta in deltas), limit
        streamed = [part["function"] for delta in deltas for part in delta.get("tool_calls") or []]
        assert [part["name"] for part in streamed if part.get("name")] == [call["function"]["name"] for call in calls]
        assert "".join(part.get("arguments", "") for part in streamed) == "".join(call["function"]["arguments"] for call in calls)
    assert calls and not message["content"]
