# SPDX-License-Identifier: Apache-2.0
"""The ollama package: models, chats, prompts, and refusals in words."""

import json

import ollama
import pytest

from support import MODEL

ASK = [{"role": "user", "content": "Write a short list of things that float on water."}]
SHORT = {"temperature": 0, "num_predict": 12}
AGE = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["age"],
       "additionalProperties": False}


@pytest.fixture(scope="module")
def client(server):
    return ollama.Client(host=server.url, timeout=120)


def clock(utc: bool) -> str:
    """Tells the time.

    Args:
      utc: whether in UTC
    """
    return str(utc)


def test_models(client):
    assert [one.model for one in client.list().models] == [MODEL + ":latest"]
    assert [one.model for one in client.ps().models] == [MODEL + ":latest"]
    shown = client.show(MODEL + ":latest")
    assert shown.capabilities[:2] == ["completion", "tools"] and shown.modelinfo["general.basename"] == MODEL


def test_chat_is_the_same_in_a_stream(client):
    whole = client.chat(MODEL, ASK, options=SHORT)
    assert whole.done and whole.done_reason in ("stop", "length") and 0 < whole.eval_count <= 12
    assert whole.message.role == "assistant" and whole.message.content
    parts = list(client.chat(MODEL, ASK, options=SHORT, stream=True))
    assert "".join(part.message.content for part in parts) == whole.message.content
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    assert parts[-1].eval_count == whole.eval_count and parts[-1].prompt_eval_count == whole.prompt_eval_count


def test_a_round_of_tools(client):
    calls = [{"function": {"name": "clock", "arguments": {"utc": True}}}]
    said = [*ASK, {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "tool_name": "clock", "content": "12:00"}]
    assert client.chat(MODEL, said, tools=[clock], options=SHORT).done
    assert list(client.chat(MODEL, ASK, tools=[clock], options=SHORT, stream=True))[-1].done


@pytest.mark.parametrize("think", [True, False, "low"])
def test_think_is_taken(client, think):
    assert client.chat(MODEL, ASK, think=think, options=SHORT).done


def test_shapes(client):
    roomy = {"temperature": 0, "num_predict": 80}
    got = json.loads(client.chat(MODEL, ASK, format=AGE, options=roomy).message.content)
    assert list(got) == ["age"] and 0 <= got["age"] <= 99
    assert client.generate(MODEL, "x", format="json", options=roomy).response.startswith("{")


def test_every_option_of_the_package_is_known(client):
    hints = dict(numa=False, num_ctx=2048, num_batch=16, num_gpu=0, main_gpu=0, low_vram=False, f16_kv=True, use_mmap=True,
                 use_mlock=False, num_thread=2, num_keep=4, penalize_newline=True, mirostat_tau=5.0, mirostat_eta=0.1)
    off = dict(logits_all=False, vocab_only=False, embedding_only=False, tfs_z=1.0, typical_p=1.0, mirostat=0)
    acts = dict(seed=3, num_predict=4, top_k=20, top_p=0.9, repeat_last_n=-1, temperature=0.5, repeat_penalty=1.1,
                presence_penalty=0.1, frequency_penalty=0.1, stop=["zz"])
    sent = {**hints, **off, **acts}
    assert set(ollama.Options.model_fields) <= set(sent), "the package has learnt more; send it, too"
    answers = [client.chat(MODEL, ASK, options=ollama.Options(**sent)).message.content for _ in range(2)]
    assert answers[0] == answers[1]


def test_prompts(client):
    whole = client.generate(MODEL, "Once upon a time", raw=True, options=SHORT).response
    parts = client.generate(MODEL, "Once upon a time", raw=True, options=SHORT, stream=True)
    assert whole and "".join(part.response for part in parts) == whole
    assert client.generate(MODEL, "Hello", system="Be brief.", options=SHORT).done
    assert client.generate(MODEL).done_reason == "load"


@pytest.mark.parametrize("ask, status, words", [
    (lambda c: c.generate(MODEL, "x", images=[b"\x89PNG"]), 400, "images: this server takes text only"),
    (lambda c: list(c.generate(MODEL, "x", images=[b"\x89PNG"], stream=True)), 400, "images: this server takes text only"),
    (lambda c: c.chat(MODEL, [{**ASK[0], "images": [b"\x89PNG"]}]), 400, "messages[0].images: this server takes text only"),
    (lambda c: c.chat(MODEL, ASK, options={"repeat_penalty": -1}), 400, "options.repeat_penalty: "),
    (lambda c: c.chat("other", ASK), 404, "the model 'other' is not served here; expected '" + MODEL + "'"),
    (lambda c: list(c.chat("other", ASK, stream=True)), 404, "the model 'other' is not served here"),
    (lambda c: c.show("other"), 404, "the model 'other' is not served here; expected '" + MODEL + "'"),
    (lambda c: c.pull("other"), 404, "There is no /api/pull here"),
    (lambda c: list(c.pull("other", stream=True)), 404, "There is no /api/pull here"),
    (lambda c: c.create("mine", from_=MODEL), 404, "There is no /api/create here"),
    (lambda c: c.delete(MODEL), 404, "There is no /api/delete here"),
    (lambda c: c.embed(MODEL, "x"), 404, "There is no /api/embed here"),
])
def test_refusals_are_in_words(client, ask, status, words):
    with pytest.raises(ollama.ResponseError) as refused:
        ask(client)
    assert refused.value.status_code == status and words in refused.value.error
