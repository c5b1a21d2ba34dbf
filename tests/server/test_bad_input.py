# SPDX-License-Identifier: Apache-2.0
"""Wrong and hostile requests: a clear 4xx that names the field, soon, and a server that goes on as before."""

import json
import os
import time

import pytest

from support import MODEL, Server, with_template, chat, eventually, post_bytes, read_response

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


def refused(response, param=None, status=400):
    assert response.status_code == status, (response.status_code, response.text[:500])
    error = response.json()["error"]
    if isinstance(error, str):  # Ollama's
        error = {"message": error}
    assert len(error["message"]) > 10 and "/src/" not in error["message"] and "nlohmann" not in error["message"]
    if param is not None:
        assert error.get("param", param) == param, error
        assert param.split(".")[-1].split("[")[0] in error["message"] or "tokens" in error["message"], error
    return error


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


DEEP_SCHEMA = {}
for _ in range(40):
    DEEP_SCHEMA = {"type": "object", "properties": {"a": DEEP_SCHEMA}, "required": ["a"]}
WIDE_SCHEMA = {"type": "object", "properties": {f"p{i}": {"enum": list(range(40))} for i in range(300)}}
SCHEMAS = {
    "deep": DEEP_SCHEMA,
    "wide": WIDE_SCHEMA,
    "huge": {"enum": ["x" * 1000 + str(i) for i in range(100)]},
    "endless reference": {"$ref": "#"},
    "reference round": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    "reference away": {"$ref": "file:///etc/passwd"},
    "reference to a site": {"$ref": "http://169.254.169.254/latest"},
    "reference to nothing": {"$ref": "#/$defs/none"},
    "wrong type": {"type": "bogus"},
    "number for a type": {"type": 5},
    "negative length": {"type": "string", "minLength": -1},
    "endless length": {"type": "string", "minLength": 10**15},
    "crossed lengths": {"type": "string", "minLength": 5, "maxLength": 2},
    "many items": {"type": "array", "items": {"type": "string", "maxLength": 1000}, "minItems": 10**9},
    "nested repeats": {"type": "array", "maxItems": 1000, "items": {"type": "array", "maxItems": 1000, "items": {
        "type": "array", "maxItems": 1000, "items": {"type": "string", "maxLength": 1000}}}},
    "broken pattern": {"type": "string", "pattern": "("},
    "hungry pattern": {"type": "string", "pattern": "^((a+)+)+$"},
    "counted pattern": {"type": "string", "pattern": "^(((a{1,100}){1,100}){1,100}){1,100}$"},
    "nothing fits": {"type": "integer", "minimum": 3, "maximum": 2},
    "nothing at all": {"allOf": [{"type": "string"}, {"type": "integer"}]},
    "no way out": {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    "many ways": {"allOf": [{"anyOf": [{"minimum": i}, {"maximum": -i}]} for i in range(40)]},
    "not": {"not": {}},
    "empty enum": {"enum": []},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_hostile_schemas(http, name):
    """Either refused with a reason or followed; in seconds; by every way a schema comes in."""
    schema = SCHEMAS[name]
    began = time.monotonic()
    response = http.post("/v1/chat/completions", json=chat("hi", max_tokens=8, response_format={
        "type": "json_schema", "json_schema": {"name": "s", "schema": schema}}))
    assert time.monotonic() - began < 20
    assert response.status_code in (200, 400)
    if response.status_code == 400:
        error = refused(response)
        deep = error["code"] == "invalid_json"  # of the body itself
        assert deep or error["param"] == "response_format.json_schema.schema", error
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": schema}}}}
    answer = http.post("/v1/chat/completions", json=chat("hi", max_tokens=8, tools=[tool], tool_choice="required"))
    assert answer.status_code in (200, 400)
    if answer.status_code == 400:
        error = answer.json()["error"]
        assert error["code"] == "invalid_json" or error["param"].startswith("tools")


PATTERNS = ["(", "[", "a{2,1}", "a{99999999}", "(" * 5000 + ")" * 5000, "(a*)*b", "(a|a)*" * 50, "(?=x)", r"\1", r"\b", "*",
            "(?<n>a)", "[z-a]", "\\", "a{1000}{1000}{1000}", "x" * 65537, "(.*){50}", "[\\u{110000}]", "((((a?){50}){50}){50}){50}"]


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p[:20])
def test_hostile_regexes(http, pattern):
    began = time.monotonic()
    response = http.post("/v1/chat/completions", json=chat("hi", max_tokens=8, guided_regex=pattern))
    assert time.monotonic() - began < 20
    assert response.status_code in (200, 400), response.text
    if response.status_code == 400:
        assert refused(response)["param"] == "guided_regex"


@pytest.mark.parametrize("grammar", ["", "root", "root ::=", "root ::= root", "root ::= other", "root ::= [", 'a ::= "x"',
                                     "root ::= " + "(" * 3000 + '"a"' + ")" * 3000, 'root ::= "a"{1000000000}',
                                     "\n".join(f'r{i} ::= r{i + 1} r{i + 1}' for i in range(60)).replace("r0", "root", 1)
                                     + '\nr60 ::= "x"', 'root ::= root "a" | "a"', 'root ::= ("a"*)*'], ids=lambda g: g[:20])
def test_hostile_grammars(http, grammar):
    began = time.monotonic()
    response = http.post("/v1/chat/completions", json=chat("hi", max_tokens=8, guided_grammar=grammar))
    assert time.monotonic() - began < 20
    assert response.status_code in (200, 400), response.text
    if response.status_code == 400:
        assert refused(response)["param"] == "guided_grammar"


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


BODIES = {
    "empty": b"", "no JSON": b"hello", "half": b'{"messages":', "list": b"[]", "null": b"null", "number": b"1",
    "invalid UTF-8": b'{"messages":[{"role":"user","content":"\xff\xfe"}]}', "half an escape": b'{"prompt":"\\ud80"}',
    "overlong": b'{"prompt":"\xc0\xaf"}', "deep list": b"[" * 100_000 + b"]" * 100_000,
    "deep object": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep inside": b'{"messages":[{"role":"user","content":' + b"[" * 200 + b"]" * 200 + b"}]}",
    "twice": b'{"prompt":"a","prompt":"b"}', "after": b'{"prompt":"a"} x', "comment": b'{"prompt":"a"/**/}', "NUL": b"\x00" * 50,
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/v1/messages", "/generate", "/tokenize"])
def test_bodies_that_are_no_request(http, path, name):
    response = http.post(path, content=BODIES[name], headers={"Content-Type": "application/json"})
    assert response.status_code == 400 and response.json()["error"]["message"]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", [CHAT, "/generate", "/tokenize"])
