# SPDX-License-Identifier: Apache-2.0
"""The openai package: every API of it that the server speaks, with the package's own types and helpers."""

import json

import openai
import pytest

from support import MODEL

ASK = [{"role": "user", "content": "Write a short list of things that float on water."}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a place",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "enum": ["Oslo", "Lima", "Kyoto"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 9},
            },
            "required": ["place", "days"],
            "additionalProperties": False,
        },
    },
}
CLOCK = {
    "type": "function",
    "function": {
        "name": "clock",
        "parameters": {"type": "object", "properties": {"utc": {"type": "boolean"}}, "required": ["utc"],
                       "additionalProperties": False},
    },
}


def ask(oai, **fields):
    return oai.chat.completions.create(**{"model": MODEL, "messages": ASK, "max_tokens": 32, "seed": 5, **fields})


def test_models(oai):
    models = oai.models.list()
    assert [model.id for model in models.data] == [MODEL]
    assert oai.models.retrieve(MODEL).owned_by == "ashlar"
    with pytest.raises(openai.NotFoundError) as refusal:
        oai.models.retrieve("other")
    assert refusal.value.code == "model_not_found"


def test_chat_counts_its_tokens(oai):
    answer = ask(oai, max_tokens=7, extra_body={"ignore_eos": True})
    assert answer.object == "chat.completion" and answer.model == MODEL
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 7
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 7
    drafting = answer.metrics["speculative_decoding"]
    assert 0 <= drafting["accepted"] <= drafting["drafted"]


def test_a_conversation_finds_its_beginning_in_the_cache(oai):
    text = "A long beginning that fills some pages. " * 12
    first = ask(oai, messages=[{"role": "user", "content": text}])
    turns = [{"role": "user", "content": text}, {"role": "assistant", "content": first.choices[0].message.content},
             {"role": "user", "content": "And then?"}]
    second = ask(oai, messages=turns)
    assert second.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens // 16 * 16 - 16


def test_responses_may_be_as_long_as_was_asked_for(oai):
    """Load generators ask for answers of one length in every API."""
    asked = {"model": MODEL, "input": "Say no more than a word.", "max_output_tokens": 40, "temperature": 0}
    assert oai.responses.create(**asked, extra_body={"ignore_eos": True, "stop": None}).usage.output_tokens == 40
    assert oai.responses.create(**asked).usage.output_tokens < 40


def test_n_answers_are_those_of_their_seeds(oai):
    together = ask(oai, n=4, temperature=1)
    texts = [choice.message.content for choice in together.choices]
    assert [choice.index for choice in together.choices] == [0, 1, 2, 3]
    assert len(set(texts)) > 1
    assert texts[0] == ask(oai, temperature=1).choices[0].message.content
    assert texts == [choice.message.content for choice in ask(oai, n=4, temperature=1).choices]
    assert len({choice.message.content for choice in ask(oai, n=4, temperature=0).choices}) == 1


def test_seeds_repeat_and_differ(oai):
    texts = [ask(oai, temperature=1.5, seed=seed).choices[0].message.content for seed in (1, 2, 3, 1, 2, 3)]
    assert texts[:3] == texts[3:]
    assert len(set(texts)) > 1


def test_stop_strings_end_the_answer_and_are_no_part_of_it(oai):
    whole = ask(oai, temperature=0, max_tokens=48, extra_body={"ignore_eos": True}).choices[0].message.content
    for stop in (whole[6:9], whole[10], [whole[5:12], "never seen"]):
        strings = [stop] if isinstance(stop, str) else stop
        answer = ask(oai, temperature=0, max_tokens=48, stop=stop, extra_body={"ignore_eos": True}).choices[0]
        assert answer.message.content == whole[: min(whole.find(s) for s in strings if s in whole)]
        assert answer.finish_reason == "stop"


