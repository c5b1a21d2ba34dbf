# SPDX-License-Identifier: Apache-2.0
"""Heads that draft one token at a time in PyTorch: the reference of make_draft_head_goldens.py.

Written from the definitions and for reading: one sequence, float32, no cache. A head reads pairs of a feature and the token after it,
(f_0, x_1), (f_1, x_2), ..., one row each, causally; the output of a row stands for what the target would have left at that position, so
that the next draft's pair is (that output, the draft).

  Mtp     the layer of a Qwen3.5 checkpoint: f is the target's hidden state after its final norm,
          x = fc [norm(E[token]); norm(f)], one decoder layer, norm; the classes of transformers compute the layer and the norms
  NextN   the same in DeepSeek's spelling, as one more layer of the model's: transformers' own MtpModel reads the checkpoint and computes it
  Eagle3  f = fc [h_a; h_b; h_c] of hidden states between the target's layers; attention reads [norm(E[token]); norm(f)] and its residual
          is f; the output before the final norm is fed back. Further layers are plain ones. With a mask (P-EAGLE) rows after x_n
          read the mask's embedding and its own feature, all in one forward
"""

import copy

import torch
import torch.nn.functional as F
from transformers.modeling_layers import MtpModel
from transformers.models.qwen3_5 import modeling_qwen3_5 as qwen3_5
from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe as qwen3_5_moe

from drafter_reference import rms_norm, rope


def causal(rows):
    return torch.full((rows, rows), float("-inf")).triu(1)


class Mtp(torch.nn.Module):
    def __init__(self, target):
        super().__init__()
        self.config = copy.deepcopy(target.model.config)
        module, kind = (qwen3_5_moe, "Qwen3_5Moe") if "moe" in self.config.model_type else (qwen3_5, "Qwen3_5")
        norm = getattr(module, f"{kind}RMSNorm")
        hidden, eps = self.config.hidden_size, self.config.rms_norm_eps
        self.fc = torch.nn.Linear(2 * hidden, hidden, bias=False)
        self.pre_fc_norm_embedding, self.pre_fc_norm_hidden, self.norm = norm(hidden, eps), norm(hidden, eps), norm(hidden, eps)
        layer = getattr(module, f"{kind}DecoderLayer")
        self.layers = torch.nn.ModuleList([layer(self.config, self.config.layer_types.index("full_attention"))])
        self.tables = [target.embedding, target.head]  # not parameters of its own
        self.rotary = [target.model.model.rotary_emb]

    def features(self, states):
        return states[-1]

    def forward(self, features, ids):
        """features [T, H], ids [T] -> (for the head, for the next row's feature)"""
        embedded = self.pre_fc_norm_embedding(self.tables[0][ids])
        x = self.fc(torch.cat((embedded, self.pre_fc_norm_hidden(features)), dim=-1))[None]
        positions = torch.arange(len(ids)).view(1, 1, -1).expand(3, 1, -1)
        out = self.layers[0](x, position_embeddings=self.rotary[0](x, positions), attention_mask=causal(len(ids))[None, None])
        out = self.norm((out[0] if isinstance(out, tuple) else out)[0])
        return out, out

    def logits(self, hidden):
        return hidden @ self.tables[1].T

    def target_ids(self, entries):
        return entries


class NextN(torch.nn.Module):
    """model: of a folder whose checkpoint has the layer."""

    def __init__(self, model):
        super().__init__()
        layers = f"layers.{model.config.num_hidden_layers}."
        model._keys_to_ignore_on_load_unexpected = [layers.replace(".", r"\.")]  # the class knows published sizes only
        self.mtp = MtpModel.from_pretrained(model)
        self.mtp.config._attn_implementation = model.config._attn_implementation

    def features(self, states):
        return states[-1]

    def forward(self, features, ids):
        out = self.mtp.forward_layer(0, features[None], torch.arange(len(ids))[None], None, input_ids=ids[None])[0]
        return out, out

    def logits(self, hidden):
        return self.mtp.shared_head(hidden)

    def target_ids(self, entries):
        return entries


