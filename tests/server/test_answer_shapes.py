# SPDX-License-Identifier: Apache-2.0
"""What the server answers, of every operation and every kind of refusal, against the shapes in its own /openapi.json."""

import copy
import json
import re
import tempfile

import httpx
import jsonschema
import pytest

from support import MODEL, Server, chat, eventually

TOOL = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"x": {"enum": ["a", "b"]}},
                                                         "required": ["x"], "additionalProperties": False}}
FLAT = {"type": "function", **TOOL}
NESTED = {"type": "function", "function": TOOL}
CLAUDES = {"name": "f", "input_schema": TOOL["parameters"]}
WARM = {"temperature": 1, "seed": 5}
ANSWERED = [
    ("/v1/chat/completions", chat("hi", max_tokens=5, temperature=0)),
    ("/v1/chat/completions", chat("hi", max_tokens=5, n=3, logprobs=True, top_logprobs=3, **WARM)),
    ("/v1/chat/completions", chat("hi", max_tokens=5, logprobs=True, speculative=False)),
    ("/v1/chat/completions", chat("hi", max_tokens=200, tools=[NESTED], tool_choice="required")),
    ("/v1/chat/completions", chat("hi", max_tokens=90, guided_regex="<think>[a-z]{3}</think>yes")),
    ("/v1/completions", {"prompt": "The sea is", "max_tokens": 5}),
    ("/v1/completions", {"prompt": ["The sea is", "I"], "n": 2, "logprobs": 2, "max_tokens": 5, **WARM}),
    ("/v1/completions", {"prompt": [1, 2, 3], "echo": True, "max_tokens": 5, "stop": "e"}),
    ("/v1/responses", {"input": "hi", "max_output_tokens": 5}),
    ("/v1/responses", {"input": "hi", "max_output_tokens": 5, "top_logprobs": 2, "instructions": "s", "user": "u", "store": True,
                       "metadata": {"a": "b"}, "reasoning": {"effort": "none", "summary": None}, "tool_choice": "none",
                       "text": {"format": {"type": "text"}, "verbosity": "low"}, "tools": [FLAT, {"type": "web_search"}]}),
    ("/v1/responses", {"input": "hi", "max_output_tokens": 200, "tools": [FLAT], "parallel_tool_calls": False,
                       "tool_choice": {"type": "function", "name": "f"}}),
    ("/v1/responses", {"input": "hi", "max_output_tokens": 20, "metadata": None, "reasoning": None, "tools": None,
                       "text": {"format": {"type": "json_schema", "name": "t", "schema": {"enum": [1, 2]}}}}),
    ("/v1/messages", chat("hi", max_tokens=5)),
    ("/v1/messages", chat("hi", max_tokens=200, tools=[CLAUDES], tool_choice={"type": "any"})),
    ("/v1/messages", chat("hi", max_tokens=60, stop_sequences=["STOP"], output_format={
        "type": "json_schema", "schema": {"const": "one STOP two"}})),
    ("/v1/messages/count_tokens", chat("hi", tools=[CLAUDES])),
    ("/generate", {"text": "The sea is", "sampling_params": {"max_new_tokens": 5}}),
    ("/generate", {"text": ["The sea is", "I"], "rid": ["a", "b"], "return_logprob": True, "top_logprobs_num": 2,
                   "return_text_in_logprobs": True, "sampling_params": {"max_new_tokens": 5, "n": 2, **WARM}}),
    ("/generate", {"input_ids": [1, 2, 3], "return_logprob": True, "sampling_params": {
        "max_new_tokens": 60, "stop": ["STOP"], "regex": "one STOP two"}}),
    ("/generate", {"text": "The sea is", "sampling_params": {"max_new_tokens": 9, "regex": "yes"}}),
    ("/tokenize", {"prompt": "The sea is"}),
    ("/tokenize", {"prompt": "", "return_token_strs": True}),
    ("/tokenize", chat("\U0001f30a", with_pieces=True)),
    ("/detokenize", {"tokens": [1, 2, 3]}),
    ("/apply-template", chat("hi", tools=[NESTED])),
]
POSTS = {path: body for path, body in reversed(ANSWERED)}
REFUSED = [(path, body, status) for path in POSTS for body, status in [
    (b"{", 400), (b"\xff", 400), (b"[]", 400), ({}, 400), ({**POSTS[path], "unheard": "of"}, 400),
    ({**POSTS[path], "model": 7}, 400), ({**POSTS[path], "model": "gpt-17"}, 404)]]
