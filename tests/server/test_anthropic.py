# SPDX-License-Identifier: Apache-2.0
"""The anthropic package: messages, streams, tools, counting."""

import json

import anthropic
import pytest

from support import MODEL, Server, with_template, events

ASK = [{"role": "user", "content": "Write a short list of things that float on water."}]
GREEDY = {"temperature": 0}  # the package no longer names it
CLOCK = {"name": "clock", "input_schema": {"type": "object", "properties": {"utc": {"type": "boolean"}},
                                           "required": ["utc"], "additionalProperties": False}}


def ask(claude, **fields):
    return claude.messages.create(**{"model": MODEL, "messages": ASK, "max_tokens": 24, "extra_body": GREEDY, **fields})


def test_message(claude):
    answer = ask(claude, system="Be brief.")
    assert answer.type == "message" and answer.role == "assistant" and answer.model == MODEL
    assert answer.stop_reason in ("end_turn", "max_tokens") and answer.stop_sequence is None
    assert answer.usage.output_tokens <= 24
    if answer.stop_reason == "max_tokens":
        assert answer.usage.output_tokens == 24


def test_counted_tokens_are_those_of_the_answer(claude):
    text = [{"type": "text", "text": "Count these words, please: one two three."}]
    for messages in (ASK, [{"role": "user", "content": text}]):
        counted = claude.messages.count_tokens(model=MODEL, messages=messages, system="Be brief.").input_tokens
        usage = ask(claude, messages=messages, system="Be brief.").usage
        assert counted == usage.input_tokens + (usage.cache_read_input_tokens or 0)


def test_stop_sequence_is_named(claude):
    whole = ask(claude).content[0].text
    answer = ask(claude, stop_sequences=[whole[4:7]])
    assert answer.stop_reason == "stop_sequence" and answer.stop_sequence == whole[4:7]
    assert answer.content[0].text == whole[: whole.find(whole[4:7])]


def test_stream_collects_the_same_message(claude):
    plain = ask(claude)
    with claude.messages.stream(model=MODEL, messages=ASK, max_tokens=24, extra_body=GREEDY) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == plain.content[0].text == final.content[0].text
    assert final.stop_reason == plain.stop_reason and final.usage.output_tokens == plain.usage.output_tokens


def test_stream_has_its_events_in_order(claude):
    kinds = [event.type for event in ask(claude, stream=True)]
    assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"]
    assert [kind for kind in kinds if kind not in ("content_block_delta", "ping")] == [
        "message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop"]


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "clock"}])
def test_tools(claude, choice):
    choice = {**choice, "disable_parallel_tool_use": True}
    answer = ask(claude, tools=[CLOCK], tool_choice=choice, max_tokens=200)
    assert answer.stop_reason == "tool_use"
    call = [block for block in answer.content if block.type == "tool_use"][0]
    assert call.name == "clock" and call.input in ({"utc": True}, {"utc": False})
    with claude.messages.stream(model=MODEL, messages=ASK, tools=[CLOCK], tool_choice=choice, max_tokens=200,
                                extra_body=GREEDY) as stream:
        final = stream.get_final_message()
    assert [block.input for block in final.content if block.type == "tool_use"] == [call.input]
    turns = ASK + [{"role": "assistant", "content": [block.model_dump() for block in answer.content]},
                   {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "noon"}]}]
    assert ask(claude, messages=turns, tools=[CLOCK]).usage.output_tokens > 0


def test_errors_become_the_packages_exceptions(claude):
    with pytest.raises(anthropic.BadRequestError) as refusal:
        ask(claude, extra_body={"temperature": -1})
    assert json.loads(refusal.value.response.text)["type"] == "error"
    assert "temperature" in refusal.value.message
    with pytest.raises(anthropic.NotFoundError):
        ask(claude, model="another")


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    """The model with a template that takes a system message at the beginning alone, and turns that alternate."""
    folder = with_template(
        tmp_path_factory.mktemp("strict"),
        "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('System first.') }}{% endif %}"
        "{% if m.role == 'user' and loop.previtem is defined and loop.previtem.role == 'user' %}"
        "{{ raise_exception('Turns must alternate.') }}{% endif %}"
        "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n")
    server = Server.start("--drafter", "none", folder=folder)
    yield server
    server.kill()


CACHED = {"cache_control": {"type": "ephemeral"}}
AGENT_HEADERS = {
    "anthropic-version": "2023-06-01", "x-api-key": "none", "x-app": "cli", "user-agent": "claude-cli/2.0 (external, cli)",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27"}
AGENT_BODY = {
    "model": MODEL, "max_tokens": 24, "stream": True, "temperature": 1,
    "system": [{"type": "text", "text": "You are a tool for programmers.", **CACHED}, {"type": "text", "text": "Be brief.", **CACHED}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "<system-reminder>\nA file.\n</system-reminder>"},
                                     {"type": "text", "text": "List the files.", **CACHED}]},
        {"role": "system", "content": [{"type": "text", "text": "The date is known.", **CACHED}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "So.", "signature": "x"},
                                          {"type": "text", "text": "I look."},
                                          {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt", **CACHED}]},
        {"role": "system", "content": "Answer in one line."}],
    "tools": [{"name": "Bash", "description": "Runs a command.", "input_schema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": False,
        "properties": {"command": {"type": "string"}, "timeout": {"type": "number"}}, "required": ["command"]}, **CACHED}],
    "metadata": {"user_id": "user_1_account__session_2"},
    "thinking": {"type": "enabled", "budget_tokens": 10000},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
}


@pytest.mark.parametrize("fixture", ["server", "strict"])
def test_the_request_of_a_coding_agent_streams(fixture, request):
    """Whatever its client adds to the API, and also where the template has no place for its later system messages."""
    client = request.getfixturevalue(fixture).client
    with client.stream("POST", "/v1/messages?beta=true", json=AGENT_BODY, headers=AGENT_HEADERS) as response:
        assert response.status_code == 200, response.read()
        got = list(events(response))
    kinds = [one["type"] for one in got]
    assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"]
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") >= 1
    assert got[-2]["delta"]["stop_reason"] in ("end_turn", "max_tokens", "tool_use")
    counted = {name: value for name, value in AGENT_BODY.items() if name not in ("max_tokens", "stream", "temperature", "metadata")}
    counted = client.post("/v1/messages/count_tokens?beta=true", json=counted, headers=AGENT_HEADERS)
    usage = got[0]["message"]["usage"]
    assert counted.json()["input_tokens"] == usage["input_tokens"] + usage.get("cache_read_input_tokens", 0)
