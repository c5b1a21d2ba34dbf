# SPDX-License-Identifier: Apache-2.0
"""Messages of the engine in the words of this package: they are written for the program, whose flags a caller of Python does not have."""

from __future__ import annotations

import re
import shutil
from typing import Iterable

from . import _ashlar
from .command import program


def in_python(text: str, options: Iterable[str]) -> str:
    """``--max-context N`` becomes ``max_context=N`` where there is such an option; other flags stay. Where the program is not
    installed either, `ashlar pull` becomes the hub's own tool, which fills the same cache."""
    names = set(options)

    def argument(match: re.Match[str]) -> str:
        name = match[1].replace("-", "_").removeprefix("dllm_")
        if name not in names:
            return match[0]
        value = (match[2] or "").strip()
        if not value:
            return name
        return f"{name}={value}" if value.isupper() or value.isdigit() else f"{name}={value!r}"

    text = re.sub(r"--([a-z][a-z-]*[a-z])( (?:[A-Z]+|[0-9]+|none|ngram|mtp|auto|exact|int8|int4|fp8|tq4)\b)?", argument, text)
    if not program().is_file() and shutil.which("ashlar") is None:
        text = re.sub(r"\bashlar pull (?=[A-Za-z0-9])", "hf download ", text)
    return text


def reworded(error: BaseException, options: Iterable[str]) -> _ashlar.Error:
    return _ashlar.Error(in_python(str(error), options))
