"""The DFlash drafter in plain PyTorch: the reference of make_drafter_goldens.py.

Written from the definition of the method and its two checkpoint forms (z-lab, speculators), for reading and not for speed: one
sequence, float32, everything recomputed unless it is the point of the method.

  features f_t  concatenation of the target's residual stream after the auxiliary layers, in listed order        [K * Ht]
  context  c_t  RMSNorm(fc f_t): one row per committed token, shared by all draft layers                      [H]
  block         [last token, mask, mask, ...] at absolute positions start, start+1, ...                           [B]

Context rows become keys and values directly (no input norm, no queries); block rows are ordinary rows that see them and each other.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass
class DrafterConfig:
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    layers: int
    eps: float
    theta: float
    layer_types: list
    window: int
    block: int
    aux_layers: list  # target layer l means hidden_states[l + 1] of Hugging Face
    mask_id: int
    is_causal: bool | None = None  # None: causal exactly in sliding layers
    from_anchor: bool = False  # slot k predicts start+k+1 instead of start+k
    embed_scale: float = 1.0
    output_multiplier: float = 1.0
    softcap: float | None = None

    @property
    def drafts(self):
        return self.block if self.from_anchor else self.block - 1


def read_config(raw):
    """Both checkpoint forms: z-lab (flat) and speculators (nested transformer_layer_config)."""
    speculators = "speculators_model_type" in raw
    net = raw["transformer_layer_config"] if speculators else raw
    extra = {} if speculators else raw["dflash_config"]
    rope = net.get("rope_parameters") or {"rope_theta": net["rope_theta"]}
    if speculators:
        aux_layers, mask_id = [i - 1 for i in raw["aux_hidden_state_layer_ids"]], raw["mask_token_id"]
        block = raw["block_size"]
    else:
        aux_layers, mask_id = extra["target_layer_ids"], extra["mask_token_id"]
        block = raw["block_size"] if "block_size" in raw else extra["block_size"]
    return DrafterConfig(
        hidden=net["hidden_size"], heads=net["num_attention_heads"], kv_heads=net["num_key_value_heads"], head_dim=net["head_dim"],
        layers=net["num_hidden_layers"], eps=net["rms_norm_eps"], theta=rope["rope_theta"], layer_types=net["layer_types"],
        window=net.get("sliding_window") or 0, block=block, aux_layers=aux_layers, mask_id=mask_id, is_causal=raw.get("is_causal"),
        from_anchor=raw.get("sample_from_anchor", False), embed_scale=extra.get("input_embedding_scale", 1.0),
        output_multiplier=extra.get("output_multiplier", 1.0), softcap=extra.get("final_logit_softcapping"))


def rms_norm(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def rope(x, positions, theta):
    """x [rows, heads, d] rotated by halves (NeoX pairing) at absolute `positions` [rows]."""
    half = x.shape[-1] // 2
    frequency = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = (positions.double()[:, None] * frequency)[:, None, :]
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Drafter:
    """weights: name -> float32 tensor, as stored. embedding [V, H] and head [Vd, H] are the target's unless the checkpoint has its own."""

    def __init__(self, config, weights, target_embedding, target_head):
        self.c, self.w = config, weights
        self.embedding = weights.get("embed_tokens.weight", target_embedding)
        self.head = weights.get("lm_head.weight", target_head)
        self.offsets = weights.get("d2t")
        self.reset()

    def reset(self):
        heads, d = self.c.kv_heads, self.c.head_dim
        self.cache = [(torch.zeros(0, heads, d), torch.zeros(0, heads, d)) for _ in range(self.c.layers)]

    def linear(self, name, x):
        return F.linear(x, self.w[f"{name}.weight"], self.w.get(f"{name}.bias"))

    def context(self, features):
        """[T, K * Ht] -> [T, H]"""
        return rms_norm(self.linear("fc", features), self.w["hidden_norm.weight"], self.c.eps)

    def keys_values(self, layer, rows, positions):
        name = f"layers.{layer}.self_attn"
        shape = (len(rows), self.c.kv_heads, self.c.head_dim)
        keys = rms_norm(self.linear(f"{name}.k_proj", rows).view(shape), self.w[f"{name}.k_norm.weight"], self.c.eps)
        return rope(keys, positions, self.c.theta), self.linear(f"{name}.v_proj", rows).view(shape)

    def extend(self, context):
        """Append context rows [T, H] of the next T committed positions to the cache: all that is ever cached."""
        start = len(self.cache[0][0])
        positions = torch.arange(start, start + len(context))
        for i, (old_keys, old_values) in enumerate(self.cache):
            keys, values = self.keys_values(i, context, positions)
            self.cache[i] = (torch.cat((old_keys, keys)), torch.cat((old_values, values)))

    def visible(self, layer, query, key):
        """Which key positions [n] a query position [m] may see -> bool [m, n]."""
        sliding = self.c.layer_types[layer] == "sliding_attention"
        causal = sliding if self.c.is_causal is None else self.c.is_causal
        ahead = key[None, :] - query[:, None]
        mask = torch.ones_like(ahead, dtype=torch.bool)
        if causal:
            mask &= ahead <= 0
        if sliding:
            mask &= -ahead < self.c.window
            mask &= ahead < self.c.window
        return mask

    def attention(self, layer, rows, positions):
        name, d = f"layers.{layer}.self_attn", self.c.head_dim
        queries = self.linear(f"{name}.q_proj", rows).view(len(rows), self.c.heads, d)
        queries = rope(rms_norm(queries, self.w[f"{name}.q_norm.weight"], self.c.eps), positions, self.c.theta)
        block_keys, block_values = self.keys_values(layer, rows, positions)
        cached_keys, cached_values = self.cache[layer]
        group = self.c.heads // self.c.kv_heads
        keys = torch.cat((cached_keys, block_keys)).repeat_interleave(group, dim=1)
        values = torch.cat((cached_values, block_values)).repeat_interleave(group, dim=1)
        scores = torch.einsum("qhd,khd->hqk", queries, keys) / d**0.5
        key_positions = torch.cat((torch.arange(len(cached_keys)), positions))
        scores = scores.masked_fill(~self.visible(layer, positions, key_positions), float("-inf"))
        mixed = torch.einsum("hqk,khd->qhd", scores.softmax(-1), values)
        return self.linear(f"{name}.o_proj", mixed.reshape(len(rows), -1))

    def draft(self, last_token):
        """One pass over the block. Returns hidden after the final norm [B, H] and logits [B, Vd]; leaves the cache as it is."""
        start = len(self.cache[0][0])
        ids = torch.tensor([last_token] + [self.c.mask_id] * (self.c.block - 1))
        positions = torch.arange(start, start + self.c.block)
        x = self.embedding[ids] * self.c.embed_scale
        for i in range(self.c.layers):
            name = f"layers.{i}"
            normed = rms_norm(x, self.w[f"{name}.input_layernorm.weight"], self.c.eps)
            x = x + self.attention(i, normed, positions)
            normed = rms_norm(x, self.w[f"{name}.post_attention_layernorm.weight"], self.c.eps)
            gate = F.silu(self.linear(f"{name}.mlp.gate_proj", normed))
            x = x + self.linear(f"{name}.mlp.down_proj", gate * self.linear(f"{name}.mlp.up_proj", normed))
        hidden = rms_norm(x, self.w["norm.weight"], self.c.eps)
        logits = (hidden * self.c.output_multiplier) @ self.head.T
        if self.c.softcap is not None:
            logits = self.c.softcap * torch.tanh(logits / self.c.softcap)
        return hidden, logits

    def drafted_ids(self, logits):
        """Greedy drafts in the target's vocabulary; slot 0 speaks only when sampling from the last token."""
        best = logits[0 if self.c.from_anchor else 1:].argmax(-1)
        return best if self.offsets is None else best + self.offsets[best]
