# SPDX-License-Identifier: Apache-2.0
"""The DFlash drafter in plain PyTorch: the reference of make_drafter_goldens.py.

Written from the definition of the method and its two checkpoint forms (z-lab, speculators), for reading and not for speed: one
sequence, float32, everything recomputed unless it is the point of the method.

  features f_t  concatenation of the target's residual stream after the auxiliary layers, in listed order        [K * Ht]
  context  c_t  RMSNorm(fc f_t): one row per committed token, shared by all draft layers                      [H]
  block         [last token, mask, mask, ...] at absolute positions start, start+1, ...                           [B]

Context rows become keys and values directly (no input norm, no queries); block rows are ordinary rows that see them and each other.

DFlash2 adds to that, with z the normed rows that enter attention or MLP of a layer, and i a row of the block:

  dynamic      W z_i as [2, taps, groups]: of the sublayer's input and output side; a channel belongs to group c // group size
  convolved    sum over t of (base[side, t] + dynamic_i[side, t]) * rows_(i - t), rows before the block being zero; the sublayer reads z
               convolved by side 0, and what it answers, convolved by side 1, is added to the residual stream
  candidates   of a slot, the top k of its logits U
  score        of candidate b after token a: U[b] + sum(A[a] * (W y) * B[b]), y the final hidden state of the slot; drafts are a walk
               from the last token on, each the best candidate after the one before it

LiLiCorr takes candidates likewise, and scores of lattice_reference.py; its layers may convolve as those of DFlash2 do.

Domino chooses likewise slot by slot: a GRU without biases reads the embeddings of the block's tokens, the last token first; with its output g after
the token before a slot, the slot's logits grow by W2 silu(W1 [y; g]), but for those of the first few drafts.

xPress lets all slots add at once, in rounds, each slot reading what the round before left. With u the code of the token before a slot's own (of
the last token's slot: the token before that, as training has it), y its hidden state and g the mean over the block's rows:

  a            W [D y; D' g; u]
  b            a + L a, where L is lower triangular over the slots, and another one for each channel
  c            b + W_down (silu(W_gate b) * W_up b); the slot's logits grow by R c, and its highest entry is the draft of this round

DSpark adds to DFlash: the logits of a slot grow by W2 e, where e = W1[token before it], or with a gate sigmoid(G [y; e] + g) * e; drafts
are chosen slot by slot, the first after the last token.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from lattice_reference import Lattice


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
    conv: tuple | None = None  # taps, channels of a group
    top_k: int = 0  # candidates of a slot; 0: no selector
    lattice: dict | None = None  # the settings of LiLiCorr's head
    markov: str = ""  # "vanilla" or "gated"; "": no such head
    domino: tuple | None = None  # numbers of the code and of the state, drafts that are left alone
    refiner: tuple | None = None  # numbers of a code and of the MLP, rounds

    @property
    def adds(self):
        """Whether a head adds to the logits what drafts before a slot say."""
        return bool(self.markov or self.domino or self.refiner)

    @property
    def drafts(self):
        return self.block if self.from_anchor else self.block - 1


def read_config(raw):
    """Both checkpoint forms: z-lab (flat) and speculators (nested transformer_layer_config)."""
    speculators = "speculators_model_type" in raw
    net = raw["transformer_layer_config"] if speculators else raw
    extra = {} if speculators else raw.get("dflash_config", raw)  # DeepSpec's form is flat
    rope = net.get("rope_parameters") or {"rope_theta": net["rope_theta"]}
    if speculators:
        aux_layers, mask_id = [i - 1 for i in raw["aux_hidden_state_layer_ids"]], raw["mask_token_id"]
        block = raw["block_size"]
    else:
        aux_layers, mask_id = extra["target_layer_ids"], extra["mask_token_id"]
        block = raw["block_size"] if "block_size" in raw else extra["block_size"]
    dflash2 = raw.get("speculators_model_type", extra.get("projector_type", "")) == "dflash2" or "DFlash2DraftModel" in raw["architectures"]
    dspark = raw.get("speculators_model_type", extra.get("projector_type", "")) == "dspark" or "Qwen3DSparkModel" in raw["architectures"]
    lilicorr = extra.get("projector_type", "") == "lilicorr" or "LiLiCorrDraftModel" in raw["architectures"]
    head = raw if speculators else extra
    domino = raw.get("speculators_model_type", extra.get("projector_type", "")) == "domino"
    xpress = raw.get("speculators_model_type") == "xpress"
    convolves = dflash2 or (lilicorr and "conv_kernel_size" in head)
    top_k = head["selector_top_k"] if dflash2 else head["lilicorr_candidate_topk"] if lilicorr else 0
    causal = raw.get("is_causal")
    if speculators and raw.get("sliding_window_non_causal", dflash2):
        causal = False
    return DrafterConfig(
        hidden=net["hidden_size"], heads=net["num_attention_heads"], kv_heads=net["num_key_value_heads"], head_dim=net["head_dim"],
        layers=net["num_hidden_layers"], eps=net["rms_norm_eps"], theta=rope["rope_theta"], layer_types=net["layer_types"],
        window=net.get("sliding_window") or 0, block=block, aux_layers=aux_layers, mask_id=mask_id, is_causal=causal,
        conv=(head["conv_kernel_size"], head["conv_group_size"]) if convolves else None, top_k=top_k, lattice=head if lilicorr else None,
        domino=(head["emb_dim"], head["gru_hidden_dim"], head.get("pure_draft_prefix_len", 0)) if domino else None,
        refiner=(head["xpress_rank"], head["xpress_rank"] * head["xpress_mlp_ratio"], head["num_jacobi_passes"]) if xpress else None,
        from_anchor=raw.get("sample_from_anchor", dspark or (domino and head.get("shift_label", False))), markov=head["markov_head_type"] if dspark else "", embed_scale=extra.get("input_embedding_scale", 1.0),
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
        self.target_embedding = target_embedding
        self.lattice = Lattice(config.lattice, config.eps, weights) if config.lattice else None
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
        self.newest = context[-1]
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

    def convolve(self, name, side, rows, dynamic):
        """rows [B, H], dynamic [B, 2, taps, groups]"""
        taps, group = self.c.conv
        base = self.w[f"{name}.base_kernel"][side]
        out = torch.zeros_like(rows)
        for i in range(len(rows)):
            for t in range(min(taps, i + 1)):
                out[i] += (base[t] + dynamic[i, side, t].repeat_interleave(group)) * rows[i - t]
        return out

    def sublayer(self, layer, conv, rows, compute):
        """What attention or MLP adds to the residual stream, given the normed rows."""
        if self.c.conv is None:
            return compute(rows)
        name = f"layers.{layer}.{conv}"
        dynamic = self.linear(f"{name}.kernel_projection", rows).view(len(rows), 2, self.c.conv[0], -1)
        return self.convolve(name, 1, compute(self.convolve(name, 0, rows, dynamic)), dynamic)

    def mlp(self, layer, rows):
        name = f"layers.{layer}.mlp"
        gate = F.silu(self.linear(f"{name}.gate_proj", rows))
        return self.linear(f"{name}.down_proj", gate * self.linear(f"{name}.up_proj", rows))

    def candidates(self, logits):
        """[slots, top_k] ids, best first."""
        return logits.topk(self.c.top_k, dim=-1).indices

    def edges(self, hidden, logits, last_token):
        """[slots, top_k, top_k]: scores of a slot's candidates after each of the slot before; of the first slot all after the last token."""
        if self.lattice:
            ids = self.candidates(logits)
            return self.lattice.edges(self.target_embedding[ids] * self.c.embed_scale, hidden, logits, ids, self.newest)
        name = "candidate_selector"
        before_codes, after_codes = self.w[f"{name}.predecessor_codebook"], self.w[f"{name}.successor_codebook"]
        projected, ids = self.linear(f"{name}.hidden_projection", hidden), self.candidates(logits)
        before = torch.cat((torch.full((1, self.c.top_k), last_token), ids[:-1]))
        more = torch.einsum("sar,sr,sbr->sab", before_codes[before], projected, after_codes[ids])
        return logits.gather(1, ids)[:, None, :] + more

    def draft(self, last_token, token_before=None):
        """One pass over the block. Returns hidden after the final norm [B, H] and logits [B, Vd]; leaves the cache as it is."""
        start = len(self.cache[0][0])
        ids = torch.tensor([last_token] + [self.c.mask_id] * (self.c.block - 1))
        positions = torch.arange(start, start + self.c.block)
        x = self.embedding[ids] * self.c.embed_scale
        for i in range(self.c.layers):
            name = f"layers.{i}"
            normed = rms_norm(x, self.w[f"{name}.input_layernorm.weight"], self.c.eps)
            x = x + self.sublayer(i, "attention_conv", normed, lambda rows: self.attention(i, rows, positions))
            normed = rms_norm(x, self.w[f"{name}.post_attention_layernorm.weight"], self.c.eps)
            x = x + self.sublayer(i, "mlp_conv", normed, lambda rows: self.mlp(i, rows))
        hidden = rms_norm(x, self.w["norm.weight"], self.c.eps)
        logits = (hidden * self.c.output_multiplier) @ self.head.T
        if self.c.softcap is not None:
            logits = self.c.softcap * torch.tanh(logits / self.c.softcap)
        self.block_hidden, self.token_before = hidden, last_token if token_before is None else token_before
        return hidden, logits

    def drafted_ids(self, hidden, logits, last_token):
        """Greedy drafts in the target's vocabulary; slot 0 speaks only when sampling from the last token."""
        first = 0 if self.c.from_anchor else 1
        if self.c.adds:
            return self.in_turn(hidden[first:], logits[first:], last_token)[0]
        if self.c.top_k:
            return self.walk(self.candidates(logits[first:]), self.edges(hidden[first:], logits[first:], last_token))
        best = logits[first:].argmax(-1)
        return best if self.offsets is None else best + self.offsets[best]

    def in_turn(self, hidden, logits, last_token):
        """Greedy drafts by a head that has a turn for each, and the logits that each was chosen from."""
        if self.c.domino:
            return self.by_domino(hidden, logits, last_token)
        if self.c.refiner:
            return self.by_rounds(logits, last_token)[-1]
        path, rows, before = [], [], torch.tensor(last_token)
        for y, row in zip(hidden, logits):
            code = self.w["markov_head.markov_w1.weight"][before]
            if self.c.markov == "gated":
                code = torch.sigmoid(self.linear("markov_head.gate_proj", torch.cat((y, code)))) * code
            rows.append(row + self.w["markov_head.markov_w2.weight"] @ code)
            best = rows[-1].argmax()
            before = best if self.offsets is None else best + self.offsets[best]
            path.append(before)
        return torch.stack(path), torch.stack(rows)

    def by_domino(self, hidden, logits, last_token):
        """Every slot reads all tokens before it anew."""
        _, state, pure = self.c.domino
        gru = torch.nn.GRU(self.c.hidden, state, bias=False, batch_first=True)
        gru.weight_ih_l0.data, gru.weight_hh_l0.data = self.w["prefix_gru.weight_ih_l0"], self.w["prefix_gru.weight_hh_l0"]
        path, rows = [last_token], []
        for k, (y, row) in enumerate(zip(hidden, logits)):
            read = gru((self.embedding[torch.tensor(path)] * self.c.embed_scale)[None])[0][0, -1]
            if k >= pure:
                row = row + self.linear("embed_proj.2", F.silu(self.linear("embed_proj.0", torch.cat((y, read)))))
            rows.append(row)
            path.append(int(row.argmax()))
        return torch.tensor(path[1:]), torch.stack(rows)

    def by_rounds(self, logits, last_token):
        """What every round makes of the block: drafts, and logits of the slots that draft. All rounds, whether drafts still change or not."""
        name, y, lead = "refiner_head", self.block_hidden, 0 if self.c.from_anchor else 1
        rank, _, rounds = self.c.refiner
        ids = lambda rows: rows.argmax(-1) if self.offsets is None else rows.argmax(-1) + self.offsets[rows.argmax(-1)]
        path, out = ids(logits), []
        for _ in range(rounds):
            known = [self.token_before] * lead + [last_token] + path.tolist()
            code = self.w[f"{name}.token_embed.weight"][torch.tensor(known[:len(y)])]
            mean = self.linear(f"{name}.down_g", y.mean(0))
            a = self.linear(f"{name}.in_proj", torch.cat((self.linear(f"{name}.down_h", y), mean.repeat(len(y), 1), code), -1))
            b = a.clone()
            for c in range(rank):
                for k in range(len(y)):
                    for j in range(k + 1):
                        b[k, c] += self.w[f"{name}.mix_l"][c, k, j] * a[j, c]
            gate, up = self.linear(f"{name}.mlp_gate", b), self.linear(f"{name}.mlp_up", b)
            c = b + self.linear(f"{name}.mlp_down", F.silu(gate) * up)
            rows = logits + self.linear(f"{name}.readout", c)[lead:]
            path = ids(rows)
            out.append((path, rows))
        return out

    def confidences(self, hidden, path, last_token):
        """How likely each draft of a path is accepted if those before it are, by the head that some have."""
        rows = hidden
        if self.w["confidence_head.proj.weight"].shape[1] > hidden.shape[1]:
            before = torch.cat((torch.tensor([last_token]), path[:-1]))
            rows = torch.cat((hidden, self.w["markov_head.markov_w1.weight"][before]), dim=-1)
        return torch.sigmoid(self.linear("confidence_head.proj", rows))[:, 0]

    @staticmethod
    def walk(candidates, edges):
        path, before = [], 0
        for ids, scores in zip(candidates, edges):
            before = int(scores[before].argmax())
            path.append(ids[before])
        return torch.stack(path)
