// SPDX-License-Identifier: Apache-2.0
// Every folder of tests/data/drafters against the PyTorch reference of tools/goldens/drafter_reference.py.

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "device/device.h"
#include "golden/direct_decoding.h"
#include "golden/gguf_from_drafter.h"
#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"
#include "temp_folder.h"

namespace ashlar::testing {
namespace {

constexpr double kDraftersTolerance = 1e-5;
constexpr int32_t kDraftersMaxTokens = 96;
const std::set<std::string> kRepeating = {
    "dflash_sliding", "dflash_noncausal_sliding", "dflash_bias",         "dflash_scaled",     "dflash2", "dspark",
    "speculators",    "speculators_anchor",       "speculators_dflash2", "speculators_dspark"};

class Drafters : public ::testing::TestWithParam<std::string> {
 protected:
  /// `as_gguf`: the drafter is what llama.cpp's converter makes of the folder.
  explicit Drafters(const std::string& device = "ref", bool as_gguf = false)
      : checkpoint_(data_folder() / "drafters" / GetParam()),
        json_(read_json_file(checkpoint_.folder() / "goldens.json")),
        target_(data_folder() / json_["target"].get<std::string>()),
        tensors_(checkpoint_.folder() / "goldens.safetensors"),
        ops_(make_device(device, {})),
        model_(Model::load(*ops_, target_.folder(), kDraftersMaxTokens)),
        drafter_(DflashDrafter::load(*model_, as_gguf ? gguf() : checkpoint_.folder())),
        decoder_(*model_, drafter_.get(), kDraftersMaxTokens),
        prompt_(ints(tensors_, "prompt_ids")) {}

  std::filesystem::path gguf() const {
    return files_.write("drafter.gguf", gguf_from_drafter(checkpoint_.folder()).bytes());
  }

  void expect_tensor(Tensor found, const std::string& name) {
    const std::vector<float> golden = floats(tensors_, name);
    ASSERT_GE(golden.size(), static_cast<size_t>(found.rows) * found.cols) << name;
    for (int32_t r = 0; r < found.rows; ++r) {
      ASSERT_LT(relative_error(found.row(r), golden.data() + int64_t{r} * found.cols, found.cols), kDraftersTolerance)
          << name << ", row " << r;
    }
  }

  // Rows of a block without those that stand for nothing, as the goldens count them.
  int32_t block_rows() const { return json_["block_size"].get<int32_t>(); }

  void check_call(const std::string& call) {
    SCOPED_TRACE(call);
    const std::vector<int32_t> ids = ints(tensors_, call + ".new_ids");
    const int32_t start = ints(tensors_, call + ".start")[0];
    const int32_t last_token = ints(tensors_, call + ".anchor")[0];
    const auto n = static_cast<int32_t>(ids.size());
    decoder_.target(ids, start - n, drafter_->aux_layers());
    if (tensors_.tensors().contains(call + ".features")) {
      expect_tensor(decoder_.aux_hidden().narrow(n), call + ".features");
      expect_tensor(drafter_->features(decoder_.aux_hidden().narrow(n)), call + ".context");
    } else {
      // The smallest goldens leave out what others have, and so do these, whose layers see the same features.
      ASSERT_TRUE(drafter_->config().stack.n_layers == 1 || kRepeating.contains(GetParam()));
    }
    decoder_.write_context(ids, start - n);
    const Tensor hidden = decoder_.draft_hidden(last_token, start, block_rows());
    std::vector<float> golden = floats(tensors_, call + ".draft_hidden");
    ASSERT_EQ(golden.size(), static_cast<size_t>(hidden.rows) * hidden.cols);
    for (float& value : golden) value *= drafter_->config().output_multiplier;  // folded into the norm here
    for (int32_t r = 0; r < hidden.rows; ++r) {
      EXPECT_LT(relative_error(hidden.row(r), golden.data() + int64_t{r} * hidden.cols, hidden.cols),
                kDraftersTolerance)
          << "hidden, row " << r;
    }
    expect_tensor(decoder_.draft_logits(hidden), call + ".draft_logits");
    if (drafter_->selector() != nullptr) check_edges(call, last_token, hidden);
    EXPECT_EQ(decoder_.draft(last_token, start, drafter_->config().max_width()), ints(tensors_, call + ".drafted_ids"));
    if (drafter_->confidence() != nullptr) check_confidence(call, last_token, hidden);
    if (!drafter_->config().drafts_chains()) return;
    const int32_t first = drafter_->config().sample_from_anchor ? 0 : 1;  // draft() left what it chose from
    expect_tensor(decoder_.last_logits(hidden.rows).skip(first), call + ".logits_in_turn");
  }

