"""schemathesis over the server's own description: no answer is a 5xx, each has a documented status and content type."""

import os

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import CHECKS, load_all_checks

document = schemathesis.openapi.from_url(os.environ["ASHLAR_TEST_URL"] + "/openapi.json")
load_all_checks()
WANTED = CHECKS.get_by_names(["not_a_server_error", "status_code_conformance", "content_type_conformance",
                              "response_schema_conformance"])
SHORT = {"max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens"}
LENGTHS = {"/v1/chat/completions": "max_completion_tokens", "/v1/responses": "max_output_tokens"}
EXAMPLES = 300 if os.environ.get("ASHLAR_LONG_TESTS") == "1" else 30


def bounded(body, path=None):
    """Valid requests answer briefly, so that there is time for many."""
    if not isinstance(body, dict):
        return body
    body = {k: 4 if k in SHORT and isinstance(v, int) and v > 4 else v for k, v in body.items()}
    length = LENGTHS.get(path)
    if length and body.get("max_tokens") is None and body.get(length) is None:
        body[length] = 4
    if isinstance(body.get("sampling_params"), dict):
        body["sampling_params"] = bounded(body["sampling_params"])
    return body


@document.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
          suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])
def test_documented(case):
    case.body = bounded(case.body, case.path)
    response = case.call(timeout=60)
    case.validate_response(response, checks=WANTED)


def test_every_path_that_answers_is_documented_with_a_body():
    paths = httpx.get(os.environ["ASHLAR_TEST_URL"] + "/openapi.json").json()["paths"]
    assert {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/generate"} <= set(paths)
