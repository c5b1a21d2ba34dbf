# SPDX-License-Identifier: Apache-2.0
"""A loaded model that answers prompts."""

from __future__ import annotations

import inspect
import os
from typing import Any, Callable, List, Mapping, Optional, Sequence, Union, overload

from . import _ashlar
from .parameters import OPTION_NAMES, Fields, Params, params_from, renamed
from .prompts import Message, Prompt, Tools, Variables, as_conversations, is_batch, to_raw
from .stream import PATIENCE, Stream, arrival, chunk_from, completion_from
from .types import Chunk, Completion, SamplingParams
from .words import in_python, reworded

Conversations = Union[str, Sequence[Message], Sequence[Sequence[Message]]]


def _given_twice(name: str) -> Any:
    raise TypeError(f"{name!r} is given twice, by two of its names")


class Engine:
    """A model, autoregressive or of blocks, with its engine. Any thread may use it; what several ask for shares steps."""

    def __init__(
        self,
        model: Union[str, os.PathLike[str], None] = None,
        drafter: Union[str, os.PathLike[str], None] = None,
        *,
        device: str = "auto",
        threads: int = 0,
        isa: Optional[str] = None,
        weights: str = "auto",
        drafter_weights: str = "auto",
        kv_dtype: str = "bf16",
        kv_memory: Union[int, str, None] = None,
        max_context: int = 0,
        max_sequences: int = 16,
        prefill_chunk: int = 0,
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
        **others: Any,  # by the names that other libraries have for these: OPTION_NAMES
    ) -> None:
        """Loads the model; raises Error, which names the file or option that is wrong.

        model: a Hugging Face folder, or a name as for ``ashlar run``; None: the bundled one.
        drafter: its folder or .gguf file; None: <model>-dflash or <model>-eagle3 next to the model if there is one, else the
        one published for it if that was pulled, else "mtp", the model's own layer, if it has one that drafts, else "ngram": what followed the same tokens before; "none": plain
        decoding.
        threads: 0: one a core. weights: "exact", "int8", "int4", "fp8", or "auto": as few bits as the file has.
        drafter_weights: the same of the drafter, or "auto": what suits the device; no token depends on them.
        kv_memory: bytes, or "512M"; None: what is needed. max_context: longest sequence.
        width, draft_window, branches, ngram_drafts, passes, schedule: of drafting, as the flags of ``ashlar run``.
        algorithm, algorithm_options, block_size: how a block-diffusion model denoises, for instance
        ``algorithm="low_confidence", algorithm_options={"threshold": 0.8}``.
        """
        options = dict(
            device=device, threads=threads, isa=isa, weights=weights, drafter_weights=drafter_weights,
            kv_dtype=kv_dtype, kv_memory=kv_memory, max_context=max_context, max_sequences=max_sequences,
            prefill_chunk=prefill_chunk, prefix_cache=prefix_cache, depth=depth, width=width, draft_window=draft_window, branches=branches,
            ngram_drafts=ngram_drafts if recall is None else recall, passes=passes, schedule=schedule,
            algorithm=algorithm, algorithm_options=algorithm_options, block_size=block_size,
        )
        own = renamed(others, OPTION_NAMES, [*options, "model"], "option")
        defaults = inspect.signature(Engine).parameters
        for name, value in own.items():
            if name == "model":
                model = value if model is None else _given_twice(name)
            elif options[name] != defaults[name].default:
                _given_twice(name)
            else:
                options[name] = value
        self._options = ["drafter", *options]
        try:
            self._core = _ashlar.Core(os.fspath(model or ""), os.fspath(drafter or ""), options)
        except _ashlar.Error as error:
            raise reworded(error, self._options) from None

    @overload  # a text is also a sequence of texts, but the first that fits counts
    def generate(  # type: ignore[overload-overlap]
        self, prompts: Union[str, Sequence[int], Sequence[Message]], params: Union[SamplingParams, Fields, None] = ..., *,
        tools: Tools = ..., template_variables: Variables = ...,
        on_chunk: Optional[Callable[[Chunk], Any]] = ..., **fields: Any,
    ) -> Completion: ...

    @overload
    def generate(
        self, prompts: Sequence[Union[str, Sequence[int], Sequence[Message]]], params: Params = ..., *,
        tools: Tools = ..., template_variables: Variables = ...,
        on_chunk: Optional[Callable[[Chunk], Any]] = ..., **fields: Any,
    ) -> list[Completion]: ...

    def generate(
        self, prompts: Any, params: Params = None, *, tools: Tools = None, template_variables: Variables = None,
        on_chunk: Optional[Callable[[Chunk], Any]] = None, **fields: Any,
    ) -> Union[Completion, list[Completion]]:
        """Answers one prompt, or many at once: a Completion, or a list in the prompts' order.

        A prompt is a text to continue as it is, a list of token ids, or a list of messages ({"role", "content"}) for
        the model's chat template, which may use `tools` and `template_variables`. `params`: SamplingParams or a dict of
        its fields, one for all, or one a prompt; `fields`: such fields by themselves (``max_tokens=100``), which count
        more. `on_chunk` is called on this thread with every piece; if it raises, or on Ctrl-C, all is cancelled and
        the exception comes out here.
        """
        batch = is_batch(prompts)
        each = list(prompts) if batch else [prompts]
        run = self._start(each, params, fields, tools, template_variables, False)
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

    async def agenerate(
        self, prompts: Any, params: Params = None, *, tools: Tools = None, template_variables: Variables = None, **fields: Any,
    ) -> Union[Completion, list[Completion]]:
        """The same for an event loop, which it does not hold up; cancelling the task cancels the answers."""
        batch = is_batch(prompts)
        each = list(prompts) if batch else [prompts]
        run = self._start(each, params, fields, tools, template_variables, True)
        try:
            while not run.done():
                run.next(0)  # what has come is in the answers as well
                if not run.done():
                    await arrival(run)
        except BaseException:
            run.cancel()
            raise
        completions = [completion_from(run, i) for i in range(len(each))]
        return completions if batch else completions[0]

    def chat(
        self, messages: Conversations, params: Params = None, *, tools: Tools = None, template_variables: Variables = None,
        on_chunk: Optional[Callable[[Chunk], Any]] = None, **fields: Any,
    ) -> Union[Completion, List[Completion]]:
        """generate() of a conversation, or of several; a text is what the user says. Raises TypeError for anything else."""
        return self.generate(
            as_conversations(messages), params, tools=tools, template_variables=template_variables, on_chunk=on_chunk, **fields)

    async def achat(
        self, messages: Conversations, params: Params = None, *, tools: Tools = None, template_variables: Variables = None,
        **fields: Any,
    ) -> Union[Completion, List[Completion]]:
        """chat() for an event loop."""
        return await self.agenerate(
            as_conversations(messages), params, tools=tools, template_variables=template_variables, **fields)

    def stream(
        self,
        prompt: Prompt,
        params: Union[SamplingParams, Fields, None] = None,
        *,
        tools: Tools = None,
        template_variables: Variables = None,
        **fields: Any,
    ) -> Stream:
        """Begins the answer to one prompt: ``async for chunk in engine.stream(...)``, or ``for``."""
        if is_batch(prompt):
            raise TypeError("a stream is of one prompt; open one for each, they run together")
        return Stream(self._start([prompt], params, fields, tools, template_variables, True))

    def _start(
        self, prompts: list[Any], params: Params, fields: Fields, tools: Tools, variables: Variables, with_bell: bool
    ) -> _ashlar.Run:
        if "sampling_params" in fields:  # vLLM's name of the argument
            fields = dict(fields)
            given = fields.pop("sampling_params")
            params = given if params is None else _given_twice("params")
        wishes = params_from(params, fields)
        try:
            return _ashlar.Run(self._core, [to_raw(p, tools, variables) for p in prompts], wishes, with_bell)
        except _ashlar.Error as error:
            raise reworded(error, self._options) from None

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
        return [in_python(note, self._options) for note in self._core.notes()]

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
