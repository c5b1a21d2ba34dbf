# SPDX-License-Identifier: Apache-2.0
"""Wrong and hostile requests: a clear 4xx that names the field, soon, and a server that goes on as before."""

import json
import os
import time

import pytest

from support import MODEL, Server, chat, read_response, refused, with_template

HI = [{"role": "user", "content": "hi"}]
MINIMAL = {
    "/v1/chat/completions": {"messages": HI, "max_tokens": 2},
    "/v1/completions": {"prompt": "hi", "max_tokens": 2},
    "/v1/responses": {"input": "hi", "max_output_tokens": 2},
    "/v1/messages": {"messages": HI, "max_tokens": 2},
    "/generate": {"text": "hi", "sampling_params": {"max_new_tokens": 2}},
    "/api/chat": {"messages": HI, "stream": False, "options": {"num_predict": 2}},
    "/api/generate": {"prompt": "hi", "stream": False, "options": {"num_predict": 2}},
}
# Objects inside a body that have numeric fields of their own, and their schemas.
NESTED = {"/generate": ("sampling_params", "SamplingParams"), "/api/chat": ("options", "OllamaOptions"),
          "/api/generate": ("options", "OllamaOptions")}

HUGE = ["-1e308", "1e308", "1e309", "-9223372036854775809", "9223372036854775808", "18446744073709551616", "-2147483649",
        "2147483648", "1e-320", "-0.0", "NaN", "Infinity", '"1"', "true", "[]", "{}", "1" + "0" * 400]


def numeric_fields(document):
    for path, body in MINIMAL.items():
        name = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"].split("/")[-1]
        schemas = [("", document["components"]["schemas"][name]["properties"])]
        if path in NESTED:
            inside, name = NESTED[path]
            schemas.append((inside, document["components"]["schemas"][name]["properties"]))
        for inside, properties in schemas:
            for field, one in properties.items():
                if one.get("type") in ("number", "integer"):
                    yield path, body, inside, field, one


def test_numeric_extremes_on_every_numeric_field(http):
    """Beyond the documented range: 400 with the field's name. Whatever else: no 5xx, no wait."""
    document = http.get("/openapi.json").json()
    asked = 0
    for path, minimal, inside, field, schema in numeric_fields(document):
        beyond = []
        if "minimum" in schema:
            beyond.append(json.dumps(schema["minimum"] - 1))
        if "exclusiveMinimum" in schema:
            beyond.append(json.dumps(schema["exclusiveMinimum"]))
        if "maximum" in schema:
            beyond.append(json.dumps(schema["maximum"] + 1))
        for value in HUGE + beyond:
            body = dict(minimal)
            place = body
            if inside:
                place = body[inside] = dict(body[inside])
            place[field] = "@"
            text = json.dumps(body).replace('"@"', value)
            began = time.monotonic()
            response = http.post(path, content=text, headers={"Content-Type": "application/json"})
            asked += 1
            assert response.status_code in (200, 400), (path, field, value, response.text[:300])
            assert time.monotonic() - began < 20, (path, field, value)
            if value in beyond or value in ('"1"', "true", "NaN", "Infinity", "1e309"):
                error = refused(response)
                if "not valid JSON" in error["message"]:
                    continue
                wanted = f"{inside}.{field}" if inside else field
                assert error.get("param", wanted) == wanted and wanted in error["message"], (path, value, error)
    assert asked > 500


# By the user's word: every way in which a template can fail.
FAILING = """{% set say = messages[0].content %}
{% if say == 'refuse' %}{{ raise_exception('no') }}{% endif %}
{% if say == 'undefined' %}{{ nothing.at.all }}{% endif %}
{% if say == 'type' %}{{ 1 + 'a' }}{% endif %}
{% if say == 'filter' %}{{ say | nosuch }}{% endif %}
{% if say == 'endless' %}{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}{% endif %}
{% if say == 'deep' %}{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}{% endif %}{{ say }}"""


