# SPDX-License-Identifier: Apache-2.0
"""Weights of tiny random checkpoints that are computed from a seed instead of stored.

A folder of tests/data holds config.json, goldens and tensors.json, which describes the safetensors files. This module and
tests/golden/seeded_checkpoint.cc write the same bytes from it:

    key     = fnv1a64(name in UTF-8) ^ seed
    bits    = splitmix64(key + index) >> 40            index in row-major order, everything modulo 2^64
    uniform = float32(bits) * 2^-23 - 1                exact, in [-1, 1)
    value   = uniform * float32(scale) + float32(offset)      one rounding to float32 for each of the two operations
    stored  = value rounded to the tensor's dtype, to nearest even

tensors.json: {"seed": s, "index": file name or absent, "files": {file name: [tensor, ...]}}, the tensors in the order of their bytes, each
{"name", "dtype": as in safetensors, "shape", "fnv1a64": checksum of the stored bytes in hexadecimal} and either "scale" and "offset", or
"values" for what is no noise (integers and bools only). Without any of them an integer is the upper bits of splitmix64(key + index), as many as
it has; so is an F8_E4M3, whose codes 0x7F and 0xFF (no numbers) become 0x7E and 0xFE. "as" names another tensor's noise: two tensors with equal values.

    tensors = [weight(name, shape, "BF16", scale, offset), ...]
    describe(folder, seed, tensors, shards=1)          # writes folder/tensors.json
    with_weights(folder, temporary)                    # copies the folder's files and writes the safetensors: load from there

Needs numpy only.
"""

import json
import shutil
from pathlib import Path

import numpy as np

ITEM_TYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "I64": np.int64, "I32": np.int32, "I8": np.int8, "U8": np.uint8,
              "F8_E4M3": np.uint8, "BOOL": np.bool_}
MASK = (1 << 64) - 1
# The standard deviation of uniform noise of this scale is 1.
UNIT = 3.0**0.5


def fnv1a64(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


def splitmix64(state):
    """uint64 array -> uint64 array, modulo 2^64."""
    z = state + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(seed, name, count):
    """`count` exact float32 values in [-1, 1)."""
    key = np.uint64(fnv1a64(name.encode()) ^ seed)
    bits = splitmix64(key + np.arange(count, dtype=np.uint64)) >> np.uint64(40)
    return bits.astype(np.float32) * np.float32(2.0**-23) - np.float32(1)


def to_bf16(values):
    """float32 -> the 16 bits of bfloat16, to nearest even. Finite values only."""
    bits = values.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def stored(seed, tensor):
    """The bytes of a tensor as an array of its shape (bfloat16: its bits as uint16)."""
    shape, item = tensor["shape"], ITEM_TYPES[tensor["dtype"]]
    if "values" in tensor:
        return np.array(tensor["values"], dtype=item).reshape(shape)
    if "scale" not in tensor:
        return random_bits(seed, tensor).reshape(shape)
    noise = uniform(seed, tensor.get("as", tensor["name"]), int(np.prod(shape, dtype=np.int64)))
    values = noise * np.float32(tensor["scale"]) + np.float32(tensor["offset"])
    return (to_bf16(values) if tensor["dtype"] == "BF16" else values.astype(item)).reshape(shape)


def random_bits(seed, tensor):
    item = np.dtype(ITEM_TYPES[tensor["dtype"]])
    key = np.uint64(fnv1a64(tensor["name"].encode()) ^ seed)
    bits = splitmix64(key + np.arange(int(np.prod(tensor["shape"], dtype=np.int64)), dtype=np.uint64)) >> np.uint64(64 - 8 * item.itemsize)
    values = bits.astype(np.dtype(f"u{item.itemsize}")).view(item)
    if tensor["dtype"] == "F8_E4M3":
        values = np.where(values & 127 == 127, values ^ 1, values)
    return values


def codes(name, shape, dtype):
    """Integers or small floats of random bits."""
    return {"name": name, "dtype": dtype, "shape": list(shape)}


def weight(name, shape, dtype, scale, offset=0.0, same_as=None):
    """Noise in [offset - scale, offset + scale). Four digits of scale and offset are kept. `same_as`: a tensor's name to share values with."""
    tensor = {"name": name, "dtype": dtype, "shape": list(shape), "scale": float(f"{scale:.4g}"), "offset": float(f"{offset:.4g}")}
    if same_as:
        tensor["as"] = same_as
    return tensor


def table(name, shape, dtype, values):
    """Integers or bools that are given one by one."""
    return {"name": name, "dtype": dtype, "shape": list(shape), "values": [int(v) for v in values]}


def describe(folder, seed, tensors, shards=1):
    """Writes folder/tensors.json. Shards are filled in turn, so that the tensors of one layer lie in different files."""
    # Widest items first, as safetensors does: every tensor is aligned.
    size = lambda tensor: np.dtype(ITEM_TYPES[tensor["dtype"]]).itemsize  # noqa: E731
    tensors = sorted(tensors, key=lambda tensor: (-size(tensor), tensor["name"]))
    description = {"seed": seed}
    if shards > 1:
        description["index"] = "model.safetensors.index.json"
    names = [f"model-{i + 1:05d}-of-{shards:05d}.safetensors" for i in range(shards)] if shards > 1 else ["model.safetensors"]
    description["files"] = {name: tensors[i::shards] for i, name in enumerate(names)}
    lines = []
    for name, contents in description["files"].items():
        rows = [json.dumps({**t, "fnv1a64": f"{fnv1a64(stored(seed, t).tobytes()):016x}"}, separators=(",", ":")) for t in contents]
        lines.append(f"{json.dumps(name)}: [\n" + ",\n".join(rows) + "]")
    head = ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in description.items() if key != "files")
    (Path(folder) / "tensors.json").write_text("{" + head + ', "files": {\n' + ",\n".join(lines) + "}}\n")


def write_safetensors(path, seed, tensors):
    header, data, at = {"__metadata__": {"format": "pt"}}, [], 0
    for tensor in tensors:
        data.append(stored(seed, tensor).tobytes())
        header[tensor["name"]] = {"dtype": tensor["dtype"], "shape": tensor["shape"], "data_offsets": [at, at + len(data[-1])]}
        at += len(data[-1])
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(len(text).to_bytes(8, "little") + text + b"".join(data))
    return at


def with_weights(folder, target):
    """Copies the files of `folder` except tensors.json to the new folder `target` and writes the weights there. Returns `target`."""
    folder, target = Path(folder), Path(target)
    target.mkdir(parents=True)
    for file in folder.iterdir():
        if file.name != "tensors.json":
            shutil.copy(file, target)
    description = json.loads((folder / "tensors.json").read_text())
    total, weight_map = 0, {}
    for name, tensors in description["files"].items():
        total += write_safetensors(target / name, description["seed"], tensors)
        weight_map.update({tensor["name"]: name for tensor in tensors})
    if "index" in description:
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        (target / description["index"]).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
    return target
