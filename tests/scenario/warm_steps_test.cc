// SPDX-License-Identifier: Apache-2.0
// A warm step allocates nothing.

#include <future>

#include "base/bf16.h"
#include "decode/registry.h"
#include "device/device.h"
#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"
#include "scenario/counted_allocations.h"

namespace ashlar::testing {
namespace {

struct WarmMethod {
  const char* name;
  int32_t window = 0;
  friend std::ostream& operator<<(std::ostream& out, const WarmMethod& method) {
    return out << method.name << "_" << method.window;
  }
};
class WarmSteps : public ::testing::TestWithParam<WarmMethod> {};
INSTANTIATE_TEST_SUITE_P(Methods, WarmSteps,
                         ::testing::Values(WarmMethod{"autoregressive"}, WarmMethod{"ngram"}, WarmMethod{"dflash"},
                                           WarmMethod{"dflash", 64}));

TEST_P(WarmSteps, AllocateNothing) {
  const auto ops = make_device("cpu", {.threads = 2, .isa = {}});
  const auto model = Model::load(*ops, models_folder() / "pebble-11m", 256);
  DecoderSpec spec;
  spec.method = GetParam().name;
  spec.drafter = models_folder() / "pebble-11m-dflash";
  spec.dflash.window = GetParam().window;
  EngineOptions options;
  options.max_sequences = 2;
  options.kv_pages = 64;  // none is preempted: readmission may allocate
  Engine engine(*ops, make_decoder(*model, spec), options);
  for (const double temperature : {0.0, 0.8}) {
    std::vector<std::shared_ptr<CountingSink>> sinks;
    // A sequence that begins or ends allocates: on a busy machine one could do that in the midst of the other.
    std::promise<void> all_submitted;
    const std::shared_future<void> go = all_submitted.get_future().share();
    for (int i = 0; i < 2; ++i) {
      Request request;
      request.prompt = {1, 334, 210, 587, 523, 341, 62, 2900, 2742, 13};
      request.max_tokens = 200;
      request.sampling.temperature = temperature;
      request.sampling.top_p = 0.9;
      // Far from the end: one sequence may draft more than the other and end earlier, which allocates.
      sinks.push_back(std::make_shared<CountingSink>(60, 110, go));
      request.sink = sinks.back();
      ASSERT_TRUE(engine.submit(std::move(request)).ok());
    }
    all_submitted.set_value();
    engine.wait_idle();
    for (const auto& sink : sinks) {
      ASSERT_EQ(sink->tokens, 200);
      EXPECT_EQ(sink->at_end - sink->at_start, 0)
          << "allocations between tokens 60 and 110 at temperature " << temperature;
    }
  }
}

// However slow the machine: what a step is the first to need must be there, since its engine may not have measured it.
TEST(WarmSteps, ProductsOfFewRowsAllocateNothing) {
  const auto ops = make_device("cpu", {.threads = 2, .isa = {}});
  constexpr int32_t kWidth = 96;
  constexpr int32_t kDepth = 160;
  constexpr int32_t kRows = 64;
  const std::vector<BFloat16> values(static_cast<size_t>(kWidth) * kDepth, to_bf16(0.01F));
  const WeightPart up{"up", Scheme::kBF16, values.data(), kWidth, kDepth};
  const WeightPart down{"down", Scheme::kBF16, values.data(), kDepth, kWidth};
  const auto gate_up = ops->pack({{up, up}, {}}, {.gated = true});
  const auto back = ops->pack({{down}, {}});
  const auto rounded = ops->repack(*gate_up, Products::kPropose);
  const std::vector<float> norm(kDepth, 1.0F);
  std::vector<float> x(static_cast<size_t>(kRows) * kDepth, 0.5F);
  std::vector<int32_t> ids(kRows);
  const int64_t before = allocations.load();
  for (int32_t rows = 1; rows <= kRows; ++rows) {
    const Tensor all = {x.data(), rows, kDepth, kDepth};
    ops->gated_mlp(*gate_up, *back, {all, norm.data(), 1e-6F}, all);
    if (rounded) ops->gated_mlp(*rounded, *back, {all, norm.data(), 1e-6F}, all);
    ops->linear_argmax(*back, all.columns(0, kWidth), ids.data());
    ASSERT_EQ(allocations.load() - before, 0) << rows;
  }
}

// However rows are routed: all to one expert, or each to others.
TEST(WarmSteps, MixturesAllocateNothing) {
  const auto ops = make_device("cpu", {.threads = 2, .isa = {}});
  const SeededCheckpoint checkpoint(data_folder() / "blocks" / "llada2");
  const auto model = Model::load(*ops, checkpoint.folder(), 64);
  KvLayout layout;
  model->register_state(layout);
  const KvMemory kv(*ops, layout, 4);
  const std::vector<int32_t> pages = {3, 2, 1, 0};
  RowBatch batch(*ops, 64, 1);
  model->reserve(64);
  int64_t warm = 0;
  for (int32_t turn = 0; turn < 40; ++turn) {
    batch.clear();
    batch.begin_sequence(pages.data());
    const int32_t n = turn == 0 ? 64 : 1 + turn * 7 % 64;
    for (int32_t i = 0; i < n; ++i) {
      batch.add_row(turn % 2 == 0 ? turn : (turn * 11 + i * 17) % 128, i, n);
      batch.want_output();
    }
    model->forward(batch, kv, {});
    if (turn == 0) warm = allocations.load();
  }
  EXPECT_EQ(allocations.load() - warm, 0);
}

}  // namespace
}  // namespace ashlar::testing
