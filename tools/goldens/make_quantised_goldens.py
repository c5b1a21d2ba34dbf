#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tiny random checkpoints in the formats of quantised Hugging Face folders, and what their weights mean.

    python3 tools/goldens/make_quantised_goldens.py [tests/data/quantised [NAME...]]
    python3 tools/goldens/make_quantised_goldens.py --packages AUTOAWQ AUTO_GPTQ

Needs torch, transformers (made with 5.24) and numpy. Each folder is a Qwen3 of one layer: config.json, tensors.json in place of the weights
(see seeded_weights.py) and goldens.safetensors with the logits of transformers on the dequantised weights, in float32; dequantised.json
has the checksum of each dequantised matrix as float32. Dequantisation is written out here in numpy from what the formats' publishers say,
in float32: value = (number - zero point) * scale, one rounding for each operation. --packages compares these functions with those of the
packages compressed-tensors (0.20), autoawq (0.2.9) and auto-gptq (0.7.1); of the latter two the folders that hold their unpacked sources,
as they do not install without a GPU.
"""

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import numpy as np

from seeded_weights import codes, describe, fnv1a64, stored, table, weight

SEED = 20261127
HIDDEN, WIDTH, VOCAB = 64, 96, 48
PREFIX = "model.layers.0."
SIZES = {"fp8_128": (192, 320)}  # hidden size and width of the MLP where groups are larger


def modules(hidden, width):
    return {"self_attn.q_proj": (64, hidden), "self_attn.k_proj": (32, hidden), "self_attn.v_proj": (32, hidden), "self_attn.o_proj": (hidden, 64),
            "mlp.gate_proj": (width, hidden), "mlp.up_proj": (width, hidden), "mlp.down_proj": (hidden, width)}


GROUP = 32
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # output i of a word's nibbles, lowest first


# ---- what the bits mean

def e4m3(code):
    code = code.astype(np.int32)
    exponent, mantissa = code >> 3 & 15, code & 7
    magnitude = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    return (np.where(code & 128, -1, 1) * magnitude).astype(np.float32)


def e2m1(code):
    return np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)[code]


def fields(words, bits):
    """[..., n] of int32 -> [..., n * 32 / bits], lowest bits first."""
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    return (words.view(np.uint32)[..., None] >> shifts & np.uint32((1 << bits) - 1)).reshape(*words.shape[:-1], -1).astype(np.int32)


def floats(array, dtype):
    return (array.astype(np.uint32) << 16).view(np.float32) if dtype == "BF16" else array.astype(np.float32)


def expand(scale, shape, block):
    """One value for each block of rows and columns -> one for each element."""
    return np.repeat(np.repeat(scale, block[0], 0), block[1], 1)[: shape[0], : shape[1]]


def dequantise(number, zero, scale):
    return (number.astype(np.float32) - np.asarray(zero, np.float32)) * scale.astype(np.float32)


# ---- formats: (config, tensors of a module, its dequantisation out of arrays by suffix)

def scales(name, shape, dtype, size):
    """Positive, around `size`."""
    return weight(name, shape, dtype, 0.5 * size, size)


def about(k, rms):
    """The scale that gives rows of k numbers of this root mean square about unit length."""
    return 1 / (k**0.5 * rms)


def fp8_block(n, k, block=(48, 40)):
    shape = (-(-n // block[0]), -(-k // block[1]))
    tensors = [codes("weight", (n, k), "F8_E4M3"), scales("weight_scale_inv", shape, "BF16", about(k, 130))]
    return tensors, lambda t: e4m3(t["weight"]) * expand(t["weight_scale_inv"], (n, k), block)


def fp8_tensor(n, k):
    tensors = [codes("weight", (n, k), "F8_E4M3"), scales("weight_scale", (), "F32", about(k, 130)), scales("input_scale", (1,), "F32", 1)]
    return tensors, lambda t: e4m3(t["weight"]) * np.float32(t["weight_scale"])


def ct_float(n, k):
    shape = (n, 1) if n != HIDDEN else (1,)  # o_proj, q_proj and down_proj have one scale
    tensors = [codes("weight", (n, k), "F8_E4M3"), scales("weight_scale", shape, "BF16", about(k, 130))]
    return tensors, lambda t: e4m3(t["weight"]) * t["weight_scale"]


def ct_int8(n, k):
    tensors = [codes("weight", (n, k), "I8"), scales("weight_scale", (n, 1), "BF16", about(k, 74))]
    return tensors, lambda t: dequantise(t["weight"], 0, t["weight_scale"])


def ct_int8_asym(n, k):
    tensors = [*ct_int8(n, k)[0], codes("weight_zero_point", (n, 1), "I8")]
    return tensors, lambda t: dequantise(t["weight"], t["weight_zero_point"], t["weight_scale"])


def ct_packed(n, k, bits, dtype="BF16"):
    size = 1 << bits
    tensors = [codes("weight_packed", (n, k * bits // 32), "I32"), table("weight_shape", (2,), "I64", (n, k)),
               scales("weight_scale", (n, k // GROUP), dtype, about(k, size / 3.46))]
    return tensors, lambda t: dequantise(fields(t["weight_packed"], bits) - size // 2, 0, expand(t["weight_scale"], (n, k), (1, GROUP)))


def ct_packed_ordered(n, k):
    tensors, _ = ct_packed(n, k, 4, "F16")
    groups = k // GROUP
    order = (np.arange(k) * 5 + n) % groups
    tensors = [*tensors, codes("weight_zero_point", (n // 8, groups), "I32"), table("weight_g_idx", (k,), "I32", order)]

    def value(t):
        zero = fields(np.ascontiguousarray(t["weight_zero_point"].T), 4).T[:n]  # packed along the rows
        return dequantise(fields(t["weight_packed"], 4), zero[:, t["weight_g_idx"]], t["weight_scale"][:, t["weight_g_idx"]])

    return tensors, value


def pairs(packed):
    return np.stack([packed & 15, packed >> 4], -1).reshape(packed.shape[0], -1)


def ct_nvfp4(n, k):
    tensors = [codes("weight_packed", (n, k // 2), "U8"), codes("weight_scale", (n, k // 16), "F8_E4M3"),
               weight("weight_global_scale", (1,), "F32", 0.0, 1 / about(k, 400))]
    return tensors, lambda t: e2m1(pairs(t["weight_packed"])) * expand(e4m3(t["weight_scale"]) / t["weight_global_scale"], (n, k), (1, 16))


def ct_mxfp4(n, k):
    powers = [122 + (i * 7 + n) % 3 for i in range(n * k // GROUP)]
    tensors = [codes("weight_packed", (n, k // 2), "U8"), table("weight_scale", (n, k // GROUP), "U8", powers)]
    return tensors, lambda t: e2m1(pairs(t["weight_packed"])) * expand(np.float32(2) ** (t["weight_scale"].astype(np.float32) - 127), (n, k), (1, GROUP))


def awq(n, k):
    groups = k // GROUP
    tensors = [codes("qweight", (k, n // 8), "I32"), codes("qzeros", (groups, n // 8), "I32"), scales("scales", (groups, n), "F16", about(k, 6.5))]

    def by_output(words):
        out = np.empty((words.shape[0], n), np.int32)
        for i, column in enumerate(AWQ_ORDER):
            out[:, column::8] = fields(words, 4)[:, i::8]
        return out

    return tensors, lambda t: np.ascontiguousarray(
        dequantise(by_output(t["qweight"]), np.repeat(by_output(t["qzeros"]), GROUP, 0), np.repeat(t["scales"], GROUP, 0)).T)


def gptq(n, k, bits, symmetric=False, ordered=False, less_one=True, bias=False):
    groups, together = k // GROUP, 32 // bits
    tensors = [codes("qweight", (k // together, n), "I32"), scales("scales", (groups, n), "F16", about(k, (1 << bits) / (3.46 if symmetric else 2.4)))]
    word = sum(((1 << (bits - 1)) - less_one) << (bits * i) for i in range(together))
    word -= (1 << 32) if word >= 1 << 31 else 0
    shape = (groups, n // together)
    tensors.append(table("qzeros", shape, "I32", [word] * (shape[0] * shape[1])) if symmetric else codes("qzeros", shape, "I32"))
    order = (np.arange(k) * 7 + n) % groups if ordered else np.arange(k) // GROUP
    tensors.append(table("g_idx", (k,), "I32", order))
    if bias:
        tensors.append(weight("bias", (n,), "F16", 0.0))

    def value(t):
        zero = fields(t["qzeros"], bits) + less_one
        number = fields(np.ascontiguousarray(t["qweight"].T), bits)  # [n, k]
        return dequantise(number, zero.T[:, t["g_idx"]], t["scales"].T[:, t["g_idx"]])

    return tensors, value


def linear_group(**weights):
    return {"targets": ["Linear"], "input_activations": None, "output_activations": None, "weights": {"symmetric": True, "dynamic": False, **weights}}


def compressed(form, *groups):
    return {"quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed", "ignore": ["lm_head", "re:.*embed.*"],
            "kv_cache_scheme": None, "config_groups": {f"group_{i}": group for i, group in enumerate(groups)}}


def gptq_config(**more):
    return {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "damp_percent": 0.01, "desc_act": False, "sym": False, **more}


def variants():
    group = {"strategy": "group", "group_size": GROUP}
    return {
        "fp8_block": ({"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [48, 40]}, fp8_block),
        "fp8_128": ({"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]},
                    lambda n, k: fp8_block(n, k, (128, 128))),
        "fp8_tensor": ({"quant_method": "fp8", "activation_scheme": "static"}, fp8_tensor),
        "ct_float": (compressed("float-quantized", linear_group(type="float", num_bits=8, strategy="channel"),
                                linear_group(type="float", num_bits=8, strategy="tensor")), ct_float),
        "ct_int8": (compressed("int-quantized", linear_group(type="int", num_bits=8, strategy="channel")), ct_int8),
        "ct_int8_asym": (compressed("int-quantized", linear_group(type="int", num_bits=8, strategy="channel", symmetric=False)), ct_int8_asym),
        "ct_packed4": (compressed("pack-quantized", linear_group(type="int", num_bits=4, **group)), lambda n, k: ct_packed(n, k, 4)),
        "ct_packed8": (compressed("pack-quantized", linear_group(type="int", num_bits=8, **group)), lambda n, k: ct_packed(n, k, 8)),
        "ct_packed4_ordered": (compressed("pack-quantized", linear_group(type="int", num_bits=4, actorder="group", **{**group, "symmetric": False})),
                               ct_packed_ordered),
        "ct_nvfp4": (compressed("nvfp4-pack-quantized", linear_group(type="float", num_bits=4, strategy="tensor_group", group_size=16)), ct_nvfp4),
        "ct_mxfp4": (compressed("mxfp4-pack-quantized", linear_group(type="float", num_bits=4, **group)), ct_mxfp4),
        "awq": ({"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True, "version": "gemm", "modules_to_not_convert": None}, awq),
        "gptq": (gptq_config(sym=True), lambda n, k: gptq(n, k, 4, symmetric=True, bias=True)),
        "gptq_ordered": (gptq_config(desc_act=True), lambda n, k: gptq(n, k, 4, ordered=True)),
        "gptq_8_bits": (gptq_config(bits=8, sym=True), lambda n, k: gptq(n, k, 8, symmetric=True)),
        "gptq_v2": (gptq_config(checkpoint_format="gptq_v2"), lambda n, k: gptq(n, k, 4, less_one=False)),
    }


def model_config(quantisation, hidden, width):
    return {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": hidden, "intermediate_size": width, "num_hidden_layers": 1,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "hidden_act": "silu", "rms_norm_eps": 1e-6, "vocab_size": VOCAB,
            "max_position_embeddings": 256, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
            "attention_bias": False, "rope_theta": 10000.0, "rope_scaling": None, "quantization_config": quantisation}


def module_arrays(tensors):
    """The arrays of tensors by their names, scales in float32."""
    arrays = {}
    for tensor in tensors:
        array = stored(SEED, tensor)
        arrays[tensor["name"].rsplit(".", 1)[-1]] = floats(array, tensor["dtype"]) if tensor["dtype"] in ("BF16", "F16", "F32") else array
    return arrays


def build(format_of, hidden, width):
    """(tensors of the checkpoint, dequantised matrices by name, plain ones)"""
    tensors, matrices = [], {}
    for name, (n, k) in modules(hidden, width).items():
        base = PREFIX + name + "."
        own, value = format_of(n, k)
        own = [{**tensor, "name": base + tensor["name"]} for tensor in own]
        tensors += own
        matrices[base + "weight"] = np.ascontiguousarray(value(module_arrays(own)), np.float32)
        assert matrices[base + "weight"].shape == (n, k) and np.isfinite(matrices[base + "weight"]).all()
    for name, size, mean in (("input_layernorm", hidden, 1), ("post_attention_layernorm", hidden, 1), ("self_attn.q_norm", 16, 1.4), ("self_attn.k_norm", 16, 1.4)):
        tensors.append(weight(f"{PREFIX}{name}.weight", (size,), "BF16", 0.3, mean))
    tensors.append(weight("model.norm.weight", (hidden,), "BF16", 0.3, 1))
    tensors.append(weight("model.embed_tokens.weight", (VOCAB, hidden), "BF16", 1.7))
    tensors.append(weight("lm_head.weight", (VOCAB, hidden), "BF16", 0.6))
    plain = {t["name"]: floats(stored(SEED, t), t["dtype"]) for t in tensors if t["dtype"] == "BF16" and t["name"].endswith(".weight")}
    return tensors, matrices, plain


def make(root, name, quantisation, format_of):
    import torch
    from safetensors.numpy import save_file
    from transformers import Qwen3Config, Qwen3ForCausalLM

    folder = root / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    size = SIZES.get(name, (HIDDEN, WIDTH))
    config = model_config(quantisation, *size)
    (folder / "config.json").write_text(json.dumps(config, separators=(",", ":")) + "\n")
    tensors, matrices, plain = build(format_of, *size)
    describe(folder, SEED, tensors)
    checksums = {tensor: f"{fnv1a64(matrix.tobytes()):016x}" for tensor, matrix in matrices.items()}
    (folder / "dequantised.json").write_text(json.dumps(checksums, separators=(",", ":")) + "\n")
    del config["quantization_config"]
    model = Qwen3ForCausalLM._from_config(Qwen3Config(**config), attn_implementation="eager", dtype=torch.float32).eval()
    missing, unexpected = model.load_state_dict({n: torch.from_numpy(m.copy()) for n, m in {**plain, **matrices}.items()}, strict=False)
    assert not missing and not unexpected, (missing, unexpected)
    ids = np.array([3, 17, 40, 5, 5, 29, 11, 46, 8, 22], np.int32)
    with torch.no_grad():
        logits = model(torch.from_numpy(ids.astype(np.int64))[None]).logits[0].numpy()
    save_file({"input_ids": ids, "logits": logits}, folder / "goldens.safetensors")
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name}: {size / 1024:.0f} KiB, logits of deviation {logits.std():.2f}, weights of {[round(float(m.std()) * m.shape[1] ** 0.5, 2) for m in matrices.values()]}")


def module_of(path):
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def by_auto_gptq(qlinear, state, bits, n, k):
    """What it multiplies the unit matrix with."""
    layer = qlinear.QuantLinear(bits, GROUP, k, n, bias=False, kernel_switch_threshold=0)
    for name in ("qweight", "qzeros", "scales", "g_idx"):
        setattr(layer, name, state[name])
    return layer(state["scales"].new_zeros(k, k).fill_diagonal_(1)).T.numpy()


def compare_with_packages(awq_source, gptq_source):
    """Each function here against the package that owns the format, on q_proj and down_proj."""
    import torch
    from compressed_tensors.compressors.mxfp4 import MXFP4PackedCompressor
    from compressed_tensors.compressors.naive_quantized import NaiveQuantizationCompressor
    from compressed_tensors.compressors.nvfp4 import NVFP4PackedCompressor
    from compressed_tensors.compressors.pack_quantized import PackedQuantizationCompressor
    from compressed_tensors.quantization import QuantizationScheme

    compressors = {"ct_float": NaiveQuantizationCompressor, "ct_int8": NaiveQuantizationCompressor, "ct_int8_asym": NaiveQuantizationCompressor,
                   "ct_nvfp4": NVFP4PackedCompressor, "ct_mxfp4": MXFP4PackedCompressor}
    packing = module_of(Path(awq_source) / "awq/utils/packing_utils.py")
    qlinear = module_of(Path(gptq_source) / "auto_gptq/nn_modules/qlinear/qlinear_cuda.py")
    for name, (quantisation, format_of) in variants().items():
        for n, k in ((64, 64), (64, 96), (96, 64)):
            tensors, value = format_of(n, k)
            arrays = module_arrays(tensors)
            if "weight_g_idx" in arrays:  # which the package, unlike vLLM, no longer reads
                arrays["weight_g_idx"] = np.arange(k) // GROUP
            ours = value(arrays)
            state = {key: torch.from_numpy(np.array(array)) for key, array in arrays.items()}  # scales in float32: nothing is rounded
            if name == "awq":
                theirs = packing.dequantize_gemm(state["qweight"], state["qzeros"], state["scales"], 4, GROUP).T.numpy()
            elif name.startswith("ct_"):
                groups = list(quantisation["config_groups"].values())
                for group in groups:
                    group["weights"].pop("actorder", None)
                scheme = QuantizationScheme(**groups[1 if name == "ct_float" and n == HIDDEN else 0])
                for tensor in tensors:
                    if tensor["dtype"] == "F8_E4M3":
                        state[tensor["name"]] = state[tensor["name"]].view(torch.float8_e4m3fn)
                theirs = compressors.get(name, PackedQuantizationCompressor).decompress(state, scheme)["weight"].float().numpy()
            elif name.startswith("gptq") and name != "gptq_v2":
                theirs = by_auto_gptq(qlinear, state, quantisation["bits"], n, k)
            else:
                continue
            difference = float(np.abs(theirs - ours).max() / np.abs(ours).max())
            print(f"{name} [{n}, {k}]: differs by {difference:.2g} of the largest value")


def main():
    if sys.argv[1:2] == ["--packages"]:
        compare_with_packages(*sys.argv[2:])
        return
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data/quantised")
    for name, variant in variants().items():
        if len(sys.argv) <= 2 or name in sys.argv[2:]:
            make(root, name, *variant)


if __name__ == "__main__":
    main()