  // What it thinks of the drafts that draft() gives.
  void check_confidence(const std::string& call, int32_t last_token, Tensor all_hidden) {
    const Tensor hidden = all_hidden.skip(drafter_->config().sample_from_anchor ? 0 : 1);
    std::vector<int32_t> before = ints(tensors_, call + ".drafted_ids");
    before.insert(before.begin(), last_token);
    before.pop_back();
    drafter_->confidence()->reserve(*ops_, hidden.rows);
    const std::vector<float> golden = floats(tensors_, call + ".confidences");
    const std::span<const float> chances = drafter_->confidence()->chances(*ops_, hidden, before, drafter_->codes());
    ASSERT_EQ(chances.size(), golden.size());
    for (size_t i = 0; i < golden.size(); ++i) EXPECT_NEAR(chances[i], golden[i], kDraftersTolerance) << i;
  }

  // Candidates in their order, and what each scores after each of the slot before.
  void check_edges(const std::string& call, int32_t last_token, Tensor hidden) {
    const int32_t first = drafter_->config().sample_from_anchor ? 0 : 1, rows = hidden.rows - first;
    const SelectedEdges edges =
        decoder_.select(hidden.skip(first), decoder_.draft_logits(hidden).skip(first), last_token);
    EXPECT_EQ(std::vector<int32_t>(edges.ids.begin(), edges.ids.end()), ints(tensors_, call + ".candidates"));
    const std::vector<float> golden = floats(tensors_, call + ".edges");
    ASSERT_EQ(golden.size(), edges.scores.size());
    for (int32_t row = 0; row < rows; ++row) {
      for (int32_t before = 0; before < (row == 0 ? 1 : edges.n); ++before) {
        const float* const expected = golden.data() + int64_t{row * edges.n + before} * edges.n;
        EXPECT_LT(relative_error(edges.after(row, before), expected, edges.n), kDraftersTolerance)
            << row << " " << before;
      }
    }
  }

