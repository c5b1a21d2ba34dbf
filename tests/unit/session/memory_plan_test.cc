// SPDX-License-Identifier: Apache-2.0
#include "session/memory_plan.h"

#include <gtest/gtest.h>

#include "device/device.h"

namespace ashlar {
namespace {

TEST(MemoryPlan, ReadsSizes) {
  EXPECT_EQ(parse_bytes("100000"), 100000);
  EXPECT_EQ(parse_bytes("512M"), 512LL << 20);
  EXPECT_EQ(parse_bytes("8g"), 8LL << 30);
  EXPECT_EQ(parse_bytes("1.5GiB"), 3LL << 29);
  EXPECT_EQ(parse_bytes("64 KB"), 64 << 10);
  EXPECT_EQ(parse_bytes("7B"), 7);
}

TEST(MemoryPlan, RefusesWhatIsNoSize) {
  for (const char* text : {"", "M", "12X", "-1", "1e300", "nan", "4 gigs", "0x", "12MM"})
    EXPECT_FALSE(parse_bytes(text)) << text;
}

TEST(MemoryPlan, WritesSizesAndCounts) {
  EXPECT_EQ(format_bytes(812), "812 B");
  EXPECT_EQ(format_bytes(24535000), "23.4 MiB");
  EXPECT_EQ(format_bytes(3LL << 29), "1.50 GiB");
  EXPECT_EQ(format_count(812), "812");
  EXPECT_EQ(format_count(11534592), "11.5 M");
  EXPECT_EQ(format_count(1540000000), "1.54 B");
}

StackConfig stack(int32_t layers) {
  StackConfig config;
  config.n_layers = layers;
  config.layers.resize(static_cast<size_t>(layers));
  for (LayerAttention& layer : config.layers) layer.shape = {4, 2, 64, 0.125F};
  return config;
}

TEST(MemoryPlan, CountsKeysAndValuesOfAllLayers) {
  const auto ops = make_device("ref", {});
  const StackConfig target = stack(12);
  const StackConfig drafter = stack(2);
  const MemoryPlan plan = plan_memory(*ops, target, &drafter);
  EXPECT_EQ(plan.target_bytes_per_token, 12 * 2 * 2 * 64 * 4);  // K and V, f32 on this device
  EXPECT_EQ(plan.drafter_bytes_per_token, 2 * 2 * 2 * 64 * 4);
  EXPECT_EQ(plan.bytes_of(1), plan.bytes_per_page);
  EXPECT_EQ(plan.bytes_of(17), 2 * plan.bytes_per_page);
  EXPECT_EQ(plan_memory(*ops, target, nullptr).drafter_bytes_per_token, 0);
  EXPECT_EQ(plan.drafter_window_bytes, 0);
}

// Three layers of delta nets with 6 matrices of 12 x 20 and 3 rows of 168 channels; a row of the log has those
// channels, 2 keys, 6 values and 6 gates. Each begins on a cache line.
TEST(MemoryPlan, StatesOfASequenceAreWhatItsLayersKeep) {
  const auto ops = make_device("ref", {});
  const ModelConfig hybrid = read_model_config(std::filesystem::path(ASHLAR_TEST_DATA) / "families" / "qwen3_5_text");
  const MemoryPlan plan = plan_memory(*ops, hybrid.stack, nullptr, 0, 0, {5, 4, 16});
  const auto lines = [](int64_t floats) { return (floats + 15) / 16 * 64; };
  const int64_t state = 3 * lines(6 * 12 * 20 + 3 * 168), row = 3 * lines(168 + 2 * 12 + 6 * 20 + 6);
  EXPECT_EQ(plan.state_bytes_of_sequence(), state + 16 * row);
  EXPECT_EQ(plan.state_bytes, 5 * plan.state_bytes_of_sequence() + 4 * state);
}

TEST(MemoryPlan, BranchesOfDraftsTakePagesOfTheirOwn) {
  const auto ops = make_device("ref", {});
  const StackConfig target = stack(12);
  const StackConfig drafter = stack(2);
  const MemoryPlan plan = plan_memory(*ops, target, &drafter, 0, 6);
  EXPECT_EQ(plan.spare_bytes, 6 * kPageTokens * plan.target_bytes_per_token);
  EXPECT_EQ(plan.bytes_of(17), plan.spare_bytes + 2 * plan.bytes_per_page);
  // A drafter whose own passes run over trees has some, too, with window pages or without.
  for (const int64_t window_pages : {0, 5}) {
    const MemoryPlan both = plan_memory(*ops, target, &drafter, window_pages, 6, {}, 0, 24);
    EXPECT_EQ(both.spare_bytes, plan.spare_bytes + 24 * kPageTokens * plan.drafter_bytes_per_token);
    EXPECT_EQ(both.bytes_of(17), both.spare_bytes + 2 * plan.bytes_per_page);
  }
}

TEST(MemoryPlan, ADrafterWithWindowPagesStopsGrowing) {
  const auto ops = make_device("ref", {});
  const StackConfig target = stack(12);
  const StackConfig drafter = stack(2);
  const MemoryPlan all = plan_memory(*ops, target, &drafter);
  const MemoryPlan few = plan_memory(*ops, target, &drafter, 5);
  EXPECT_EQ(few.drafter_bytes_per_token, 0);
  EXPECT_EQ(few.drafter_window_bytes, 5 * kPageTokens * all.drafter_bytes_per_token);
  EXPECT_EQ(few.bytes_of(5 * kPageTokens), all.bytes_of(5 * kPageTokens));
  EXPECT_EQ(few.bytes_of(1000 * kPageTokens), few.drafter_window_bytes + 1000 * few.bytes_per_page);
  EXPECT_EQ(few.bytes_per_page, kPageTokens * few.target_bytes_per_token);
}

}  // namespace
}  // namespace ashlar
