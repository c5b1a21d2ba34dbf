#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_llama_cpp.py PROGRAM FILE.gguf GOLDENS.json [ashlar flags]: greedy answers of Ashlar and of llama.cpp, for docs/quantised.md.

Both answer the prompts of make_published_goldens.py, given as ids. Where answers part, the margin is llama.cpp's: how far its best logit
was above that of the token that Ashlar chose. Answers of transformers, in fp32 on the file's numbers, are compared with both.
Needs: pip install llama-cpp-python
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from llama_cpp import Llama


def ours(program, file, answers, flags):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as prompts:
        prompts.write("".join(json.dumps({"prompt_ids": one["prompt_ids"]}) + "\n" for one in answers))
        prompts.flush()
        run = subprocess.run([program, "run", file, "--prompts", prompts.name, "--json", "-q", "-n", "48", "--max-context", "512",
                              "--drafter", "none", *flags], check=True, capture_output=True)
    return [json.loads(line)["tokens"] for line in run.stdout.splitlines()]


def theirs(llama, ids, length):
    """The answer, and the logits that each token was chosen from."""
    tokens, logits = [], []
    llama.reset()
    llama.eval(ids)
    while True:
        logits.append(np.array(llama.scores[llama.n_tokens - 1]))
        tokens.append(int(logits[-1].argmax()))
        if len(tokens) == length or tokens[-1] == llama.token_eos():
            return tokens, logits
        llama.eval(tokens[-1:])


def parting(one, other):
    return next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), None if len(one) == len(other) else min(len(one), len(other)))


def main():
    program, file, goldens, flags = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    answers = json.load(open(goldens))["answers"]
    llama = Llama(file, n_ctx=512, n_batch=512, n_threads=os.cpu_count(), logits_all=True, verbose=False)
    margins, ours_exact, theirs_exact = [], 0, 0
    for one, mine in zip(answers, ours(program, file, answers, flags), strict=True):
        tokens, logits = theirs(llama, one["prompt_ids"], 48)
        ours_exact += mine == one["tokens"]
        theirs_exact += tokens == one["tokens"]
        at = parting(mine, tokens)
        if at is not None:
            margin = float(logits[at].max() - logits[at][mine[at]])
            margins.append(margin)
            print(f"{one['question']!r}: token {at}, margin {margin:.4f}")
    n = len(answers)
    print(f"equal: {n - len(margins)} of {n}; where they part the margin is at most {max(margins, default=0):.3f}, median {np.median(margins or [0]):.3f}")
    print(f"answers of transformers: Ashlar {ours_exact}, llama.cpp {theirs_exact} of {n}")


main()
