// SPDX-License-Identifier: Apache-2.0
// Every folder of tests/data/blocks: mixtures of experts and models that denoise blocks, against public implementations
// in float32 (tools/goldens/make_block_family_goldens.py says which). A row sees up to the end of its own block.

#include <gtest/gtest.h>

#include <numeric>

#include "device/device.h"
#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"
#include "model/model.h"

namespace ashlar::testing {
namespace {

DeviceOptions cpu_options(const std::string& isa = "", KvDType kv_dtype = KvDType::kBF16) { return {2, isa, kv_dtype}; }

/// A model of the folder on one device, and the shortest program that runs it.
class BlockModel {
 public:
  BlockModel(const std::filesystem::path& folder, const std::string& device, const DeviceOptions& options)
      : ops_(make_device(device, options)),
        model_(Model::load(*ops_, folder, kMaxRows)),
        batch_(*ops_, kMaxRows, 1),
        pages_(kMaxRows / kPageTokens) {
    KvLayout layout;
    model_->register_state(layout);
    kv_ = std::make_unique<KvMemory>(*ops_, layout, static_cast<int32_t>(pages_.size()));
    std::iota(pages_.rbegin(), pages_.rend(), 0);
    model_->reserve(kMaxRows);
  }

  const ModelConfig& config() const { return model_->config(); }
  int32_t vocab() const { return config().vocab; }

  /// One past the last position that a row sees in a sequence of n.
  int32_t block_end(int32_t position, int32_t n) const {
    if (!config().diffusion) return position + 1;
    const int32_t block = config().diffusion->block_size;
    return block == 0 ? n : std::min(n, (position / block + 1) * block);
  }

  /// Logits of ids[from, to), whose predecessors are in the cache.
  std::vector<float> run(const std::vector<int32_t>& ids, int32_t from, int32_t to) {
    batch_.clear();
    batch_.begin_sequence(pages_.data());
    for (int32_t i = from; i < to; ++i) {
      batch_.add_row(ids[i], i, block_end(i, static_cast<int32_t>(ids.size())));
      batch_.want_output();
    }
    const Tensor hidden = model_->forward(batch_, *kv_, {});
    std::vector<float> logits(static_cast<size_t>(to - from) * vocab());
    model_->head(hidden, {logits.data(), to - from, vocab(), vocab()});
    return logits;
  }
  std::vector<float> run(const std::vector<int32_t>& ids) { return run(ids, 0, static_cast<int32_t>(ids.size())); }

 private:
  static constexpr int32_t kMaxRows = 64;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;
  RowBatch batch_;
  std::vector<int32_t> pages_;
  std::unique_ptr<KvMemory> kv_;
};

class BlockFamilies : public ::testing::TestWithParam<std::string> {
 protected:
  BlockFamilies()
      : checkpoint_(data_folder() / "blocks" / GetParam()),
        tensors_(data_folder() / "blocks" / GetParam() / "goldens.safetensors"),
        ids_(ints(tensors_, "input_ids")) {}

  double worst_error(BlockModel& model) const {
    const std::vector<float> golden = floats(tensors_, "logits");
    const std::vector<float> found = model.run(ids_);
    EXPECT_EQ(golden.size(), found.size());
    double worst = 0;
    for (size_t at = 0; at < found.size(); at += model.vocab()) {
      worst = std::max(worst, relative_error(&found[at], &golden[at], model.vocab()));
    }
    return worst;
  }

