# SPDX-License-Identifier: Apache-2.0
"""A stream says the same as a body: text, calls, log-probabilities, reason, usage; and drafting changes nothing."""

import pytest

from support import chat, stream

PROMPTS = ["Write a short list of things that float on water.", "What is 7 plus 5?", "Define the word \u201cna\u00efve\u201d \U0001F30A."]
TOOLS = [{"type": "function", "function": {
    "name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}},
                                  "required": ["a"], "additionalProperties": False}}}]
SAMPLINGS = [{"temperature": 0}, {"temperature": 1, "seed": 11, "top_p": 1}, {"temperature": 1, "seed": 12, "top_k": 40}]


def of_chat(answer):
    out = []
    for choice in answer["choices"]:
        message = choice["message"]
        calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or []]
        logprobs = (choice["logprobs"] or {}).get("content") or []
        out.append((message["content"] or "", message.get("reasoning_content") or "", calls, logprobs,
                    choice["finish_reason"]))
    return out, answer["usage"]["completion_tokens"]


def of_chat_stream(chunks):
    out, usage = {}, None
    for chunk in chunks:
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            one = out.setdefault(choice["index"], ["", "", [], [], None])
            delta = choice["delta"]
            assert one[4] is None, "something came after the finish_reason"
            one[0] += delta.get("content") or ""
            one[1] += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls") or []:
                if call["index"] == len(one[2]):
                    assert call["id"] and call["type"] == "function"
                    one[2].append([call["function"]["name"], ""])
                one[2][call["index"]][1] += call["function"].get("arguments") or ""
            one[3] += ((choice.get("logprobs") or {}).get("content")) or []
            one[4] = choice["finish_reason"]
    return [(a, b, [tuple(call) for call in c], d, e) for _, (a, b, c, d, e) in sorted(out.items())], usage["completion_tokens"]


CHATS = [{}, {"n": 3}, {"logprobs": True, "top_logprobs": 3}, {"stop": [" the", "ing"]}, {"ignore_eos": True, "n": 2},
         {"tools": TOOLS, "tool_choice": "required", "max_tokens": 120},
         {"response_format": {"type": "json_object"}, "logprobs": True}, {"frequency_penalty": 1.5, "logit_bias": {"300": 3}}]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@pytest.mark.parametrize("fields", CHATS, ids=str)
def test_chat(http, sampling, fields):
    for text in PROMPTS:
        body = chat(text, **{"max_tokens": 40, **sampling, **fields})
        plain = http.post("/v1/chat/completions", json=body).json()
        assert of_chat(http.post("/v1/chat/completions", json={**body, "speculative": False}).json()) == of_chat(plain)
        for more in ({}, {"speculative": False}, ):
            got = stream(http, "/v1/chat/completions", {**body, **more, "stream_options": {"include_usage": True}})
            assert of_chat_stream(got) == of_chat(plain)


def of_completion(answer):
    choices = [(c["text"], c["logprobs"], c["finish_reason"]) for c in answer["choices"]]
    return choices, answer["usage"]["completion_tokens"]


def of_completion_stream(chunks):
    out, usage = {}, None
    for chunk in chunks:
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            one = out.setdefault(choice["index"], ["", None, None])
            one[0] += choice["text"]
            if choice.get("logprobs"):
                one[1] = one[1] or {}
                for name, values in choice["logprobs"].items():
                    one[1][name] = one[1].get(name, []) + values
            one[2] = choice["finish_reason"] or one[2]
    return [tuple(one) for _, one in sorted(out.items())], usage["completion_tokens"]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@pytest.mark.parametrize("fields", [{}, {"n": 2}, {"logprobs": 2}, {"echo": True}, {"stop": "a"}], ids=str)
def test_completions(http, sampling, fields):
    body = {"prompt": ["It was a dark night", "def add(a, b):"], "max_tokens": 30, **sampling, **fields}
    plain = of_completion(http.post("/v1/completions", json=body).json())
    assert of_completion(http.post("/v1/completions", json={**body, "speculative": False}).json()) == plain
    got = stream(http, "/v1/completions", {**body, "stream_options": {"include_usage": True}})
    assert of_completion_stream(got) == plain


