# SPDX-License-Identifier: Apache-2.0
"""An answer while it comes."""

from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator, Iterator, Optional

from . import _ashlar
from .types import Chunk, Completion, Metrics, logprobs_from

#: How long a wait without the interpreter's lock may be: Ctrl-C has to be seen.
PATIENCE = 0.1


def chunk_from(run: _ashlar.Run, raw: _ashlar.RawChunk) -> Chunk:
    index, text, tokens, logprobs, unmask_pass, n_drafted, last = raw
    completion = completion_from(run, index) if last else None
    return Chunk(
        index, text, tokens, logprobs_from(logprobs), unmask_pass, n_drafted,
        completion.finish_reason if completion else None, completion.metrics if completion else None,
    )


def completion_from(run: _ashlar.Run, index: int) -> Completion:
    """The complete answer to a prompt; raises Error if the engine failed."""
    text, tokens, logprobs, unmask_pass, finish, stop_string, error, figures = run.answer(index)
    if finish == "error":
        raise _ashlar.Error(error)
    return Completion(
        text, tokens, finish, Metrics(**figures), stop_string or None, logprobs_from(logprobs), unmask_pass,
    )


async def arrival(run: _ashlar.Run) -> None:
    """Waits until the engine's thread has written to the run's file descriptor."""
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    fd = run.fileno()
    loop.add_reader(fd, arrived.set)
    try:
        await arrived.wait()
    finally:
        loop.remove_reader(fd)


class Stream:
    """The chunks of one answer: an iterator, and an asynchronous one. To stop reading and let it go, to leave its
    ``with`` block or to call close() cancels the answer. After the last chunk, ``completion`` is the whole answer."""

    def __init__(self, run: _ashlar.Run) -> None:
        self._run: Optional[_ashlar.Run] = run
        self._waiting: list[_ashlar.RawChunk] = []
        self.completion: Optional[Completion] = None

    def close(self) -> None:
        """Cancels what has not come yet."""
        run, self._run, self._waiting = self._run, None, []
        if run is not None:
            run.cancel()

    def _take(self, timeout: float) -> Optional[Chunk]:
        if self._run is None:
            return None
        if not self._waiting:
            self._waiting = self._run.next(timeout)
        if not self._waiting:
            return None
        raw = self._waiting.pop(0)
        try:
            chunk = chunk_from(self._run, raw)
            if raw[-1]:
                self.completion = completion_from(self._run, 0)
        except BaseException:
            self.close()
            raise
        if raw[-1]:
            self._run = None
        return chunk

    def __iter__(self) -> Iterator[Chunk]:
        return self

    def __next__(self) -> Chunk:
        while self._run is not None:
            chunk = self._take(PATIENCE)
            if chunk is not None:
                return chunk
        raise StopIteration

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self

    async def __anext__(self) -> Chunk:
        while self._run is not None:
            chunk = self._take(0)
            if chunk is not None:
                return chunk
            if self._run is not None:  # closing the stream meanwhile leaves the descriptor, and its end is news too
                await arrival(self._run)
        raise StopAsyncIteration

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, *error: Any) -> None:
        self.close()