TOLERATED = [
    ("/v1/chat/completions", chat("hi", store="yes"), "store"),
    ("/v1/chat/completions", chat("hi", metadata="a"), "metadata"),
    ("/v1/completions", {"prompt": "hi", "prompt_cache_key": ["a"]}, "prompt_cache_key"),
    ("/v1/responses", {"input": "hi", "metadata": [1]}, "metadata"),
    ("/v1/responses", {"input": "hi", "store": 0}, "store"),
    ("/v1/messages", chat("hi", max_tokens=1, service_tier=True), "service_tier"),
    ("/v1/messages/count_tokens", chat("hi", betas="a"), "betas"),
    ("/generate", {"text": "hi", "sampling_params": {"spaces_between_special_tokens": "x"}},
     "sampling_params.spaces_between_special_tokens"),
    ("/tokenize", {"prompt": "hi", "parse_special": "x"}, "parse_special"),
]


class Document:
    def __init__(self, url, headers=None):
        self.json = httpx.get(url + "/openapi.json", headers=headers, verify=False).json()

    def resolved(self, value):
        while "$ref" in value:
            place = self.json
            for part in value["$ref"].removeprefix("#/").split("/"):
                place = place[part]
            value = place
        return value

    def operation(self, response):
        path = response.request.url.path
        if path.startswith("/v1/models/"):
            path = "/v1/models/{id}"
        return self.json["paths"][path][response.request.method.lower()]

    def schema(self, response):
        described = self.resolved(self.operation(response)["responses"][str(response.status_code)])
        for name, header in described.get("headers", {}).items():
            value = response.headers[name]
            jsonschema.validate(int(value) if header["schema"].get("type") == "integer" else value, header["schema"])
        return described["content"][response.headers["content-type"].split(";")[0]]["schema"]

    def holds(self, value, schema):
        jsonschema.Draft202012Validator({**schema, "components": self.json["components"]}).validate(value)

    def check(self, response):
        """The answer is one that the document describes; what it says."""
        is_json = response.headers["content-type"] == "application/json"
        value = response.json() if is_json else response.text
        self.holds(value, self.schema(response))
        return value


@pytest.fixture(scope="module")
def document(server):
    return Document(server.url)


def post(http, path, body):
    return http.post(path, **({"content": body} if isinstance(body, bytes) else {"json": body}))


