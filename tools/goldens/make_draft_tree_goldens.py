#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write what a greedy run with trees of drafts accepts, for heads that draft one token at a time.

    python3 tools/goldens/make_draft_tree_goldens.py [tests/data]

Run make_draft_head_goldens.py first. A tree is the best-first one by definition: of all paths whose chances (products of the head's softmax,
each after its own path) are highest, at most BRANCHES after the first that begin anew. Every path is a forward of its own, without a cache.
"""

import heapq
import json
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file

from golden_lines import golden_lines
from make_draft_head_goldens import Target, make_head, prompt_ids, variants
from seeded_weights import with_weights

HEADS = ("eagle3_fitted",)
WIDTH, BRANCHES, OUTPUT, PROMPTS = 8, 3, 40, 6
MIN_CHANCE = -3.9  # of a branch, as a logarithm
RANKS = 8


class Paths:
    """Of each path of drafts after `ids` the likeliest tokens and the logarithms of their chances."""

    def __init__(self, head, target, ids):
        self.head, self.ids, self.known = head, ids, {}
        self.features = {(): head.features(target(ids[:-1])[0])}

    def after(self, path):
        if path not in self.known:
            features = self.features[path]
            out, fed_back = self.head(features, torch.tensor(self.ids[1:] + list(path)))
            self.known[path] = self.head.logits(out[-1]).double().log_softmax(-1).topk(RANKS)
            self.left = torch.cat((features, fed_back[-1:]))
            best = self.head.target_ids(self.known[path].indices).tolist()
            self.known[path] = (best, self.known[path].values.tolist())
            self.features.update({path + (id,): self.left for id in best})
        return self.known[path]


def tree(paths):
    """Drafts as paths, the likeliest first."""
    drafts, branches = [], 0
    ids, chances = paths.after(())
    open_ = [(-chances[0], (), 0)]
    while open_ and len(drafts) < WIDTH - 1:
        cost, parent, rank = heapq.heappop(open_)
        if rank > 0:
            branches += 1
            if branches > BRANCHES:
                continue
        ids, chances = paths.after(parent)
        path = parent + (ids[rank],)
        drafts.append(path)
        if branches < BRANCHES and rank + 1 < RANKS and -cost - chances[rank] + chances[rank + 1] > MIN_CHANCE:
            heapq.heappush(open_, (cost + chances[rank] - chances[rank + 1], parent, rank + 1))
        heapq.heappush(open_, (cost - paths.after(path)[1][0], path, 0))
    return drafts


@torch.no_grad()
def run(head, target, prompt):
    ids = prompt + [int(target(prompt)[1][-1].argmax())]
    lengths, deviations = [], 0
    while len(ids) - len(prompt) < OUTPUT:
        drafts = tree(Paths(head, target, ids))
        deviations += any(path != max(drafts, key=len)[:len(path)] for path in drafts)
        path = ()
        while True:  # every accepted draft is what the target says after those before it
            chosen = int(target(ids + list(path))[1][-1].argmax())
            if path + (chosen,) not in drafts:
                break
            path += (chosen,)
        ids += list(path) + [chosen]
        lengths.append(len(path) + 1)
    return ids[len(prompt):][:OUTPUT], lengths, deviations


def main():
    torch.set_num_threads(1)
    data = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / "tests" / "data")
    for name in HEADS:
        method, target_name, raw, layer = variants()[name]
        with tempfile.TemporaryDirectory() as temporary:
            target = Target(with_weights(data / "families" / target_name, Path(temporary) / "target"))
            folder = data / "heads" / name
            if (folder / "tensors.json").exists():
                folder = with_weights(folder, Path(temporary) / name)
            head = make_head(method, target, raw, layer, load_file(folder / "model.safetensors"))
            prompts = [prompt_ids(i) for i in range(PROMPTS)]
            runs = [run(head, target, prompt) for prompt in prompts]
        golden = {"width": WIDTH, "branches": BRANCHES, "prompts": prompts, "outputs": [r[0] for r in runs], "accept_lengths": [r[1] for r in runs]}
        (data / "heads" / name / "tree.json").write_text(golden_lines(golden))
        lengths = [n for r in runs for n in r[1]]
        print(f"{name:20s} {sum(r[2] for r in runs)} of {len(lengths)} drafts are trees; steps by tokens "
              f"{ {n: lengths.count(n) for n in sorted(set(lengths))} }")


if __name__ == "__main__":
    main()
