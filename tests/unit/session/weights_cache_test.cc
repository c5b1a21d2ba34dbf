// SPDX-License-Identifier: Apache-2.0
// A second start computes what the first one did, bit for bit, and a file that is not right is made again.

#include "session/weights_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "golden/direct_decoding.h"
#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"
#include "temp_folder.h"

namespace ashlar::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct Start {
  std::vector<float> logits;
  std::string note;
};

/// Loads the model with the cache `file` (empty: none) and computes a few rows.
Start start(const fs::path& model_path, const fs::path& file, KeptWeights kept, const std::string& isa = "") {
  std::optional<WeightsCache> cache;
  if (!file.empty()) cache.emplace(file);
  DeviceOptions options;
  options.weights = kept;
  options.threads = 2;
  options.isa = isa;
  options.packed = cache ? &*cache : nullptr;
  const auto ops = make_device("cpu", options);
  const auto model = Model::load(*ops, model_path);
  Start out;
  if (cache) out.note = cache->finish();
  DirectDecoder decoder(*model, nullptr, 16);
  const Tensor logits = decoder.target({1, 5, 9, 2, 7}, 0, {});
  for (int32_t row = 0; row < logits.rows; ++row) {
    out.logits.insert(out.logits.end(), logits.row(row), logits.row(row) + logits.cols);
  }
  return out;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Cache : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    constexpr int64_t kNumbers = 1 << 20;
    DeviceOptions options;
    options.weights = KeptWeights::kInt8;
    if (make_device("cpu", options)->kept_bytes(Scheme::kBF16, Products::kDecide, kNumbers) >= 2 * kNumbers) {
      GTEST_SKIP() << "this machine keeps no weights in 8 bits";
    }
  }

  SeededCheckpoint checkpoint_{data_folder() / "families" / GetParam()};
  TempFolder folder_;
  const fs::path file_ = folder_ / "sub" / "x.packed";
};

TEST_P(Cache, SecondStartComputesTheSame) {
  for (const KeptWeights kept : {KeptWeights::kInt8, KeptWeights::kInt4}) {
    const Start without = start(checkpoint_.folder(), "", kept);
    const Start first = start(checkpoint_.folder(), file_, kept);
    EXPECT_THAT(first.note, HasSubstr("are kept for the next start: " + file_.string()));
    EXPECT_EQ(first.logits, without.logits);
    const std::string written = bytes_of(file_);
    for (int i = 0; i < 2; ++i) {
      const Start again = start(checkpoint_.folder(), file_, kept);
      EXPECT_EQ(again.note, "");
      EXPECT_EQ(again.logits, without.logits);
    }
    EXPECT_EQ(bytes_of(file_), written);
  }
}

// Damage to the file costs the time of packing again, and nothing else.
TEST_P(Cache, RepairsDamage) {
  const Start good = start(checkpoint_.folder(), file_, KeptWeights::kInt8);
  const std::string whole = bytes_of(file_);
  const auto expect_repaired = [&](const std::string& bytes) {
    folder_.write("sub/x.packed", bytes);
    const Start repaired = start(checkpoint_.folder(), file_, KeptWeights::kInt8);
    EXPECT_EQ(repaired.logits, good.logits);
    EXPECT_THAT(repaired.note, HasSubstr("packed again"));
    const Start after = start(checkpoint_.folder(), file_, KeptWeights::kInt8);
    EXPECT_EQ(after.note, "");
    EXPECT_EQ(after.logits, good.logits);
  };
  for (const size_t at : {size_t{0}, size_t{9}, size_t{63}, size_t{64}, whole.size() / 3, whole.size() / 2,
                          whole.size() - 200, whole.size() - 33, whole.size() - 1}) {
    std::string bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    expect_repaired(bad);
    expect_repaired(whole.substr(0, at));
  }
}

