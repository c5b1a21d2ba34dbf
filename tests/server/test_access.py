# SPDX-License-Identifier: Apache-2.0
"""Who may ask: API keys, the Host header, other sites' pages."""

import json
import re
import time
import tempfile

import anthropic
import httpx
import openai
import pytest

from support import MODEL, Server, chat

KEY = {"Authorization": "Bearer first-key"}
PATHS = ["/v1/models", "/stats", "/metrics", "/version", "/openapi.json", "/v1/models/" + MODEL, "/nothing"]


@pytest.fixture(scope="module")
def guarded():
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write("first-key\r\n\nsecond-key\n")
        keys.flush()
        server = Server.start("--api-key-file", keys.name, "--api-key", "third-key",
                              "--allowed-origin", "https://chat.example")
        yield server
        server.kill()


def test_health_is_open_and_all_else_is_not(guarded):
    assert guarded.client.get("/health").status_code == 200
    for path in ("/", "/app.js"):  # the page asks for the key itself
        assert guarded.client.get(path).status_code == 200
    for path in PATHS:
        answer = guarded.client.get(path)
        assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer", path
        assert answer.json()["error"]["type"] == "authentication_error"
    for path in ("/v1/chat/completions", "/generate", "/v1/messages", "/tokenize"):
        assert guarded.client.post(path, json=chat("hi", max_tokens=1)).status_code == 401


def refusals(guarded, awaited):
    """Those in the log by id, once the one that is waited for is there: a thread of its own writes the log."""
    for _ in range(100):
        guarded.log.seek(0)
        lines = [json.loads(line) for line in guarded.log.read().splitlines() if '"refused"' in line and line.endswith("}")]
        found = {line.get("id"): line for line in lines if line["message"] == "refused"}
        if awaited in found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{awaited} is not in the log")


def test_refusals_are_logged_without_keys_or_texts(guarded):
    guarded.client.post("/v1/chat/completions", json=chat("very private"), headers={"Authorization": "Bearer secret-guess", "X-Request-Id": "who-1"})
    guarded.client.post("/v1/chat/completions", json=chat("very private", temperature="very private"),
                        headers={"Authorization": "Bearer first-key", "X-Request-Id": "what-2"})
    found = refusals(guarded, "what-2")
    assert found["who-1"]["status"] == 401 and found["who-1"]["peer"].startswith("127.0.0.1:")
    assert found["what-2"]["status"] == 400 and found["what-2"]["param"] == "temperature"
    assert "secret-guess" not in str(found) and "private" not in str(found)


def test_refusals_of_every_kind_are_logged_and_counted(guarded):
    def count():
        page = guarded.client.get("/metrics", headers=KEY).text
        return float(re.search(r'^ashlar:requests_refused_total\{.*why="wrong"\} (\S+)$', page, re.M)[1])

    before = count()
    asked = [("GET", "/nowhere", {}, 404, None), ("DELETE", "/v1/models", {}, 405, None),
             ("GET", "/v1/models/other", {}, 404, "model"), ("POST", "/tokenize", {"prompt": 7}, 400, "prompt"),
             ("POST", "/v1/messages/count_tokens", {"messages": 7}, 400, "messages"),
             ("POST", "/v1/completions", {"prompt": "x" * (33 << 20)}, 413, None)]
    for number, (method, path, body, status, _) in enumerate(asked):
        got = guarded.client.request(method, path, json=body or None, headers={**KEY, "X-Request-Id": f"kind-{number}"})
        assert got.status_code == status, (path, got.text)
    assert guarded.client.get("/v1/models", headers={**KEY, "Origin": "https://elsewhere", "X-Request-Id": "kind-6"}).status_code == 403
    found = refusals(guarded, "kind-6")
    for number, (_, path, _, status, param) in enumerate(asked):
        line = found[f"kind-{number}"]
        assert (line["status"], line["path"], line.get("param")) == (status, path, param)
    assert found["kind-6"]["status"] == 403
    assert count() == before + len(asked) + 1


@pytest.mark.parametrize("key", ["first-key", "second-key", "third-key"])
def test_keys_open_either_way(guarded, key):
    for headers in ({"Authorization": f"Bearer {key}"}, {"authorization": f"bearer {key}"}, {"x-api-key": key}):
        assert guarded.client.get("/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize("headers", [{"Authorization": "Bearer wrong"}, {"Authorization": "first-key"}, {"x-api-key": ""},
                                     {"Authorization": "Basic first-key"}, {"Authorization": "Bearer first-keyy"},
                                     {"Authorization": "Bearer first-ke"}, {"x-api-key": "first-key second-key"}], ids=str)
def test_wrong_keys_open_nothing(guarded, headers):
    assert guarded.client.get("/v1/models", headers=headers).status_code == 401


