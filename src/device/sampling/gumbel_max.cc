// SPDX-License-Identifier: Apache-2.0
#include "device/sampling/gumbel_max.h"

#include <cmath>
#include <limits>

#include "base/row_math.h"
#include "device/sampling/gumbel_scan.h"
#include "device/sampling/noise.h"

namespace ashlar {
namespace {

constexpr int32_t kNoiseWords = static_cast<int32_t>(std::tuple_size_v<PhiloxBlock>);

class Best {
 public:
  explicit Best(int32_t id) : id_(id) {}

  void offer(int32_t id, double tempered, uint32_t word) {
    if (!(tempered + noise::gumbel_bound(word) > score_)) return;
    const double score = tempered + noise::gumbel(word);
    if (score > score_ || (score == score_ && id < id_)) {
      score_ = score;
      id_ = id;
    }
  }
  int32_t id() const { return id_; }
  double score() const { return score_; }

 private:
  double score_ = -std::numeric_limits<double>::infinity();
  int32_t id_;
};

void offer_range(Best& best, const float* logits, int32_t first, int32_t last, double inverse, Draw draw) {
  PhiloxBlock words{};
  for (int32_t i = first; i < last; ++i) {
    if (i == first || i % kNoiseWords == 0) {
      words = noise::block(draw.seed, draw.position, static_cast<uint32_t>(i / kNoiseWords), noise::Domain::kGumbel);
    }
    best.offer(i, logits[i] * inverse, words[i % kNoiseWords]);
  }
}

}  // namespace

int32_t gumbel_max_scalar(const float* logits, int32_t vocab, double inverse, Draw draw) {
  Best best(0);
  offer_range(best, logits, 0, vocab, inverse, draw);
  return best.id();
}

int32_t gumbel_max(const float* logits, int32_t vocab, double inverse, Draw draw) {
  // The most likely token comes first: its score keeps most others from a closer look.
  const int32_t likely = argmax(logits, vocab);
  if (!(std::abs(logits[likely] * inverse) < kMaxScanned && inverse < kMaxScanned)) {
    return gumbel_max_scalar(logits, vocab, inverse, draw);
  }
  Best best(0);
  offer_range(best, logits, likely, likely + 1, inverse, draw);
  uint32_t words[kScanned];
  PhiloxBlock counter = {0, static_cast<uint32_t>(draw.position), static_cast<uint32_t>(noise::Domain::kGumbel), 0};
  int32_t first = 0;
  for (; first + kScanned <= vocab; first += kScanned) {
    counter[0] = static_cast<uint32_t>(first / kNoiseWords);
    uint64_t left = scan_gumbel(logits + first, counter, draw.seed, static_cast<float>(inverse),
                                static_cast<float>(best.score()), words);
    for (; left != 0; left &= left - 1) {
      const int32_t i = __builtin_ctzll(left);
      best.offer(first + i, logits[first + i] * inverse, words[i]);
    }
  }
  offer_range(best, logits, first, vocab, inverse, draw);
  return best.id();
}

int32_t gumbel_max_mapped(const float* logits, int32_t n, double inverse, Draw draw, const int32_t* id_map) {
  Best best(id_map[0]);
  PhiloxBlock words{};
  int32_t block = -1;
  for (int32_t i = 0; i < n; ++i) {
    const int32_t id = id_map[i];
    if (id / kNoiseWords != block) {
      block = id / kNoiseWords;
      words = noise::block(draw.seed, draw.position, static_cast<uint32_t>(block), noise::Domain::kGumbel);
    }
    best.offer(id, logits[i] * inverse, words[id % kNoiseWords]);
  }
  return best.id();
}

}  // namespace ashlar
