# SPDX-License-Identifier: Apache-2.0
"""Many clients at once, many of which go away: nothing hangs, no other answer changes, nothing is left over."""

import json
import random
import select
import threading
import time

import httpx

from support import chat, eventually, post_bytes, stream

SUBJECTS = ["a lighthouse", "the number seven", "rain in March", "an old ferry", "how bread rises", "a quiet library",
            "two stubborn goats", "the far side of a hill", "sorting a list", "a lost umbrella", "copper wire", "snow"]
ORDERS = ["Write three sentences about {}.", "Define {} in few words.", "List what belongs to {}.", "Why does {} matter?"]


def request(number):
    """One of up to 96 requests: short and long prompts, every API's sampling, plain and constrained."""
    r = random.Random(number)
    text = r.choice(ORDERS).format(r.choice(SUBJECTS)) + " Take your time." * r.choice([0, 0, 3, 120])
    fields = {"max_tokens": r.choice([4, 24, 64, 160]), "temperature": r.choice([0, 0.7, 1.0]), "seed": number}
    if number % 7 == 0:
        fields["n"] = 3
    if number % 5 == 0:
        fields["guided_regex"] = "[a-z ]{10,40}"
    elif number % 3 == 0:
        fields["ignore_eos"] = True
    if number % 11 == 0:
        fields["speculative"] = False
    return chat(text, **fields)


def texts_of(answer):
    return [(choice["message"]["content"], choice["finish_reason"]) for choice in answer["choices"]]


def texts_of_stream(chunks):
    out = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            one = out.setdefault(choice["index"], ["", None])
            one[0] += choice["delta"].get("content") or ""
            one[1] = choice["finish_reason"] or one[1]
    return [tuple(one) for _, one in sorted(out.items())]


def abort(server, body, r):
    """Goes away in some phase: amid the head, the body, the queue, the prompt, the answer; with a FIN or a reset."""
    data = post_bytes("/v1/chat/completions", {**body, "stream": r.random() < 0.5})
    with server.connect() as connection:
        phase = r.randrange(4)
        if phase == 0:
            connection.sendall(data[: r.randrange(1, len(data))])
        elif phase == 1:
            connection.sendall(data)
        else:
            connection.sendall(data)
            select.select([connection], [], [], r.random() * 0.3)
            if phase == 3 and select.select([connection], [], [], 5)[0]:
                connection.recv(r.randrange(1, 2000))
        if r.random() < 0.3:
            linger_off = b"\x01\x00\x00\x00\x00\x00\x00\x00"
            connection.setsockopt(1, 13, linger_off)  # SOL_SOCKET, SO_LINGER: closing resets


class Storm:
    """For some seconds, and for as long as it takes to see `enough` whole answers and as many aborted requests."""

    def __init__(self, server, expected, seconds, enough=0):
        self.server, self.expected, self.wrong, self.enough = server, expected, [], enough
        self.until = time.monotonic() + seconds
        self.whole = self.aborted = self.busy = 0
        self.lock = threading.Lock()

    def client(self, number):
        r = random.Random(1000 + number)
        with httpx.Client(base_url=self.server.url, timeout=90, verify=False) as http:
            while not self.wrong and (time.monotonic() < self.until or min(self.whole, self.aborted) < self.enough):
                which = r.choice(list(self.expected))
                try:
                    self.one(http, r, which)
                except Exception as error:  # a thread's exception would be lost
                    with self.lock:
                        self.wrong.append((which, repr(error)))

    def one(self, http, r, which):
        body = request(which)
        if r.random() < 0.5:
            abort(self.server, body, r)
            with self.lock:
                self.aborted += 1
            return
        if r.random() < 0.5:
            got = texts_of_stream(stream(http, "/v1/chat/completions", body))
        else:
            response = http.post("/v1/chat/completions", json=body)
            if response.status_code == 429:
                with self.lock:
                    self.busy += 1
                return
            got = texts_of(response.json())
        with self.lock:
            self.whole += 1
            if got != self.expected[which]:
                self.wrong.append((which, got, self.expected[which]))


