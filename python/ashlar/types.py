# SPDX-License-Identifier: Apache-2.0
"""What goes into an engine and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union


RawLogprob = Tuple[int, float, List[Tuple[int, float]]]


@dataclass
class SamplingParams:
    """How an answer is drawn. Together with weights and prompt these determine its tokens."""

    temperature: float = 0.0  #: 0: always the most likely token
    top_k: int = 0  #: keep the k most likely tokens; 0: all
    top_p: float = 1.0  #: keep the most likely tokens up to this mass
    min_p: float = 0.0  #: keep tokens at least this likely, relative to the best
    repetition_penalty: float = 1.0  #: above 1: less of what prompt and answer hold
    presence_penalty: float = 0.0  #: above 0: less of what the answer holds
    frequency_penalty: float = 0.0  #: the same for each time it occurs
    logit_bias: Optional[Mapping[int, float]] = None  #: added to the logits of these tokens
    seed: int = 0
    scheme: str = "coupled"  #: "rejection": classic speculative rejection, the right distribution with other tokens
    logprobs: Optional[int] = None  #: log-probabilities of the tokens, and of the n best of each
    max_tokens: Optional[int] = None  #: None: to the end of the answer, or of the context
    stop: Union[str, Sequence[str], None] = None  #: the answer ends before the first of these
    stop_token_ids: Optional[Sequence[int]] = None  #: end the answer besides the model's own; part of it
    ignore_eos: bool = False  #: the model's own end tokens do not end the answer
    skip_special_tokens: bool = True  #: in the text
    width: int = 0  #: most tokens a forward may decide; 1: plain decoding, 0: the method's own
    algorithm: Optional[str] = None  #: block diffusion: how to denoise; None: the engine's
    algorithm_options: Optional[Mapping[str, float]] = None  #: its parameters, such as {"threshold": 0.8}
    json_schema: Union[Mapping[str, Any], str, bool, None] = None  #: the answer is JSON that satisfies this
    regex: Optional[str] = None  #: the answer matches this as a whole
    grammar: Optional[str] = None  #: the answer is derived from this grammar (EBNF)
    choice: Optional[Sequence[str]] = None  #: the answer is one of these


@dataclass(frozen=True)
class Logprob:
    """A token of an answer. Log-probabilities are of the raw logits."""

    token_id: int
    logprob: float
    top: list[tuple[int, float]]  #: the most likely tokens at its place, best first


@dataclass(frozen=True)
class Metrics:
    """Figures of one answer."""

    prompt_tokens: int
    cached_tokens: int  #: of the prompt, found in the prefix cache
    generated_tokens: int
    forwards: int  #: passes of the model that decided tokens
    tokens_per_forward: float
    lengths: list[int]  #: lengths[n]: forwards that decided n tokens
    drafted: int
    accepted: int  #: of the drafted
    ngram_accepted: int  #: of the accepted, n-gram drafts: those that followed when the same tokens came before
    preemptions: int
    queue_seconds: float  #: until the first step
    first_token_seconds: float  #: until the first token, queue included
    total_seconds: float
    tokens_per_second: float  #: from the first token to the end

    recalled = property(lambda self: self.ngram_accepted)  # its name in the version before

    @property
    def accept_lengths(self) -> list[int]:
        """Tokens decided by each forward, shortest first: tokens_per_forward is their mean."""
        return [n for n, times in enumerate(self.lengths) for _ in range(times)]


@dataclass(frozen=True)
class Chunk:
    """A piece of an answer that is coming."""

    index: int  #: of the prompt
    text: str  #: whole characters; comes later than the tokens while a stop string is possible
    token_ids: list[int]
    logprobs: Optional[list[Logprob]]
    unmask_pass: Optional[list[int]]  #: block diffusion: the pass over its block that unmasked each token
    n_drafted: int  #: how many of the tokens were accepted drafts, the first ones
    finish_reason: Optional[str] = None  #: in the last chunk
    metrics: Optional[Metrics] = None  #: in the last chunk

    settled_in = property(lambda self: self.unmask_pass)  # its name in the version before


@dataclass(frozen=True)
class Completion:
    """A whole answer."""

    text: str
    token_ids: list[int]  #: stop token included
    finish_reason: str  #: "stop", "length" or "cancelled"
    metrics: Metrics = field(repr=False)
    stop_string: Optional[str] = None  #: the one that ended it
    logprobs: Optional[list[Logprob]] = field(default=None, repr=False)
    unmask_pass: Optional[list[int]] = field(default=None, repr=False)  #: as in Chunk

    outputs = property(lambda self: [self])  # vLLM has a list of answers here
    settled_in = property(lambda self: self.unmask_pass)  # its name in the version before


def logprobs_from(raw: Optional[list[RawLogprob]]) -> Optional[list[Logprob]]:
    return None if raw is None else [Logprob(*one) for one in raw]
