// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_options.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "engine/pipeline.h"

namespace ashlar {

void check_options(const EngineOptions& options) {
  const auto within = [](const char* name, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return;
    throw Error("engine", std::string(name) + " is " + std::to_string(value) + "; expected " + std::to_string(low) +
                              " to " + std::to_string(high));
  };
  within("max_sequences", options.max_sequences, 1, 4096);
  within("max_queue", options.max_queue, 1, 1 << 20);
  within("max_step_rows", options.max_step_rows, 1, 1 << 16);
  within("prefill_chunk", options.prefill_chunk, 0, 1 << 16);
  within("depth", options.depth, 1, Pipeline::kMaxDepth);
}

int32_t choose_pages(const EngineOptions& options, const KvLayout& layout, int32_t max_positions) {
  int64_t pages = options.kv_pages;
  if (pages == 0 && options.kv_bytes > 0) {
    const int64_t states = layout.state_bytes(options.max_sequences, options.snapshots());
    pages = layout.pages_within(std::max<int64_t>(options.kv_bytes - states, 0));
  }
  if (options.kv_pages == 0 && options.kv_bytes == 0) {
    pages = pages_for(std::max<int64_t>(int64_t{options.max_sequences} * max_positions / 4, max_positions));
  }
  const int32_t least = pages_for(max_positions);
  if (pages < least) {
    const int64_t needed = layout.bytes_of(least) + layout.state_bytes(options.max_sequences, options.snapshots());
    throw Error("engine", "the KV cache has room for " + std::to_string(pages) + " pages; one sequence of " +
                              std::to_string(max_positions) + " tokens needs " + std::to_string(least) +
                              ", which are " + std::to_string((needed + (1 << 20) - 1) >> 20) +
                              " MiB; give it more memory or lower the context length");
  }
  return static_cast<int32_t>(std::min<int64_t>(pages, INT32_MAX / kPageTokens));
}

}  // namespace ashlar