def test_a_storm_of_clients(server, http, long):
    expected = {number: texts_of(http.post("/v1/chat/completions", json=request(number)).json()) for number in range(96 if long else 48)}
    eventually(server.idle, 10, "not idle before the storm")
    storm = Storm(server, expected, 5)  # warms pools and buffers, so that the second storm can be held against it
    run(storm, 64, 120)
    eventually(server.idle, 20, "not idle after the warm-up")
    time.sleep(0.5)
    descriptors, resident = server.descriptors(), server.resident_bytes()
    storm = Storm(server, expected, 600 if long else 8, 200 if long else 100)
    run(storm, 64, 720 if long else 300)
    assert not storm.wrong, storm.wrong[:3]
    eventually(server.idle, 20, "something is left: " + json.dumps(server.stats()))
    eventually(lambda: server.descriptors() <= descriptors + 4, 10, "descriptors are left open")
    assert server.resident_bytes() < resident * 1.15 + (48 << 20), (resident, server.resident_bytes())
    print(f"{storm.whole} whole, {storm.aborted} aborted, {storm.busy} refused with 429; "
          f"{resident >> 20} MB before, {server.resident_bytes() >> 20} MB after")


def run(storm, clients, patience):
    threads = [threading.Thread(target=storm.client, args=(number,), daemon=True) for number in range(clients)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + patience
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    assert not storm.wrong, storm.wrong[:3]
    assert not any(thread.is_alive() for thread in threads), "clients hang: " + json.dumps(storm.server.stats())


LONG_ANSWER = chat("Count for ever.", max_tokens=3500, ignore_eos=True, temperature=1, seed=1)


def begin_stream(server, body=None):
    connection = server.connect()
    connection.sendall(post_bytes("/v1/chat/completions", {**(body or LONG_ANSWER), "stream": True}))
    head = connection.recv(4096)
    assert b" 200 " in head.split(b"\r\n")[0], head
    return connection


def test_a_client_that_leaves_frees_its_place_at_once(server):
    for streaming in (True, False):
        if streaming:
            connection = begin_stream(server)
        else:
            connection = server.connect()
            connection.sendall(post_bytes("/v1/chat/completions", LONG_ANSWER))
        eventually(lambda: server.stats()["running"] == 1, 10, "the answer never ran")
        connection.close()
        eventually(server.idle, 2, "the answer of a client that is gone goes on")


def test_an_abort_during_anothers_prompt_stalls_no_one(server, http):
    long_prompt = chat("word " * 3000, max_tokens=2)
    connection = server.connect()
    connection.sendall(post_bytes("/v1/chat/completions", LONG_ANSWER))
    other = server.connect()
    other.sendall(post_bytes("/v1/chat/completions", long_prompt))
    connection.close()
    assert http.post("/v1/chat/completions", json=chat("hi", max_tokens=2)).status_code == 200
    other.close()
    eventually(server.idle, 5, "something goes on")


def test_a_slow_reader_stalls_no_one(server, http):
    slow = [begin_stream(server) for _ in range(3)]
    began = time.monotonic()
    for seed in range(5):
        assert http.post("/v1/chat/completions", json=chat("hi", max_tokens=8, seed=seed)).status_code == 200
    assert time.monotonic() - began < 20
    for connection in slow:
        connection.close()


def test_a_slow_reader_gets_everything(server):
    body = chat("Tell a story.", max_tokens=300, ignore_eos=True, temperature=0)
    with httpx.Client(base_url=server.url, timeout=60, verify=False) as http:
        got = stream(http, "/v1/chat/completions", body)
    connection = begin_stream(server, body)
    connection.settimeout(20)
    text = b""
    while b"[DONE]" not in text:
        more = connection.recv(512)
        assert more, "the stream ended early"
        text += more
        time.sleep(0.002)
    connection.close()
    ends = [json.loads(line[6:])["choices"][0]["finish_reason"] for line in text.split(b"\n")
            if line.startswith(b"data: {") and b'"choices":[{' in line]
    assert ends[-1] == got[-1]["choices"][0]["finish_reason"] == "length" and len(ends) > 20
    eventually(server.idle, 5, "not idle")
