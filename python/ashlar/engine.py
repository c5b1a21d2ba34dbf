"""A loaded model that answers prompts."""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping, Optional, Sequence, Union, overload

from . import _ashlar
from .prompts import Message, Prompt, Tools, Variables, is_batch, to_raw
from .stream import PATIENCE, Stream, chunk_from, completion_from
from .types import Chunk, Completion, SamplingParams

Params = Union[SamplingParams, Sequence[SamplingParams], None]


class Engine:
    """A model, autoregressive or of blocks, with its engine. Any thread may use it; what several ask for shares steps."""

    def __init__(
        self,
        model: Union[str, os.PathLike[str], None] = None,
        drafter: Union[str, os.PathLike[str], None] = None,
        *,
        device: str = "cpu",
        threads: int = 0,
        isa: Optional[str] = None,
        weights: str = "auto",
        kv_dtype: str = "bf16",
        kv_memory: Union[int, str, None] = None,
        max_context: int = 0,
        max_sequences: int = 16,
        prefill_chunk: int = 256,
        prefix_cache: bool = True,
        depth: int = 2,
        width: int = 0,
        draft_window: int = 0,
        branches: int = 3,
        ngram_drafts: str = "auto",
        passes: int = 1,
        schedule: str = "cosine",
        algorithm: Optional[str] = None,
        algorithm_options: Optional[Mapping[str, float]] = None,
        block_size: int = 0,
        recall: Optional[str] = None,  # the name of ngram_drafts in the version before
    ) -> None:
        """Loads the model; raises Error, which names the file or option that is wrong.

        model: a Hugging Face folder, or a name as for ``ashlar run``; None: the bundled one.
        drafter: its folder; None: the folder <model>-dflash or <model>-eagle3 next to the model if there is one, else "mtp",
        the model's own layer, if it has one that drafts, else "ngram": what followed the same tokens before; "none": plain
        decoding.
        threads: 0: one a core. weights: "exact", "int8", or "auto": 8 bits where a file has blocks of integers. kv_memory:
        bytes, or "512M"; None: what is needed. max_context: longest sequence.
        width, draft_window, branches, ngram_drafts, passes, schedule: of drafting, as the flags of ``ashlar run``.
        algorithm, algorithm_options, block_size: how a block-diffusion model denoises, for instance
        ``algorithm="low_confidence", algorithm_options={"threshold": 0.8}``.
        """
        options = dict(
            device=device, threads=threads, isa=isa, weights=weights, kv_dtype=kv_dtype, kv_memory=kv_memory,
            max_context=max_context, max_sequences=max_sequences, prefill_chunk=prefill_chunk, prefix_cache=prefix_cache, depth=depth,
            width=width, draft_window=draft_window, branches=branches,
            ngram_drafts=ngram_drafts if recall is None else recall, passes=passes, schedule=schedule,
            algorithm=algorithm, algorithm_options=algorithm_options, block_size=block_size,
        )
        self._core = _ashlar.Core(os.fspath(model or ""), os.fspath(drafter or ""), options)

    @overload  # a text is also a sequence of texts, but the first that fits counts
    def generate(  # type: ignore[overload-overlap]
        self, prompts: Union[str, Sequence[int], Sequence[Message]], params: Optional[SamplingParams] = ..., *,
        tools: Tools = ..., template_variables: Variables = ...,
        on_chunk: Optional[Callable[[Chunk], Any]] = ...,
    ) -> Completion: ...

    @overload
    def generate(
        self, prompts: Sequence[Union[str, Sequence[int], Sequence[Message]]], params: Params = ..., *,
        tools: Tools = ..., template_variables: Variables = ...,
        on_chunk: Optional[Callable[[Chunk], Any]] = ...,
    ) -> list[Completion]: ...

    def generate(
        self, prompts: Any, params: Params = None, *, tools: Tools = None, template_variables: Variables = None,
        on_chunk: Optional[Callable[[Chunk], Any]] = None,
    ) -> Union[Completion, list[Completion]]:
        """Answers one prompt, or many at once: a Completion, or a list in the prompts' order.

        A prompt is a text to continue as it is, a list of token ids, or a list of messages ({"role", "content"}) for
        the model's chat template, which may use `tools` and `template_variables`. `params`: one for all, or one a
        prompt. `on_chunk` is called on this thread with every piece; if it raises, or on Ctrl-C, all is cancelled and
        the exception comes out here.
        """
        batch = is_batch(prompts)
        each = list(prompts) if batch else [prompts]
        run = self._start(each, params, tools, template_variables, False)
        try:
            if on_chunk is None:
                while not run.wait(PATIENCE):
                    pass
            else:
                while not run.done():
                    for raw in run.next(PATIENCE):
                        on_chunk(chunk_from(run, raw))
        except BaseException:
            run.cancel()
            raise
        completions = [completion_from(run, i) for i in range(len(each))]
        return completions if batch else completions[0]

    def stream(
        self,
        prompt: Prompt,
        params: Optional[SamplingParams] = None,
        *,
        tools: Tools = None,
        template_variables: Variables = None,
    ) -> Stream:
        """Begins the answer to one prompt: ``async for chunk in engine.stream(...)``, or ``for``."""
        if is_batch(prompt):
            raise TypeError("a stream is of one prompt; open one for each, they run together")
        return Stream(self._start([prompt], params, tools, template_variables, True))

    def _start(
        self, prompts: list[Any], params: Params, tools: Tools, variables: Variables, with_bell: bool
    ) -> _ashlar.Run:
        if params is None:
            params = SamplingParams()
        wishes = [params] if isinstance(params, SamplingParams) else list(params)
        for one in wishes:
            if not isinstance(one, SamplingParams):
                raise TypeError(f"the parameters are {one!r}; expected SamplingParams")
        return _ashlar.Run(self._core, [to_raw(p, tools, variables) for p in prompts], wishes, with_bell)

    def encode(
        self,
        prompt: Prompt,
        *,
        tools: Tools = None,
        template_variables: Variables = None,
    ) -> list[int]:
        """The token ids of a prompt."""
        return self._core.encode(to_raw(prompt, tools, template_variables))

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return self._core.decode(list(token_ids), skip_special_tokens)

    @property
    def max_positions(self) -> int:
        """The longest sequence in tokens, prompt included."""
        return self._core.max_positions()

    @property
    def vocab_size(self) -> int:
        return self._core.vocab_size()

    @property
    def decoder(self) -> str:
        """The decoding method."""
        return self._core.decoder()

    @property
    def notes(self) -> list[str]:
        """What is worth knowing about how this was set up."""
        return self._core.notes()

    def counters(self) -> dict[str, int]:
        """Totals since the start, and how full the engine is."""
        return self._core.counters()

    def close(self) -> None:
        """Frees the model as soon as the last running answer has ended. The engine cannot be used after that."""
        self._core.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            return f"<ashlar.Engine {self._core.describe()}>"
        except _ashlar.Error:
            return "<ashlar.Engine, closed>"