def attempts():
    """Requests that are refused by whatever part of the server, as path, body and headers."""
    for say in ("refuse", "undefined", "type", "filter", "endless", "deep"):
        for path in ("/v1/chat/completions", "/v1/messages", "/api/chat", "/apply-template", "/v1/messages/count_tokens"):
            yield path, {"messages": [{"role": "user", "content": say}], **({"max_tokens": 2} if path == "/v1/messages" else {})}
        yield "/v1/responses", {"input": say}
        yield "/v1/chat/completions", {"messages": [{"role": "user", "content": say}], "stream": True}
    one = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
    for shape in ({"guided_grammar": "root ::= ("}, {"guided_regex": "("}, {"guided_json": {"$ref": "file:///etc/passwd"}},
                  {"guided_json": {"type": 5}}, {"guided_choice": [""]}, {"dllm": {"threshold": 1}}, {"logit_bias": {"99999999": 1}},
                  {"chat_template_kwargs": {"nope": 1}}, {"chat_template": "x"}, {"tools": [{"type": "function", "function": {
                      "name": "f", "parameters": {"type": 5}}}], "tool_choice": "required"}, {"model": "other"}, {"nope": 1}):
        yield "/v1/chat/completions", {**one, **shape}
    yield "/v1/completions", {"prompt": "x " * 9000, "max_tokens": 2}
    yield "/v1/completions", {"prompt": [99999999]}
    yield "/detokenize", {"tokens": [99999999]}
    for path in ("/models/../../etc/passwd", "/v1/models/..%2f..%2fetc", "/api/show", "/nothing"):
        yield path, {"model": "../../etc/passwd"}


def test_no_error_says_where_the_servers_files_lie(tmp_path):
    server = Server.start("--drafter", "none", folder=with_template(tmp_path, FAILING))
    try:
        asked = 0
        for path, body in attempts():
            response = server.client.post(path, json=body)
            assert 400 <= response.status_code < 500, (path, body, response.text[:300])
            for secret in (str(tmp_path), os.environ["ASHLAR_TEST_ROOT"], os.environ["ASHLAR_TEST_PROGRAM"], "/src/", MODEL + "/"):
                assert secret not in response.text, (path, body, response.text)
            asked += 1
        assert asked > 50
    finally:
        server.kill()