def test_the_packages_send_their_keys(guarded):
    oai = openai.OpenAI(base_url=guarded.url + "/v1", api_key="second-key", max_retries=0)
    assert oai.models.list().data[0].id == MODEL
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=guarded.url + "/v1", api_key="x", max_retries=0).models.list()
    claude = anthropic.Anthropic(base_url=guarded.url, api_key="second-key", max_retries=0)
    assert claude.messages.create(model=MODEL, max_tokens=1, messages=[{"role": "user", "content": "hi"}]).role == "assistant"
    with pytest.raises(anthropic.AuthenticationError):
        anthropic.Anthropic(base_url=guarded.url, api_key="x", max_retries=0).messages.create(
            model=MODEL, max_tokens=1, messages=[{"role": "user", "content": "hi"}])


@pytest.mark.parametrize("host,status", [("evil.example", 403), ("evil.example:8080", 403), ("localhost", 200), ("127.0.0.1:1", 200),
                                         ("localhost.evil.example", 403), ("127.0.0.1.evil.example", 403), ("[::1]:80", 200),
                                         ("LOCALHOST:99", 200), ("localhost:x", 403)])
def test_only_this_machines_names_are_answered_to(http, host, status):
    answer = http.get("/v1/models", headers={"Host": host})
    assert answer.status_code == status
    if status == 403:
        assert answer.json()["error"]["code"] == "host_not_allowed"


@pytest.mark.parametrize("flag", ["127.0.0.2", "LOCALHOST"])
def test_loopback_goes_by_the_address_not_by_its_spelling(flag):
    server = Server.start("--host", flag)
    try:
        for host, status in ((flag, 200), ("localhost", 200), ("evil.example", 403)):
            assert httpx.get(server.url + "/v1/models", headers={"Host": host}, verify=False).status_code == status
    finally:
        server.kill()


def test_errors_have_the_shape_of_the_api(http, guarded):
    asked = [httpx.post(guarded.url + "/v1/messages/count_tokens", json={}, verify=False), http.get("/v1/messages"),
             http.post("/v1/messages/nothing"), http.get("/v1/messages", headers={"Host": "evil.example"}),
             http.post("/v1/messages/count_tokens", json={}), http.post("/v1/messages", json={})]
    assert [(answer.status_code, answer.json()["error"]["type"]) for answer in asked] == [
        (401, "authentication_error"), (405, "invalid_request_error"), (404, "not_found_error"),
        (403, "permission_error"), (400, "invalid_request_error"), (400, "invalid_request_error")]
    assert all(answer.json()["type"] == "error" and set(answer.json()["error"]) == {"type", "message"} for answer in asked)
    assert set(http.get("/v1/nothing").json()["error"]) == {"message", "type", "param", "code"}


def test_pages_of_other_sites_may_not_ask(http):
    answer = http.post("/v1/chat/completions", json=chat("hi", max_tokens=1), headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403 and "access-control-allow-origin" not in answer.headers
    assert http.get("/v1/models", headers={"Origin": "null"}).status_code == 403


def test_the_servers_own_page_may_ask(http, server):
    assert http.get("/v1/models", headers={"Origin": server.url}).status_code == 200


def test_an_allowed_origin_may_ask(guarded):
    origin = {"Origin": "https://chat.example"}
    preflight = guarded.client.options("/v1/chat/completions", headers={
        **origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, content-type"})
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == "https://chat.example"
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    assert "POST" in preflight.headers["access-control-allow-methods"]
    answer = guarded.client.get("/v1/models", headers={**origin, "x-api-key": "first-key"})
    assert answer.status_code == 200 and answer.headers["access-control-allow-origin"] == "https://chat.example"
    assert "Origin" in answer.headers["vary"]
    refused = guarded.client.get("/v1/models", headers=origin)
    assert refused.status_code == 401 and refused.headers["access-control-allow-origin"] == "https://chat.example"
    other = guarded.client.options("/v1/models", headers={"Origin": "https://chat.example.evil",
                                                               "Access-Control-Request-Method": "GET"})
    assert other.status_code == 403


def test_keys_share_no_cached_prompts(guarded):
    text = "A beginning that both keys send, long enough for some pages. " * 6
    def cached(key):
        answer = guarded.client.post("/v1/chat/completions", json=chat(text, max_tokens=1), headers={"x-api-key": key},
                            timeout=60)
        return answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    cached("first-key")
    assert cached("first-key") > 0
    assert cached("second-key") == 0


def test_salts_share_no_cached_prompts(http):
    text = "Another beginning that all salts send, long enough for some pages. " * 6
    def cached(salt):
        answer = http.post("/v1/chat/completions", json=chat(text, max_tokens=1, cache_salt=salt))
        return answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    cached("a")
    assert cached("a") > 0 and cached("b") == 0