def test_wrong_methods(http, method, path):
    response = http.request(method, path)
    assert response.status_code == 405 and "POST" in response.headers["allow"]


def test_unknown_paths_and_methods_of_reading(http):
    assert http.get("/nothing").status_code == 404
    assert http.post("/health").status_code == 405
    assert http.head("/health").status_code == 200


@pytest.mark.parametrize("head,status", [
    (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", 431),
    (b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 5000 + b"\r\n", 431),
    (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", (414, 431)),
    (b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
    (b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n", (400, 413)),
    (b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 34000000\r\n\r\n", 413),
    (b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
    (b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", 400),
    (b"POST /generate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n", (400, 413)),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400),
], ids=range(11))
def test_broken_heads(server, head, status):
    with server.connect() as connection:
        try:
            connection.sendall(head)
        except OSError:
            pass  # it answers before it has read everything
        got, _, _ = read_response(connection)
    assert got in (status if isinstance(status, tuple) else (status,))


@pytest.mark.parametrize("padding,size,status", [(0, 1, 200), (100_000, 16, 200), (100_000, 1, 400)])
def test_tiny_chunks_cost_a_client_its_request_only_if_they_are_far_too_many(server, padding, size, status):
    text = json.dumps({"text": "The sea is", "sampling_params": {"max_new_tokens": 2, "temperature": 0}}).encode()
    text += b" " * padding
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    with server.connect() as connection:
        try:
            connection.sendall(b"POST /generate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
        except OSError:
            pass  # refused amid the body
        assert read_response(connection)[0] == status


def test_slow_bodies_keep_nobody_waiting(server, http):
    """Clients that dawdle over head and body occupy a socket each and nothing more."""
    body = post_bytes("/generate", {"text": "The sea is", "sampling_params": {"max_new_tokens": 2, "temperature": 0}})
    slow = [server.connect() for _ in range(40)]
    for number, connection in enumerate(slow):
        connection.sendall(body[: 10 + number * 4])
    began = time.monotonic()
    assert http.post(CHAT, json=chat("hi", max_tokens=2)).status_code == 200
    assert time.monotonic() - began < 5
    for number, connection in enumerate(slow[:20]):
        connection.sendall(body[10 + number * 4:])
        assert read_response(connection)[0] == 200
    for connection in slow:
        connection.close()
    eventually(lambda: "http_open_connections" in server.client.get("/metrics").text, 5, "metrics")


def test_many_words_without_a_space_are_tokenised_soon(http):
    began = time.monotonic()
    for text in ("a" * 1_000_000, "<|im_" * 200_000, " " * 1_000_000, "<|im_end|>" * 100_000, "\u0301" * 300_000):
        assert http.post("/tokenize", json={"messages": [{"role": "user", "content": text}]}).status_code == 200
    assert time.monotonic() - began < 60
