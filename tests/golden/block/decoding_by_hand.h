// SPDX-License-Identifier: Apache-2.0
#pragma once
// Block decoding written out: the whole sequence is computed anew in each pass, without cache, engine, scheduler or
// sampler.

#include <cmath>
#include <numeric>
#include <random>

#include "golden/block/block_engine.h"

namespace ashlar::testing {

inline constexpr int32_t kLongest = 160;

inline std::vector<int32_t> random_prompt(int32_t length, int32_t vocab, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids(length);
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<unsigned>(vocab));
  return ids;
}

class ByHand {
 public:
  ByHand(Model& model, int32_t block)
      : model_(model),
        diffusion_(*model.config().diffusion),
        block_(block),
        batch_(model.ops(), kLongest + 64, 1),
        pages_(16) {
    KvLayout layout;
    model_.register_state(layout);
    kv_ = std::make_unique<KvMemory>(model_.ops(), layout, static_cast<int32_t>(pages_.size()));
    std::iota(pages_.rbegin(), pages_.rend(), 0);
    model_.reserve(kLongest + 64);
  }

  Decoded decode(const Task& task) {
    const auto length = static_cast<int32_t>(task.prompt.size());
    const int32_t limit = length + task.max_tokens;
    const bool whole = diffusion_.block_size == 0;
    std::vector<int32_t> ids = task.prompt;
    std::vector<int32_t> unmask_pass(length, 0);
    int32_t start = whole ? length : length / block_ * block_;
    while (start < limit) {
      const int32_t end = whole ? std::min(start + block_, limit) : start + block_;
      ids.resize(whole ? limit : end, diffusion_.mask_id);
      unmask_pass.resize(ids.size(), 0);
      std::vector<bool> masked(ids.size(), false);
      for (int32_t p = std::max(start, length); p < end; ++p) masked[p] = true;
      int32_t pass = 0;
      if (diffusion_.token_shift > 0 && !whole && masked[start]) {  // from the block before, which is complete
        const std::vector<float> logits = run(std::vector<int32_t>(ids.begin(), ids.begin() + start));
        ids[start] = best(logits, start - 1).first;
        masked[start] = false;
        unmask_pass[start] = pass++;
      }
      for (;; ++pass) {
        int32_t from = start;
        while (from < end && !masked[from]) ++from;
        if (from == end) break;
        // Only the part of the block that the first masked is in may be filled.
        const int32_t part = diffusion_.sub_block > 0 ? diffusion_.sub_block : block_;
        const int32_t part_end = std::min(end, start + ((from - start) / part + 1) * part);
        const std::vector<float> logits = run(ids);
        std::vector<int32_t> chosen;
        int32_t surest = -1;
        float highest = 0;
        for (int32_t p = from; p < part_end; ++p) {
          if (!masked[p]) continue;
          const auto [id, probability] = best(logits, p - diffusion_.token_shift);
          if (probability > static_cast<float>(task.threshold)) chosen.push_back(p);
          if (surest < 0 || probability > highest) {
            surest = p;
            highest = probability;
          }
        }
        if (chosen.empty()) chosen.push_back(surest);
        int32_t run_end = from;
        while (run_end < part_end && masked[run_end]) ++run_end;
        if (task.verifies && run_end - from > 1) {
          ++pass;
          for (int32_t p = from; p < run_end; ++p) {
            ids[p] = one_at_a_time(ids, start, p);
            masked[p] = false;
            unmask_pass[p] = pass;
            if (ids[p] != best(logits, p - diffusion_.token_shift).first) break;
          }
          continue;
        }
        for (const int32_t p : chosen) {
          ids[p] = best(logits, p - diffusion_.token_shift).first;
          masked[p] = false;
          unmask_pass[p] = pass;
        }
      }
      start = end;
    }
    Decoded decoded;
    for (int32_t p = length; p < limit; ++p) {
      decoded.tokens.push_back(ids[p]);
      decoded.passes.push_back(unmask_pass[p]);
      if (std::find(task.stops.begin(), task.stops.end(), ids[p]) != task.stops.end()) {
        decoded.reason = FinishReason::kStop;
        break;
      }
    }
    return decoded;
  }

 private:
  // The token at p where positions from `start` on are blocks of their own.
  int32_t one_at_a_time(const std::vector<int32_t>& ids, int32_t start, int32_t p) {
    std::vector<int32_t> known(ids.begin(), ids.begin() + p);
    if (diffusion_.token_shift == 0) known.push_back(diffusion_.mask_id);
    return best(run(known, start), static_cast<int32_t>(known.size()) - 1).first;
  }

  std::vector<float> run(const std::vector<int32_t>& ids, int32_t causal_from = kLongest + 64) {
    const auto n = static_cast<int32_t>(ids.size());
    batch_.clear();
    batch_.begin_sequence(pages_.data());
    for (int32_t p = 0; p < n; ++p) {
      const int32_t block_end = diffusion_.block_size == 0 ? n : std::min(n, (p / block_ + 1) * block_);
      batch_.add_row(ids[p], p, p < causal_from ? block_end : p + 1);
      batch_.want_output();
    }
    const int32_t vocab = model_.config().vocab;
    std::vector<float> logits(static_cast<size_t>(n) * vocab);
    model_.head(model_.forward(batch_, *kv_, {}), {logits.data(), n, vocab, vocab});
    return logits;
  }

  // The likeliest token but the mask, and its probability.
  std::pair<int32_t, float> best(const std::vector<float>& logits, int32_t row) const {
    const int32_t vocab = model_.config().vocab;
    const float* values = &logits[static_cast<size_t>(row) * vocab];
    int32_t id = -1;
    for (int32_t i = 0; i < vocab; ++i) {
      if (i != diffusion_.mask_id && (id < 0 || values[i] > values[id])) id = i;
    }
    double sum = 0;
    for (int32_t i = 0; i < vocab; ++i) {
      if (i != diffusion_.mask_id) sum += std::exp(static_cast<double>(values[i]) - values[id]);
    }
    return {id, static_cast<float>(1 / sum)};
  }

  Model& model_;
  const BlockDiffusion diffusion_;
  const int32_t block_;
  RowBatch batch_;
  std::vector<int32_t> pages_;
  std::unique_ptr<KvMemory> kv_;
};

}  // namespace ashlar::testing
