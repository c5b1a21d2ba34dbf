// Products with weights of 8 bits, on the instruction sets that gain by them.

#include "quantised.h"

namespace ashlar::conformance {
namespace {

class Quantised : public OnIsa {};

TEST_P(Quantised, ProductsAreThoseOfRoundedWeightsAndRows) {
  for (int32_t threads : {1, 3}) {
    const auto cpu = make(threads);
    const Checkpoint checkpoint(DType::kBF16, 8, 8, random_);
    const std::vector<HostTensor> parts{checkpoint.view()};
    if (cpu->quantise(*cpu->pack(parts, {})) == nullptr) GTEST_SKIP() << GetParam() << " does not gain by 8 bits";
    expect_quantised_products(*cpu, random_);
  }
}

TEST_P(Quantised, GatedMlpIsNearExactOne) {
  for (int32_t threads : {1, 3}) {
    const auto cpu = make(threads);
    const Checkpoint checkpoint(DType::kBF16, 8, 8, random_);
    const std::vector<HostTensor> parts{checkpoint.view()};
    if (cpu->quantise(*cpu->pack(parts, {})) == nullptr) GTEST_SKIP() << GetParam() << " does not gain by 8 bits";
    expect_quantised_gated_mlp(*cpu, random_);
  }
}

// A checkpoint may hold anything: what is not finite counts as zero, alone in its column.
TEST_P(Quantised, WeightsThatAreNotFiniteSpoilNothing) {
  const auto cpu = make();
  Checkpoint checkpoint(DType::kF32, 70, 40, random_);
  auto* values = reinterpret_cast<float*>(checkpoint.bytes.data());
  values[0] = NAN;
  values[41] = INFINITY;
  values[42] = -INFINITY;
  const std::vector<HostTensor> parts{checkpoint.view()};
  const auto quantised = cpu->quantise(*cpu->pack(parts, {}));
  if (quantised == nullptr) GTEST_SKIP() << GetParam() << " does not gain by 8 bits";
  Matrix x(3, 40);
  x.fill_normal(random_);
  Matrix out(3, 70);
  cpu->linear(*quantised, x.view(), Store::kOverwrite, out.view());
  for (int32_t r = 0; r < 3; ++r) {
    for (int32_t c = 0; c < 70; ++c) EXPECT_TRUE(std::isfinite(out.row(r)[c])) << r << " " << c;
  }
}

ASHLAR_FOR_EACH_ISA(Quantised);

}  // namespace
}  // namespace ashlar::conformance
