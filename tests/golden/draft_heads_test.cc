// SPDX-License-Identifier: Apache-2.0
// Every folder of tests/data/heads against the PyTorch reference of tools/goldens/draft_head_reference.py.

#include <gtest/gtest.h>

#include <numeric>

#include "decode/drafters.h"
#include "device/device.h"
#include "device/device_array.h"
#include "golden/gguf_from_drafter.h"
#include "golden/golden_data.h"
#include "golden/head_folder.h"
#include "golden/seeded_checkpoint.h"
#include "model/drafters/eagle3.h"
#include "model/drafters/mtp.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kHeadsMaxTokens = 96;

/// Target and head, and the shortest program that drafts with them: one sequence, no engine.
class HeadOfFolder {
 public:
  /// `as_gguf`: the head is what llama.cpp's converter makes of the folder.
  HeadOfFolder(const std::string& device, const std::string& name, bool as_gguf = false)
      : folder_(data_folder() / "heads" / name),
        json_(read_json_file(folder_.folder() / "goldens.json")),
        goldens_(folder_.folder() / "goldens.safetensors"),
        ops_(make_device(device, {})),
        batch_(*ops_, kHeadsMaxTokens, 1),
        pages_(*ops_, kHeadsMaxTokens / kPageTokens + 1) {
    load(as_gguf);
    KvLayout layout;
    layout.keep_log(kHeadsMaxTokens);
    model_->register_state(layout);
    head_->register_state(layout);
    kv_ = std::make_unique<KvMemory>(*ops_, layout, static_cast<int32_t>(pages_.size()));
    std::vector<int32_t> pages(static_cast<size_t>(pages_.size()));
    std::iota(pages.rbegin(), pages.rend(), 0);  // positions must go through the table
    pages_.upload(pages);
    model_->reserve(kHeadsMaxTokens);
    head_->reserve(kHeadsMaxTokens);
    const int32_t width = std::max({head_->aux_width(), head_->feature_width(), head_->draft_vocab()});
    storage_ = ops_->allocate(2 * sizeof(float) * static_cast<size_t>(kHeadsMaxTokens) * static_cast<size_t>(width));
    auto* const memory = reinterpret_cast<float*>(storage_->data());
    aux_ = {memory, kHeadsMaxTokens, head_->aux_width(), head_->aux_width()};
    logits_ = {memory + int64_t{kHeadsMaxTokens} * width, kHeadsMaxTokens, head_->draft_vocab(), head_->draft_vocab()};
  }