def without_names(value):
    """A response without what differs by request: ids and times."""
    if isinstance(value, dict):
        return {k: without_names(v) for k, v in value.items()
                if k not in ("id", "call_id", "created_at", "completed_at", "metrics", "usage")}
    return [without_names(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("fields", [{}, {"tools": [{"type": "function", **TOOLS[0]["function"]}], "tool_choice": "required"},
                                    {"top_logprobs": 2, "include": ["message.output_text.logprobs"]}], ids=str)
def test_responses(http, temperature, fields):
    # Responses have no seed: at temperature 1 a tiny top_p leaves the likeliest token.
    body = {"input": PROMPTS[0], "max_output_tokens": 60, "temperature": temperature, **fields}
    if temperature:
        body["top_p"] = 1e-9
    plain = http.post("/v1/responses", json=body).json()
    slow = http.post("/v1/responses", json={**body, "speculative": False}).json()
    got = stream(http, "/v1/responses", body)
    assert without_names(got[-1]["response"]) == without_names(plain) == without_names(slow)
    assert got[-1]["response"]["usage"]["output_tokens"] == plain["usage"]["output_tokens"]
    text = "".join(event["delta"] for event in got if event["type"] == "response.output_text.delta")
    assert text == "".join(part["text"] for item in plain["output"] if item["type"] == "message" for part in item["content"])
    arguments = "".join(e["delta"] for e in got if e["type"] == "response.function_call_arguments.delta")
    assert arguments == "".join(item["arguments"] for item in plain["output"] if item["type"] == "function_call")


@pytest.mark.parametrize("temperature", [0, 1])
def test_messages(http, temperature):
    body = {"messages": [{"role": "user", "content": PROMPTS[0]}], "max_tokens": 40, "temperature": temperature}
    if temperature:
        body["top_p"] = 1e-9
    plain = http.post("/v1/messages", json=body).json()
    slow = http.post("/v1/messages", json={**body, "speculative": False}).json()
    got = stream(http, "/v1/messages", body)
    text = "".join(e["delta"].get("text", "") for e in got if e["type"] == "content_block_delta")
    assert text == plain["content"][0]["text"] == slow["content"][0]["text"]
    ends = [event for event in got if event["type"] == "message_delta"]
    assert ends[0]["delta"]["stop_reason"] == plain["stop_reason"] == slow["stop_reason"]
    assert ends[0]["usage"]["output_tokens"] == plain["usage"]["output_tokens"]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_generate(http, sampling):
    body = {"text": PROMPTS[0], "sampling_params": {"max_new_tokens": 40, **sampling}, "return_logprob": True}
    plain = http.post("/generate", json=body).json()
    slow = http.post("/generate", json={**body, "speculative": False}).json()
    got = stream(http, "/generate", body)
    assert plain["text"] == slow["text"] == got[-1]["text"]
    texts = [event["text"] for event in got]
    assert all(later.startswith(earlier) for earlier, later in zip(texts, texts[1:]))
    for other in (slow, got[-1]):
        for name in ("completion_tokens", "prompt_tokens", "finish_reason"):
            assert other["meta_info"][name] == plain["meta_info"][name]
    assert slow["meta_info"]["output_token_logprobs"] == plain["meta_info"]["output_token_logprobs"]


def test_blocks_say_what_was_drafted_and_change_no_text(http):
    body = chat(PROMPTS[0], max_tokens=60, temperature=0, ignore_eos=True)
    plain = http.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
    got = stream(http, "/v1/chat/completions", {**body, "stream_options": {"include_blocks": True}})
    assert "".join(c["delta"].get("content") or "" for chunk in got for c in chunk["choices"]) == plain


def test_blocks_of_completions_count_all_tokens(http):
    body = {"prompt": PROMPTS[0], "max_tokens": 60, "temperature": 0, "ignore_eos": True}
    plain = http.post("/v1/completions", json=body).json()["choices"][0]["text"]
    got = stream(http, "/v1/completions", {**body, "stream_options": {"include_blocks": True}})
    assert "".join(choice["text"] for chunk in got for choice in chunk["choices"]) == plain
    blocks = [chunk["block"] for chunk in got if "block" in chunk]
    assert sum(block["tokens"] for block in blocks) == 60
    assert all({"tokens", "drafted"} == set(block) and block["drafted"] <= block["tokens"] for block in blocks)
    assert not any("block" in chunk for chunk in stream(http, "/v1/completions", body))