CHAT = "/v1/chat/completions"
REFUSED = [
    # path, body, param
    (CHAT, {}, "messages"),
    (CHAT, {"messages": []}, "messages"),
    (CHAT, {"messages": "hi"}, "messages"),
    (CHAT, {"messages": [1]}, "messages[0]"),
    (CHAT, {"messages": [{"role": "user"}]}, "messages[0].content"),
    (CHAT, {"messages": [{"role": "king", "content": "hi"}]}, "messages[0].role"),
    (CHAT, {"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}]},
     "messages[0].content[0].type"),
    (CHAT, chat("hi", temprature=1), "temprature"),
    (CHAT, chat("hi", n=17), "n"),
    (CHAT, chat("hi", n=10**9), "n"),
    (CHAT, chat("hi", n=0), "n"),
    (CHAT, chat("hi", max_tokens=0), "max_tokens"),
    (CHAT, chat("hi", max_tokens=-2), "max_tokens"),
    (CHAT, chat("hi", max_tokens=1.5), "max_tokens"),
    (CHAT, chat("hi", top_logprobs=3), "top_logprobs"),
    (CHAT, chat("hi", logprobs=True, top_logprobs=21), "top_logprobs"),
    (CHAT, chat("hi", stop=["x"] * 17), "stop"),
    (CHAT, chat("hi", stop=["x" * 257]), "stop[0]"),
    (CHAT, chat("hi", stop=""), "stop"),
    (CHAT, chat("hi", stop=[""]), "stop[0]"),
    (CHAT, chat("hi", logit_bias={"x": 1}), "logit_bias.x"),
    (CHAT, chat("hi", logit_bias={"-1": 1}), "logit_bias.-1"),
    (CHAT, chat("hi", logit_bias={"1": "a"}), "logit_bias.1"),
    (CHAT, chat("hi", logit_bias={str(i): 1 for i in range(1025)}), "logit_bias"),
    (CHAT, chat("hi", logit_bias={"99999999": 1}), "logit_bias"),
    (CHAT, chat("hi", tools=[{"type": "function", "function": {"name": "../x"}}]), "tools[0].function.name"),
    (CHAT, chat("hi", tools=[{"type": "function", "function": {"name": "f"}}] * 129), "tools"),
    (CHAT, chat("hi", tool_choice="required"), "tool_choice"),
    (CHAT, chat("hi", response_format={"type": "xml"}), "response_format.type"),
    (CHAT, chat("hi", response_format={"type": "json_schema"}), "response_format.json_schema"),
    (CHAT, chat("hi", guided_regex="a", guided_choice=["b"]), "guided_regex"),
    (CHAT, chat("hi", guided_choice=[]), "guided_choice"),
    (CHAT, chat("hi", chat_template="{{ 1 }}"), "chat_template"),
    (CHAT, chat("hi", chat_template_kwargs={"messages": []}), "chat_template_kwargs.messages"),
    (CHAT, chat("hi", stream="yes"), "stream"),
    (CHAT, chat("hi", model=5), "model"),
    ("/v1/completions", {"prompt": ""}, "prompt"),
    ("/v1/completions", {"prompt": []}, "prompt"),
    ("/v1/completions", {"prompt": [[]]}, "prompt"),
    ("/v1/completions", {"prompt": [-1]}, "prompt[0]"),
    ("/v1/completions", {"prompt": [8192]}, "prompt[0]"),
    ("/v1/completions", {"prompt": [2**40]}, "prompt[0]"),
    ("/v1/completions", {"prompt": ["a", 1]}, "prompt"),
    ("/v1/completions", {"prompt": ["a"] * 257}, "prompt"),
    ("/v1/completions", {"prompt": "a", "best_of": 3}, "best_of"),
    ("/v1/completions", {"prompt": "a", "suffix": "b"}, "suffix"),
    ("/v1/responses", {}, "input"),
    ("/v1/responses", {"input": []}, "input"),
    ("/v1/responses", {"input": "a", "previous_response_id": "resp_1"}, "previous_response_id"),
    ("/v1/responses", {"input": "a", "truncation": "auto"}, "truncation"),
    ("/v1/messages", {"messages": HI}, "max_tokens"),
    ("/v1/messages", {"max_tokens": 1, "messages": []}, "messages"),
    ("/v1/messages", {"max_tokens": 1, "messages": HI, "container": "c"}, "container"),
    ("/generate", {}, "text"),
    ("/generate", {"text": ""}, "text"),
    ("/generate", {"text": "a", "input_ids": [1]}, "text"),
    ("/generate", {"input_ids": []}, "input_ids"),
    ("/generate", {"text": "a", "sampling_params": 5}, "sampling_params"),
    ("/generate", {"text": "a", "image_data": "file:///etc/passwd"}, "image_data"),
    ("/tokenize", {}, None),
    ("/detokenize", {"tokens": [-1]}, "tokens[0]"),
    ("/detokenize", {"tokens": [10**12]}, "tokens[0]"),
    ("/apply-template", {"messages": 3}, "messages"),
]


@pytest.mark.parametrize("path,body,param", REFUSED, ids=lambda value: str(value)[:60])
def test_refused_with_the_fields_name(http, path, body, param):
    response = http.post(path, json=body)
    assert response.status_code == 400, response.text[:300]
    error = response.json()["error"]
    if param is None:
        return
    if "param" in error:
        assert error["param"] == param or error["param"].startswith(param), error
    assert param.split("[")[0].split(".")[0] in error["message"]


@pytest.mark.parametrize("model", ["../../etc/passwd", "/etc/passwd", "..\\..\\x", "a" * 100_000, "\u0000", "pebble-11m\u0000"])
def test_a_models_name_is_only_a_name(http, model):
    error = refused(http.post(CHAT, json=chat("hi", model=model)), status=404)
    assert error["param"] == "model" and len(error["message"]) < 1000 and "root:" not in error["message"]


@pytest.mark.parametrize("path", ["/v1/models/../../etc/passwd", "/v1/models/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/../etc/passwd",
                                  "/%2e%2e/%2e%2e/etc/passwd", "/v1/models/..%5c..%5cx", "/page/../../etc/passwd", "//etc/passwd"])
def test_paths_lead_nowhere(server, path):
    with server.connect() as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        status, _, body = read_response(connection)
    assert status in (400, 404) and b"root:" not in body


@pytest.mark.parametrize("path,fields,name", [
    (CHAT, {"messages": [{"role": "user", "content": "word " * 5000}]}, "messages"),
    ("/v1/completions", {"prompt": [5] * 5000}, "prompt"),
    ("/v1/responses", {"input": "word " * 5000}, "input"),
    ("/v1/messages", {"messages": [{"role": "user", "content": "word " * 5000}], "max_tokens": 1}, None),
    ("/generate", {"text": "word " * 5000}, "text"), ("/generate", {"input_ids": [5] * 5000}, "input_ids")])
def test_context_overflow_says_by_how_much(http, path, fields, name):
    response = http.post(path, json=fields)
    assert response.status_code == 400
    error = response.json()["error"]
    if "[5, 5" in str(fields):
        assert "5000" in error["message"] and "905 too many" in error["message"]
    assert "4096" in error["message"]
    if name:
        assert error["param"] == name and error["code"] == "context_length_exceeded"


def test_a_prompt_that_just_fits_answers_one_token(http):
    body = {"prompt": [5] * 4095, "max_tokens": 50, "ignore_eos": True}
    answer = http.post("/v1/completions", json=body).json()
    assert answer["usage"]["completion_tokens"] == 1 and answer["choices"][0]["finish_reason"] == "length"
    assert http.post("/v1/completions", json={**body, "prompt": [5] * 4096}).status_code == 400
