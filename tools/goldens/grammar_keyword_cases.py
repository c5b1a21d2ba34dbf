# SPDX-License-Identifier: Apache-2.0
"""Schemas of the less common keywords with documents to check, for make_grammar_goldens.py.

The documents are such that a grammar may accept all that are valid: members in the schema's order, no unlisted members
where `properties` stands without `additionalProperties`, numbers of few digits.
"""

NUMBERS = [-10, -7.5, -1, -0.35, -0.1, 0, 0.05, 0.1, 0.3, 0.30, 0.35, 0.5, 0.99, 1, 1.5, 2, 3, 4.25, 5, 6, 7, 9.99, 10, 12, 12.6, 99.95, 100, 105, 1000]
TEXTS = ["", "a", "b", "ab", "Ab1", "abc", "abcd", "Secret99", "secret99", "SECRETS1", "Short1", "a..b@example.org", "jo.doe@example.org",
         ".jo@example.org", "x" * 20, "über", "日本語", "line\nbreak", "2024-05-06", "a-1", "x-tag", "x-y"]
NAMES_A = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "boolean"}}}
MEMBERS = [{}, {"a": 1}, {"b": "x"}, {"c": True}, {"a": 1, "b": "x"}, {"a": 1, "c": False}, {"b": "x", "c": True}, {"a": 1, "b": "x", "c": True}]
DICTS = [{}, {"a": 1}, {"a": "x"}, {"k1": 1}, {"k1": "x"}, {"k1": 1, "k2": 2}, {"k1": 1, "x-a": "t"}, {"x-a": "t"}, {"x-a": 3}, {"K": 1}, {"n_1": 2},
         {"k1": 1, "k2": 2, "k3": 3}, {"x-k": 4, "id": 7}, {"id": 7}, {"": 1}, {"über": 1}]
LISTS = [[], ["a"], ["b"], ["a", "b"], ["b", "a"], ["a", "a"], ["a", "b", "c"], ["c", "a", "b"], ["a", "b", "a"], [1], [1, 2], [1, 5], [5, 5, 5], [5, 1, 5],
         [True], [True, False], [False, True], [True, True], [1, 2, 3, 4], [None], ["a", 1], [5], [{"k": 1}], [{"k": 1}, {"k": 2}], [{"k": 2}]]
PEOPLE = [{"kind": "cat", "lives": 9}, {"kind": "dog", "lives": 9}, {"kind": "dog"}, {"kind": "cat"}, {"lives": 3}, {"kind": "dog", "breed": "pug"},
          {"kind": "cat", "breed": "pug"}, {"kind": "fish"}, {"kind": "fish", "breed": "koi"}, {}]
PET = {"type": "object", "properties": {"kind": {"enum": ["cat", "dog", "fish"]}, "lives": {"type": "integer"}, "breed": {"type": "string"}}}
MIXED = [None, True, False, 0, 1, 2, -3.5, "a", "b", "", [], [1], {}, {"a": 1}]

