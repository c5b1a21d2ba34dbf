# SPDX-License-Identifier: Apache-2.0
"""What the tests of the package share: engines of the bundled models, questions, and waiting until nothing runs."""

import time
from pathlib import Path

import ashlar
from ashlar import SamplingParams

MODELS = Path(__file__).resolve().parents[2] / "models"
QUESTION = [{"role": "user", "content": "What is a harbour?"}]
EQUATION = [{"role": "user", "content": "Solve for x: 8x + 5 = 3x + 45"}]
STORY = "Once upon a time, there was"
SHORT = SamplingParams(max_tokens=40)
#: So long that only cancelling ends it soon.
ENDLESS = SamplingParams(max_tokens=1500, ignore_eos=True)

engines = {}


def open_engines(*names):
    """For setUpModule(): of "plain", "drafted", "blocks"."""
    makers = {
        "plain": lambda: ashlar.Engine(MODELS / "pebble-11m", "none", max_context=2048),
        # Of a fixed width: what is drafted without one depends on what rows cost on the machine at the moment.
        "drafted": lambda: ashlar.Engine(str(MODELS / "pebble-11m"), width=8, max_context=2048),
        "blocks": lambda: ashlar.Engine(MODELS / "pebble-11m-sdar", max_context=2048),
    }
    for name in names:
        engines[name] = makers[name]()


def close_engines():
    """For tearDownModule()."""
    for engine in engines.values():
        counters = engine.counters()
        engine.close()
        if counters["requests_failed"]:
            raise AssertionError(f"{counters['requests_failed']} requests failed")
    engines.clear()


def idle(engine):
    """Waits until nothing runs; how many pages are then held."""
    for _ in range(1000):
        counters = engine.counters()
        if counters["running"] + counters["waiting"] == 0:
            return counters["pages_held"]
        time.sleep(0.01)
    raise AssertionError(f"still busy: {counters}")
