# SPDX-License-Identifier: Apache-2.0
"""Random JSON schemas of the kinds that people send, each a function of its number."""

import random

WORDS = ["name", "age", "tags", "id", "kind", "unit", "na\u00efve", "x y", "size", "note", "\u6d77", "a\"b", "z"]


class Maker:
    def __init__(self, number):
        self.random = random.Random(number)
        self.defs = {}

    def one(self, depth):
        r = self.random
        leaves = [self.string, self.pattern, self.format, self.integer, self.number, self.enum, self.const, self.boolean,
                  self.null, self.types]
        inner = [self.object, self.object, self.array, self.tuple, self.any_of, self.all_of, self.ref, self.nullable]
        return r.choice(leaves if depth <= 0 else leaves + inner + inner)(depth - 1)

    def string(self, _):
        low = self.random.randint(0, 4)
        return {"type": "string", "minLength": low, "maxLength": low + self.random.randint(0, 8)}

    def pattern(self, _):
        return {"type": "string", "pattern": self.random.choice(
            ["^[a-z]{2,5}$", "^\\d{3}-\\d{2}$", "^(red|green|blue)$", "^[A-Z][a-z]{1,6}( [A-Z])?$", "^x{0,3}y$", "^\\w{1,3}\\.$",
             "^[^\"\\\\]{3}$", "^#[0-9a-f]{6}$"])}

    def format(self, _):
        return {"type": "string", "format": self.random.choice(["date", "uuid", "time", "email", "ipv4"])}

    def integer(self, _):
        r = self.random
        low = r.choice([-1000, -7, 0, 1, 95])
        high = low + r.choice([0, 3, 10, 900])
        return {"type": "integer", **r.choice([{"minimum": low}, {"maximum": high}, {"minimum": low, "maximum": high},
                                               {"exclusiveMinimum": low, "exclusiveMaximum": high + 2}, {}])}

    def number(self, _):
        return {"type": "number", **self.random.choice([{}, {"minimum": 0, "maximum": 1}, {"minimum": -2}, {"maximum": 10}])}

    def enum(self, _):
        return {"enum": self.random.sample(["a", "b\n", "\u20ac", 1, 2.5, -3, True, None, [1, "x"], {"k": [None]}], 3)}

    def const(self, _):
        return {"const": self.random.choice(["fixed", 42, None, False, [], {"a": {"b": []}}, "\u0007\"\\"])}

    def boolean(self, _):
        return {"type": "boolean"}

    def null(self, _):
        return {"type": "null"}

    def types(self, _):
        return {"type": self.random.sample(["integer", "boolean", "null"], 2)}

    def object(self, depth):
        r = self.random
        names = r.sample(WORDS, r.randint(1, 4))
        schema = {"type": "object", "properties": {name: self.one(depth) for name in names},
                  "required": r.sample(names, r.randint(0, len(names))), "additionalProperties": False}
        if r.random() < 0.15:
            schema["additionalProperties"] = {"type": "integer", "minimum": 0, "maximum": 9}
        if r.random() < 0.5:
            schema["description"] = "Something."
        return schema

    def array(self, depth):
        low = self.random.randint(0, 2)
        return {"type": "array", "items": self.one(depth), "minItems": low, "maxItems": low + self.random.randint(0, 2)}

    def tuple(self, depth):
        items = [self.one(depth) for _ in range(self.random.randint(1, 3))]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}

    def any_of(self, depth):
        return {"anyOf": [self.one(depth), self.one(depth)]}

    def all_of(self, _):
        low = self.random.randint(0, 50)
        return {"allOf": [{"type": "integer"}, {"minimum": low}, {"maximum": low + 20}]}

    def nullable(self, depth):
        return {"anyOf": [self.one(depth), {"type": "null"}]}

    def ref(self, depth):
        name = f"d{len(self.defs)}"
        self.defs[name] = {}
        self.defs[name] = self.one(depth)
        return {"$ref": f"#/$defs/{name}"}


def schema(number):
    maker = Maker(number)
    out = maker.object(2)
    if number % 5 == 0:  # a list that goes on, bounded by the model's good will only
        maker.defs["node"] = {"type": "object", "properties": {"v": {"type": "boolean"}, "next": {"anyOf": [
            {"type": "null"}, {"$ref": "#/$defs/node"}]}}, "required": ["v", "next"], "additionalProperties": False}
        out["properties"]["list"] = {"$ref": "#/$defs/node"}
    if maker.defs:
        out["$defs"] = maker.defs
    return out
