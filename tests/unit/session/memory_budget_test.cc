// SPDX-License-Identifier: Apache-2.0
#include "session/memory_budget.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "device/device.h"
#include "session/session.h"

namespace ashlar {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = 1024 * kMiB;

// A model of 4 GiB whose sequences take 64 KiB a token, 4096 of them at most: 256 MiB.
MemorySituation situation(int64_t available) {
  MemorySituation out;
  out.plan.layout.add_paged("target", kPageTokens * 64 * 1024);
  out.needs = {4 * kGiB, 100 * kMiB, 512};
  out.wishes = {0, 4096, false, 16};
  out.available = {available, 0};
  return out;
}

int64_t total(const MemoryBudget& budget) {
  return budget.needs.weights + budget.needs.workspace + budget.needs.per_position * budget.positions + budget.kv_bytes;
}

std::string refusal(const MemorySituation& given) {
  try {
    budget_memory(given);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

// Whatever is there: all of it fits in, or it is refused; more memory never gives less.
TEST(MemoryBudget, NeverPlansMoreThanThereIs) {
  int64_t last_cache = 0, last_positions = 0;
  for (int64_t available = 32 * kMiB; available < 8 * kGiB; available += 37 * kMiB) {
    SCOPED_TRACE(available);
    const MemorySituation given = situation(available);
    if (!refusal(given).empty()) {
      EXPECT_EQ(last_cache, 0);
      continue;
    }
    const MemoryBudget budget = budget_memory(given);
    EXPECT_LE(total(budget), available - budget.margin);
    EXPECT_GE(budget.margin, available / 10);
    EXPECT_GE(budget.kv_bytes, given.plan.bytes_of(budget.positions));
    EXPECT_GE(budget.kv_bytes, last_cache);
    EXPECT_GE(budget.positions, last_positions);
    EXPECT_GE(budget.positions, 512);
    last_cache = budget.kv_bytes;
    last_positions = budget.positions;
  }
  EXPECT_EQ(last_positions, 4096);
  EXPECT_EQ(last_cache, 16 * 1024 * 64 * 1024);  // sixteen sequences of a quarter of the context
}

TEST(MemoryBudget, WithRoomNothingIsLimited) {
  const MemoryBudget budget = budget_memory(situation(100 * kGiB));
  EXPECT_FALSE(budget.kv_limited);
  EXPECT_EQ(budget.positions, 4096);
  EXPECT_EQ(budget.describe(),
            "4.00 GiB of weights, 102 MiB of workspace, up to 1.00 GiB of KV cache; 100 GiB are free");
}

TEST(MemoryBudget, TheCacheShrinksBeforeTheContext) {
  const MemoryBudget cache = budget_memory(situation(5 * kGiB + 300 * kMiB));
  EXPECT_TRUE(cache.kv_limited);
  EXPECT_EQ(cache.positions, 4096);
  const MemoryBudget context = budget_memory(situation(4 * kGiB + 900 * kMiB));
  EXPECT_TRUE(context.kv_limited);
  EXPECT_LT(context.positions, 4096);
  EXPECT_EQ(context.positions % kPageTokens, 0);
}

// Half of the memory was once given to the cache, and the weights were not counted: this died while it answered.
TEST(MemoryBudget, AModelOfMoreThanHalfOfAContainerFitsOrIsRefused) {
  MemorySituation given = situation(5 * kGiB);
  given.available.group_limit = 6 * kGiB;
  EXPECT_LE(total(budget_memory(given)), 5 * kGiB);
  given.available.bytes = 4 * kGiB;
  expect_parts(refusal(given), {"[memory]", "4.00 GiB of weights", "100 MiB of workspace",
                                "KV cache for one sequence of "
                                "512 tokens",
                                "4.00 GiB are free (the container's limit is 6.00 GiB)", "smaller model"});
  given.available.bytes = 0;
  expect_parts(refusal(given), {"0 B are free"});
}

TEST(MemoryBudget, WhatWasAskedForIsKeptOrRefused) {
  MemorySituation given = situation(4 * kGiB + 900 * kMiB);
  given.wishes.positions_asked = true;
  expect_parts(refusal(given), {"one sequence of 4096 tokens", "smaller --max-context"});
  given.wishes.positions = 1024;
  EXPECT_EQ(budget_memory(given).positions, 1024);

  given.wishes.kv_bytes = 65 * kMiB;
  EXPECT_EQ(budget_memory(given).kv_bytes, 65 * kMiB);
  given.wishes.kv_bytes = 2 * kGiB;
  expect_parts(refusal(given), {"2.00 GiB of KV cache (--kv-memory)", "are free", "Lower --kv-memory"});
  given.wishes.kv_bytes = INT64_MAX;
  expect_parts(refusal(given), {"(--kv-memory)"});
  given.wishes.kv_bytes = 63 * kMiB;
  expect_parts(refusal(given), {"one sequence of 1024 tokens takes 64.0 MiB", "63.0 MiB are given", "--max-context"});
}

TEST(MemoryBudget, UnknownMemoryLimitsNothing) {
  const MemoryBudget budget = budget_memory(situation(0));
  EXPECT_FALSE(budget.kv_limited);
  EXPECT_EQ(budget.positions, 4096);
  EXPECT_NE(budget.describe().find("free memory is unknown"), std::string::npos);
}

AvailableMemory of_a_gpu(int64_t bytes, int64_t reserved = 0) {
  AvailableMemory out;
  out.bytes = bytes;
  out.owner = "the GPU";
  out.total = 24 * kGiB;
  out.reserved = reserved;
  return out;
}

TEST(MemoryBudget, SaysWhoseMemoryItIsAndWhatTheDeviceTakes) {
  MemorySituation given = situation(0);
  given.available = of_a_gpu(20 * kGiB, 512 * kMiB);
  given.plan.state_bytes = 100 * kMiB;
  const MemoryBudget budget = budget_memory(given);
  EXPECT_FALSE(budget.kv_limited);
  EXPECT_EQ(budget.describe(),
            "4.00 GiB of weights, 102 MiB of workspace, up to 1.10 GiB of KV cache (100 MiB of it states of recurrent "
            "layers), 512 MiB for kernels and recorded passes; 20.5 GiB of the GPU's memory are free (of 24.0 GiB)");
  given.available = of_a_gpu(3 * kGiB, 512 * kMiB);
  expect_parts(refusal(given), {"3.50 GiB of the GPU's memory are free (of 24.0 GiB)", "--device cpu"});
  given.available = of_a_gpu(0);
  expect_parts(refusal(given), {"0 B of the GPU's memory are free"});
}

// The weights as they are kept, the tables of the whole context, and little in addition to them.
TEST(MemoryBudget, CountsTheBundledModel) {
  const auto ops = make_device("cpu", {1, "", KvDType::kBF16});
  const std::filesystem::path models = std::string(ASHLAR_SOURCE_DIR) + "/models";
  const ModelConfig config = read_model_config(models / "pebble-11m");
  const DrafterFacts drafter = drafter_facts(models / "pebble-11m-dflash", config, {}, 1);
  const MemorySituation alone = memory_situation(*ops, config, nullptr, {});
  const MemorySituation both = memory_situation(*ops, config, &drafter, {});
  const std::unique_ptr<Model> model = Model::load(*ops, models / "pebble-11m");
  EXPECT_NEAR(alone.needs.weights, model->weight_bytes(), 0.02 * model->weight_bytes());
  EXPECT_EQ(alone.needs.per_position, config.stack.layers[0].shape.head_dim * 4);
  EXPECT_GT(both.needs.weights, alone.needs.weights);
  EXPECT_GT(both.needs.workspace, alone.needs.workspace);
  EXPECT_LT(both.needs.workspace, 200 * kMiB);
  EXPECT_EQ(alone.wishes.positions, config.max_positions);
  SessionOptions options;
  options.hidden_layers = [](const ModelConfig&) { return std::vector<int32_t>{1, 11}; };
  const MemorySituation hidden = memory_situation(*ops, config, nullptr, options);
  const int64_t of_a_step = int64_t{options.engine.max_step_rows} * 2 * config.stack.hidden * 4;
  EXPECT_GE(hidden.needs.workspace, alone.needs.workspace + of_a_step);
  EXPECT_LT(hidden.needs.workspace, alone.needs.workspace + 8 * of_a_step);
}

}  // namespace
}  // namespace ashlar
