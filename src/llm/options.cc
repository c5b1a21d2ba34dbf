// SPDX-License-Identifier: Apache-2.0
#include "llm/options.h"

#include "device/weights/kept_weights.h"
#include "llm/checks.h"

namespace ashlar {
namespace {

constexpr int32_t kLongestContext = 1 << 24;

NgramUse ngram_use_of(const std::string& name) {
  if (name == "auto") return NgramUse::kWherePaying;
  if (name == "always") return NgramUse::kAlways;
  if (name == "never") return NgramUse::kNever;
  refuse("ngram_drafts", name, "auto, always or never");
}

KvDType kv_dtype_of(const std::string& name) {
  for (const NamedKvDType& named : kKvDTypes) {
    if (named.name == name) return named.dtype;
  }
  refuse("kv_dtype", name, "bf16, f32, int8 or tq4");
}

KeptWeights weights_of(const std::string& name, const char* option) {
  if (const auto weights = kept_weights_of(name)) return *weights;
  refuse(option, name, kKeptWeightsNames);
}

DflashOptions drafting_of(const LlmOptions& in) {
  DflashOptions out;
  out.width = in_range(in.width, "width", 0, kMaxWidth);
  if (out.width == 1) throw Error("options", "width is 1; expected 0 (chosen pass by pass) or 2 and more");
  out.window = in_range(in.draft_window, "draft_window", 0, kLongestContext);
  out.branches = in_range(in.branches, "branches", 0, kMaxWidth - 1);
  out.passes = in_range(in.passes, "passes", 1, kMaxWidth);
  const auto schedule = parse_denoise_schedule(in.schedule);
  if (!schedule) refuse("schedule", in.schedule, "cosine, linear or sqrt");
  out.schedule = *schedule;
  return out;
}

std::optional<BlockOptions> denoising_of(const LlmOptions& in) {
  if (in.algorithm.empty() && in.algorithm_options.empty() && in.block_size == 0) return std::nullopt;
  BlockOptions out;
  out.block_size = in_range(in.block_size, "block_size", 0, kMaxWidth);
  if (!in.algorithm.empty()) out.algorithm.name = in.algorithm;
  out.algorithm.values = in.algorithm_options;
  return out;
}

}  // namespace

SessionOptions session_options(const LlmOptions& in) {
  SessionOptions out;
  out.model = in.model;
  out.drafter = in.drafter;
  out.device = in.device;
  out.device_options.isa = in.isa;
  out.device_options.threads = in_range(in.threads, "threads", 0, 1024);
  out.device_options.kv_dtype = kv_dtype_of(in.kv_dtype);
  out.device_options.weights = weights_of(in.weights, "weights");
  out.device_options.drafter_weights = weights_of(in.drafter_weights, "drafter_weights");
  out.max_context = in_range(in.max_context, "max_context", 0, kLongestContext);
  out.engine.kv_bytes = in.kv_memory;
  if (in.kv_memory != 0 && in.kv_memory < (1 << 20)) {
    throw Error("options", "kv_memory is " + std::to_string(in.kv_memory) + "; expected bytes, at least 1M");
  }
  out.engine.max_sequences = in_range(in.max_sequences, "max_sequences", 1, 256);
  out.engine.prefill_chunk = in_range(in.prefill_chunk, "prefill_chunk", 0, 1 << 16);
  out.engine.prefix_cache = in.prefix_cache;
  out.engine.depth = in_range(in.depth, "depth", 1, 2);
  out.engine.max_queue = 1 << 20;  // offline, no request is to be turned away
  out.dflash = drafting_of(in);
  out.ngram = ngram_use_of(in.ngram_drafts);
  out.block = denoising_of(in);
  out.quiet = true;  // a library leaves the terminal to its program
  return out;
}

}  // namespace ashlar
