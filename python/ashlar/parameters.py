# SPDX-License-Identifier: Apache-2.0
"""Parameters of an answer and options of an engine, by their own names and by those that other libraries have for them."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Union

from .types import SamplingParams

Fields = Mapping[str, Any]
Params = Union[SamplingParams, Fields, Sequence[Union[SamplingParams, Fields]], None]

#: What vLLM, llama-cpp-python, transformers and OpenAI's client call the same thing.
PARAMETER_NAMES = {
    "max_completion_tokens": "max_tokens",
    "max_new_tokens": "max_tokens",
    "repeat_penalty": "repetition_penalty",
    "temp": "temperature",
}
OPTION_NAMES = {
    "enable_prefix_caching": "prefix_cache",
    "kv_cache_dtype": "kv_dtype",
    "max_model_len": "max_context",
    "max_num_seqs": "max_sequences",
    "model_path": "model",
    "n_ctx": "max_context",
    "n_threads": "threads",
}

#: Options of vLLM, llama-cpp-python and transformers that have no counterpart of the same meaning, and what comes nearest.
OPTION_HINTS = {
    "device_map": "here it is device='cuda'",
    "draft_model": "here it is drafter=FOLDER",
    "dtype": "here it is weights='auto', 'int8', 'int4', 'fp8' or 'exact'",
    "enforce_eager": "leave it out: nothing is compiled at the start",
    "gpu_memory_utilization": "here it is kv_memory=BYTES; the weights take what they are",
    "n_batch": "here it is prefill_chunk=N",
    "n_gpu_layers": "here it is device='cuda', which has the whole model on the GPU",
    "quantization": "here it is weights='int8', 'int4' or 'fp8'; files that are quantised are run as they are",
    "seed": "here it is the parameter seed of a request: generate(prompt, seed=1)",
    "speculative_config": "here it is drafter=FOLDER",
    "tensor_parallel_size": "here it is device='cuda': a model runs on one device",
    "torch_dtype": "here it is weights='auto', 'int8', 'int4', 'fp8' or 'exact'",
    "trust_remote_code": "leave it out: no code of a model's folder is ever run",
}

_FIELDS = [field.name for field in dataclasses.fields(SamplingParams)]


def unknown(what: str, name: str, known: Iterable[str]) -> TypeError:
    if what == "option" and name in OPTION_HINTS:
        return TypeError(f"there is no {what} {name!r}; {OPTION_HINTS[name]}")
    names = sorted(known)
    near = difflib.get_close_matches(name, names, 1)
    return TypeError(f"there is no {what} {name!r}" + (f"; did you mean {near[0]!r}?" if near else f"; expected one of {', '.join(names)}"))


def renamed(given: Fields, names: Mapping[str, str], known: Sequence[str], what: str) -> Dict[str, Any]:
    """`given` by the names of this package; raises TypeError for what is none, or is there twice."""
    out: Dict[str, Any] = {}
    for name, value in given.items():
        own = names.get(name, name)
        if own not in known:
            raise unknown(what, name, [*known, *names])
        if own in out:
            raise TypeError(f"the {what} {own!r} is given twice, also as {name!r}")
        out[own] = value
    return out


def _one(params: Any, fields: Fields) -> SamplingParams:
    if isinstance(params, Mapping):
        params = SamplingParams(**renamed(params, PARAMETER_NAMES, _FIELDS, "parameter"))
    if not isinstance(params, SamplingParams):
        raise TypeError(f"the parameters are {params!r}; expected SamplingParams, or a dict with its fields")
    params = dataclasses.replace(params, **fields)
    return dataclasses.replace(params, top_k=0) if params.top_k == -1 else params  # vLLM's word for all


def params_from(params: Params, fields: Fields) -> List[SamplingParams]:
    """One for all prompts, or one each: `params` as the caller gave them, changed by keyword arguments."""
    own = renamed(fields, PARAMETER_NAMES, _FIELDS, "parameter")
    if params is None:
        params = SamplingParams()
    if isinstance(params, (SamplingParams, Mapping, str)) or not isinstance(params, Iterable):
        return [_one(params, own)]
    return [_one(one, own) for one in params]