  SeededCheckpoint checkpoint_;
  SafetensorsFile tensors_;
  std::vector<int32_t> ids_;
};

TEST_P(BlockFamilies, LogitsAgreeOnRef) {
  BlockModel model(checkpoint_.folder(), "ref", {});
  EXPECT_LT(worst_error(model), 1e-5);
}

TEST_P(BlockFamilies, LogitsAgreeOnCpu) {
  for (const std::string& isa : isa_choices()) {
    BlockModel model(checkpoint_.folder(), "cpu", cpu_options(isa, KvDType::kF32));
    RecordProperty(isa, std::to_string(worst_error(model)));
    // Products of pairs round what meets bf16 weights to bf16.
    const bool bf16 = GetParam() == "sdar" || GetParam() == "dream";
    const bool pairs = isa == "amx" || isa == "avx512bf16";
    EXPECT_LT(worst_error(model), pairs && bf16 ? 0.03 : 2e-5) << isa;
  }
}

std::vector<bool> moved_rows(const std::vector<float>& a, const std::vector<float>& b, int32_t vocab) {
  std::vector<bool> moved;
  for (size_t at = 0; at < a.size(); at += vocab) {
    moved.push_back(std::memcmp(&a[at], &b[at], sizeof(float) * vocab) != 0);
  }
  return moved;
}

TEST_P(BlockFamilies, RowsSeeTheirBlockAndWhatIsBeforeIt) {
  BlockModel model(checkpoint_.folder(), "cpu", cpu_options());
  const std::vector<float> before = model.run(ids_);
  const auto n = static_cast<int32_t>(ids_.size());
  for (const int32_t changed : {n - 1, 9, 7, 0}) {
    std::vector<int32_t> ids = ids_;
    ids[changed] = ids[changed] == 17 ? 18 : 17;
    std::vector<bool> expected;
    for (int32_t i = 0; i < n; ++i) expected.push_back(changed < model.block_end(i, n));
    EXPECT_EQ(moved_rows(before, model.run(ids), model.vocab()), expected) << changed;
  }
}

// A prompt in pieces that end where blocks end is a prompt in one piece, bit for bit.
TEST_P(BlockFamilies, PiecesOfWholeBlocksGiveTheSameBits) {
  for (const std::string device : {"ref", "cpu"}) {
    BlockModel model(checkpoint_.folder(), device, cpu_options());
    if (model.config().diffusion && model.config().diffusion->block_size == 0) continue;  // there is one block
    const std::vector<float> whole = model.run(ids_);
    std::vector<float> pieces;
    const auto n = static_cast<int32_t>(ids_.size());
    for (int32_t from = 0, to = 0; from < n; from = to) {
      to = std::min(n, from + 8);
      const std::vector<float> piece = model.run(ids_, from, to);
      pieces.insert(pieces.end(), piece.begin(), piece.end());
    }
    EXPECT_TRUE(std::memcmp(whole.data(), pieces.data(), sizeof(float) * whole.size()) == 0) << device;
  }
}

INSTANTIATE_TEST_SUITE_P(All, BlockFamilies, ::testing::ValuesIn(subfolders(data_folder() / "blocks")),
                         [](const auto& test) { return test.param; });

TEST(BlockFamilyGoldens, AreAllThere) { EXPECT_EQ(subfolders(data_folder() / "blocks").size(), 9u); }

// Ties and negative biases included.
TEST(Router, ChoosesAsPublishedRoutersDo) {
  const Json cases = read_json_file(data_folder() / "blocks" / "router.json");
  ASSERT_EQ(cases.size(), 5u);
  for (const auto& ops : {make_device("ref", {}), make_device("cpu", cpu_options())}) {
    for (const Json& item : cases) {
      const Json& json = item["routing"];
      const Routing routing = {json["score"] == "sigmoid" ? Routing::Score::kSigmoid : Routing::Score::kSoftmax,
                               json["groups"].get<int32_t>(),
                               json["top_groups"].get<int32_t>(),
                               json["top_k"].get<int32_t>(),
                               json["normalise"].get<bool>(),
                               json["scale"].get<float>()};
      std::vector<float> bias;
      if (!item["bias"].is_null()) bias = item["bias"].get<std::vector<float>>();
      for (const Json& row : item["rows"]) {
        auto logits = row["logits"].get<std::vector<float>>();
        std::vector<int32_t> experts(routing.top_k);
        std::vector<float> weights(routing.top_k);
        const auto n = static_cast<int32_t>(logits.size());
        ops->route({logits.data(), 1, n, n}, bias.empty() ? nullptr : bias.data(), routing,
                   {routing.top_k, experts.data(), weights.data()});
        EXPECT_EQ(experts, row["experts"].get<std::vector<int32_t>>());
        for (int32_t j = 0; j < routing.top_k; ++j) EXPECT_NEAR(weights[j], row["weights"][j].get<float>(), 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace ashlar::testing