TEST_P(Cache, GivesNothingToOtherWeights) {
  start(checkpoint_.folder(), file_, KeptWeights::kInt8);
  // The same file of weights but for the lowest bit of some numbers.
  const fs::path weights = checkpoint_.folder() / "model.safetensors";
  if (!fs::exists(weights)) GTEST_SKIP() << "the checkpoint is in shards";
  const std::string before = bytes_of(weights);
  std::string bytes = before;
  for (size_t from_end = 2; from_end < bytes.size() / 2; from_end += 4004) {
    bytes[bytes.size() - from_end] = static_cast<char>(bytes[bytes.size() - from_end] ^ 0x01);
  }
  {
    fs::remove(weights);
    std::ofstream(weights, std::ios::binary) << bytes;
  }
  const Start other = start(checkpoint_.folder(), file_, KeptWeights::kInt8);
  EXPECT_EQ(other.logits, start(checkpoint_.folder(), "", KeptWeights::kInt8).logits);
  EXPECT_THAT(other.note, HasSubstr("are kept"));
  // Another scheme in the same file, and paths that keep other formats.
  EXPECT_EQ(start(checkpoint_.folder(), file_, KeptWeights::kInt4).logits,
            start(checkpoint_.folder(), "", KeptWeights::kInt4).logits);
  for (const std::string& isa : isa_choices()) {
    EXPECT_EQ(start(checkpoint_.folder(), file_, KeptWeights::kInt8, isa).logits,
              start(checkpoint_.folder(), "", KeptWeights::kInt8, isa).logits)
        << isa;
  }
}

TEST_P(Cache, DoesNotFailTheStart) {
  const Start good = start(checkpoint_.folder(), "", KeptWeights::kInt8);
  folder_.write("file", "no folder");
  const Start nowhere = start(checkpoint_.folder(), folder_ / "file" / "x.packed", KeptWeights::kInt8);
  EXPECT_EQ(nowhere.logits, good.logits);
  EXPECT_THAT(nowhere.note, HasSubstr("not kept for the next start"));
  fs::create_directories(file_);  // a folder of that name
  const Start folder = start(checkpoint_.folder(), file_, KeptWeights::kInt8);
  EXPECT_EQ(folder.logits, good.logits);
  EXPECT_THAT(folder.note, HasSubstr("not kept for the next start"));
}

INSTANTIATE_TEST_SUITE_P(Families, Cache, ::testing::Values("qwen3", "qwen3_moe_sliding", "llama_bias"),
                         [](const auto& tested) { return std::string(tested.param); });

// Two that write at once: what is there is whole, and what a later start takes from it stays in it.
TEST(WeightsCache, StaysWholeWhoeverWrites) {
  const TempFolder folder;
  const std::string text(1000, 'x');
  const auto bytes = std::as_bytes(std::span(text));
  WeightsCache one(folder / "x"), other(folder / "x");
  one.keep(1, bytes);
  other.keep(1, bytes);
  EXPECT_THAT(one.finish(), HasSubstr("are kept"));
  EXPECT_THAT(other.finish(), HasSubstr("are kept"));
  WeightsCache next(folder / "x");
  EXPECT_EQ(next.take(1, 999), nullptr);
  EXPECT_EQ(next.take(2, 1000), nullptr);
  const auto found = next.take(1, 1000);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(std::memcmp(found.get(), text.data(), text.size()), 0);
  EXPECT_TRUE(next.is_whole(1, bytes));
  // What was taken stays when something is missing and the file is written anew.
  next.keep(2, bytes.first(10));
  EXPECT_THAT(next.finish(), HasSubstr("are kept"));
  EXPECT_FALSE(next.is_open());
  WeightsCache last(folder / "x");
  EXPECT_NE(last.take(1, 1000), nullptr);
  EXPECT_NE(last.take(2, 10), nullptr);
  EXPECT_EQ(last.finish(), "");
  // A copy that the disk failed in the midst of is none, whatever the map said before.
  WeightsCache failing(folder / "x");
  ASSERT_NE(failing.take(1, 1000), nullptr);
  const std::string zeros(1000, '\0');
  EXPECT_FALSE(failing.is_whole(1, std::as_bytes(std::span(zeros))));
}

TEST(WeightsCache, IsForModelsThatTakeTimeToPack) {
  const TempFolder folder;
  const fs::path model = folder.write("model.gguf", "small");
  const auto open = [&](const std::string& cache) {
    return open_weights_cache(cache, model, "cpu", KeptWeights::kAuto);
  };
  EXPECT_EQ(open(folder.path()), nullptr);
  fs::resize_file(model, uint64_t{100} << 20);
  EXPECT_NE(open(folder.path()), nullptr);
  EXPECT_EQ(open("none"), nullptr);
  EXPECT_EQ(open(""), nullptr);
}

}  // namespace
}  // namespace ashlar::testing