CASES = [
    # multipleOf
    ({"type": "integer", "multipleOf": 5}, NUMBERS), ({"type": "integer", "multipleOf": 7, "minimum": -14, "maximum": 700}, NUMBERS),
    ({"type": "integer", "multipleOf": 0.5}, NUMBERS), ({"type": "integer", "multipleOf": 100}, NUMBERS + [0, 200, 12300, 50]),
    ({"type": "number", "multipleOf": 0.05, "minimum": 0, "maximum": 10}, NUMBERS), ({"type": "number", "multipleOf": 0.01}, NUMBERS),
    ({"type": "integer", "multipleOf": 1000}, NUMBERS + [2000, 1500, 1000000]), ({"type": "number", "multipleOf": 2.5}, NUMBERS), ({"type": "number", "multipleOf": 3, "exclusiveMinimum": 3}, NUMBERS),
    ({"allOf": [{"type": "integer", "multipleOf": 4}, {"multipleOf": 6}], "maximum": 50}, NUMBERS + [24, 36, 48, 60, 8, 18]),
    # bounds with a fraction
    ({"type": "number", "minimum": 0.1, "maximum": 0.5}, NUMBERS), ({"type": "number", "exclusiveMinimum": 0.1, "exclusiveMaximum": 9.99}, NUMBERS),
    ({"type": "number", "minimum": -0.35, "maximum": 0.35}, NUMBERS), ({"type": "number", "minimum": -7.5, "exclusiveMaximum": -0.1}, NUMBERS),
    ({"type": "number", "maximum": 99.95}, NUMBERS), ({"type": "number", "exclusiveMinimum": 4.25}, NUMBERS),
    ({"type": "number", "minimum": 0.0000001, "maximum": 12.6000005}, NUMBERS), ({"type": "integer", "minimum": 0.5, "maximum": 9.99}, NUMBERS),
    # strings with several rules
    ({"type": "string", "pattern": "^[a-z]*$", "minLength": 1, "maxLength": 3}, TEXTS), ({"type": "string", "pattern": "b", "maxLength": 2}, TEXTS),
    ({"allOf": [{"type": "string", "pattern": "a"}, {"pattern": "b"}]}, TEXTS), ({"type": "string", "pattern": "^(?=.*[A-Z])(?=.*\\d).{8,}$"}, TEXTS),
    ({"type": "string", "format": "email", "pattern": "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$"}, TEXTS),
    ({"type": "string", "format": "date", "maxLength": 10}, TEXTS), ({"type": "string", "pattern": "^(?!a|x)", "minLength": 1}, TEXTS),
    ({"type": "string", "not": {"pattern": "^[a-z]"}}, TEXTS), ({"type": "string", "not": {"enum": ["a", "ab", "", "über"]}}, TEXTS),
    ({"type": "string", "pattern": "^.{2,3}$", "not": {"const": "ab"}}, TEXTS), ({"type": "string", "not": {"maxLength": 3}}, TEXTS),
    ({"type": "string", "pattern": "^[^@]{1,64}@[^@]{1,255}$", "maxLength": 254}, ["a@b", "@b", "é@日本", "a" * 65 + "@b", "a@" + "b" * 254]),
    ({"type": "string", "minLength": 2, "maxLength": 4000, "pattern": "^[\\s\\S]*$"}, TEXTS), ({"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083}, ["https://a.b/c", ""]),
    # counts of properties
    ({**NAMES_A, "minProperties": 1}, MEMBERS), ({**NAMES_A, "minProperties": 2}, MEMBERS), ({**NAMES_A, "maxProperties": 1}, MEMBERS),
    ({**NAMES_A, "minProperties": 1, "maxProperties": 2, "required": ["b"]}, MEMBERS), ({**NAMES_A, "maxProperties": 0}, MEMBERS),
    ({**NAMES_A, "required": ["c"], "maxProperties": 1}, MEMBERS), ({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1}, DICTS),
    ({"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2}, DICTS),
    ({"type": "object", "properties": {"a": True}, "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 2}, DICTS),
    # names
    ({"type": "object", "patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False}, DICTS),
    ({"type": "object", "patternProperties": {"^x-": {"type": "string"}, "k": {"type": ["string", "integer"], "minimum": 2}}, "additionalProperties": {"type": ["string", "integer"]}}, DICTS),
    ({"type": "object", "properties": {"id": {"type": "integer"}, "x-k": {"maximum": 5}}, "patternProperties": {"^x-": {"type": ["string", "integer"]}, "d$": {"minimum": 7}},
      "additionalProperties": False}, [{"id": 7}, {"id": 6}, {"x-k": 4}, {"x-k": 6}, {"x-k": "a"}, {"id": 8, "x-k": 1, "x-z": "t"}, {"other": 1}, {}]),
    ({"type": "object", "propertyNames": {"pattern": "^[a-z][a-z0-9_]*$"}, "additionalProperties": {"type": "integer"}}, DICTS),
    ({"type": "object", "propertyNames": {"enum": ["k1", "k2"]}, "additionalProperties": {"type": "integer"}}, DICTS),
    ({"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {"type": "integer"}}, DICTS),
    ({"type": "object", "propertyNames": {"minLength": 2, "maxLength": 2}, "additionalProperties": {"type": "integer"}, "minProperties": 1}, DICTS),
    ({"type": "object", "required": ["x-a"], "patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False}, DICTS),
    # arrays
    ({"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True}, LISTS), ({"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "minItems": 1}, LISTS),
    ({"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True, "minItems": 2, "maxItems": 2}, LISTS),
    ({"type": "array", "items": {"anyOf": [{"const": 1}, {"enum": [1.0, "a"]}, {"type": "null"}]}, "uniqueItems": True}, LISTS),
    ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "maxItems": 1}, LISTS), ({"type": "array", "items": {"type": "integer"}, "contains": {"const": 5}}, LISTS),
    ({"type": "array", "items": {"type": "integer"}, "contains": {"const": 5}, "minContains": 2, "maxItems": 3}, LISTS),
    ({"type": "array", "items": {"type": "integer"}, "contains": {"const": 5}, "maxContains": 1}, LISTS),
    ({"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 4}, "minContains": 0, "maxContains": 1, "minItems": 1}, LISTS),
    ({"type": "array", "contains": {"type": "object", "properties": {"k": {"const": 1}}, "required": ["k"]}}, LISTS), ({"type": "array", "not": {"contains": {"const": "a"}}}, LISTS),
    ({"type": "array", "not": {"items": {"type": "integer"}}}, LISTS),
    # not
    ({"not": {"const": 1}, "type": "integer"}, MIXED), ({"not": {"enum": [1, "a", None, True, []]}}, MIXED), ({"not": {"type": "string"}}, MIXED),
    ({"not": {"type": ["string", "integer", "object"]}}, MIXED), ({"not": {"type": "number"}}, MIXED), ({"type": "number", "not": {"type": "integer"}}, NUMBERS),
    ({"type": "number", "not": {"enum": [0, 0.5, 100]}}, NUMBERS), ({"type": "integer", "not": {"multipleOf": 2}}, NUMBERS),
    ({"type": "number", "not": {"minimum": 0.5}}, NUMBERS), ({"type": "integer", "not": {"anyOf": [{"const": 2}, {"minimum": 6}]}}, NUMBERS),
    ({"type": "integer", "not": {"minimum": 2, "maximum": 6}}, NUMBERS), ({"type": "integer", "not": {"not": {"enum": [2, 3]}}}, NUMBERS),
    ({**NAMES_A, "not": {"required": ["a", "b"]}}, MEMBERS), ({**NAMES_A, "not": {"properties": {"a": {"const": 1}}, "required": ["a"]}}, MEMBERS + [{"a": 2}]),
    ({"type": ["object", "array"], "not": {"enum": [{}, []]}}, MIXED), ({"enum": [1, 2, "a", "b"], "not": {"enum": [2.0, "b"]}}, MIXED),
    ({"$defs": {"bad": {"enum": ["a", "b"]}}, "type": "string", "not": {"$ref": "#/$defs/bad"}}, TEXTS),
    # conditions
    ({**PET, "if": {"properties": {"kind": {"const": "cat"}}, "required": ["kind"]}, "then": {"required": ["lives"]}, "else": {"properties": {"lives": False}}}, PEOPLE),
    ({**PET, "if": {"properties": {"kind": {"const": "cat"}}}, "then": {"required": ["lives"]}}, PEOPLE),
    ({**PET, "if": {"properties": {"kind": {"enum": ["cat", "fish"]}}, "required": ["kind"]}, "else": {"required": ["breed"]}}, PEOPLE),
    ({**PET, "required": ["kind"], "allOf": [{"if": {"properties": {"kind": {"const": kind}}}, "then": then} for kind, then in
      [("cat", {"required": ["lives"]}), ("dog", {"required": ["breed"]}), ("fish", {"maxProperties": 1})]]}, PEOPLE),
    ({**NAMES_A, "dependentRequired": {"a": ["b"]}}, MEMBERS), ({**NAMES_A, "dependentSchemas": {"c": {"properties": {"a": {"minimum": 2}}, "required": ["a"]}}}, MEMBERS + [{"a": 2, "c": True}]),
    ({"type": "object", "properties": {"n": {"type": "integer", "if": {"minimum": 10}, "then": {"multipleOf": 5}}}, "required": ["n"]},
     [{"n": n} for n in (3, 9, 10, 11, 15, 20, 21)]),
    # what other keywords did wrong together
    ({"allOf": [{"type": "object", "additionalProperties": {"type": "integer"}}, {"properties": {"a": {"type": ["string", "integer"]}}}]}, DICTS),
    ({"anyOf": [{"minimum": 2}, {"maximum": -2}], "oneOf": [{"type": "integer", "minimum": 1}, {"type": "number", "maximum": 0}], "allOf": [{"anyOf": [{"multipleOf": 3}, {"const": -7.5}]}]}, NUMBERS),
    ({"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}], "default": None, "title": "N", "$defs": {"n": {"type": "number", "multipleOf": 0.5}}}, NUMBERS + [None]),
    # oneOf: alternatives that contradict each other, and such as overlap
    ({"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}, MIXED), ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, NUMBERS),
    ({"oneOf": [{"type": "integer", "maximum": 5}, {"type": "number", "minimum": 3}]}, NUMBERS), ({"oneOf": [{"type": "number", "multipleOf": 3}, {"type": "number", "multipleOf": 5}], "minimum": 0, "maximum": 30}, NUMBERS + [15, 30, 9]),
    ({"oneOf": [{"enum": ["a", "b", 1]}, {"enum": ["b", "ab", 1.0, None]}]}, MIXED + TEXTS), ({"oneOf": [{"const": 1}, {"const": 2}, {"type": "boolean"}]}, MIXED),
    ({"type": "string", "oneOf": [{"maxLength": 3}, {"pattern": "^a"}]}, TEXTS), ({"oneOf": [{"type": "string", "pattern": "^[0-9]{4}-"}, {"type": "string", "format": "email"}]}, [text for text in TEXTS if "." not in text[:2]]),
    ({"oneOf": [{"type": "string", "minLength": 2}, {"type": "string", "maxLength": 2}]}, TEXTS),
    ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "boolean"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, MEMBERS),
    ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "boolean"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}, {"required": ["c"]}]}, MEMBERS),
    ({"oneOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}]}, MEMBERS[:3] + MEMBERS[4:5]),
    ({"oneOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}, {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"], "additionalProperties": False}]}, MEMBERS),
    ({"oneOf": [{"type": "object", "properties": {"a": {"type": "integer"}, "c": {"type": "boolean"}}, "required": ["a"]}, {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a", "b"]}]}, MEMBERS),
    ({"oneOf": [{"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}}, "required": ["kind"]},
                {"type": "object", "properties": {"kind": {"enum": ["dog", "fish"]}, "breed": {"type": "string"}}, "required": ["kind"]}]}, [PEOPLE[i] for i in (0, 2, 3, 4, 5, 7, 8, 9)]),
    ({**PET, "required": ["kind"], "oneOf": [{"properties": {"kind": {"const": "cat"}}, "required": ["lives"]}, {"properties": {"kind": {"const": "dog"}}, "required": ["breed"]}, {"properties": {"kind": {"const": "fish"}}}]}, PEOPLE),
    ({**PET, "oneOf": [{"properties": {"kind": {"const": "cat"}}}, {"required": ["breed"]}]}, PEOPLE),
    ({"$defs": {"cat": {"type": "object", "properties": {"kind": {"const": "cat"}}, "required": ["kind"]}, "dog": {"type": "object", "properties": {"kind": {"const": "dog"}, "breed": {"type": "string"}}, "required": ["kind"]}},
      "oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}], "discriminator": {"propertyName": "kind"}}, [PEOPLE[i] for i in (2, 3, 4, 5, 7, 9)]),
    ({"type": "array", "items": {"oneOf": [{"type": "integer", "maximum": 2}, {"type": "integer", "minimum": 2}, {"type": "string"}]}}, LISTS),
    ({"oneOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "array", "maxItems": 1, "items": {"type": ["string", "integer"]}}]}, LISTS),
    ({"oneOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": ["integer", "boolean"]}]}, MIXED),
    ({"oneOf": [{"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 5}]}, {"type": "number", "maximum": 0}]}, NUMBERS),
    ({"anyOf": [{"type": "number"}, {"type": "string"}], "oneOf": [{"minimum": 3}, {"maximum": 5}], "allOf": [{"oneOf": [{"type": "integer"}, {"const": 0.5}]}]}, NUMBERS),
    ({"allOf": [{"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"oneOf": [{"required": ["b"]}, {"required": ["c"]}]}], **NAMES_A}, MEMBERS),
    ({"$defs": {"tree": {"oneOf": [{"type": "integer"}, {"type": "object", "properties": {"r": {"$ref": "#/$defs/tree"}, "l": {"$ref": "#/$defs/tree"}}, "required": ["l", "r"]},
      {"type": "object", "properties": {"m": {"$ref": "#/$defs/tree"}, "l": {"$ref": "#/$defs/tree"}}, "required": ["l", "m"]}]}}, "$ref": "#/$defs/tree"},
     [1, {"r": 1, "l": 2}, {"r": {"m": 1, "l": 2}, "l": 3}, {"l": 1}, {"m": 1, "l": {"r": 0, "l": 0}}, {"m": "x", "l": 1}, {"r": 1, "m": 1, "l": 1}]),
    ({"oneOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}, {"$ref": "#/$defs/b"}],
      "$defs": {"b": {"type": "object", "properties": {"b": {"type": "string"}, "c": {"type": "boolean"}}, "additionalProperties": False}}}, MEMBERS),
    # grammars write fewer texts of a format than there are
    ({"oneOf": [{"type": "string", "format": "uuid"}, {"type": "string", "pattern": "^[A-F][0-9A-F-]{35}$"}]},
     ["ABCDEF01-ABCD-ABCD-ABCD-ABCDABCDABCD", "abcdef01-abcd-4bcd-abcd-abcdabcdabcd", "A" + "-" * 35, "x"]),
    ({"oneOf": [{"type": "string", "format": "uuid"}, {"type": "string"}]}, ["ABCDEF01-ABCD-ABCD-ABCD-ABCDABCDABCD", "abcdef01-abcd-4bcd-abcd-abcdabcdabcd", "x"]),
    ({"oneOf": [{"type": "string", "not": {"format": "uuid"}}, {"type": "string", "pattern": "^ABCDEF01-x?$"}]}, ["ABCDEF01-x", "ABCDEF01-", "x", ""]),
    # properties without a type say nothing about numbers
    ({"oneOf": [{"type": "integer", "maximum": 2}, {"properties": {"b": {"type": "string"}}, "required": ["d"], "additionalProperties": False, "oneOf": [{"type": "null"}, {"type": "integer", "multipleOf": 3}]}]}, NUMBERS),
    ({"type": "string", "not": {"format": "date"}}, TEXTS), ({"type": "number", "not": {"oneOf": [{"minimum": 3}, {"maximum": 5}, {"const": 4}]}}, NUMBERS + [4]),
    # formats
    ({"type": "string", "format": "hostname"}, ["example.org", "localhost", "-a.b", "a b", "a..b"]), ({"type": "string", "format": "ipv6"}, ["::1", "fe80::", "1:2:3:4:5:6:7:8", "1::2::3", "12345::"]),
    ({"type": "string", "format": "uri", "minLength": 1, "maxLength": 83}, ["https://example.org/a?b=c", "http://localhost:80", "x y", "https://example.org/" + "a" * 80]),
    ({"type": "string", "format": "duration"}, ["P1D", "PT5M", "P3W", "P", "PT", "1D", "P1Y2M3DT4H5M6S"]),
]