class Eagle3(torch.nn.Module):
    """weights: name -> float32 tensor, as stored; names of the layer begin with `layer`."""

    def __init__(self, target, raw, weights, layer):
        super().__init__()
        self.net = raw.get("transformer_layer_config", raw)
        self.raw, self.w, self.layer = raw, weights, layer
        self.mask_id = raw.get("mask_token_id", raw.get("ptd_token_id"))
        self.embedding = weights.get("embed_tokens.weight", target.embedding)
        own = raw.get("eagle_config", {}).get("eagle_aux_hidden_state_layer_ids")
        # Entry i of transformers' hidden_states is the input of layer i: what ids of speculators count, and not those of eagle_config.
        self.aux_layers = [i + 1 for i in own] if own else raw["eagle_aux_hidden_state_layer_ids"]

    def norm(self, x, name):
        return rms_norm(x, self.w[f"{name}.weight"], self.net["rms_norm_eps"])

    def features(self, states):
        return self.joined([states[i] for i in self.aux_layers])

    def mask_feature(self):
        return self.joined(list(self.w["mask_hidden"].reshape(len(self.aux_layers), 1, -1)))

    def joined(self, parts):
        if self.raw.get("fc_norm"):
            parts = [self.norm(part, f"fc_norm.{i}") for i, part in enumerate(parts)]
        joined = torch.cat(parts, dim=-1)
        if self.raw.get("norm_before_fc"):
            joined = self.norm(joined, "input_norm")
        return F.linear(joined, self.w["fc.weight"])

    def attention(self, x, layer):
        name, net = f"{layer}self_attn.", self.net
        d, heads, groups = net["head_dim"], net["num_attention_heads"], net["num_attention_heads"] // net["num_key_value_heads"]
        positions = torch.arange(len(x))
        theta = net.get("rope_theta") or net["rope_parameters"]["rope_theta"]
        q, k, v = (F.linear(x, self.w[f"{name}{part}_proj.weight"]).view(len(x), -1, d) for part in "qkv")
        if f"{name}q_norm.weight" in self.w:
            q, k = self.norm(q, f"{name}q_norm"), self.norm(k, f"{name}k_norm")
        q, k = rope(q, positions, theta), rope(k, positions, theta).repeat_interleave(groups, dim=1)
        scores = torch.einsum("qhd,khd->hqk", q, k) / d**0.5 + causal(len(x))
        mixed = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v.repeat_interleave(groups, dim=1))
        return F.linear(mixed.reshape(len(x), heads * d), self.w[f"{name}o_proj.weight"])

    def forward(self, features, ids):
        name = self.layer
        read = self.norm(features, f"{name}hidden_norm")
        x = read if self.raw.get("norm_before_residual") else features
        x = x + self.attention(torch.cat((self.norm(self.embedding[ids], f"{name}input_layernorm"), read), dim=-1), name)
        x = x + self.mlp(x, name)
        for i in range(1, self.net["num_hidden_layers"]):
            x = x + self.attention(self.norm(x, f"layers.{i}.input_layernorm"), f"layers.{i}.")
            x = x + self.mlp(x, f"layers.{i}.")
        out = self.norm(x, "norm")
        return out, out if self.raw.get("norm_output") else x

    def mlp(self, x, layer):
        normed = self.norm(x, f"{layer}post_attention_layernorm")
        gate = F.silu(F.linear(normed, self.w[f"{layer}mlp.gate_proj.weight"]))
        return F.linear(gate * F.linear(normed, self.w[f"{layer}mlp.up_proj.weight"]), self.w[f"{layer}mlp.down_proj.weight"])

    def logits(self, hidden):
        return hidden @ self.w["lm_head.weight"].T

    def target_ids(self, entries):
        return entries + self.w["d2t"][entries] if "d2t" in self.w else entries


def chain(head, features, ids, drafts):
    """Drafts after ids[-1], the last token: features [n, F] of the positions before each of ids [n]. -> (hidden, logits, drafted ids)"""
    if isinstance(head, Eagle3) and head.mask_id is not None:
        features = torch.cat((features, head.mask_feature().expand(drafts - 1, -1)))
        out = head(features, torch.tensor(list(ids) + [head.mask_id] * (drafts - 1)))[0][-drafts:]
        return out, head.logits(out), head.target_ids(head.logits(out).argmax(-1)).tolist()
    hidden, logits = [], []
    ids = list(ids)
    for _ in range(drafts):
        out, fed_back = head(features, torch.tensor(ids))
        hidden.append(out[-1])
        logits.append(head.logits(out[-1]))
        ids.append(int(head.target_ids(logits[-1].argmax())))
        features = torch.cat((features, fed_back[-1:]))
    return torch.stack(hidden), torch.stack(logits), ids[-drafts:]
