#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""grammar_differential.py GRAMMAR_TOOL TOKENIZER SEED COUNT: holds random schemas against the package jsonschema.

Draws COUNT schemas of alternatives that overlap, nest and refer to each other, lets the program grammar_tool walk at random
through each grammar and reports every text that jsonschema does not accept. Exits with 1 if there is one. Needs: pip install
jsonschema.
"""
import collections
import json
import random
import subprocess
import sys

import jsonschema

NAMES = ["a", "b", "c", "d"]
rng = random.Random(int(sys.argv[3]))


def leaf():
    bound = rng.randrange(-3, 4)
    return rng.choice([
        {"type": "integer", "minimum": bound}, {"type": "integer", "maximum": bound}, {"type": "number", "exclusiveMinimum": bound},
        {"enum": rng.sample([0, 1, 2, "x", "y", None, True, 1.5], rng.randrange(1, 5))}, {"const": rng.choice([0, 1, "x", "y", None])},
        {"type": "string", "maxLength": rng.randrange(4)},
        {"type": "string", "pattern": rng.choice(["^a", "b$", "^[ab]*$", "c", "\\s", "^[^\\s]*$", "^(?!.*\\s)", "\\d$"])},
        {"type": rng.choice(["boolean", "null", "string", "integer", "number"])}, {"type": ["integer", "null"], "multipleOf": rng.choice([2, 3])},
    ])


def of_object(depth):
    names = rng.sample(NAMES, rng.randrange(4))
    schema = {"type": "object"} if rng.random() < 0.8 else {}
    if names or rng.random() < 0.5:
        schema["properties"] = {name: any_schema(depth - 1) for name in names}
    if rng.random() < 0.6:
        known = NAMES if rng.random() < 0.3 or not names else names
        schema["required"] = rng.sample(known, rng.randrange(min(3, len(known)) + 1))
    others = rng.random()
    if others < 0.36:
        schema["additionalProperties"] = False if others < 0.25 else leaf() if others < 0.32 else True
    if others > 0.92:
        schema["unevaluatedProperties"] = leaf() if others > 0.97 else False
    if rng.random() < 0.1:
        schema["maxProperties"] = rng.randrange(1, 3)
    return schema


def of_array(depth):
    schema = {"type": "array"} if rng.random() < 0.8 else {}
    if rng.random() < 0.5:
        schema["prefixItems"] = [any_schema(depth - 1) for _ in range(rng.randrange(3))]
    if rng.random() < 0.6:
        schema["items"] = any_schema(depth - 1)
    elif "prefixItems" not in schema and rng.random() < 0.5:
        schema["contains"] = leaf()
        if rng.random() < 0.5:
            schema["minContains"] = rng.randrange(3)
    return schema | ({"maxItems": rng.randrange(4)} if rng.random() < 0.7 else {})


def any_schema(depth):
    kind = rng.random()
    if depth <= 0 or kind < 0.3:
        return leaf()
    if kind < 0.55:
        return of_object(depth)
    if kind < 0.62:
        return {"allOf": [of_array(depth), of_array(depth)]} if rng.random() < 0.3 else of_array(depth)
    if kind < 0.82:
        schema = {"oneOf": [any_schema(depth - 1) for _ in range(rng.randrange(1, 4))]}
        return schema | (of_object(depth - 1) if rng.random() < 0.3 else {})
    if kind < 0.93:
        if kind > 0.91:
            return of_object(depth) | {"$ref": "#/$defs/p"}
        return {"anyOf" if kind < 0.88 else "allOf": [any_schema(depth - 1) for _ in range(2)]}
    return {"not": leaf(), "type": rng.choice(["integer", "string"])} if kind < 0.96 else {"$ref": "#/$defs/" + rng.choice("pq")}


def main():
    tool = subprocess.Popen(sys.argv[1:3], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    found = collections.Counter()
    for seed in range(int(sys.argv[4])):
        schema = {"$defs": {"p": of_object(1), "q": any_schema(1)}, "oneOf": [any_schema(2) for _ in range(rng.randrange(2, 4))]}
        tool.stdin.write(json.dumps({"kind": "schema", "source": schema, "texts": [], "walks": 12, "seed": seed}) + "\n")
        tool.stdin.flush()
        reply = json.loads(tool.stdout.readline())
        if "error" in reply:
            found["refused"] += 1
            continue
        validator = jsonschema.Draft202012Validator(schema)
        found["compiled"] += 1
        found["walks"] += len(reply["walks"])
        for text in reply["walks"]:
            if not validator.is_valid(json.loads(text)):
                found["invalid"] += 1
                print("INVALID", text, "of", json.dumps(schema))
    print(dict(found))
    sys.exit(found["invalid"] > 0)


main()
