"""Which of the kinds of prompts somebody gave."""

from __future__ import annotations

import json
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union

Message = Mapping[str, Any]
Tools = Optional[Sequence[Mapping[str, Any]]]
Variables = Optional[Mapping[str, Any]]
Prompt = Union[str, Sequence[int], Sequence[Message]]
Raw = Union[bytes, List[int], Tuple[str, str, str]]  #: what the module takes: text, token ids, or a conversation

_EXPECTED = "expected a text, a list of token ids, a list of messages, or a list of these"


def _is_list(value: Any) -> bool:
    if isinstance(value, Sequence):
        return not isinstance(value, (str, bytes, bytearray))
    return getattr(value, "ndim", 0) > 0  # an array


def is_batch(prompts: Any) -> bool:
    """Whether this is many prompts; token ids and messages are one."""
    return _is_list(prompts) and (len(prompts) == 0 or isinstance(prompts[0], str) or _is_list(prompts[0]))


def to_raw(prompt: Any, tools: Tools = None, variables: Variables = None) -> Raw:
    if isinstance(prompt, str):
        return prompt.encode("utf-8", "surrogatepass")
    if not _is_list(prompt) or len(prompt) == 0:
        raise TypeError(f"the prompt is {prompt!r}; {_EXPECTED}")
    if isinstance(prompt[0], Mapping):
        return (json.dumps(list(prompt)), json.dumps(tools), json.dumps(dict(variables or {})))
    return list(prompt)
