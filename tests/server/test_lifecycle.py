# SPDX-License-Identifier: Apache-2.0
"""A server of one's own: its bounded queue, its time limit, its end."""

import json
import re
import signal
import socket
import threading
import time

import httpx
import pytest

from support import chat, events, eventually, post_bytes

LONG = chat("Count for ever.", max_tokens=3500, ignore_eos=True, temperature=1, seed=1)


class Reader(threading.Thread):
    """Reads one stream to its end."""

    def __init__(self, server, body):
        super().__init__(daemon=True)
        self.server, self.body = server, {**body, "stream": True}
        self.chunks, self.error = [], None
        self.start()

    def run(self):
        try:
            with httpx.stream("POST", self.server.url + "/v1/chat/completions", json=self.body, timeout=60, verify=False) as response:
                for chunk in events(response):
                    self.chunks.append(chunk)
        except Exception as error:
            self.error = error

    def reason(self):
        return self.chunks[-1]["choices"][0]["finish_reason"]


def post(server, body, path="/v1/chat/completions"):
    return server.client.post(path, json=body, timeout=60)


def test_a_full_queue_says_when_to_come_back(start):
    server = start("--max-waiting", "2", "--max-sequences", "1")
    readers = [Reader(server, LONG) for _ in range(3)]
    eventually(lambda: server.stats()["running"] == 1 and server.stats()["waiting"] == 2, 20, "the queue does not fill")
    for path, body in (("/v1/chat/completions", chat("hi")), ("/v1/completions", {"prompt": "hi"}), ("/v1/responses", {"input": "hi"}),
                       ("/v1/messages", chat("hi", max_tokens=1)), ("/generate", {"text": "hi"})):
        answer = post(server, body, path)
        assert answer.status_code == 429, path
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert "queue is full" in answer.text
    assert server.client.get("/health").status_code == 200
    server.kill()
    for reader in readers:
        reader.join(10)


def test_a_request_of_many_answers_counts_as_many(start):
    server = start("--max-waiting", "2", "--max-sequences", "2")
    reader = Reader(server, {**LONG, "n": 2})
    eventually(lambda: server.stats()["running"] == 2, 20, "it does not run")
    assert post(server, chat("hi", n=3, max_tokens=1)).status_code == 429
    assert server.stats()["waiting"] == 0
    server.kill()
    reader.join(10)


def test_waiting_requests_get_their_turn(start):
    server = start("--max-waiting", "8", "--max-sequences", "1")
    readers = [Reader(server, chat("hi", max_tokens=20, ignore_eos=True, seed=seed)) for seed in range(6)]
    for reader in readers:
        reader.join(60)
        assert reader.error is None and reader.reason() == "length"


def test_sigterm_lets_answers_end_and_takes_no_more(start):
    server = start()
    reader = Reader(server, {**LONG, "max_tokens": 1500})
    eventually(lambda: len(reader.chunks) > 3, 20, "the stream does not begin")
    with httpx.Client(base_url=server.url, timeout=10, verify=False) as other:
        assert other.get("/health").status_code == 200
        server.terminate()
        eventually(lambda: httpx.get(server.url + "/health", verify=False).status_code == 503, 5, "health does not report the end")
        refused = other.post("/v1/chat/completions", json=chat("hi"))
        assert refused.status_code == 503 and int(refused.headers["retry-after"]) > 0
        assert reader.is_alive(), "the stream was too short to test with"
    assert server.wait(60) == 0
    reader.join(10)
    assert reader.error is None and reader.reason() == "length"


