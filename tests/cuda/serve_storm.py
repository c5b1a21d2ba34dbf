#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_storm.py PROGRAM: serves the bundled model on the GPU to 64 clients, half of whose requests go away at any moment.

What stays answers as it did alone, nothing is left over, and the server ends when it is asked to. The clients are those of tests/server;
needs httpx, exits with 77 where it is missing.
"""

import os
import signal
import sys
from pathlib import Path

try:
    import httpx
except ImportError:
    print("skipped: python3 has no httpx")
    sys.exit(77)

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests" / "server"))
os.environ.update(ASHLAR_TEST_PROGRAM=sys.argv[1], ASHLAR_TEST_ROOT=str(ROOT))

import test_load  # noqa: E402
from support import Server  # noqa: E402

server = Server.start("--device", "cuda")
try:
    with httpx.Client(base_url=server.url, timeout=120, verify=False) as http:
        test_load.test_a_storm_of_clients(server, http, False)
    server.process.send_signal(signal.SIGTERM)
    code = server.process.wait(20)
    assert code == 0, f"the server ended with exit code {code}; expected 0"
finally:
    server.kill()
