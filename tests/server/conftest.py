# SPDX-License-Identifier: Apache-2.0
"""Fixtures: the server that `run` started, clients for it, and a look at its health after every test."""

import os

import anthropic
import httpx
import openai
import pytest
import tokenizers

from support import Server, eventually

LONG = os.environ.get("ASHLAR_LONG_TESTS") == "1"


@pytest.fixture(scope="session")
def server():
    return Server.running(os.environ["ASHLAR_TEST_URL"], int(os.environ["ASHLAR_TEST_PID"]))


@pytest.fixture(scope="session")
def http(server):
    with httpx.Client(base_url=server.url, timeout=120, verify=False) as client:
        yield client


@pytest.fixture(scope="session")
def oai(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=120)


@pytest.fixture(scope="session")
def claude(server):
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=120)


@pytest.fixture(scope="session")
def long():
    return LONG


@pytest.fixture
def start():
    """Starts servers with other flags; they end with the test."""
    servers = []

    def begin(*flags):
        servers.append(Server.start(*flags))
        return servers[-1]

    yield begin
    for one in servers:
        one.kill()


@pytest.fixture(autouse=True)
def healthy(server):
    """Whatever a test did: the server answers, nothing runs or waits, no page is held."""
    yield
    assert server.client.get("/health").json() == {"status": "ok"}
    eventually(lambda: server.idle(), 10, "the server is not idle: " + str(server.stats()))


@pytest.fixture(scope="session")
def tokenizer():
    return tokenizers.Tokenizer.from_file(os.environ["ASHLAR_TEST_ROOT"] + "/models/pebble-11m/tokenizer.json")
