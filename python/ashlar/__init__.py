"""Language models that produce blocks of tokens, offline: see Engine."""

from ._ashlar import Error, __version__
from .engine import Engine
from .stream import Stream
from .types import Chunk, Completion, Logprob, Metrics, SamplingParams

__all__ = [
    "Chunk", "Completion", "Engine", "Error", "Logprob", "Metrics", "SamplingParams", "Stream", "__version__",
]
