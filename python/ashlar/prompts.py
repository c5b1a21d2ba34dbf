# SPDX-License-Identifier: Apache-2.0
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


def _utf8(text: str) -> bytes:
    """Two halves of a character that UTF-16 cut become that character, one alone bytes that are read as U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        return whole.encode("utf-8", "surrogatepass")


def _json(value: Any) -> str:
    return _utf8(json.dumps(value, ensure_ascii=False)).decode("utf-8", "replace")


def as_conversations(messages: Any) -> Any:
    """Messages, or a list of lists of them; a text is one message of the user's."""
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    if _is_list(messages) and len(messages) > 0:
        first = messages[0]
        if isinstance(first, Mapping) or _is_list(first) and len(first) > 0 and isinstance(first[0], Mapping):
            return messages
    raise TypeError(f"the conversation is {messages!r}; expected a text, a list of messages, or a list of such lists")


def to_raw(prompt: Any, tools: Tools = None, variables: Variables = None) -> Raw:
    if isinstance(prompt, str):
        return _utf8(prompt)
    if not _is_list(prompt) or len(prompt) == 0:
        raise TypeError(f"the prompt is {prompt!r}; {_EXPECTED}")
    if isinstance(prompt[0], Mapping):
        return (_json(list(prompt)), _json(tools), _json(dict(variables or {})))
    return list(prompt)
