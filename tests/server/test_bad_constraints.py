# SPDX-License-Identifier: Apache-2.0
"""Hostile schemas, patterns and grammars: refused with a reason or followed, soon."""

import time

import pytest

from support import chat, refused

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
