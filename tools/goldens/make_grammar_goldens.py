#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_grammar_goldens.py GRAMMAR_TOOL TOKENIZER OUT: goldens of grammars from the package jsonschema and Python's re.

Writes schemas with documents that must be accepted or rejected, and regular expressions with texts. Before that it lets
the program grammar_tool walk at random through each grammar and checks every text it comes back with: valid by
jsonschema, matched by re. Needs: pip install jsonschema.

The section "keywords" holds the cases of grammar_keyword_cases.py; with KEYWORDS as a fourth argument only that is made anew.
"""
import collections
import copy
import datetime
import decimal
import ipaddress
import json
import random
import re
import subprocess
import sys

import jsonschema

from golden_lines import golden_lines
from grammar_keyword_cases import CASES

rng = random.Random(20)
checker = jsonschema.FormatChecker(formats=["date", "uuid", "ipv4", "email"])


@checker.checks("date-time", raises=ValueError)
def is_date_time(text):
    return not isinstance(text, str) or ("T" in text and datetime.datetime.fromisoformat(text).tzinfo is not None)


@checker.checks("time", raises=ValueError)
def is_time(text):
    return not isinstance(text, str) or datetime.time.fromisoformat(text).tzinfo is not None


@checker.checks("ipv6", raises=ValueError)
def is_ipv6(text):
    return not isinstance(text, str) or bool(ipaddress.IPv6Address(text))


# Of formats that jsonschema itself leaves alone, rougher than what grammars write: RFC 1123, RFC 3986, ISO 8601.
ROUGH = {"hostname": r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*", "uri": r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]*",
         "duration": r"P(?=.)(\d+W|(\d+Y)?(\d+M)?(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+S)?)?)"}
for name, rough in ROUGH.items():
    checker.checks(name)(lambda text, rough=rough: not isinstance(text, str) or re.fullmatch(rough, text, re.ASCII) is not None)


def is_multiple(validator, step, instance, schema):
    """As decimals are meant: 0.3 is three times 0.1."""
    number = validator.is_type(instance, "number")
    if number and decimal.Decimal(repr(instance)) % decimal.Decimal(repr(step)) != 0:
        yield jsonschema.ValidationError(f"{instance} is no multiple of {step}")


Validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"multipleOf": is_multiple})


NAMES = ["name", "id", "größe", "a", "b", "ab", "tags", "x/y", "quote\"d", "value", "next", "naïve key", "日本"]
WORDS = ["", "a", "Zeppelin", "two words", "line\nbreak", "tab\t", "quo\"te", "back\\slash", "über", "日本語", "😀", "x" * 12]
PATTERNS = [
    (r"^[A-Z]{2,4}-\d{3}$", ["AB-123", "ABCD-000"]), (r"^(red|green|blue)$", ["red", "blue"]), (r"^\d+(\.\d+)?$", ["1", "22.5"]),
    (r"ab+c", ["abc", "xxabbbcyy"]), (r"^\w+@\w+$", ["a@b"]), (r"^[^\"\\]*$", ["", "plain"]), (r"^a|b$", ["axx", "xxb"]),
    (r"^[α-ω]{1,3}$", ["αβ"]), (r"\\d$", ["x\\d"]),
]
FORMATS = {
    "date": ["2024-02-29", "1999-12-31"], "time": ["12:30:00Z", "23:59:59.5+02:00"], "ipv4": ["10.0.255.1"],
    "date-time": ["2024-02-29T12:30:00Z"], "uuid": ["123e4567-e89b-12d3-a456-426614174000"], "email": ["jo.doe@example.org"],
}


def string_schema():
    kind = rng.randrange(6)
    if kind == 0:
        pattern, examples = rng.choice(PATTERNS)
        return {"type": "string", "pattern": pattern}, lambda d: rng.choice(examples)
    if kind == 1:
        name, examples = rng.choice(list(FORMATS.items()))
        return {"type": "string", "format": name}, lambda d: rng.choice(examples)
    if kind == 2:
        low, high = sorted(rng.sample(range(0, 12), 2))
        schema = {"type": "string", "minLength": low, "maxLength": high}
        return schema, lambda d: "".join(rng.choice("aé😀\n\"") for _ in range(rng.randint(low, high)))
    return {"type": "string"}, lambda d: rng.choice(WORDS)


def number_schema():
    kind = rng.randrange(6)
    if kind == 0:
        low, high = sorted((rng.randint(-2000, 2000), rng.randint(-2000, 2000)))
        return {"type": "integer", "minimum": low, "maximum": high}, lambda d: rng.randint(low, high)
    if kind == 1:
        low = rng.choice([-101, -1, 0, 7, 99, 1000])
        return {"type": "integer", "exclusiveMinimum": low}, lambda d: low + rng.choice([1, 2, 10, 12345])
    if kind == 2:
        low, high = sorted((rng.randint(-20, 20), rng.randint(21, 40)))
        schema = {"type": "number", "minimum": low, "exclusiveMaximum": high}
        return schema, lambda d: rng.choice([low, low + 0.5, high - 1, high - 0.25])
    if kind == 3:
        high = rng.choice([-7, 0, 1, 15])
        return {"type": "number", "maximum": high}, lambda d: rng.choice([high, high - 0.5, high - 100, -1000.125 + high])
    if kind == 4:
        return {"type": "integer"}, lambda d: rng.choice([0, -1, 7, 123456789012])
    return {"type": "number"}, lambda d: rng.choice([0, -1.5, 2.25e5, 10**15, 0.125])


def enum_schema():
    values = rng.sample(["x", "yes \"no\"", 1, 2.5, -3, None, True, False, [1, "a"], {"k": "v"}, "ü"], 3)
    if rng.random() < 0.3:
        return {"const": values[0]}, lambda d: values[0]
    return {"enum": values}, lambda d: rng.choice(values)


def array_schema(depth):
    kind = rng.randrange(3)
    if kind == 0:
        parts = [any_schema(depth + 1) for _ in range(rng.randint(1, 3))]
        schema = {"type": "array", "prefixItems": [p[0] for p in parts], "items": False, "minItems": rng.randint(0, len(parts))}
        least = schema["minItems"]
        return schema, lambda d: [p[1](d + 1) for p in parts[: rng.randint(least, len(parts))]]
    item, make = any_schema(depth + 1)
    schema = {"type": "array", "items": item}
    low, high = 0, 3
    if kind == 1:
        low, high = sorted(rng.sample(range(0, 6), 2))
        schema.update(minItems=low, maxItems=high)
    return schema, lambda d: [make(d + 1) for _ in range(rng.randint(low, high))]


def object_schema(depth):
    names = rng.sample(NAMES, rng.randint(0, 5))
    parts = {name: any_schema(depth + 1) for name in names}
    required = [name for name in names if rng.random() < 0.5]
    schema = {"type": "object", "properties": {n: p[0] for n, p in parts.items()}}
    if required:
        schema["required"] = rng.sample(required, len(required))
    extra = rng.randrange(3)
    more = any_schema(depth + 1)
    if extra == 0 or not names:
        schema["additionalProperties"] = False
    elif extra == 1:
        schema["additionalProperties"] = more[0]

    def make(d):
        value = {n: p[1](d + 1) for n, p in parts.items() if n in required or rng.random() < 0.6}
        if schema.get("additionalProperties", False) is not False and rng.random() < 0.6:
            for name in rng.sample(["extra", "na", "names", "", "größ", "日", "li\nne"], rng.randint(1, 2)):
                value[name] = more[1](d + 1)
        return value

    return schema, make


def choice_schema(depth):
    kind = rng.randrange(4)
    if kind == 0:
        parts = [any_schema(depth + 1) for _ in range(rng.randint(2, 3))]
        return {"anyOf": [p[0] for p in parts]}, lambda d: rng.choice(parts)[1](d + 1)
    if kind == 1:
        text, number = string_schema(), number_schema()
        return {"oneOf": [text[0], number[0], {"type": "null"}]}, lambda d: rng.choice([text[1], number[1], lambda d: None])(d)
    if kind == 2:
        types = rng.sample(["string", "null", "boolean", "integer"], 2)
        makers = {"string": lambda: rng.choice(WORDS), "null": lambda: None, "boolean": lambda: True, "integer": lambda: -12}
        return {"type": types}, lambda d: makers[rng.choice(types)]()
    low = rng.randint(-5, 5)
    schema = {"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                        {"properties": {"a": {"minimum": low}, "b": {"enum": ["u", "v"]}}}]}
    return schema, lambda d: {"a": low + rng.randint(0, 50), **({"b": "u"} if rng.random() < 0.5 else {})}


def any_schema(depth):
    makers = [string_schema, number_schema, enum_schema, lambda: ({"type": "boolean"}, lambda d: rng.random() < 0.5)]
    if depth < 4:
        makers += [lambda: array_schema(depth), lambda: object_schema(depth), lambda: object_schema(depth), lambda: choice_schema(depth)]
    return rng.choice(makers)()


def recursive_schemas():
    tree = {"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {
        "value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        "required": ["value"], "additionalProperties": False}}}

    def make_tree(d):
        return {"value": d, **({"children": [make_tree(d + 1) for _ in range(rng.randint(0, 2))]} if d < 4 else {})}

    linked = {"type": "object", "title": "List", "properties": {"a": {"type": "string"}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
              "required": ["a", "next"], "additionalProperties": False}

    def make_list(d):
        return {"a": "x", "next": make_list(d + 1) if d < 4 and rng.random() < 0.7 else None}

    wrapped = {"definitions": {"p/q": {"type": "integer", "minimum": 3}}, "type": "object", "properties": {
        "a": {"allOf": [{"$ref": "#/definitions/p~1q"}], "description": "d"}, "b": {"$ref": "#/definitions/p~1q", "maximum": 9},
        "self": {"allOf": [{"$ref": "#"}]}}, "required": ["a"], "additionalProperties": False}

    def make_wrapped(d):
        return {"a": rng.randint(3, 99), "b": rng.randint(3, 9), **({"self": make_wrapped(d + 1)} if d < 3 else {})}

    filtered = {"type": ["string", "integer"], "enum": ["a", "bcd", 5, 50, None], "minLength": 2, "maximum": 10}
    return [(tree, make_tree), (linked, make_list), (wrapped, make_wrapped), (filtered, lambda d: rng.choice(["bcd", 5]))]


def mutated(value):
    value = copy.deepcopy(value)
    at, kind = value, rng.randrange(4)
    for _ in range(rng.randrange(3)):
        if isinstance(at, dict) and at:
            inner = at[rng.choice(list(at))]
        elif isinstance(at, list) and at:
            inner = rng.choice(at)
        else:
            break
        if not isinstance(inner, (dict, list)):
            break
        at = inner
    wrong = rng.choice([None, "?", 0.5, 10**7, -10**7, [], {}, [[]], True, "x" * 40])
    if isinstance(at, dict) and at:
        name = rng.choice(list(at))
        if kind == 0:
            del at[name]
        elif kind == 1:
            at["unknown"] = wrong
        else:
            at[name] = wrong
        return value
    if isinstance(at, list) and at:
        if kind == 0:
            at.pop()
        elif kind == 1:
            at.extend([wrong] * 4)
        else:
            at[rng.randrange(len(at))] = wrong
        return value
    return wrong


def written(value):
    style = rng.choice([{"separators": (",", ":")}, {}, {"indent": 2}])
    return json.dumps(value, ensure_ascii=False, **style)


REGEXES = [
    r"abc", r"a|bc|", r"(ab)*", r"(?:ab|cd)+e?", r"[a-c]{2,4}", r"[^a-c]{1,2}", r"a{3}", r"a{2,}", r"a?b?c?", r"(a|ab)(c|bcd)", r"(a*)*b",
    r"(a|aa)+", r"\d{3}-\d{4}", r"\w+\s\w+", r"[\w.]+@[a-z]+\.(com|org)", r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", r"\$\d+\.\d{2}",
    r"[é-ü]+", r"日本?", r"[\u0041-\u0043]+", r"\x41\t\n", r"(a(b(c)?)?)?", r"((a|b)c){2}", r"[-a]+", r"[a\-z]+", r"[\]\[]+", r"\.\*\+\?\(\)",
    r".", r".{3}", r"x.*y", r"[^\n]*", r"(x+x+)+y", r"(0?[1-9]|1[0-2]):[0-5]\d ?(am|pm)", r"#[0-9a-fA-F]{6}", r"(?P<year>\d{4})", r"^ab$",
    r"a+?b*?", r"[😀-😎]", r"\D\W", r"[\s\d]+", r"(a|b)*a(a|b){6}", r"[A-Z][a-z]*( [A-Z][a-z]*)*", r"/\*a*\*/", r"~[^~]*~", r"\{a\}",
    r"(?:[01]?\d|2[0-3])", r"ß|ẞ", r"(|a)b", r"a(?:)b", r"[\x00-\x1f]", r"\u00e9",
]


class Tool:
    def __init__(self, program, tokenizer):
        self.process = subprocess.Popen([program, tokenizer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **task):
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def schema_golden(tool, schema, make, problems):
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema, format_checker=checker)
    valid = [make(0) for _ in range(12)]
    bad = [v for v in (mutated(value) for value in valid * 2) if not validator.is_valid(v)]
    for value in valid:
        validator.validate(value)
    accepted = sorted({written(value) for value in valid if len(written(value)) < 400})[:6]
    rejected = sorted({written(value) for value in bad if len(written(value)) < 400})[:6]
    reply = tool.ask(kind="schema", source=schema, texts=accepted + rejected, walks=12, seed=rng.randrange(1 << 30))
    if "error" in reply:
        problems.append((schema, reply["error"]))
        return None, 0
    if reply["accepted"] != [True] * len(accepted) + [False] * len(rejected):
        problems.append((schema, list(zip(accepted + rejected, reply["accepted"]))))
    for text in reply["walks"]:
        value = json.loads(text)
        if not validator.is_valid(value):
            problems.append((schema, "walk", text))
    return {"schema": schema, "accepted": accepted, "rejected": rejected}, len(reply["walks"])


def regex_golden(tool, pattern, problems):
    compiled = re.compile(pattern, re.ASCII)
    walks = tool.ask(kind="regex", source=pattern, walks=30, seed=1)
    if "error" in walks:
        problems.append((pattern, walks["error"]))
        return None
    texts = {"", "a", "ab", "abc", "b", "aab", "x y", "12", "é", "日本", "\n", "😀"}
    for text in walks["walks"]:
        if len(text) > 60:
            continue
        if not compiled.fullmatch(text):
            problems.append((pattern, "walk", text))
        at = rng.randrange(len(text) + 1)
        texts |= {text, text[:at] + text[at + 1:], text[:at] + rng.choice("abcxyz019 .-é") + text[at:], text[:at]}
    texts = [t for t in sorted(texts) if not set(t) & set("\r\u2028\u2029")]
    rng.shuffle(texts)
    golden = {"pattern": pattern, "matched": [], "unmatched": []}
    for text in texts[:40]:
        golden["matched" if compiled.fullmatch(text) else "unmatched"].append(text)
    reply = tool.ask(kind="regex", source=pattern, texts=golden["matched"] + golden["unmatched"])
    expected = [True] * len(golden["matched"]) + [False] * len(golden["unmatched"])
    if reply["accepted"] != expected:
        problems.append((pattern, [t for t, e, f in zip(golden["matched"] + golden["unmatched"], expected, reply["accepted"]) if e != f]))
    return golden


def keyword_golden(tool, schema, documents, problems):
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = Validator(schema, format_checker=checker)
    golden = {"schema": schema, "accepted": [], "rejected": []}
    for document in documents:
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        answers = golden["accepted" if validator.is_valid(document) else "rejected"]
        if text not in answers:
            answers.append(text)
    texts = golden["accepted"] + golden["rejected"]
    reply = tool.ask(kind="schema", source=schema, texts=texts, walks=40, seed=rng.randrange(1 << 30))
    if "error" in reply:
        problems.append((schema, reply["error"]))
        return golden, 0
    wrong = [text for text, found in zip(texts, reply["accepted"]) if found != (text in golden["accepted"])]
    wrong += [text for text in reply["walks"] if not validator.is_valid(json.loads(text))]
    if wrong:
        problems.append((schema, wrong))
    return golden, len(reply["walks"])


def keyword_goldens(tool):
    problems, goldens, walks = [], [], 0
    for schema, documents in CASES:
        golden, walked = keyword_golden(tool, schema, documents, problems)
        goldens.append(golden)
        walks += walked
    for problem in problems:
        print("PROBLEM", problem)
    both = sum(1 for golden in goldens if golden["accepted"] and golden["rejected"])
    print(f"{len(goldens)} schemas of keywords, {both} with answers of both kinds, {walks} walks, {len(problems)} problems")
    return goldens


def words_of(schema):
    """The keywords of a schema, with the value of those that say a type, a format or a pattern."""
    if isinstance(schema, list):
        return set().union(*map(words_of, schema))
    words = set()
    for word, value in schema.items() if isinstance(schema, dict) else ():
        named = word in ("properties", "$defs", "definitions")
        words.add(f"{word}:{value}" if word in ("type", "format", "pattern") else word)
        if word not in ("enum", "const"):
            words |= words_of(list(value.values()) if named else value)
    return words


def thinned(schemas, left_out=48):
    """Without the largest schemas whose keywords, types, formats and patterns others have too: they take most of the bytes."""
    words = {id(golden): words_of(golden["schema"]) for golden in schemas}
    counts = collections.Counter(word for of_one in words.values() for word in of_one)
    out = set()
    for golden in sorted(schemas, key=lambda golden: -len(golden_lines(golden).encode())):
        if len(out) < left_out and all(counts[word] > 1 for word in words[id(golden)]):
            counts.subtract(words[id(golden)])
            out.add(id(golden))
    return [golden for golden in schemas if id(golden) not in out]


def main():
    tool = Tool(sys.argv[1], sys.argv[2])
    if sys.argv[4:] == ["KEYWORDS"]:
        with open(sys.argv[3], encoding="utf-8") as kept:
            goldens = json.load(kept)
        goldens["keywords"] = keyword_goldens(tool)
        with open(sys.argv[3], "w", encoding="utf-8") as out:
            out.write(golden_lines(goldens))
        return
    problems, schemas, walks = [], [], 0
    for schema, make in recursive_schemas() + [any_schema(rng.choice([0, 1, 2, 4])) for _ in range(330)]:
        golden, walked = schema_golden(tool, schema, make, problems)
        walks += walked
        if golden and golden["schema"] not in [other["schema"] for other in schemas]:
            schemas.append(golden)
    schemas = thinned(schemas)
    regexes = [regex_golden(tool, pattern, problems) for pattern in REGEXES]
    for problem in problems[:20]:
        print("PROBLEM", problem)
    print(f"{len(schemas)} schemas, {walks} walks valid, {len(regexes)} patterns, {len(problems)} problems")
    with open(sys.argv[3], "w", encoding="utf-8") as out:
        goldens = {"schemas": schemas, "regexes": [golden for golden in regexes if golden]}
        out.write(golden_lines({**goldens, "keywords": keyword_goldens(tool)}))


main()
