# SPDX-License-Identifier: Apache-2.0
"""Renders the templates of tests/data/templates with the Python package jinja2, set up as Hugging Face transformers does.

Usage: pip install jinja2; make_template_goldens.py tests/data/templates
Writes goldens.json there: the feature templates, the inputs, and for every pair what came out, or null for an error.
"""

import json
import pathlib
import sys
from datetime import datetime

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from golden_lines import golden_lines
from template_features import FEATURES

NOW = datetime(2025, 3, 4, 9, 5, 7)


class Generation(Extension):
    """{% generation %} marks the assistant's text for training; when rendering it is a macro called on the spot."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Weather of a city, e.g. Zürich",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "The city’s name"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
            "days": {"type": "integer", "description": "How many days", "default": 3}},
            "required": ["city"]}}},
    {"type": "function", "function": {
        "name": "search", "description": "Finds \"documents\" & <pages>",
        "parameters": {"type": "object", "properties": {
            "queries": {"type": "array", "items": {"type": "string"}, "description": "What to look for"},
            "limit": {"type": ["integer", "null"]},
            "threshold": {"type": "number", "default": 0.5},
            "filters": {"type": "object", "properties": {"lang": {"type": "string"}, "deep": {
                "type": "object", "properties": {"x": {"type": "boolean"}}}}, "required": ["lang"]}},
            "required": ["queries", "filters"]}}},
    {"type": "function", "function": {
        "name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}, "required": []}}},
]


def call(name, arguments, identity="abc123xyz"):
    return {"type": "function", "id": identity, "function": {"name": name, "arguments": arguments}}


USER = {"role": "user", "content": "What is 2 + 2?"}
ANSWER = {"role": "assistant", "content": "It is 4."}
SYSTEM = {"role": "system", "content": "You are  terse.  "}
WEATHER = [
    {"role": "user", "content": "Weather in Zürich?"},
    {"role": "assistant", "content": "", "tool_calls": [call("get_weather", {"city": "Zürich", "days": 2})]},
    {"role": "tool", "name": "get_weather", "tool_call_id": "abc123xyz", "content": "{\"temp\": 21.5}"},
]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

CONVERSATIONS = {
    "user": {"messages": [USER], "add_generation_prompt": True},
    "user_no_prompt": {"messages": [USER], "add_generation_prompt": False},
    "system": {"messages": [SYSTEM, USER], "add_generation_prompt": True},
    "turns": {"messages": [SYSTEM, USER, ANSWER, {"role": "user", "content": "\n Sure?\n"}],
              "add_generation_prompt": True},
    "ends_with_answer": {"messages": [USER, ANSWER], "add_generation_prompt": False},
    "empty": {"messages": [], "add_generation_prompt": True},
    "empty_content": {"messages": [{"role": "system", "content": ""}, {"role": "user", "content": ""}],
                      "add_generation_prompt": True},
    "unicode": {"messages": [{"role": "system", "content": "Réponds en français 🥖"},
                             {"role": "user", "content": "你好，世界！\u2028 ß \u00a0"}], "add_generation_prompt": True},
    "content_parts": {"messages": [
        {"role": "user", "content": [{"type": "text", "text": "Look: "}, {"type": "image"},
                                     {"type": "text", "text": "what is it?"}]}, ANSWER], "add_generation_prompt": True},
    "system_parts": {"messages": [{"role": "system", "content": [{"type": "text", "text": "Be"},
                                                                 {"type": "text", "text": "kind"}]}, USER],
                     "add_generation_prompt": True},
    "tools": {"messages": [SYSTEM, USER], "tools": TOOLS, "add_generation_prompt": True},
    "tools_no_system": {"messages": [USER], "tools": TOOLS[:1], "add_generation_prompt": True},
    "tool_call": {"messages": WEATHER, "tools": TOOLS, "add_generation_prompt": True},
    "tool_answered": {"messages": [SYSTEM] + WEATHER + [{"role": "assistant", "content": "21.5 °C"},
                                                        {"role": "user", "content": "Thanks"}],
                      "tools": TOOLS[:2], "add_generation_prompt": True},
    "two_tool_calls": {"messages": [
        {"role": "user", "content": "Both?"},
        {"role": "assistant", "content": "Let me look.", "tool_calls": [
            call("get_weather", {"city": "Oslo"}), call("now", "{}", "987654321")]},
        {"role": "tool", "tool_call_id": "abc123xyz", "content": "rain"},
        {"role": "tool", "tool_call_id": "987654321", "content": "12:00"}], "tools": TOOLS,
        "add_generation_prompt": True},
    "tool_call_short_id": {"messages": [WEATHER[0], {"role": "assistant", "content": None, "tool_calls": [
        call("get_weather", {"city": "Rome"}, "1")]}], "add_generation_prompt": False},
    "reasoning_field": {"messages": [USER, {"role": "assistant", "reasoning_content": "\nadd them\n",
                                            "content": "It is 4."}], "add_generation_prompt": False},
    "reasoning_inline": {"messages": [
        USER, {"role": "assistant", "content": "<think>\nadd\n</think>\n\nIt is 4."},
        {"role": "user", "content": "And 3 + 3?"},
        {"role": "assistant", "content": "<think>again</think>6"}], "add_generation_prompt": False},
    "no_thinking": {"messages": [USER], "add_generation_prompt": True, "enable_thinking": False},
    "two_users": {"messages": [USER, USER], "add_generation_prompt": True},
    "starts_with_assistant": {"messages": [ANSWER, USER], "add_generation_prompt": True},
    "unknown_role": {"messages": [USER, {"role": "critic", "content": "Hm."}], "add_generation_prompt": False},
    "missing_content": {"messages": [{"role": "user"}], "add_generation_prompt": True},
    "null_content": {"messages": [{"role": "user", "content": None}], "add_generation_prompt": True},
    "documents": {"messages": [SYSTEM, USER], "add_generation_prompt": True, "documents": [
        {"title": "a title", "text": "Some text.", "n": 1}, {"text": "No title é"}]},
    "late_system": {"messages": [USER, {"role": "system", "content": "Change."}, ANSWER],
                    "add_generation_prompt": True},
    "date_given": {"messages": [USER], "add_generation_prompt": True, "date_string": "1 Jan 2000",
                   "reasoning_effort": "high", "model_identity": "You are Ash.", "tools_in_user_message": False,
                   "tools": TOOLS[2:]},
}

FEATURE_INPUT = {
    "n": 3, "nums": [1, 2, 3, 4, 5], "flag": True, "void": None,
    "user": {"name": "Zoë", "age": 30, "tags": ["x", "y"], "in": "IN", "if": "IF"},
    "shadow": {"items": [1, 2], "keys": "k", "get": "g"},
    "people": [{"name": "Ann", "age": 31, "admin": True, "address": {"city": "Oslo"}},
               {"name": "Bob", "age": 45, "admin": False, "address": {"city": "Rome"}},
               {"name": "cyd", "age": 22, "admin": True, "address": {"city": "Oslo"}}],
    "tree": [{"name": "root", "children": [{"name": "leaf"}, {"name": "twig", "children": [{"name": "bud"}]}]},
             {"name": "sole"}],
    "parts": ["plain", {"type": "text", "text": "typed"}, {"type": "image"}],
}


def render(env, source, variables):
    try:
        return env.from_string(source).render(**variables)
    except Exception:  # whatever Python raises, the engine must refuse too
        return None


def main():
    folder = pathlib.Path(sys.argv[1])
    env = environment()
    inputs = {name: {"tools": None, "documents": None, **TOKENS, **given} for name, given in CONVERSATIONS.items()}
    inputs["features"] = FEATURE_INPUT
    cases = []
    for path in sorted((folder / "families").glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        for name in CONVERSATIONS:
            cases.append({"file": path.name, "input": name, "output": render(env, source, inputs[name])})
    for name, source in FEATURES.items():
        output = render(env, source, inputs["features"])
        if (output is None) != name.startswith("err_"):
            sys.exit(f"{name}: expected {'an error' if name.startswith('err_') else 'output'}, got {output!r}")
        cases.append({"feature": name, "input": "features", "output": output})
    goldens = {"jinja2": jinja2.__version__, "features": FEATURES, "inputs": inputs, "cases": cases}
    (folder / "goldens.json").write_text(golden_lines(goldens), encoding="utf-8")
    errors = sum(case["output"] is None for case in cases)
    print(f"{len(cases)} cases, {errors} of them errors")


if __name__ == "__main__":
    main()
