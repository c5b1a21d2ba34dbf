// SPDX-License-Identifier: Apache-2.0
// Hidden states on the disk: what is captured is what is computed otherwise, and files of others are read.

#include "train/capture/hidden_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "base/bf16.h"
#include "base/error.h"
#include "io/mapped_file.h"
#include "io/weights/safetensors_writer.h"
#include "temp_folder.h"
#include "train/capture/hidden_capture.h"
#include "train/run/capture_run.h"
#include "unit/train/tiny_target.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class HiddenOnDisk : public TinyTarget {
 protected:
  HiddenOnDisk() : TinyTarget(one_thread(), 10, 59) {
    // Enough that they do not all go together.
    for (int32_t number = 0; number < 30; ++number) {
      EncodedDocument one;
      for (int32_t i = 0; i < 50; ++i) one.ids.push_back(10 + (number + i * i) % 80);
      one.supervised.assign(one.ids.size(), 1);
      documents_.add(one);
    }
    documents_.end_file();
    options_.target = "mark";
    options_.distribution = DistributionLoss::kKl;
    layout_ = hidden_layout(block_drafter(drafter_), model_->config(), options_);
  }

  std::string refusal(const fs::path& path, std::span<const int32_t> ids, const HiddenLayout& layout) const {
    try {
      const HiddenFile file(path, ids, layout);
      std::vector<std::byte> to(ids.size() * static_cast<size_t>(layout.width()) * sizeof(float));
      file.read_aux(DType::kF32, to.data());
      return "taken";
    } catch (const Error& error) {
      return error.what();
    }
  }

  TrainOptions options_;
  HiddenLayout layout_;
};

TEST_F(HiddenOnDisk, IsWhatIsComputedOtherwise) {
  const TempFolder folder;
  const HiddenStore store(folder / "states", layout_);
  const std::vector<size_t> training = documents_.training();
  // Stopped after the first group; what is there is not written again.
  int64_t done = capture_documents(*model_, documents_, store, 64, [](int64_t) { return false; });
  EXPECT_GT(done, 0);
  EXPECT_LT(done, std::ssize(training));
  const auto written = fs::last_write_time(store.path_of(training.front()));
  done = capture_documents(*model_, documents_, store, 64, [](int64_t) { return true; });
  EXPECT_EQ(done, std::ssize(training));
  EXPECT_EQ(fs::last_write_time(store.path_of(training.front())), written);
  EXPECT_FALSE(store.has(documents_.held_out().front()));

  std::vector<StoredDocument> read;
  std::vector<std::span<const int32_t>> ids;
  for (const size_t document : {training[3], training[0]}) {
    ids.push_back(documents_.ids(document));
    read.push_back({store.path_of(document), ids.back()});
  }
  StoredHidden stored(*model_, layout_);
  HiddenCapture capture(*model_, drafter_.aux_layers, 64, HiddenCapture::kRows, true);
  const auto same = [](std::span<const Tensor> a, std::span<const Tensor> b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].rows, b[i].rows);
      ASSERT_EQ(a[i].cols, b[i].cols);
      const size_t bytes = static_cast<size_t>(a[i].rows * a[i].stride) * sizeof(float);
      EXPECT_EQ(std::memcmp(a[i].data, b[i].data, bytes), 0) << i;  // the device is the host's own
    }
  };
  same(stored.load(read), capture.capture(ids));
  same(stored.final_hidden(), capture.final_hidden());
  // Without the tensor, what the head takes is made of the last layer.
  for (StoredDocument& document : read) document.has_final = false;
  same(stored.load(read), capture.capture(ids));
  same(stored.final_hidden(), capture.final_hidden());
  // As others see the file: the last of the layers is the target's last one, before its norm.
  const SafetensorsFile file(store.path_of(training[0]));
  const auto n_layers = static_cast<int64_t>(drafter_.aux_layers.size()) + 1;
  const int64_t n = documents_.length(training[0]), hidden = layout_.hidden;
  EXPECT_EQ(file.tensors().at("hidden_states").shape, (std::vector<int64_t>{n, n_layers, hidden}));
  const std::vector<int32_t> last = {model_->config().stack.n_layers - 1};
  HiddenCapture last_capture(*model_, last, 64);
  const Tensor expected = last_capture.capture({&ids[1], 1}).front();
  const std::vector<float> all = testing::floats(file, "hidden_states");
  for (int64_t row = 0; row < n; ++row) {
    const float* const found = all.data() + (row * n_layers + n_layers - 1) * hidden;
    EXPECT_TRUE(std::equal(found, found + hidden, expected.row(row))) << row;
  }
}

