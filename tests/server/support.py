# SPDX-License-Identifier: Apache-2.0
"""A server as a process, and small tools for talking to it."""

import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time

import httpx

MODEL = "pebble-11m"


def eventually(condition, seconds, message):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, message
        time.sleep(0.02)


class Server:
    def __init__(self, url, pid, process=None, log=None):
        self.url, self.pid, self.process, self.log = url, pid, process, log
        self.host, port = re.fullmatch(r"http://(.*):(\d+)", url).groups()
        self.port = int(port)
        # One for all looks at it: making a client takes longer than asking. There is no TLS here to verify.
        self.client = httpx.Client(base_url=url, timeout=10, verify=False)

    @staticmethod
    def running(url, pid):
        return Server(url, pid)

    @staticmethod
    def start(*flags, model=MODEL, folder=None):
        log = tempfile.TemporaryFile("w+")
        root = os.environ["ASHLAR_TEST_ROOT"]
        command = [os.environ["ASHLAR_TEST_PROGRAM"], "serve", folder or root + "/models/" + model]
        command += ["--port", "0", "--log-format", "json", "--no-self-test", *flags]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + 30
        while True:
            log.seek(0)
            found = re.search(r'"listening on (\S+) ', log.read())
            if found:
                return Server(found[1], process.pid, process, log)
            assert process.poll() is None and time.monotonic() < deadline, "the server did not start"
            time.sleep(0.05)

    def stats(self):
        return self.client.get("/stats").json()

    def idle(self):
        stats = self.stats()
        return stats["running"] == 0 and stats["waiting"] == 0 and stats["pages"]["held"] == 0

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def resident_bytes(self):
        with open(f"/proc/{self.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self, seconds):
        return self.process.wait(timeout=seconds)

    def kill(self):
        self.client.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def connect(self):
        return socket.create_connection((self.host, self.port), timeout=30)


def with_template(folder, template, model=MODEL):
    """The model in `folder`, with another chat template; its path as text."""
    folder = folder / model
    folder.mkdir()
    source = f"{os.environ['ASHLAR_TEST_ROOT']}/models/{model}"
    for name in os.listdir(source):
        if name != "chat_template.jinja":
            os.symlink(f"{source}/{name}", folder / name)
    (folder / "chat_template.jinja").write_text(template)
    return str(folder)


def post_bytes(path, body, host="localhost"):
    """A request as bytes, for sockets."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    return head.encode() + text


def read_response(connection):
    """Status, headers in lower case and body of an answer that has a length, or of whatever came before the end."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            break
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    while len(body) < int(headers.get("content-length", 0)):
        more = connection.recv(65536)
        if not more:
            break
        body += more
    return int(lines[0].split(" ")[1]), headers, body


def events(response):
    """The JSON events of an open stream; [DONE] must be the last, where the API has it."""
    done = False
    for line in response.iter_lines():
        if not line.startswith("data:"):
            continue
        assert not done, "something came after [DONE]"
        payload = line[5:].strip()
        if payload == "[DONE]":
            done = True
        else:
            yield json.loads(payload)


def stream(client, path, body):
    with client.stream("POST", path, json={**body, "stream": True}) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        return list(events(response))


def chat(text, **fields):
    return {"messages": [{"role": "user", "content": text}], **fields}


def refused(response, param=None, status=400):
    assert response.status_code == status, (response.status_code, response.text[:500])
    error = response.json()["error"]
    if isinstance(error, str):  # Ollama's
        error = {"message": error}
    assert len(error["message"]) > 10 and "/src/" not in error["message"] and "nlohmann" not in error["message"]
    if param is not None:
        assert error.get("param", param) == param, error
        assert param.split(".")[-1].split("[")[0] in error["message"] or "tokens" in error["message"], error
    return error