@pytest.mark.parametrize("end", [signal.SIGHUP, signal.SIGQUIT])
def test_other_signals_end_it_gently_or_not_at_all(start, end):
    server = start()
    for ignored in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGPIPE):
        server.process.send_signal(ignored)
    reader = Reader(server, LONG)
    eventually(lambda: len(reader.chunks) > 3, 20, "the stream does not begin")
    server.process.send_signal(end)
    eventually(lambda: httpx.get(server.url + "/health", verify=False).status_code == 503, 5, "health does not report the end")
    assert server.wait(60) == 0
    reader.join(10)
    assert reader.error is None and reader.reason() == "length"


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once(start, second):
    server = start()
    reader = Reader(server, LONG)
    eventually(lambda: len(reader.chunks) > 3, 20, "the stream does not begin")
    server.terminate()
    eventually(lambda: httpx.get(server.url + "/health", verify=False).status_code == 503, 5, "health does not report the end")
    began = time.monotonic()
    server.process.send_signal(second)
    assert server.wait(10) == 0
    assert time.monotonic() - began < 4
    reader.join(10)
    assert not reader.is_alive()


def test_the_drains_time_is_bounded(start):
    server = start("--drain", "0.5")
    reader = Reader(server, LONG)
    eventually(lambda: len(reader.chunks) > 3, 20, "the stream does not begin")
    began = time.monotonic()
    server.terminate()
    assert server.wait(15) == 0 and time.monotonic() - began < 5
    reader.join(10)
    assert reader.error is None and reader.chunks[-1]["error"]["code"] == "shutting_down", reader.chunks[-1]
    assert not any(chunk["choices"][0]["finish_reason"] for chunk in reader.chunks[:-1] if chunk.get("choices"))


def test_the_drain_waits_for_slow_readers(start):
    server = start()
    body = json.dumps({"prompt": "one two three four " * 100_000, "return_token_strs": True}).encode()
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        slow.settimeout(30)
        slow.connect((server.host, server.port))
        slow.sendall(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        answer = slow.recv(4096)
        server.terminate()
        time.sleep(3.5)
        assert server.process.poll() is None
        while piece := slow.recv(1 << 16):
            answer += piece
    head, _, text = answer.partition(b"\r\n\r\n")
    assert len(text) == int(re.search(rb"Content-Length: (\d+)", head)[1])
    assert len(json.loads(text)["tokens"]) > 300_000
    assert server.wait(10) == 0


def test_an_idle_server_ends_at_once(start):
    server = start()
    began = time.monotonic()
    server.terminate()
    assert server.wait(10) == 0 and time.monotonic() - began < 3


def test_a_request_has_its_time(start):
    server = start("--timeout", "0.5")
    answer = post(server, LONG)
    assert answer.status_code == 504 and answer.json()["error"]["code"] == "timeout"
    eventually(server.idle, 5, "it goes on")
    assert post(server, chat("hi", max_tokens=1)).status_code == 200


def test_names_of_the_model(start):
    server = start("--name", "mine", "--alias", "gpt-x")
    for model in ("mine", "gpt-x"):
        assert post(server, chat("hi", model=model, max_tokens=1)).json()["model"] == "mine"
    assert post(server, chat("hi", model="pebble-11m", max_tokens=1)).status_code == 404


def test_a_client_that_never_reads_is_dropped_and_stalls_no_one(start):
    """It wants far more than its socket and the backlog of 8 MiB hold; all of it would be 40 MB, and no
    answer alone reaches its end before that."""
    server = start("--max-sequences", "32")
    post(server, chat("hi", max_tokens=1))
    before = server.resident_bytes()
    body = chat("Count for ever.", n=4, max_tokens=4000, ignore_eos=True, temperature=1, seed=1, stream=True, logprobs=True, top_logprobs=20)
    stuck = socket.socket()
    stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stuck.connect((server.host, server.port))
    stuck.sendall(post_bytes("/v1/chat/completions", body))
    eventually(lambda: server.stats()["running"] >= 4, 20, "the streams do not begin")
    most = 0
    while not server.idle():
        began = time.monotonic()
        assert post(server, chat("hi", max_tokens=2)).status_code == 200
        assert time.monotonic() - began < 20
        most = max(most, server.resident_bytes())
    assert most - before < 150 << 20, most - before
    metrics = server.client.get("/metrics").text
    assert 'finished_reason="cancelled"} 4' in metrics, [line for line in metrics.splitlines() if "request_success" in line]
    stuck.close()
