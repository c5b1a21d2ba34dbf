# SPDX-License-Identifier: Apache-2.0
"""The head of LiLiCorr (NVIDIA, arXiv 2608.20530) in plain PyTorch, for drafter_reference.py. One block, float32.

  candidate  token_proj(E[token]) + pass_hidden_proj(y of its slot) + feature_mlp(numbers) + slot embedding + rank embedding       [h]
  numbers    log-probability over the whole vocabulary, probability, log-probability less that of the likeliest, rank / (k - 1),
             1 for the likeliest; feature_mlp is layer norm, linear, SiLU, linear
  layers     pre-norm attention over all slots * k candidates and MLP; to the scores of head n is added, for a query in slot s and a key
             in slot t, relative[n, s - t + block - 1], and where s = t same[n]
  anchor     RMSNorm(context_proj(c)), c being the context row of the token before the last one
  factors    u = SiLU(factor_input_proj([x; a; x * a])); out, in and the anchor's out are projected from u and a and divided by their length
  score      logit_scale * out of the candidate before . in of the candidate
"""

import torch
import torch.nn.functional as F

NUMBERS = 5


class Lattice:
    """weights: name after "lilicorr." -> float32 tensor."""

    def __init__(self, raw, eps, weights):
        self.k, self.heads, self.layers = (raw[f"lilicorr_{key}"] for key in ("candidate_topk", "num_heads", "num_layers"))
        self.scale, self.vector_eps, self.eps = raw["lilicorr_logit_scale"], raw["lilicorr_vector_eps"], eps
        self.w = {name.removeprefix("lilicorr."): t for name, t in weights.items() if name.startswith("lilicorr.")}

    def linear(self, name, x):
        return F.linear(x, self.w[f"{name}.weight"], self.w[f"{name}.bias"])

    def norm(self, name, x):
        return F.rms_norm(x, x.shape[-1:], self.w[f"{name}.weight"], self.eps)

    def numbers(self, logits, ids):
        log_p = logits.log_softmax(-1).gather(1, ids)
        rank = (torch.arange(self.k) / (self.k - 1)).expand_as(log_p)
        first = (torch.arange(self.k) == 0).float().expand_as(log_p)
        numbers = torch.stack((log_p, log_p.exp(), log_p - log_p[:, :1], rank, first), -1)
        normed = F.layer_norm(numbers, (NUMBERS,), self.w["feature_mlp.0.weight"], self.w["feature_mlp.0.bias"], 1e-5)
        return self.linear("feature_mlp.3", F.silu(self.linear("feature_mlp.1", normed)))

    def attention(self, name, x, slots):
        attention = torch.nn.MultiheadAttention(x.shape[-1], self.heads, batch_first=True)
        for part in ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"):
            attention.get_parameter(part).data = self.w[f"{name}.{part}"]
        slot = torch.arange(slots).repeat_interleave(self.k)
        apart = slot[:, None] - slot[None, :]
        table = self.w["relative_slot_bias"]
        bias = table[:, apart + table.shape[1] // 2] + (apart == 0) * self.w["same_slot_bias"][:, None, None]
        return attention(x[None], x[None], x[None], attn_mask=bias, need_weights=False)[0][0]

    def edges(self, embedded, hidden, logits, ids, context):
        """embedded [slots, k, H], hidden [slots, H], logits [slots, V], ids [slots, k], context [H] -> [slots, k, k]"""
        slots = len(ids)
        tokens = self.linear("token_proj", embedded) if "token_proj.weight" in self.w else embedded
        x = tokens + self.linear("pass_hidden_proj", hidden)[:, None] + self.numbers(logits, ids)
        x = x + self.w["slot_embedding"][0, 0, :slots] + self.w["rank_embedding"][0, 0]
        x = x.flatten(0, 1)
        for i in range(self.layers):
            x = x + self.attention(f"layers.{i}.attn", self.norm(f"layers.{i}.attn_norm", x), slots)
            inner = F.silu(self.linear(f"layers.{i}.mlp.0", self.norm(f"layers.{i}.mlp_norm", x)))
            x = x + self.linear(f"layers.{i}.mlp.2", inner)
        x = self.norm("output_norm", x)
        anchor = self.norm("anchor_norm", self.linear("context_proj", context))
        factors = F.silu(self.linear("factor_input_proj", torch.cat((x, anchor.expand_as(x), x * anchor), -1)))
        unit = lambda name, rows: F.normalize(self.linear(name, rows), dim=-1, eps=self.vector_eps)  # noqa: E731
        out, into = (unit(name, factors).view(slots, self.k, -1) for name in ("out_head", "in_head"))
        before = torch.cat((unit("anchor_out_head", anchor).expand(1, self.k, -1), out[:-1]))
        return self.scale * torch.einsum("saf,sbf->sab", before, into)
