# SPDX-License-Identifier: Apache-2.0
"""Blocks of numbers as GGUF files hold them, and what they mean by the Python package gguf.

Writes tests/data/gguf/blocks.safetensors: for each type TYPE.blocks (bytes) and TYPE.values. Scales are finite numbers of all
sizes and signs, everything else in a block is random bits. Needs: pip install gguf numpy safetensors
"""

import sys
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from safetensors.numpy import save_file

# Where the scales of 16 bits lie in a block.
HALVES = {
    "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2],
    "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [],
}


def random_blocks(name: str, count: int, random: np.random.Generator) -> np.ndarray:
    _, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
    for at in HALVES[name]:
        scale = random.standard_normal(count) * 2.0 ** random.integers(-26, 12, count)
        scale[0] = 0.0123
        blocks[:, at : at + 2] = scale.astype(np.float16).view(np.uint8).reshape(count, 2)
    if name == "MXFP4":
        blocks[:, 0] = [0, 1, 2, 252, *random.integers(90, 160, count - 4)]
    return blocks


def main() -> None:
    random = np.random.default_rng(2026)
    tensors = {}
    for name in HALVES:
        numbers, _ = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
        blocks = random_blocks(name, 3 if numbers == 256 else 8, random)
        values = dequantize(blocks, GGMLQuantizationType[name]).reshape(len(blocks), numbers)
        assert values.dtype == np.float32 and np.isfinite(values).all()
        tensors[name + ".blocks"] = blocks
        tensors[name + ".values"] = values
    save_file(tensors, Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data/gguf") / "blocks.safetensors")


if __name__ == "__main__":
    main()
