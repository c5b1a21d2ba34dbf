// SPDX-License-Identifier: Apache-2.0
#include "session/memory_plan.h"

#include <cctype>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace ashlar {
namespace {

int64_t page_bytes(const Ops& ops, const StackConfig& stack) {
  int64_t bytes = 0;
  for (int32_t i = 0; i < stack.n_layers; ++i) {
    const LayerAttention& layer = stack.layers[static_cast<size_t>(i)];
    if (stack.is_attention(i) && layer.kv_of < 0) bytes += ops.kv_page_bytes(layer.shape);
  }
  return bytes;
}

void add_states(KvLayout& layout, const StackConfig& stack) {
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  for (int32_t i = 0; i < stack.n_layers; ++i) {
    const auto add = [&](const auto& shape) {
      layout.add_state("target", kFloat * shape.state_floats(), kFloat * shape.log_floats());
    };
    if (stack.is_delta_net(i)) add(stack.delta_net->shape);
    if (stack.is_short_conv(i)) add(stack.short_conv->shape);
  }
}

std::string scaled(double value, double step, const char* const* units, int n_units) {
  int unit = 0;
  while (value >= step && unit + 1 < n_units) {
    value /= step;
    ++unit;
  }
  char text[32];
  const int digits = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  std::snprintf(text, sizeof text, "%.*f%s%s", digits, value, *units[unit] == '\0' ? "" : " ", units[unit]);
  return text;
}

}  // namespace

int64_t MemoryPlan::bytes_of(int64_t tokens) const {
  return state_bytes + layout.bytes_of((tokens + kPageTokens - 1) / kPageTokens);
}

MemoryPlan plan_memory(const Ops& ops, const StackConfig& target, const StackConfig* drafter,
                       int64_t drafter_window_pages, int64_t spare_pages, const StateCounts& states, int64_t page_ends,
                       int64_t drafter_spare_pages) {
  const int64_t target_page = page_bytes(ops, target);
  const int64_t drafter_page = drafter != nullptr ? page_bytes(ops, *drafter) : 0;
  const int64_t growing_page = (drafter_window_pages > 0 ? 0 : drafter_page) + page_ends;
  MemoryPlan plan = {target_page / kPageTokens,
                     growing_page / kPageTokens,
                     target_page + growing_page,
                     drafter_window_pages * drafter_page,
                     drafter_page,
                     spare_pages * target_page + drafter_spare_pages * drafter_page,
                     0,
                     {}};
  plan.layout.add_spare_pages(spare_pages);
  plan.layout.add_paged("target", target_page);
  plan.layout.limit_pages(drafter_window_pages);
  plan.layout.add_spare_pages(drafter_spare_pages);
  plan.layout.add_paged("drafter", drafter_page);
  plan.layout.add_spare_pages(0);
  plan.layout.limit_pages(0);
  if (page_ends > 0) plan.layout.add_paged("drafter.page_ends", page_ends);
  plan.layout.keep_log(states.log_rows);
  add_states(plan.layout, target);
  plan.state_bytes = plan.layout.state_bytes(states.sequences, states.snapshots);
  return plan;
}

std::string format_bytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  return scaled(static_cast<double>(bytes), 1024, kUnits, 5);
}

std::string format_count(int64_t count) {
  static constexpr const char* kUnits[] = {"", "K", "M", "B"};
  return scaled(static_cast<double>(count), 1000, kUnits, 4);
}

std::optional<int64_t> parse_bytes(const std::string& text) {
  size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  std::string unit = text.substr(used);
  while (!unit.empty() && unit.front() == ' ') unit.erase(0, 1);
  for (char& c : unit) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (unit.size() == 3 && unit.substr(1) == "IB") unit.resize(1);
  if (unit.size() == 2 && unit[1] == 'B') unit.resize(1);
  static constexpr std::string_view kUnits = "BKMGT";
  const size_t power = unit.empty() ? 0 : kUnits.find(unit[0]);
  if (unit.size() > 1 || power == std::string_view::npos) return std::nullopt;
  const double bytes = value * std::pow(1024.0, static_cast<double>(power));
  if (!(bytes >= 0 && bytes < 9e18)) return std::nullopt;
  return static_cast<int64_t>(bytes);
}

}  // namespace ashlar