def test_logprobs(oai):
    answer = ask(oai, temperature=0, logprobs=True, top_logprobs=5)
    choice = answer.choices[0]
    tokens = choice.logprobs.content
    assert len(tokens) in (answer.usage.completion_tokens, answer.usage.completion_tokens - 1)
    joined = b"".join(bytes(token.bytes) for token in tokens)
    assert joined.decode(errors="replace").startswith(choice.message.content)
    for token in tokens:
        assert token.logprob <= 0 and len(token.top_logprobs) == 5
        values = [top.logprob for top in token.top_logprobs]
        assert values == sorted(values, reverse=True)
        # Greedy: the token that was chosen is the likeliest.
        assert (token.token, token.logprob) == (token.top_logprobs[0].token, token.top_logprobs[0].logprob)


def test_penalties_and_bias_change_the_answer_as_they_say(oai, http):
    def words(**fields):
        return oai.completions.create(model=MODEL, prompt="the the the the the the", max_tokens=24, temperature=0,
                                      extra_body={"ignore_eos": True}, **fields).choices[0].text

    plain = words()
    distinct = words(frequency_penalty=2, presence_penalty=2)
    assert distinct != plain
    token = http.post("/tokenize", json={"prompt": " sea", "add_special_tokens": False}).json()["tokens"]
    biased = words(logit_bias={str(token[0]): 1000})
    piece = http.post("/detokenize", json={"tokens": token[:1]}).json()["prompt"]
    assert biased == piece * 24
    assert words(logit_bias={str(token[0]): 0}) == plain


@pytest.mark.parametrize("choice", ["auto", "required", "none", "named"])
@pytest.mark.parametrize("temperature", [0, 1])
def test_tool_choice(oai, choice, temperature):
    wanted = {"type": "function", "function": {"name": "weather"}} if choice == "named" else choice
    for seed in range(3):
        answer = ask(oai, tools=[WEATHER, CLOCK], tool_choice=wanted, temperature=temperature, seed=seed,
                     max_tokens=200, parallel_tool_calls=False).choices[0]
        calls = answer.message.tool_calls or []
        if choice == "none":
            assert not calls
        if choice in ("required", "named"):
            assert len(calls) == 1 and answer.finish_reason == "tool_calls"
            assert calls[0].id and calls[0].type == "function"
        for call in calls:
            if choice == "auto":
                continue
            arguments = json.loads(call.function.arguments)
            if choice == "named" or call.function.name == "weather":
                assert call.function.name == "weather"
                assert arguments["place"] in ("Oslo", "Lima", "Kyoto") and 1 <= arguments["days"] <= 9
            else:
                assert arguments in ({"utc": True}, {"utc": False})


def test_parallel_calls_have_ids_of_their_own(oai):
    most = 0
    for seed in range(6):
        answer = ask(oai, tools=[WEATHER, CLOCK], tool_choice="required", temperature=1, seed=seed, max_tokens=300)
        calls = answer.choices[0].message.tool_calls
        assert len({call.id for call in calls}) == len(calls)
        most = max(most, len(calls))
    assert most > 1


def test_replayed_calls_and_results_are_taken(oai):
    first = ask(oai, tools=[CLOCK], tool_choice="required", max_tokens=200, parallel_tool_calls=False).choices[0].message
    call = first.tool_calls[0]
    turns = ASK + [first.model_dump(exclude_none=True),
                   {"role": "tool", "tool_call_id": call.id, "content": "12:30"}]
    answer = ask(oai, messages=turns, tools=[CLOCK])
    assert answer.usage.prompt_tokens > 0


def test_the_stream_helper_collects_calls(oai):
    with oai.chat.completions.stream(model=MODEL, messages=ASK, tools=[CLOCK], tool_choice="required", seed=1,
                                     temperature=1, max_tokens=300) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    calls = final.choices[0].message.tool_calls
    assert calls and all(json.loads(call.function.arguments).keys() == {"utc"} for call in calls)


def test_json_object(oai):
    for seed in range(4):
        choice = ask(oai, response_format={"type": "json_object"}, seed=seed, temperature=1, max_tokens=400).choices[0]
        if choice.finish_reason == "stop":
            assert isinstance(json.loads(choice.message.content), dict)


def test_json_schema(oai):
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "n": {"enum": [1, 2]}},
              "required": ["name", "n"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "thing", "strict": True, "schema": schema}}
    choice = ask(oai, response_format=form, max_tokens=200).choices[0]
    assert choice.finish_reason == "stop"
    value = json.loads(choice.message.content)
    assert value["n"] in (1, 2) and len(value["name"]) <= 12