def test_every_schema_is_one(document):
    for name, schema in document.json["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema.get("type", "object") in ("object", "array"), name
    for reference in re.findall(r'"\$ref": "([^"]*)"', json.dumps(document.json)):
        document.resolved({"$ref": reference})


@pytest.mark.parametrize("path,body", ANSWERED, ids=[f"{path}-{i}" for i, (path, _) in enumerate(ANSWERED)])
def test_answers(http, document, path, body):
    response = post(http, path, body)
    assert response.status_code == 200, response.text
    document.check(response)


def test_answers_have_what_may_be_missing(http):
    """Of what the schemas leave open the requests above bring about both."""
    texts = [post(http, path, body).text for path, body in ANSWERED]
    for member in ("tool_calls", "reasoning_content", "token_strs", "matched", "output_token_logprobs", "output_top_logprobs"):
        assert 0 < sum(f'"{member}"' in text for text in texts) < len(texts), member


def test_gets(http, document, server):
    asked = 0
    for path, item in document.json["paths"].items():
        if "get" not in item:
            continue
        response = http.get(path.replace("{id}", MODEL))
        assert response.status_code == 200, path
        document.check(response)
        asked += 1
    assert asked > 20
    for path, status in (("/v1/models/gpt-17", 404), ("/v1/models/org/gpt%2F17", 404), ("/v1/models/%00", 400), ("/v1/models/%FF", 400)):
        response = http.get(path)
        assert response.status_code == status
        document.check(response)


@pytest.mark.parametrize("path,body,status", REFUSED, ids=[f"{path}-{status}-{i}" for i, (path, _, status) in enumerate(REFUSED)])
def test_refusals(http, document, path, body, status):
    response = post(http, path, body)
    assert response.status_code == status, response.text
    document.check(response)


@pytest.mark.parametrize("path,body,param", TOLERATED, ids=[f"{path}-{param}" for path, _, param in TOLERATED])
def test_tolerated_fields_have_their_type(http, document, path, body, param):
    response = post(http, path, body)
    assert response.status_code == 400, response.text
    error = document.check(response)["error"]
    assert error["message"].startswith(param + ": expected ") and error.get("param", param) == param
    body = copy.deepcopy(body)
    (body.get("sampling_params") or body)[param.split(".")[-1]] = None
    assert post(http, path, body).status_code == 200


def test_refusals_of_the_connection(http, document):
    answers = [http.post(path, headers=headers, json={}) for path in ("/generate", "/v1/messages")
               for headers in ({"Host": "evil.example"}, {"Content-Encoding": "gzip"}, {"X": "a" * 100_000})]
    assert [response.status_code for response in answers] == [403, 415, 431] * 2
    for response in answers:
        document.check(response)
    for path in ("/v1/models", "/health", "/"):
        response = http.get(path, headers={"Host": "evil.example"})
        assert response.status_code == 403
        document.check(response)


def test_keys_are_needed_where_the_document_says(start):
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write("a-key\n")
        keys.flush()
        server = start("--api-key-file", keys.name)
        document = Document(server.url, {"x-api-key": "a-key"})
        assert document.json["security"] == [{}, {"bearer": []}, {"x-api-key": []}]
        for path, item in document.json["paths"].items():
            for method, operation in item.items():
                open_to_all = operation.get("security") == []
                response = server.client.request(method, path.replace("{id}", MODEL))
                assert (response.status_code != 401) == open_to_all, path
                document.check(response)
                for headers in ({"x-api-key": "a-key"}, {"Authorization": "Bearer a-key"}):
                    assert server.client.request(method, path.replace("{id}", MODEL), headers=headers).status_code in (200, 400)


def test_answers_of_a_model_that_fills_blocks():
    server = Server.start(model="pebble-11m-sdar")
    try:
        document = Document(server.url)
        text = ""
        for path, body in ANSWERED:
            response = post(server.client, path, body)
            assert response.status_code == 200, (path, response.text)
            document.check(response)
            text += response.text
        document.check(server.client.get("/stats"))
        for member in ("dllm", "token_steps", "output_token_steps", '"step"'):
            assert member in text
    finally:
        server.kill()


def test_full_queue_and_shutdown(start):
    server = start("--max-waiting", "0", "--max-sequences", "1", "--drain", "5")
    document = Document(server.url)
    long = chat("hi", max_tokens=3000, ignore_eos=True, stream=True)
    with server.client.stream("POST", "/v1/chat/completions", json=long):
        for path in ("/v1/chat/completions", "/v1/messages"):
            response = server.client.post(path, json=chat("hi", max_tokens=1))
            assert response.status_code == 429, response.text
            document.check(response)
        server.terminate()
        eventually(lambda: server.client.get("/health").status_code == 503, 5, "health does not report the end")
        document.check(server.client.get("/health"))
        for path in ("/v1/chat/completions", "/v1/messages"):
            response = httpx.post(server.url + path, json=chat("hi", max_tokens=1), verify=False)
            assert response.status_code == 503
            document.check(response)
