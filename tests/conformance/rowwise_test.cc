// SPDX-License-Identifier: Apache-2.0
// Norm, activation, copies against the reference.

#include <algorithm>
#include <atomic>
#include <new>

#include "support.h"

namespace ashlar::conformance {
namespace {

constexpr int32_t kWidths[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 256, 257, 768, 1000};

class Rowwise : public OnIsa {};

TEST_P(Rowwise, RmsNorm) {
  const auto cpu = make();
  const auto ref = make_ref_ops();
  for (int32_t width : kWidths) {
    for (int32_t rows : {1, 3, 16, 65}) {
      Matrix x(rows, width);
      x.fill_normal(random_, 3);
      Matrix weight(1, width);
      weight.fill_normal(random_);
      Matrix got(rows, width, 2);
      Matrix want(rows, width);
      cpu->rms_norm(x.view(), weight.row(0), 1e-6F, got.view());
      ref->rms_norm(x.view(), weight.row(0), 1e-6F, want.view());
      ASSERT_LT(worst_row_error(got, want), bound(2e-6, 1.0 / 32)) << width;
      ASSERT_TRUE(got.guards_intact());
      cpu->rms_norm(x.view(), weight.row(0), 1e-6F, x.view());  // in place
      for (int32_t r = 0; r < rows; ++r) ASSERT_TRUE(same_bits(x.row(r), got.row(r), width));
    }
  }
}

TEST_P(Rowwise, RmsNormOfZerosIsZero) {
  const auto cpu = make();
  Matrix x(1, 40);
  for (int32_t c = 0; c < 40; ++c) x.row(0)[c] = 0;
  Matrix weight(1, 40);
  weight.fill_normal(random_);
  cpu->rms_norm(x.view(), weight.row(0), 1e-6F, x.view());
  for (int32_t c = 0; c < 40; ++c) EXPECT_EQ(x.row(0)[c], 0.0F);
}

// The activation over its whole range, element by element: four units in the last place, and the right limits. Gates
// are the points themselves, a product with one column; the second product is that with the identity.
TEST_P(Rowwise, SiluOverTheWholeRange) {
  const auto cpu = make();
  constexpr int32_t kPoints = 160;
  const auto run = [&](Scheme scheme, const std::vector<float>& points, Matrix& out) {
    const auto pack = [&](const std::vector<float>& values) {
      std::vector<uint16_t> narrow;
      for (const float value : values) narrow.push_back(to_bf16(value).bits);
      std::vector<char> bytes(values.size() * bytes_of(scheme));
      const void* from = scheme == Scheme::kF32 ? static_cast<const void*>(values.data()) : narrow.data();
      std::memcpy(bytes.data(), from, bytes.size());
      return bytes;
    };
    std::vector<float> identity(kPoints * kPoints);
    for (int32_t i = 0; i < kPoints; ++i) identity[static_cast<size_t>(i * kPoints + i)] = 1;
    const std::vector<char> gates = pack(points);
    const std::vector<char> ones = pack(std::vector<float>(kPoints, 1));
    const std::vector<char> down = pack(identity);
    Matrix x(1, 1);
    x.row(0)[0] = 1;
    std::fill_n(out.row(0), kPoints, 0.0F);
    const WeightSource gate_up{{{"gate", scheme, gates.data(), kPoints, 1}, {"up", scheme, ones.data(), kPoints, 1}},
                               {}};
    cpu->gated_mlp(*cpu->pack(gate_up, {.gated = true}),
                   *cpu->pack({{{"down", scheme, down.data(), kPoints, kPoints}}, {}}), x.view(), out.view());
  };
  std::vector<float> all{0.0F, -0.0F, 1e-30F, -1e-30F, 87.0F, -87.0F, 1000.0F, -1000.0F, 1e30F, -1e30F};
  for (float v = -90; v < 90; v += 0.0137F) all.push_back(v);
  Matrix out(1, kPoints);
  for (const Scheme scheme : {Scheme::kF32, Scheme::kBF16}) {
    const double precision = bound(scheme == Scheme::kBF16 && rounds_activations() ? 1.0 / 256 : 5e-7, 1.0 / 128);
    for (size_t first = 0; first + kPoints <= all.size(); first += kPoints) {
      std::vector<float> points(all.begin() + first, all.begin() + first + kPoints);
      if (scheme == Scheme::kBF16) {
        for (float& point : points) point = to_float(to_bf16(point));
      }
      run(scheme, points, out);
      for (int32_t i = 0; i < kPoints; ++i) {
        const double v = points[static_cast<size_t>(i)];
        const double want = v / (1 + std::exp(-v));
        ASSERT_NEAR(out.row(0)[i], want, std::abs(want) * precision + 1e-35) << v;
      }
      points[3] = NAN;
      run(scheme, points, out);
      EXPECT_TRUE(std::isnan(out.row(0)[3]));
    }
  }
}

TEST_P(Rowwise, GatherAndCopy) {
  const auto cpu = make();
  for (int32_t width : {1, 17, 256}) {
    Matrix x(50, width);
    x.fill_normal(random_);
    std::vector<int32_t> indices;
    for (int32_t i = 0; i < 37; ++i) indices.push_back(static_cast<int32_t>(random_() % 50));
    Matrix gathered(37, width);
    cpu->gather_rows(x.view(), indices.data(), gathered.view());
    for (int32_t i = 0; i < 37; ++i) {
      EXPECT_TRUE(same_bits(gathered.row(i), x.row(indices[static_cast<size_t>(i)]), width));
    }
    Matrix copied(50, width, 11);
    cpu->copy(x.view(), copied.view());
    for (int32_t r = 0; r < 50; ++r) EXPECT_TRUE(same_bits(copied.row(r), x.row(r), width));
    EXPECT_TRUE(gathered.guards_intact() && copied.guards_intact());
    // Some rows to places elsewhere; the others stay.
    const std::vector<int32_t> from = {7, 49, 0, 7}, to = {48, 10, 2, 0};
    Matrix moved = copied;
    cpu->copy_rows(x.view(), from.data(), to.data(), 4, moved.view());
    for (int32_t r = 0; r < 50; ++r) {
      const auto place = std::find(to.begin(), to.end(), r);
      const int32_t source = place == to.end() ? r : from[static_cast<size_t>(place - to.begin())];
      EXPECT_TRUE(same_bits(moved.row(r), x.row(source), width)) << r;
    }
    EXPECT_TRUE(moved.guards_intact());
  }
}

TEST_P(Rowwise, ForEachCallsEveryIndexOnce) {
  const auto cpu = make(3);
  std::vector<int> seen(1000);
  cpu->for_each(
      1000, [](void* context, int32_t i) { (*static_cast<std::vector<int>*>(context))[static_cast<size_t>(i)] += 1; },
      &seen);
  EXPECT_EQ(seen, std::vector<int>(1000, 1));
}

TEST_P(Rowwise, ForEachThrowsOnWhatACallThrows) {
  const auto cpu = make(3);
  for (const int32_t bad : {0, 500, 999}) {  // of a worker's share each
    int32_t of = bad;
    EXPECT_THROW(cpu->for_each(
                     1000,
                     [](void* context, int32_t i) {
                       if (i == *static_cast<int32_t*>(context)) throw std::bad_alloc();
                     },
                     &of),
                 std::bad_alloc);
    std::atomic<int32_t> calls = 0;
    cpu->for_each(
        1000, [](void* context, int32_t) { ++*static_cast<std::atomic<int32_t>*>(context); }, &calls);
    EXPECT_EQ(calls, 1000);
  }
}

TEST_P(Rowwise, BuffersAreZeroedAndAligned) {
  const auto cpu = make(1);
  for (size_t bytes : {size_t{1}, size_t{100}, size_t{5} << 20}) {
    const auto buffer = cpu->allocate(bytes);
    ASSERT_EQ(buffer->size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(buffer->data()[i], std::byte{0});
  }
}

ASHLAR_FOR_EACH_ISA(Rowwise);

}  // namespace
}  // namespace ashlar::conformance
