# SPDX-License-Identifier: Apache-2.0
"""Hidden states of prompts in files: those of the capture to the bit, and a trainer that asks a server for them."""

import concurrent.futures
import fcntl
import http.server
import json
import os
import re
import stat
import struct
import subprocess
import threading
import time

import httpx
import pytest

from support import MODEL, eventually, post_bytes

# Some begin alike, so that the cache has a part of them.
DOCUMENTS = [[100 + k * k % 7000 for k in range(60 + 11 * i)] if i % 2 else [100 + (i + 3 * k) % 7000 for k in range(40 + i)] for i in range(8)]


def ask(client, ids, **fields):
    body = {"prompt": ids, "max_tokens": 1, "temperature": 0, **fields}
    return client.post("/v1/completions", json=body, timeout=60)


def read_tensors(path):
    """Name: dtype, shape, bytes; and the metadata."""
    with open(path, "rb") as file:
        data = file.read()
    size, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]) for name, t in header.items()}, metadata


def write_tensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    head = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head + data)


def train(tmp_path, name, *flags):
    """Runs the trainer on the documents; what it says, and its output folder."""
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps({"ids": ids}) + "\n" for ids in DOCUMENTS))
    model = os.environ["ASHLAR_TEST_ROOT"] + "/models/" + MODEL
    command = [os.environ["ASHLAR_TEST_PROGRAM"], "train", model, "--data", str(data), "-o", str(tmp_path / name), *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=240), tmp_path / name


def trained(tmp_path, name, *flags):
    """Losses of two steps, and the weights after them."""
    done, folder = train(tmp_path, name, "--steps", "2", *flags)
    assert done.returncode == 0, done.stderr
    losses = [json.loads(line)["loss"] for line in (folder / "train-log.jsonl").read_text().splitlines()]
    assert len(losses) == 2
    return losses, (folder / "model.safetensors").read_bytes()


def test_they_are_off_by_default(http):
    answer = ask(http, [5, 6, 7], kv_transfer_params={})
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "kv_transfer_params"
    assert "--allow-hidden-states" in answer.json()["error"]["message"]
    plain = ask(http, [5, 6, 7], return_token_ids=True).json()
    assert "kv_transfer_params" not in plain and plain["choices"][0]["prompt_token_ids"] == [5, 6, 7]
    assert len(plain["choices"][0]["token_ids"]) == plain["usage"]["completion_tokens"] == 1


