#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seconds a training step of a DFlash drafter in PyTorch, to hold `train_step` (the same work by this trainer) against.

    torch_train_step.py DRAFTER_FOLDER [DOCUMENTS [TOKENS [STEPS [ANCHORS]]]]

What a good trainer in PyTorch does on a GPU: bf16 by autocast from fp32 weights, FlexAttention with a block mask, the layers, the head and the loss
through torch.compile, the head's logits a slice of rows at a time and computed again for their gradient, AdamW fused and its norm clipped. As
train_step: random weights, head and hidden states, the first eighth of a document unsupervised, anchors spread over the rest, the loss
weighted by exp(-k / 7) at draft k. Compilation and three steps come before what is timed.
"""

import json
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

HEAD_ROWS = 4096  # whose logits exist at once


def rotated(x, cos, sin):
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


class Layer(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kv_heads, self.d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        hidden, wide = c["hidden_size"], c["intermediate_size"]
        linear = lambda rows, columns: torch.nn.Linear(columns, rows, bias=False)  # noqa: E731
        self.q, self.o = linear(self.heads * self.d, hidden), linear(hidden, self.heads * self.d)
        self.kv = linear(2 * self.kv_heads * self.d, hidden)
        self.gate_up, self.down = linear(2 * wide, hidden), linear(hidden, wide)
        self.before, self.after = (torch.nn.RMSNorm(hidden, c["rms_norm_eps"]) for _ in range(2))
        self.q_norm, self.k_norm = (torch.nn.RMSNorm(self.d, c["rms_norm_eps"]) for _ in range(2))

    def forward(self, x, context, angles, mask):
        rows = self.before(x)
        q = self.q(rows).view(1, -1, self.heads, self.d)
        k, v = self.kv(torch.cat((context, rows))).view(1, -1, 2 * self.kv_heads, self.d).chunk(2, 2)
        cos, sin = angles
        n = x.shape[0]
        q = rotated(self.q_norm(q), cos[-n:, None], sin[-n:, None]).transpose(1, 2)
        k = rotated(self.k_norm(k), cos[:, None], sin[:, None]).transpose(1, 2)
        attended = flex_attention(q.to(v.dtype), k.to(v.dtype), v.transpose(1, 2), block_mask=mask, enable_gqa=True)
        x = x + self.o(attended.transpose(1, 2).reshape(n, -1))
        gate, up = self.gate_up(self.after(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Drafter(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        hidden = c["hidden_size"]
        self.fc = torch.nn.Linear(len(c["dflash_config"]["target_layer_ids"]) * hidden, hidden, bias=False)
        self.context_norm, self.norm = (torch.nn.RMSNorm(hidden, c["rms_norm_eps"]) for _ in range(2))
        self.layers = torch.nn.ModuleList(Layer(c) for _ in range(c["num_hidden_layers"]))

    def forward(self, x, aux_hidden, angles, mask):
        context = self.context_norm(self.fc(aux_hidden)).to(x.dtype)
        for layer in self.layers:
            x = layer(x, context, angles, mask)
        return self.norm(x)


def weighted_loss(rows, head, targets, weights):
    return (F.cross_entropy((rows @ head.T).float(), targets, reduction="none") * weights).sum()


def main():
    c = json.loads((Path(sys.argv[1]) / "config.json").read_text())
    documents, tokens, steps, anchors = ([int(a) for a in sys.argv[2:]] + [1, 640, 5, 512][len(sys.argv) - 2:])[:4]
    hidden, vocab, block, gpu = c["hidden_size"], c["vocab_size"], c["block_size"], "cuda"
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = Drafter(c).to(gpu)
    head = (torch.randn(vocab, hidden, device=gpu) * 0.1).bfloat16()
    ids = (torch.arange(tokens, device=gpu) * 7919 % vocab).repeat(documents)
    aux_hidden = torch.randn(documents * tokens, len(c["dflash_config"]["target_layer_ids"]) * hidden, device=gpu).bfloat16()
    first = tokens // 8 - 1  # whose successor is supervised
    n = min(anchors, tokens - 1 - first)
    starts = torch.linspace(first, tokens - 2, n, device=gpu).long()
    place = (starts[:, None] + torch.arange(block, device=gpu)).flatten().repeat(documents)  # of each row in its document
    document = torch.arange(documents, device=gpu).repeat_interleave(n * block)
    start = starts.repeat_interleave(block).repeat(documents)
    n_context, n_rows = documents * tokens, documents * n * block

    def visible(_batch, _head, row, key):
        of_block = key - n_context
        in_block = (of_block >= 0) & (of_block // block == row // block)
        before = (key < n_context) & (key // tokens == document[row]) & (key % tokens < start[row])
        return in_block | before

    mask = torch.compile(create_block_mask)(visible, None, None, n_rows, n_context + n_rows, device=gpu)
    positions = torch.cat((torch.arange(tokens, device=gpu).repeat(documents), place)).float()
    rates = positions[:, None] * c["rope_theta"] ** (-torch.arange(0, c["head_dim"], 2, device=gpu) / c["head_dim"])
    angles = tuple(f(torch.cat((rates, rates), -1)) for f in (torch.cos, torch.sin))
    of_block = torch.arange(block, device=gpu).repeat(documents * n)
    labelled = (of_block > 0) & (place < tokens)
    at = document * tokens + place.clamp(max=tokens - 1)
    targets = ids[at]
    weights = torch.where(labelled, torch.exp(-(of_block - 1).float() / 7), torch.zeros((), device=gpu))
    weights = weights / weights.sum()
    used = labelled.nonzero().flatten()
    inputs = head[torch.where(of_block == 0, ids[at], c["dflash_config"]["mask_token_id"])].float()
    optimizer = torch.optim.AdamW(model.parameters(), 6e-4, (0.9, 0.95), weight_decay=0.0, fused=True)
    for layer in model.layers:
        layer.compile()  # one after the other: they share their code, and compile once
    loss_of = torch.compile(weighted_loss)

    def step():
        with torch.autocast(gpu, torch.bfloat16):
            rows = model(inputs, aux_hidden, angles, mask).bfloat16()[used]
            loss = sum(checkpoint(loss_of, rows[i:i + HEAD_ROWS], head, targets[used[i:i + HEAD_ROWS]], weights[used[i:i + HEAD_ROWS]],
                                  use_reentrant=False) for i in range(0, len(used), HEAD_ROWS))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    for _ in range(3):
        loss = step()
    torch.cuda.synchronize()
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        loss = step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}: {documents * n} blocks, loss {loss.item():.4f}: "
          f"{sum(times) / steps:.4f} s a step (fastest {min(times):.4f}), {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


if __name__ == "__main__":
    main()
