# SPDX-License-Identifier: Apache-2.0
"""schemathesis over the server's own description: no answer is a 5xx, each has a documented status, content type and shape."""

import collections
import os

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import CHECKS, load_all_checks

document = schemathesis.openapi.from_url(os.environ["ASHLAR_TEST_URL"] + "/openapi.json")
load_all_checks()
WANTED = CHECKS.get_by_names(["not_a_server_error", "status_code_conformance", "content_type_conformance",
                              "response_schema_conformance"])
SHORT = {"max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "num_predict"}
# Where an answer's length lies in a body, at the paths that fill the context where it is absent.
LENGTHS = {"/v1/chat/completions": "max_completion_tokens", "/v1/responses": "max_output_tokens"}
OPTIONS = {"/api/chat", "/api/generate"}
EXAMPLES = 300 if os.environ.get("ASHLAR_LONG_TESTS") == "1" else 20


def bounded(body, path=None):
    """Valid requests answer briefly, so that there is time for many."""
    if not isinstance(body, dict):
        return body
    body = {k: 4 if k in SHORT and isinstance(v, int) and v > 4 else v for k, v in body.items()}
    length = LENGTHS.get(path)
    if length and body.get("max_tokens") is None and body.get(length) is None:
        body[length] = 4
    if path in OPTIONS and body.get("options") is None:
        body["options"] = {"num_predict": 4}
    for nested in ("sampling_params", "options"):
        if isinstance(body.get(nested), dict):
            body[nested] = bounded(body[nested])
            if path in OPTIONS:
                body[nested].setdefault("num_predict", 4)
    return body


# Fields of which a request has one at most, and fields that need others with them.
EXCLUSIVE = [["prompt", "content", "messages"], ["text", "input_ids"],
             ["response_format", "structured_outputs", "guided_json", "guided_regex", "guided_grammar", "guided_choice",
              "json_schema", "regex", "ebnf"]]
LEFT_OUT = {"model", "stream", "dllm", "echo", "best_of", "logit_bias", "top_logprobs", "top_logprobs_num",
            "max_completion_tokens", "rid"}
STATUSES = collections.Counter()


def sensible(body, schema):
    """A body that can be answered: fields that were made up, but their numbers and switches only; else what is documented."""
    fields = schema["properties"]
    made_up = body if isinstance(body, dict) else {}
    names = [name for name in fields if made_up.get(name) is not None and name not in LEFT_OUT
             and fields[name]["x-ashlar-use"] != "refused"]
    for group in EXCLUSIVE:
        there = [name for name in names if name in group]
        names = [name for name in names if name not in there[1:]]
    needed = schema.get("required") or [group[0] for group in EXCLUSIVE[:2] if group[0] in fields and not set(group) & set(names)]
    out = {name: fields[name]["examples"][0] for name in [*names, *needed]}
    out.update({name: made_up[name] for name in names if fields[name].get("type") in ("number", "boolean")})
    if "sampling_params" in out:
        out["sampling_params"] = sensible(made_up["sampling_params"], document.raw_schema["components"]["schemas"]["SamplingParams"])
    return out


def request_schema(path):
    operation = document.raw_schema["paths"].get(path, {}).get("post")
    if operation is None:
        return None
    reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    return document.raw_schema["components"]["schemas"][reference.split("/")[-1]]


@document.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
          suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])
def test_documented(case):
    made_up, schema = case.body, request_schema(case.path)
    case.body = bounded(made_up, case.path)
    case.validate_response(case.call(timeout=60), checks=WANTED)
    if case.method == "POST" and schema is not None:
        case.body = bounded(sensible(made_up, schema), case.path)
        response = case.call(timeout=60)
        case.validate_response(response, checks=WANTED)
        STATUSES[case.path, response.status_code] += 1


def test_answers_were_looked_at():
    """Not refusals alone, which is what most made up bodies come to."""
    for path in {path for path, _ in STATUSES}:
        assert STATUSES[path, 200] >= min(20, EXAMPLES * 2 // 3), STATUSES


def test_every_path_that_answers_is_documented_with_a_body():
    paths = httpx.get(os.environ["ASHLAR_TEST_URL"] + "/openapi.json").json()["paths"]
    assert {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/generate"} <= set(paths)
    assert {"/", "/health", "/metrics", "/stats", "/v1/models", "/v1/models/{id}"} <= set(paths)