def test_files_hold_what_is_captured(start, tmp_path):
    captured, _ = train(tmp_path, "none", "--hidden-states", str(tmp_path / "captured"), "--capture")
    assert captured.returncode == 0, captured.stderr
    folder = tmp_path / "states"
    server = start("--allow-hidden-states", str(folder), "--prefill-chunk", "16")
    # The second way is that of speculators' client.
    ways = [{"kv_transfer_params": {}}, {"return_token_ids": True}]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda i: ask(server.client, DOCUMENTS[i % 8], **ways[i // 8]), range(16)))
    paths = []
    for i, answer in enumerate(answers):
        assert answer.status_code == 200, answer.text
        paths.append(answer.json()["kv_transfer_params"]["hidden_states_path"])
        assert os.path.dirname(paths[-1]) == str(folder)
        assert os.stat(paths[-1]).st_mode & 0o777 == 0o600
        found, metadata = read_tensors(paths[-1])
        expected, its_metadata = read_tensors(tmp_path / "captured" / f"hs_{i % 8}.safetensors")
        # A served file is written before all of it is known, so that it has no hash; a captured one has.
        assert re.fullmatch("[0-9a-f]{16}", its_metadata.pop("content_xxh64"))
        assert metadata == its_metadata
        assert found["token_ids"] == expected["token_ids"]
        assert found["hidden_states"] == expected["hidden_states"]
        assert found["hidden_states"][:2] == ("F32", [len(DOCUMENTS[i % 8]), 6, 256])
    assert len(set(paths)) == 16 and sorted(paths) == sorted(str(path) for path in folder.iterdir())
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert "kv_transfer_params" not in ask(server.client, DOCUMENTS[0]).json()


def test_ids_of_a_text_are_no_wish_for_them(start, tmp_path):
    server = start("--allow-hidden-states", str(tmp_path))
    plain = ask(server.client, "Hello there", return_token_ids=True)
    assert plain.status_code == 200 and plain.json()["choices"][0]["prompt_token_ids"]
    assert "kv_transfer_params" not in plain.json() and not list(tmp_path.iterdir())
    asked = ask(server.client, "Hello there", kv_transfer_params={}).json()
    assert [str(path) for path in tmp_path.iterdir()] == [asked["kv_transfer_params"]["hidden_states_path"]]


def test_what_a_killed_server_left_goes_away_and_nothing_else(start, tmp_path):
    whole = "hidden-" + "0a" * 16 + ".safetensors"
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = tmp_path / f"{whole}.new-{ended.pid}-0"
    others = [tmp_path / name for name in (whole, f"{whole}.new-{os.getpid()}-0", f"{whole}.new-{ended.pid}", f"{whole}.new-{ended.pid}-0.bak",
                                           f"hidden-mine.safetensors.new-{ended.pid}-0", f"model.safetensors.new-{ended.pid}-0")]
    for path in (left, *others):
        path.write_bytes(b"rows")
    start("--allow-hidden-states", str(tmp_path))
    assert sorted(tmp_path.iterdir()) == sorted(others)


@pytest.mark.parametrize("fields", [{"stream": True}, {"n": 2}, {"prompt": [[5], [6]]}, {"kv_transfer_params": {"include_output_tokens": True}},
                                    {"kv_transfer_params": {"hidden_states_path": "/etc/passwd"}}, {"kv_transfer_params": {"do_remote_prefill": True}}])
def test_what_makes_no_sense_is_refused(http, fields):
    answer = http.post("/v1/completions", json={"prompt": [5, 6], "max_tokens": 1, "kv_transfer_params": {}, **fields})
    assert answer.status_code == 400 and answer.json()["error"]["param"].startswith("kv_transfer_params")


def test_the_folder_has_a_bound_and_keeps_nothing_of_requests_that_fail(start, tmp_path):
    server = start("--allow-hidden-states", str(tmp_path), "--hidden-states-size", "1M", "--aux-layers", "1,5")
    long = ask(server.client, [5] * 400, kv_transfer_params={})  # 3 layers of 256 floats a token
    assert long.status_code == 400 and "--hidden-states-size" in long.json()["error"]["message"]
    first = ask(server.client, [5] * 200, kv_transfer_params={}).json()["kv_transfer_params"]["hidden_states_path"]
    full = ask(server.client, [6] * 200, kv_transfer_params={})
    assert full.status_code == 503 and full.json()["error"]["code"] == "hidden_states_full" and "retry-after" in full.headers
    os.remove(first)
    assert ask(server.client, [6] * 200, kv_transfer_params={}).status_code == 200

    for path in tmp_path.iterdir():
        path.unlink()
    # It cannot be what was sampled: the request is wrong, ends with an error, or its client leaves.
    assert ask(server.client, [1 << 20] * 20, kv_transfer_params={}).status_code == 400
    for wait in (0, 0.02, 0.1):
        connection = server.connect()
        connection.sendall(post_bytes("/v1/completions", {"prompt": [7] * 300, "max_tokens": 3000, "ignore_eos": True, "kv_transfer_params": {}}))
        time.sleep(wait)
        connection.close()
    eventually(server.idle, 20, "it runs on")
    eventually(lambda: not list(tmp_path.iterdir()), 10, "something is left")
    assert ask(server.client, [6] * 200, kv_transfer_params={}).status_code == 200  # all of the room is back
    server.terminate()
    assert server.wait(20) == 0


class LikeVllm(http.server.BaseHTTPRequestHandler):
    """Busy at first; writes bf16 or f32 without metadata after it has answered, under a lock."""

    target = refused = None
    lock = threading.Lock()

    def log_message(self, *_):
        pass

    def reply(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.reply(200, {"data": [{"id": MODEL}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.lock:
            refused, type(self).refused = self.refused, True
        if not refused:
            return self.reply(503, {"error": {"message": "later"}})
        answer = httpx.post(self.target + "/v1/completions", json=body, timeout=60).json()
        path = answer["kv_transfer_params"]["hidden_states_path"]
        tensors, _ = read_tensors(path)
        os.remove(path)
        answer["kv_transfer_params"]["hidden_states_path"] = path = path + ".safetensors"
        with open(path + ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.reply(200, answer)
            time.sleep(0.1)
            write_tensors(path, tensors)


@pytest.mark.parametrize("loss", ["ce", "kl"])
def test_a_trainer_takes_them_from_a_server(start, tmp_path, loss):
    folder = tmp_path / "states"
    server = start("--allow-hidden-states", str(folder))
    expected = trained(tmp_path, "alone", "--loss", loss)
    if loss == "ce":
        url = server.url
    else:
        LikeVllm.target = server.url
        other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), LikeVllm)
        threading.Thread(target=other.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{other.server_port}/v1"
    assert trained(tmp_path, "served", "--loss", loss, "--hidden-states", url) == expected
    assert not list(folder.iterdir())
    if loss != "ce":
        other.shutdown()
        assert LikeVllm.refused


@pytest.mark.parametrize("flags, words", [([], "--allow-hidden-states"), (["--aux-layers", "1,5"], "layers 1,5; expected 1,")])
def test_a_trainer_says_what_is_wrong_with_the_server(start, tmp_path, flags, words):
    server = start(*(["--allow-hidden-states", str(tmp_path / "states")] if flags else []), *flags)
    done, _ = train(tmp_path, "out", "--steps", "2", "--hidden-states", server.url)
    assert done.returncode == 1 and words in done.stderr, done.stderr
