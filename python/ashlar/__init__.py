# SPDX-License-Identifier: Apache-2.0
"""Language models that produce blocks of tokens, offline: see Engine."""

import os as _os
from pathlib import Path as _Path

# The bundled models of a wheel; elsewhere the library finds them by itself.
if (_Path(__file__).parent / "models").is_dir():
    _os.environ.setdefault("ASHLAR_MODELS", str(_Path(__file__).parent / "models"))

from ._ashlar import Error, __version__
from .engine import Engine
from .stream import Stream
from .types import Chunk, Completion, Logprob, Metrics, SamplingParams

LLM = Engine  #: its name in vLLM
Error.__module__ = __name__  # what a traceback shows is what a program catches

__all__ = [
    "Chunk", "Completion", "Engine", "Error", "LLM", "Logprob", "Metrics", "SamplingParams", "Stream", "__version__",
]
