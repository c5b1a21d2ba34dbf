# SPDX-License-Identifier: Apache-2.0
"""What is no request: broken bodies and heads, wrong methods, clients that dawdle."""

import json
import time

import pytest

from support import chat, eventually, post_bytes, read_response

CHAT = "/v1/chat/completions"
BODIES = {
    "empty": b"", "no JSON": b"hello", "half": b'{"messages":', "list": b"[]", "null": b"null", "number": b"1",
    "invalid UTF-8": b'{"messages":[{"role":"user","content":"\xff\xfe"}]}', "half an escape": b'{"prompt":"\\ud80"}',
    "overlong": b'{"prompt":"\xc0\xaf"}', "deep list": b"[" * 100_000 + b"]" * 100_000,
    "deep object": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep inside": b'{"messages":[{"role":"user","content":' + b"[" * 200 + b"]" * 200 + b"}]}",
    "twice": b'{"prompt":"a","prompt":"b"}', "after": b'{"prompt":"a"} x', "comment": b'{"prompt":"a"/**/}', "NUL": b"\x00" * 50,
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/v1/messages", "/generate", "/tokenize"])
def test_bodies_that_are_no_request(http, path, name):
    response = http.post(path, content=BODIES[name], headers={"Content-Type": "application/json"})
    assert response.status_code == 400 and response.json()["error"]["message"]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", [CHAT, "/generate", "/tokenize"])
def test_wrong_methods(http, method, path):
    response = http.request(method, path)
    assert response.status_code == 405 and "POST" in response.headers["allow"]


def test_unknown_paths_and_methods_of_reading(http):
    assert http.get("/nothing").status_code == 404
    assert http.post("/health").status_code == 405
    assert http.head("/health").status_code == 200


@pytest.mark.parametrize("head,status", [
    (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", 431),
    (b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 5000 + b"\r\n", 431),
    (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", (414, 431)),
    (b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
    (b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n", (400, 413)),
    (b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 34000000\r\n\r\n", 413),
    (b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
    (b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", 400),
    (b"POST /generate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n", (400, 413)),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400),
], ids=range(11))
def test_broken_heads(server, head, status):
    with server.connect() as connection:
        try:
            connection.sendall(head)
        except OSError:
            pass  # it answers before it has read everything
        got, _, _ = read_response(connection)
    assert got in (status if isinstance(status, tuple) else (status,))


@pytest.mark.parametrize("padding,size,status", [(0, 1, 200), (100_000, 16, 200), (100_000, 1, 400)])
def test_tiny_chunks_cost_a_client_its_request_only_if_they_are_far_too_many(server, padding, size, status):
    text = json.dumps({"text": "The sea is", "sampling_params": {"max_new_tokens": 2, "temperature": 0}}).encode()
    text += b" " * padding
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    with server.connect() as connection:
        try:
            connection.sendall(b"POST /generate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
        except OSError:
            pass  # refused amid the body
        assert read_response(connection)[0] == status


def test_slow_bodies_keep_no_one_waiting(server, http):
    """Clients that dawdle over head and body occupy a socket each and nothing more."""
    body = post_bytes("/generate", {"text": "The sea is", "sampling_params": {"max_new_tokens": 2, "temperature": 0}})
    slow = [server.connect() for _ in range(40)]
    for number, connection in enumerate(slow):
        connection.sendall(body[: 10 + number * 4])
    began = time.monotonic()
    assert http.post(CHAT, json=chat("hi", max_tokens=2)).status_code == 200
    assert time.monotonic() - began < 5
    for number, connection in enumerate(slow[:20]):
        connection.sendall(body[10 + number * 4:])
        assert read_response(connection)[0] == 200
    for connection in slow:
        connection.close()
    eventually(lambda: "http_open_connections" in server.client.get("/metrics").text, 5, "metrics")


def test_many_words_without_a_space_are_tokenised_soon(http):
    began = time.monotonic()
    for text in ("a" * 1_000_000, "<|im_" * 200_000, " " * 1_000_000, "<|im_end|>" * 100_000, "\u0301" * 300_000):
        assert http.post("/tokenize", json={"messages": [{"role": "user", "content": text}]}).status_code == 200
    assert time.monotonic() - began < 60
