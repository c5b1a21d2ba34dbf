// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much memory a model needs before it is loaded.

#include <cstdint>
#include <optional>
#include <string>

#include "cache/layout.h"
#include "device/ops.h"
#include "model/config.h"

namespace ashlar {

struct MemoryPlan {
  int64_t target_bytes_per_token = 0;   ///< KV of all layers of the target
  int64_t drafter_bytes_per_token = 0;  ///< and of the drafter; 0 if it has window pages
  int64_t bytes_per_page = 0;           ///< both, of kPageTokens tokens
  int64_t drafter_window_bytes = 0;     ///< of all of the drafter's window pages; a cache of fewer pages has fewer
  int64_t drafter_page_bytes = 0;       ///< of one of its pages or window pages
  int64_t spare_bytes = 0;              ///< of pages that branches of drafts take for a step
  int64_t state_bytes = 0;              ///< of recurrent layers of the target, all sequences and snapshots together
  KvLayout layout;
  /// Pages for that number of tokens, with what does not grow: spare pages and states.
  int64_t bytes_of(int64_t tokens) const;
  /// States of one sequence with their logs.
  int64_t state_bytes_of_sequence() const { return layout.state_bytes(1, 0); }
};

/// How many states of recurrent layers there are.
struct StateCounts {
  int32_t sequences = 1;
  int32_t snapshots = 0;
  int32_t log_rows = 1;  ///< of each sequence
};

/// `drafter_window_pages`: pages that the drafter has where it looks at a window only; 0: as many as the target.
/// `spare_pages`: of the target, for branches of drafts; `drafter_spare_pages`: of the drafter, for the same.
/// `page_ends`: bytes a page of hidden states for the drafter.
MemoryPlan plan_memory(const Ops& ops, const StackConfig& target, const StackConfig* drafter,
                       int64_t drafter_window_pages = 0, int64_t spare_pages = 0, const StateCounts& states = {},
                       int64_t page_ends = 0, int64_t drafter_spare_pages = 0);

/// "1.5 GiB", "23.4 MiB", "812 B".
std::string format_bytes(int64_t bytes);
/// Bytes of "512M", "8G", "1.5GiB", "100000": powers of 1024. Empty if it is none.
std::optional<int64_t> parse_bytes(const std::string& text);
/// "11.5 M", "1.54 B", "812".
std::string format_count(int64_t count);

}  // namespace ashlar
