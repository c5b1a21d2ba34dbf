// SPDX-License-Identifier: Apache-2.0
// Products with weights of 8 bits, on the instruction sets that gain by them.

#include <unistd.h>

#include <fstream>

#include "quantised.h"

namespace ashlar::conformance {
namespace {

constexpr WeightUse kProposing{.products = Products::kPropose};

class Quantised : public OnIsa {
 protected:
  void check(void (*expect)(Ops& ops, std::mt19937& random)) {
    for (int32_t threads : {1, 3}) {
      const auto cpu = make(threads);
      const Checkpoint checkpoint(Scheme::kBF16, 8, 8, random_);
      if (cpu->pack(checkpoint.source(), kProposing)->format() != "int8")
        GTEST_SKIP() << GetParam() << " does not gain by 8 bits";
      expect(*cpu, random_);
    }
  }
};

TEST_P(Quantised, ProductsAreThoseOfRoundedWeightsAndRows) { check(expect_quantised_products); }

TEST_P(Quantised, GatedMlpIsNearExactOne) { check(expect_quantised_gated_mlp); }

// A checkpoint may hold anything: what is not finite counts as zero, alone in its column.
TEST_P(Quantised, WeightsThatAreNotFiniteSpoilNothing) {
  const auto cpu = make();
  Checkpoint checkpoint(Scheme::kF32, 70, 40, random_);
  auto* values = reinterpret_cast<float*>(checkpoint.bytes.data());
  values[0] = NAN;
  values[41] = INFINITY;
  values[42] = -INFINITY;
  const auto quantised = cpu->pack(checkpoint.source(), kProposing);
  if (quantised->format() != "int8") GTEST_SKIP() << GetParam() << " does not gain by 8 bits";
  Matrix x(3, 40);
  x.fill_normal(random_);
  Matrix out(3, 70);
  cpu->linear(*quantised, x.view(), Store::kOverwrite, out.view());
  for (int32_t r = 0; r < 3; ++r) {
    for (int32_t c = 0; c < 70; ++c) EXPECT_TRUE(std::isfinite(out.row(r)[c])) << r << " " << c;
  }
}

// All products of a sum at their largest and of one sign: integers of 32 bits must hold what they are asked to.
TEST_P(Quantised, DeepSumsDoNotRunOver) {
  const auto cpu = make();
  const int32_t k = 5000;
  Checkpoint checkpoint(Scheme::kF32, 20, k, random_);
  auto* values = reinterpret_cast<float*>(checkpoint.bytes.data());
  std::fill_n(values, 20 * k, -1.0F);
  const auto quantised = cpu->pack(checkpoint.source(), kProposing);
  if (quantised->format() != "int8") GTEST_SKIP() << GetParam() << " does not gain by 8 bits";
  Matrix x(1, k);
  Matrix out(1, 20);
  std::fill_n(x.row(0), k, 3.0F);
  cpu->linear(*quantised, x.view(), Store::kOverwrite, out.view());
  for (int32_t c = 0; c < 20; ++c) EXPECT_NEAR(out.row(0)[c], -3.0F * k, 0.01F) << c;
}

ASHLAR_FOR_EACH_ISA(Quantised);

int64_t resident_bytes() {
  int64_t size = 0;
  int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// A drafter's weights are packed and then replaced: what they were made of must not stay.
TEST(PackedWeights, GiveTheirMemoryBack) {
  std::mt19937 random(3);
  const auto cpu = make_device("cpu", {});
  const Checkpoint checkpoint(Scheme::kBF16, 4096, 4096, random);
  const int64_t before = resident_bytes();
  auto weight = cpu->pack(checkpoint.source());
  constexpr int64_t kBytes = int64_t{32} << 20;
  EXPECT_GT(resident_bytes() - before, kBytes * 3 / 4);
  weight.reset();
  EXPECT_LT(resident_bytes() - before, kBytes / 4);
}

}  // namespace
}  // namespace ashlar::conformance