  TempFolder files_;
  SeededCheckpoint checkpoint_;
  Json json_;
  SeededCheckpoint target_;
  SafetensorsFile tensors_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<DflashDrafter> drafter_;
  DirectDecoder decoder_;
  std::vector<int32_t> prompt_;
};

// The second call writes into a cache that the first has filled.
TEST_P(Drafters, CallsAgree) {
  EXPECT_EQ(drafter_->config().max_width() - 1, json_["drafts_per_call"].get<int32_t>());
  check_call("call1");
  check_call("call2");
}

TEST_P(Drafters, RunIsExact) {
  const std::vector<int32_t> expected = ints(tensors_, "run.output_ids");
  const auto limit = static_cast<int32_t>(expected.size());
  const DirectRun run = decoder_.speculate(prompt_, limit, {}, drafter_->config().max_width());
  EXPECT_EQ(run.tokens, expected);
  EXPECT_EQ(run.accept_lengths, ints(tensors_, "run.accept_lengths"));
  EXPECT_EQ(run.drafted_ids, ints(tensors_, "run.drafted_ids"));
  EXPECT_EQ(decoder_.greedy(prompt_, limit, {}), expected);
}

INSTANTIATE_TEST_SUITE_P(OnRef, Drafters, ::testing::ValuesIn(subfolders(data_folder() / "drafters")),
                         [](const auto& test) { return test.param; });

class DraftersInGguf : public Drafters {
 protected:
  DraftersInGguf() : Drafters("ref", true) {}
};

// The same numbers, so the same drafts and lengths as those that the folder's golden values say.
TEST_P(DraftersInGguf, AreTheFolders) {
  check_call("call1");
  check_call("call2");
  const std::vector<int32_t> expected = ints(tensors_, "run.output_ids");
  const DirectRun run =
      decoder_.speculate(prompt_, static_cast<int32_t>(expected.size()), {}, drafter_->config().max_width());
  EXPECT_EQ(run.tokens, expected);
  EXPECT_EQ(run.accept_lengths, ints(tensors_, "run.accept_lengths"));
}

// Without those that the format has no words for: biases, gated codes, heads in the speculators form.
INSTANTIATE_TEST_SUITE_P(Folders, DraftersInGguf,
                         ::testing::Values("dflash_full", "dflash_sliding", "dflash_noncausal_sliding", "dflash_scaled",
                                           "dflash_block_in_config", "dflash_fitted", "dflash2", "dflash2_projector",
                                           "dspark"),
                         [](const auto& test) { return std::string(test.param); });

// Whatever is wrong with a file is said when it is loaded, with the file's name and that of the tensor or key.
TEST(DrafterInGguf, IsRefusedInWords) {
  const SeededCheckpoint target(data_folder() / "families" / "qwen3");
  const auto ops = make_device("ref", {});
  const auto model = Model::load(*ops, target.folder(), kDraftersMaxTokens);
  const TempFolder folder;
  const auto message = [&](const GgufWriter& file) -> std::string {
    const auto path = folder.write("d.gguf", file.bytes());
    try {
      DflashDrafter::load(*model, path);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("d.gguf"), std::string::npos) << error.what();
      return error.what();
    }
    return {};
  };
  const auto expect = [&](const GgufWriter& file, const std::string& part) {
    EXPECT_NE(message(file).find(part), std::string::npos) << part << ": " << message(file);
  };
  const SeededCheckpoint source(data_folder() / "drafters" / "dflash2");
  const GgufWriter whole = gguf_from_drafter(source.folder());
  EXPECT_EQ(message(whole), "");
  for (size_t i = 0; i < whole.tensors.size(); ++i) {  // each is needed
    GgufWriter file = whole;
    file.tensors.erase(file.tensors.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_NE(message(file), "") << i;
  }
  const auto edited = [&](const std::string& from, const std::string& to) {
    GgufWriter file = whole;
    for (std::vector<std::string>* parts : {&file.tensors, &file.keys}) {
      for (std::string& part : *parts) {
        if (const size_t at = part.find(from); at != std::string::npos) part.replace(at, from.size(), to);
      }
    }
    return file;
  };
  expect(edited("enc.output_norm", "enc.other__norm"), "tensor enc.output_norm.weight: missing; expected [64]");
  expect(edited("blk.1.ffn_conv_base", "blk.1.ffn_konv_base"), "tensor blk.1.ffn_conv_base: missing");
  const auto extents = [](uint64_t cols, uint64_t rows) { return GgufWriter::raw(cols) + GgufWriter::raw(rows); };
  expect(edited(extents(192, 64), extents(96, 128)), "tensor fc.weight: expected shape [64, 192], found [128, 96]");
  for (const char* key : {"dflash.target_layers", "dflash.block_size", "tokenizer.ggml.mask_token_id",
                          "dflash.conv_kernel_size", "dflash.selector_rank", "dflash.embedding_length"}) {
    std::string other = key;
    other.back() = '_';
    expect(edited(key, other), std::string(key).substr(std::string(key).rfind('.') + 1));
  }
  const auto with = [&](auto add) {
    GgufWriter file = whole;
    add(file);
    return file;
  };
  expect(with([](GgufWriter& file) { file.number("dflash.attention.value_scale", 2.0F); }), "attention.value_scale");
  expect(with([](GgufWriter& file) { file.text("dflash.hidden_activation", "gelu"); }), "silu");
  expect(with([](GgufWriter& file) { file.integers("dflash.rope.dimension_sections", {4, 2, 2, 0}); }), "sections");
  expect(edited("dflash.target_layers" + GgufWriter::raw(uint32_t{9}) + GgufWriter::raw(uint32_t{5}) +
                    GgufWriter::raw(uint64_t{3}) + GgufWriter::raw(int32_t{1}),
                "dflash.target_layers" + GgufWriter::raw(uint32_t{9}) + GgufWriter::raw(uint32_t{5}) +
                    GgufWriter::raw(uint64_t{3}) + GgufWriter::raw(int32_t{0})),
         "\"dflash.target_layers\": expected layers from 1 to");
}

class DraftersOnCpu : public Drafters {
 protected:
  DraftersOnCpu() : Drafters("cpu") {}
};

// In 8 bits where the machine gains by that: drafts are near the reference's, and decide nothing.
TEST_P(DraftersOnCpu, RunIsThatOfPlainDecoding) {
  const std::vector<int32_t> ids = ints(tensors_, "call1.new_ids");
  const int32_t start = ints(tensors_, "call1.start")[0];
  decoder_.target(ids, start - static_cast<int32_t>(ids.size()), drafter_->aux_layers());
  decoder_.write_context(ids, start - static_cast<int32_t>(ids.size()));
  const Tensor logits =
      decoder_.draft_logits(decoder_.draft_hidden(ints(tensors_, "call1.anchor")[0], start, block_rows()));
  const std::vector<float> golden = floats(tensors_, "call1.draft_logits");
  for (int32_t r = 0; r < logits.rows; ++r) {
    EXPECT_LT(relative_error(logits.row(r), golden.data() + int64_t{r} * logits.cols, logits.cols), 0.1) << r;
  }
  const auto limit = static_cast<int32_t>(ints(tensors_, "run.output_ids").size());
  const DirectRun run = decoder_.speculate(prompt_, limit, {}, drafter_->config().max_width());
  EXPECT_EQ(run.tokens, decoder_.greedy(prompt_, limit, {}));
}

INSTANTIATE_TEST_SUITE_P(OnCpu, DraftersOnCpu, ::testing::ValuesIn(subfolders(data_folder() / "drafters")),
                         [](const auto& test) { return test.param; });

TEST(DrafterGoldens, AreAllThere) { EXPECT_GE(subfolders(data_folder() / "drafters").size(), 16u); }

}  // namespace
}  // namespace ashlar::testing
