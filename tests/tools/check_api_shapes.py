#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_api_shapes.py FOLDER: holds sample answers against the models of the official clients.

Needs the packages openai and anthropic. The samples come from
    ASHLAR_API_SAMPLES=FOLDER build/release/tests/unit/server/server_api_test --gtest_filter='*WriteSamples'
"""
import json
import pathlib
import sys
import warnings

import anthropic.types
import openai.types
from openai.types import chat, responses
from pydantic import TypeAdapter

warnings.simplefilter("ignore")
RESPONSE_EVENT = TypeAdapter(responses.ResponseStreamEvent)
MESSAGE_EVENT = TypeAdapter(anthropic.types.RawMessageStreamEvent)


def events(path):
    for block in path.read_text().split("\n\n"):
        lines = [line[6:] for line in block.split("\n") if line.startswith("data: ")]
        if lines and lines[0] != "[DONE]":
            yield json.loads(lines[0])


def check_completion_chunk(value):
    """The client's model has no null finish_reason, which the API itself sends in every chunk but the last."""
    for choice in value["choices"]:
        choice["finish_reason"] = choice["finish_reason"] or "stop"
    openai.types.Completion.model_validate(value)


CHECKS = {
    "chat": (chat.ChatCompletion.model_validate, chat.ChatCompletionChunk.model_validate),
    "completions": (openai.types.Completion.model_validate, check_completion_chunk),
    "responses": (responses.Response.model_validate, RESPONSE_EVENT.validate_python),
    "messages": (anthropic.types.Message.model_validate, MESSAGE_EVENT.validate_python),
}


def main():
    bodies = chunks = 0
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
        api = path.stem.split("_")[0]
        if api not in CHECKS:
            continue
        body, chunk = CHECKS[api]
        try:
            body(json.loads(path.read_text()))
            bodies += 1
            for event in events(path.with_suffix(".sse")):
                chunk(event)
                chunks += 1
        except Exception as error:
            sys.exit(f"{path}: {error}")
    if bodies == 0:
        sys.exit("no samples found")
    print(f"{bodies} bodies and {chunks} events are as the clients expect them")


main()
