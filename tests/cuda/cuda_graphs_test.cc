// SPDX-License-Identifier: Apache-2.0
// Passes that are repeated without being asked for again.

#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "cuda/on_gpu.h"
#include "device/device_array.h"

namespace ashlar::testing {
namespace {

// What else a pass does: how often the rows are doubled, and whether they go through other memory first.
struct More {
  int32_t doublings = 0;
  bool through_spare = false;
};

class GraphsOnGpu : public OnGpu {
 protected:
  static constexpr int32_t kRows = 4, kCols = 64;

  void SetUp() override {
    OnGpu::SetUp();
    if (ops_ == nullptr) return;
    x_ = {*ops_, kRows * kCols};
    indices_ = {*ops_, kRows};
    out_ = {*ops_, kRows * kCols};
    spare_ = {*ops_, kRows * kCols};
  }
  static Tensor tensor(const DeviceArray<float>& array) { return {array.device(), kRows, kCols, kCols, DType::kF32}; }
  PassKey key(int64_t number) const {
    PassKey key(this, kRows);
    key.add(number);
    return key;
  }
  /// Rows of x in the order of `indices`, times `factor`.
  void pass(float factor, const More& more) {
    ++asked_;
    ops_->gather_rows(tensor(x_), indices_.device(), tensor(out_));
    if (more.through_spare) {
      ops_->copy(tensor(out_), tensor(spare_));
      ops_->scale(tensor(out_), 0);
      ops_->softcap(tensor(out_), 1);
      ops_->copy(tensor(spare_), tensor(out_));
    }
    for (int32_t i = 0; i < more.doublings; ++i) ops_->scale(tensor(out_), 2);
    ops_->scale(tensor(out_), factor);
  }
  /// Other numbers and another order each time: what comes out must follow.
  void expect_follows(int64_t number, float factor, int32_t round, const More& more = {}) {
    std::vector<float> x(kRows * kCols);
    std::iota(x.begin(), x.end(), static_cast<float>(100 * round));
    x_.upload(x);
    std::vector<int32_t> indices;
    for (int32_t r = 0; r < kRows; ++r) indices.push_back((r + round) % kRows);
    indices_.upload(indices);
    int32_t calls = 0;
    ops_->run_pass(key(number), [&] {
      pass(factor, more);
      if (++calls == 1 || !fails_recorded_) return;
      ++failed_;
      throw Error("test", "no");
    });
    const std::span<const float> found = out_.download(kRows * kCols);
    for (int32_t r = 0; r < kRows; ++r) {
      for (int32_t c = 0; c < kCols; ++c) {
        const auto from = static_cast<size_t>(indices[static_cast<size_t>(r)] * kCols + c);
        ASSERT_EQ(found[static_cast<size_t>(r * kCols + c)], std::ldexp(factor, more.doublings) * x[from])
            << round << ": " << r << ", " << c;
      }
    }
  }