def test_stream_options_bring_usage_last(oai):
    chunks = list(ask(oai, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 0
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert len({chunk.id for chunk in chunks}) == 1


def test_completions(oai):
    prompts = ["Once upon a time", "The sea is"]
    answer = oai.completions.create(model=MODEL, prompt=prompts, max_tokens=12, n=2, seed=9, temperature=1)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    alone = oai.completions.create(model=MODEL, prompt=prompts[0], max_tokens=12, n=2, seed=9, temperature=1)
    assert [choice.text for choice in answer.choices[:2]] == [choice.text for choice in alone.choices]
    echoed = oai.completions.create(model=MODEL, prompt=prompts[0], max_tokens=12, n=2, seed=9, temperature=1, echo=True)
    assert [choice.text for choice in echoed.choices] == [prompts[0] + choice.text for choice in alone.choices]


def test_completions_logprobs(oai):
    choice = oai.completions.create(model=MODEL, prompt="The sea is", max_tokens=5, temperature=0, logprobs=3).choices[0]
    logprobs = choice.logprobs
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.top_logprobs)
    assert "".join(logprobs.tokens) == choice.text
    assert logprobs.text_offset[0] in (0, len("The sea is")) and logprobs.text_offset == sorted(logprobs.text_offset)


def test_completions_take_token_ids(oai, http):
    ids = http.post("/tokenize", json={"prompt": "The sea is"}).json()["tokens"]
    texts = [oai.completions.create(model=MODEL, prompt=prompt, max_tokens=12, temperature=0).choices[0].text
             for prompt in ("The sea is", ids, [ids])]
    assert len(set(texts)) == 1


def test_responses(oai):
    answer = oai.responses.create(model=MODEL, input="Name a colour.", instructions="Be brief.", max_output_tokens=16,
                                  temperature=0, metadata={"a": "b"})
    assert answer.object == "response" and answer.metadata == {"a": "b"}
    assert answer.status in ("completed", "incomplete")
    assert answer.usage.output_tokens <= 16 and answer.output_text == answer.output[0].content[0].text
    if answer.status == "incomplete":
        assert answer.incomplete_details.reason == "max_output_tokens"


def test_responses_call_tools_and_take_results(oai):
    tool = {"type": "function", "name": "clock", "parameters": CLOCK["function"]["parameters"]}
    answer = oai.responses.create(model=MODEL, input="What time is it?", tools=[tool], tool_choice="required",
                                  max_output_tokens=200, parallel_tool_calls=False)
    call = [item for item in answer.output if item.type == "function_call"][0]
    assert call.name == "clock" and set(json.loads(call.arguments)) == {"utc"}
    turns = [{"role": "user", "content": "What time is it?"}, *[item.model_dump(exclude_none=True) for item in answer.output],
             {"type": "function_call_output", "call_id": call.call_id, "output": "noon"}]
    assert oai.responses.create(model=MODEL, input=turns, tools=[tool], max_output_tokens=8).usage.input_tokens > 0


def test_responses_stream_has_its_events_in_order(oai):
    events = list(oai.responses.create(model=MODEL, input="Name a colour.", max_output_tokens=16, stream=True))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] in ("response.completed", "response.incomplete")
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == events[-1].response.output_text


def test_responses_parse_a_schema(oai):
    form = {"type": "json_schema", "name": "t", "schema": {"type": "object", "properties": {"x": {"enum": ["a", "b"]}},
                                                           "required": ["x"], "additionalProperties": False}}
    answer = oai.responses.create(model=MODEL, input="x?", text={"format": form}, max_output_tokens=64)
    assert json.loads(answer.output_text)["x"] in ("a", "b")


def test_errors_become_the_packages_exceptions(oai):
    with pytest.raises(openai.BadRequestError) as refusal:
        ask(oai, temperature=-1)
    assert refusal.value.param == "temperature"
    with pytest.raises(openai.NotFoundError):
        ask(oai, model="another")