  /// Compares what the head drafts after a prompt, and after four more tokens, with the golden values.
  void check(double tolerance, bool exact) {
    std::vector<int32_t> known;
    for (const std::string call : {"call1", "call2"}) {
      SCOPED_TRACE(call);
      const std::vector<int32_t> fresh = ints(goldens_, call + ".new_ids");
      known.insert(known.end(), fresh.begin(), fresh.end());
      check_call(call, known, static_cast<int32_t>(fresh.size()), tolerance, exact);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }

 private:
  void load(bool as_gguf) {
    const std::filesystem::path target = data_folder() / json_["target"].get<std::string>();
    if (json_["method"] == "mtp") {
      whole_ = std::make_unique<HeadFolder>(target, folder_.folder());
      if (as_gguf) file_ = files_.write("model.gguf", gguf_from_folder(whole_->path()).bytes());
      const std::filesystem::path& model = as_gguf ? file_ : whole_->path();
      model_ = Model::load(*ops_, model, kHeadsMaxTokens);
      EXPECT_TRUE(has_mtp(model));
      head_ = MtpHead::load(*model_);
    } else {
      target_ = std::make_unique<SeededCheckpoint>(target);
      model_ = Model::load(*ops_, target_->folder(), kHeadsMaxTokens);
      EXPECT_FALSE(has_mtp(target_->folder()));
      if (as_gguf) file_ = files_.write("drafter.gguf", gguf_from_drafter(folder_.folder()).bytes());
      EXPECT_TRUE(is_eagle3_folder(as_gguf ? file_ : folder_.folder()));
      head_ = Eagle3Head::load(*model_, as_gguf ? file_ : folder_.folder());
    }
    const std::filesystem::path drafter = as_gguf ? file_ : whole_ ? whole_->path() : folder_.folder();
    EXPECT_EQ(method_of_drafter(drafter), json_["method"]);
    EXPECT_EQ(drafter_facts(drafter, model_->config(), {}, 1).aux_width, head_->aux_width());
  }

  // Rows of the target anew from position 0: recurrent layers cannot go back.
  Tensor features(const std::vector<int32_t>& ids) {
    batch_.clear();
    batch_.begin_sequence(pages_.device(), 0, {0, 0, kHeadsMaxTokens, {}});
    for (size_t i = 0; i < ids.size(); ++i) batch_.add_row(ids[i], static_cast<int32_t>(i), 0);
    batch_.want_output();
    model_->forward(batch_, *kv_, {head_->aux_layers(), aux_});
    return head_->features(aux_.narrow(batch_.n()));
  }

  void expect_rows(Tensor found, const std::string& name, int32_t first, double tolerance) {
    const std::vector<float> golden = floats(goldens_, name);
    for (int32_t r = 0; r < found.rows; ++r) {
      const float* row = golden.data() + int64_t{first + r} * found.cols;
      ASSERT_LT(relative_error(found.row(r), row, static_cast<size_t>(found.cols)), tolerance) << name << ", row " << r;
    }
  }

  // All drafts in one pass, in which masks stand for those before.
  void check_masked_call(const std::string& call, int32_t n, Tensor feature, double tolerance, bool exact) {
    const std::vector<int32_t> expected = ints(goldens_, call + ".drafted_ids");
    const auto drafts = static_cast<int32_t>(expected.size());
    const auto rows = ops_->allocate(bytes_of(feature.dtype) * static_cast<size_t>(drafts * feature.cols));
    const Tensor features = {rows->data(), drafts, feature.cols, feature.cols, feature.dtype};
    batch_.clear();
    batch_.begin_sequence(pages_.device(), 1);
    for (int32_t k = 0; k < drafts; ++k) {
      ops_->copy(k == 0 ? feature : head_->mask_feature(), features.part(k, 1));
      batch_.add_row(k == 0 ? ints(goldens_, call + ".last_token")[0] : head_->mask_id(), n + k, n + k + 1);
      batch_.want_output();
    }
    const DraftHead::Output out = head_->forward(features, batch_, *kv_);
    expect_rows(out.hidden, call + ".hidden", 0, tolerance);
    const Tensor logits = logits_.narrow(drafts);
    head_->head(out.hidden, logits);
    expect_rows(logits, call + ".logits", 0, tolerance);
    for (int32_t k = 0; k < drafts && exact; ++k) {
      const auto entry = std::max_element(logits.row(k), logits.row(k) + logits.cols) - logits.row(k);
      ASSERT_EQ(head_->id_map()[entry], expected[static_cast<size_t>(k)]);
    }
  }

  void check_call(const std::string& call, const std::vector<int32_t>& known, int32_t fresh, double tolerance,
                  bool exact) {
    const auto n = static_cast<int32_t>(known.size());
    Tensor feature = features(known);
    expect_rows(feature.part(n - fresh, fresh), call + ".features", 0, tolerance);
    batch_.clear();
    batch_.begin_sequence(pages_.device(), 1);
    for (int32_t i = 1; i < n; ++i) batch_.add_row(known[static_cast<size_t>(i)], i, 0);
    head_->forward(feature.narrow(n - 1), batch_, *kv_);
    feature = feature.part(n - 1, 1);
    if (head_->mask_id() >= 0) return check_masked_call(call, n, feature, tolerance, exact);
    const std::vector<int32_t> expected = ints(goldens_, call + ".drafted_ids");
    int32_t id = ints(goldens_, call + ".last_token")[0];
    for (int32_t k = 0; k < static_cast<int32_t>(expected.size()); ++k) {
      batch_.clear();
      batch_.begin_sequence(pages_.device(), 1);
      batch_.add_row(id, n + k, n + k + 1);
      batch_.want_output();
      const DraftHead::Output out = head_->forward(feature, batch_, *kv_);
      expect_rows(out.hidden, call + ".hidden", k, tolerance);
      const Tensor logits = logits_.narrow(1);
      head_->head(out.hidden, logits);
      expect_rows(logits, call + ".logits", k, tolerance);
      id = static_cast<int32_t>(std::max_element(logits.row(0), logits.row(0) + logits.cols) - logits.row(0));
      if (head_->id_map() != nullptr) id = head_->id_map()[id];
      if (exact) {
        ASSERT_EQ(id, expected[static_cast<size_t>(k)]);
      }
      id = expected[static_cast<size_t>(k)];
      feature = out.features;
    }
  }

  TempFolder files_;
  std::filesystem::path file_;  // of a head in a GGUF file
  SeededCheckpoint folder_;
  Json json_;
  SafetensorsFile goldens_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<HeadFolder> whole_;         // of a model that drafts itself
  std::unique_ptr<SeededCheckpoint> target_;  // of other drafters
  std::unique_ptr<Model> model_;
  std::unique_ptr<DraftHead> head_;
  RowBatch batch_;
  DeviceArray<int32_t> pages_;
  std::unique_ptr<KvMemory> kv_;
  std::unique_ptr<Buffer> storage_;
  Tensor aux_, logits_;
};

class DraftHeads : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Folders, DraftHeads, ::testing::ValuesIn(subfolders(data_folder() / "heads")),
                         [](const auto& test) { return test.param; });

TEST_P(DraftHeads, AgreeOnRef) { HeadOfFolder("ref", GetParam()).check(2e-5, true); }
// In 8 bits where the machine gains by that: drafts are near the reference's, and decide nothing.
TEST_P(DraftHeads, AreNearOnCpu) { HeadOfFolder("cpu", GetParam()).check(0.1, false); }

class DraftHeadsInGguf : public ::testing::TestWithParam<std::string> {};
// Without the one whose norms before fc and whose norms of queries the format has no words for.
INSTANTIATE_TEST_SUITE_P(Folders, DraftHeadsInGguf,
                         ::testing::Values("eagle3_fitted", "eagle3_specforge", "eagle3_norm_before_fc", "mtp_fitted",
                                           "mtp_moe", "mtp_glm"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(DraftHeadsInGguf, AreTheFolders) { HeadOfFolder("ref", GetParam(), true).check(2e-5, true); }

TEST(DraftHeadGoldens, AreAllThere) { EXPECT_GE(subfolders(data_folder() / "heads").size(), 9u); }

}  // namespace
}  // namespace ashlar::testing