  DeviceArray<float> x_, out_, spare_;
  DeviceArray<int32_t> indices_;
  int32_t asked_ = 0;            ///< passes that ran on the host
  bool fails_recorded_ = false;  ///< a pass throws when it is asked for a second time, to be recorded
  int32_t failed_ = 0;           ///< passes that did
};

TEST_F(GraphsOnGpu, RepeatedPassesFollowWhatLiesInMemory) {
  for (int32_t round = 0; round < 100; ++round) {
    expect_follows(1, 2.0F, round);
    expect_follows(2, 0.5F, round);
  }
  EXPECT_LT(asked_, 50);  // others were repeated
  EXPECT_GE(asked_, 2);
}

// More than are kept: some are forgotten and come again, and their graphs become those of others.
TEST_F(GraphsOnGpu, KeysMayBeMany) {
  const auto run = [this](int32_t round, int64_t first, int64_t end) {
    for (int64_t number = first; number < end; ++number) expect_follows(number, static_cast<float>(number + 1), round);
  };
  for (int32_t first = 0; first < 240; first += 60) {
    const int32_t before = asked_;
    for (int32_t round = 0; round < 40; ++round) run(round, first, first + 60);
    EXPECT_LT(asked_, before + 60 * 30);
    run(1, 0, 260);
  }
  // Those that have graphs keep them, where more come in turns than there is room for.
  for (int32_t round = 0; round < 20; ++round) run(round, 0, 400);
  const int32_t before = asked_;
  run(6, 0, 400);
  EXPECT_LT(asked_, before + 300);
  for (int32_t round = 0; round < 3; ++round) run(round, 0, 700);
}

// The graphs whose places others take have more kernels, fewer, or as many others.
TEST_F(GraphsOnGpu, GraphsTakeThePlacesOfUnlikeOnes) {
  for (int32_t turn = 0; turn < 3; ++turn) {
    const int32_t before = asked_;
    for (int64_t first = 0; first < 270; first += 90) {
      for (int32_t round = 0; round < 24; ++round) {
        for (int64_t number = first; number < first + 90; ++number) {
          const auto kind = static_cast<int32_t>(number + turn);
          expect_follows(number, 0.5F, round, {kind % 4, kind % 3 == 0});
        }
      }
    }
    EXPECT_LT(asked_, before + 270 * 21);
    spare_ = {*ops_, kRows * kCols};  // ends them all: the next turn's passes have the same keys
  }
}

// A pass whose memory is made anew has other addresses under the same key.
TEST_F(GraphsOnGpu, FreedMemoryEndsWhatCameBefore) {
  for (int32_t round = 0; round < 100; ++round) {
    if (round % 33 == 32) {
      DeviceArray<float> first(*ops_, kRows * kCols), second(*ops_, 2 * kRows * kCols);
      std::swap(out_, first);
      std::swap(x_, second);
    }
    expect_follows(1, 2.0F, round);
  }
  EXPECT_LT(asked_, 80);
}

// Scratch memory grows within a pass, be it the one that is recorded, and what came first in it has the old memory's
// address.
TEST_F(GraphsOnGpu, ScratchMemoryMayGrowWithinAPass) {
  constexpr int32_t kWide = 4096, kMany = 1000;
  const std::vector<float> ones(kWide, 1.0F), values(size_t{64} * kWide, 0.125F);
  DeviceArray<float> norm(*ops_, kWide), out(*ops_, int64_t{kMany} * 64);
  norm.upload(ones);
  const std::vector<uint16_t> x_values(size_t{kMany} * kWide, 0x3F80);  // 1 in bf16
  const auto memory = ops_->allocate(x_values.size() * sizeof(uint16_t));
  ops_->upload(x_values.data(), memory->data(), x_values.size() * sizeof(uint16_t));
  WeightSource source;
  source.parts.emplace_back("weight", Scheme::kF32, values.data(), 64, kWide);
  const auto weight = ops_->pack(source);
  int32_t many = 0;
  for (const int32_t grows : {0, 1, 2, 3, 14, 15, 16, 17}) {
    int32_t asked = 0;
    many += 100;
    for (int32_t round = 0; round < 25; ++round) {
      ops_->run_pass(key(100 + grows), [&] {
        for (const int32_t rows : {1, asked++ == grows ? many : 1}) {
          const Tensor x = {memory->data(), rows, kWide, kWide, DType::kBF16};
          const Tensor y = {out.device(), rows, 64, 64, DType::kF32};
          ops_->linear(*weight, Input(x, norm.device(), 1e-6F), Store::kOverwrite, y);
        }
      });
      for (const float y : out.download(64)) ASSERT_NEAR(y, 0.125F * kWide, 2.0F) << grows << ", " << round;
      out.upload(std::vector<float>(64));
    }
  }
}

// It has run already: the error is not reported, it runs as it is from then on, and others are recorded all the same.
TEST_F(GraphsOnGpu, AnErrorWhileAPassIsRecordedKeepsItFromThatAlone) {
  for (int32_t round = 0; round < 40; ++round) {
    fails_recorded_ = true;
    expect_follows(1, 2.0F, round);
    fails_recorded_ = false;
    expect_follows(2, 3.0F, round, {2, true});
  }
  EXPECT_EQ(failed_, 1);
  const int32_t before = asked_;
  for (int32_t round = 0; round < 10; ++round) expect_follows(2, 3.0F, round, {2, true});
  EXPECT_EQ(asked_, before);
  for (int32_t round = 0; round < 10; ++round) expect_follows(1, 2.0F, round);
  EXPECT_EQ(asked_, before + 10);
}

TEST_F(GraphsOnGpu, AnErrorWithinAPassIsPassedOn) {
  for (int32_t round = 0; round < 40; ++round) {
    const auto failing = [&] {
      pass(1.0F, {});
      throw Error("test", "no");
    };
    EXPECT_THROW(ops_->run_pass(key(1), failing), Error);
    expect_follows(2, 3.0F, round);
  }
}

}  // namespace
}  // namespace ashlar::testing
