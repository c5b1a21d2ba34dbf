// SPDX-License-Identifier: Apache-2.0
#pragma once
// Mixtures of experts: how a router chooses, and where its choice lies.

#include <cstdint>

namespace ashlar {

/// Experts that one row may go through, at most.
inline constexpr int32_t kMaxTopK = 64;

/// How scores become a choice. A row's scores are s = softmax(logits) or sigmoid(logits), in fp32; what ranks experts
/// is u = s + bias. Experts lie in n_groups equal runs; with more than one, only those of the top_groups groups with
/// the largest sum of their two best u can be chosen. Of the rest the top_k largest u are; equal values: the lowest
/// index first. Weights are of s, not of u. Sources: Qwen3-MoE (one group, softmax, no bias); LLaDA2.x, GLM-4.5 and
/// DeepSeek-V3 (arXiv 2412.19437, section 2.1.2: groups, sigmoid, bias); Gemma 4 (a factor of each expert).
struct Routing {
  enum class Score : uint8_t { kSoftmax, kSigmoid };
  Score score = Score::kSoftmax;
  int32_t n_groups = 1;
  int32_t top_groups = 1;
  int32_t top_k = 1;
  bool normalise = false;  ///< divide the weights of the chosen by their sum
  float scale = 1.0F;      ///< multiplies the weights
};

/// What a choice knows of each expert: [experts] in device memory, or null.
struct ExpertFactors {
  const float* bias = nullptr;   ///< added to scores to rank them
  const float* scale = nullptr;  ///< multiplies the weights of the expert, last

  ExpertFactors(const float* biases = nullptr, const float* scales = nullptr)  // NOLINT(google-explicit-constructor):
      : bias(biases), scale(scales) {}                                         // most know a bias, or nothing
};

/// The experts of each row by descending rank, and what their answers count: [rows, top_k] in device memory.
struct Routes {
  int32_t top_k = 0;
  int32_t* experts = nullptr;
  float* weights = nullptr;

  int32_t* experts_of(int64_t row) const { return experts + row * top_k; }
  float* weights_of(int64_t row) const { return weights + row * top_k; }
};

}  // namespace ashlar