// Zeros in the middle, as a disk may leave them, and a file that was cut off.
TEST_F(HiddenOnDisk, DamageIsFoundAndMadeAnew) {
  const TempFolder folder;
  const HiddenStore store(folder / "states", layout_);
  const std::function<bool(int64_t)> go_on = [](int64_t) { return true; };
  capture_documents(*model_, documents_, store, 64, go_on);
  const size_t zeros = documents_.training()[3], cut = documents_.training()[5];
  const std::string whole = read_text_file(store.path_of(zeros), 1 << 24);
  std::string damaged = whole;
  damaged.replace(damaged.size() / 2, 4096, 4096, '\0');
  std::ofstream(store.path_of(zeros), std::ios::binary) << damaged;
  fs::resize_file(store.path_of(cut), 5000);
  StoredHidden stored(*model_, layout_);
  const StoredDocument read = {store.path_of(zeros), documents_.ids(zeros)};
  try {
    stored.load({&read, 1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("safetensors: is damaged: what it holds has the hash "));
    EXPECT_THAT(error.what(), HasSubstr("the same command with --capture makes it anew"));
  }
  std::vector<std::string> heard;
  capture_documents(*model_, documents_, store, 64, go_on, [&](const std::string& what) { heard.push_back(what); });
  ASSERT_EQ(heard.size(), 2u);
  EXPECT_THAT(heard[0], HasSubstr("is damaged"));
  EXPECT_EQ(read_text_file(store.path_of(zeros), 1 << 24), whole);
  stored.load({&read, 1});
}

TEST_F(HiddenOnDisk, OthersAreRefused) {
  const TempFolder folder;
  const fs::path path = folder / "hs_0.safetensors";
  const std::vector<int32_t> ids = {5, 6, 7}, other = {5, 6, 8}, shorter = {5, 6};
  const std::vector<uint8_t> mask = {0, 1, 1};
  HiddenLayout layout = {"mark", {1, 0}, 4, false};
  std::vector<float> states(3 * 3 * 4, 1.5F);
  write_hidden_file(path, ids, mask, layout, {states, {}, DType::kF32});
  EXPECT_EQ(refusal(path, ids, layout), "taken");
  EXPECT_THAT(refusal(path, other, layout), HasSubstr("hs_0.safetensors: token_ids[2] is 7; expected 8"));
  EXPECT_THAT(refusal(path, shorter, layout), HasSubstr("expected I64 or I32 [2]: it is of other data"));
  const auto changed = [&](auto&& change) {
    HiddenLayout out = layout;
    change(out);
    return refusal(path, ids, out);
  };
  EXPECT_THAT(changed([](HiddenLayout& one) { one.target = "x"; }), HasSubstr("captured of target mark; expected x"));
  EXPECT_THAT(changed([](HiddenLayout& one) { one.layers = {0, 1}; }), HasSubstr("layers 1,0; expected 0,1"));
  EXPECT_THAT(changed([](HiddenLayout& one) { one.hidden = 8; }), HasSubstr("expected F32, BF16 or F16 [3, 3, 8]"));
  EXPECT_THAT(changed([](HiddenLayout& one) { one.final_hidden = true; }), HasSubstr("has no tensor final_hidden"));
  EXPECT_THAT(refusal(folder.write("hs_1.safetensors", "x"), ids, layout), HasSubstr("hs_1.safetensors"));
  states[17] = std::numeric_limits<float>::quiet_NaN();
  write_hidden_file(path, ids, mask, layout, {states, {}, DType::kBF16});
  EXPECT_THAT(refusal(path, ids, layout), HasSubstr("has a number of token 1 that is none"));
}

// As vLLM writes it: bf16, no metadata, no mask.
TEST_F(HiddenOnDisk, FilesOfOthersAreRead) {
  const TempFolder folder;
  const fs::path path = folder / "hs_0.safetensors";
  const std::vector<int32_t> ids = {5, 6};
  const std::vector<int64_t> wide = {5, 6};
  std::vector<float> states(2 * 3 * 4);
  for (size_t i = 0; i < states.size(); ++i) states[i] = static_cast<float>(i) * 0.1F;
  TensorToWrite token_ids;
  token_ids.name = "token_ids";
  token_ids.shape = {2};
  token_ids.type = TensorToWrite::Type::kI64;
  token_ids.integers = wide;
  const std::vector<TensorToWrite> tensors = {{"hidden_states", {2, 3, 4}, states, TensorToWrite::Type::kBF16},
                                              token_ids};
  write_safetensors(path, tensors);
  const HiddenFile file(path, ids, {"any", {9, 4}, 4, false});
  std::vector<float> found(16);
  file.read_aux(DType::kF32, reinterpret_cast<std::byte*>(found.data()));
  std::vector<BFloat16> rounded(16);
  file.read_aux(DType::kBF16, reinterpret_cast<std::byte*>(rounded.data()));
  for (size_t i = 0; i < 16; ++i) {
    const float expected = to_float(to_bf16(states[i / 8 * 12 + i % 8]));  // without the last layer
    EXPECT_EQ(found[i], expected) << i;
    EXPECT_EQ(to_float(rounded[i]), expected) << i;
  }
}

}  // namespace
}  // namespace ashlar
