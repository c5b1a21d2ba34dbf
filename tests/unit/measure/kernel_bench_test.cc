// SPDX-License-Identifier: Apache-2.0
#include "measure/engine/kernel_bench.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "base/bf16.h"
#include "decode/drafters.h"
#include "device/device.h"
#include "measure/engine/step_bench.h"

namespace ashlar {
namespace {

/// Counts what it is asked for.
class Counting final : public ForwardedOps {
 public:
  using ForwardedOps::ForwardedOps;
  std::map<std::string, int32_t> calls;

  void embed(const Weight& table, const int32_t* ids, float scale, Tensor out) override {
    ++calls["embed"];
    ForwardedOps::embed(table, ids, scale, out);
  }
  void linear(const Weight& weight, Input in, Store store, Tensor out) override {
    ++calls["linear"];
    ForwardedOps::linear(weight, in, store, out);
  }
  void rms_norm(Tensor x, const float* weight, float eps, Tensor out) override {
    ++calls["rms_norm"];
    ForwardedOps::rms_norm(x, weight, eps, out);
  }
  void gated_mlp(const Weight& gate_up, const Weight& down, Input in, Tensor out) override {
    ++calls["gated_mlp"];
    ForwardedOps::gated_mlp(gate_up, down, in, out);
  }
  void self_attention(const SelfAttention& call, Tensor out) override {
    ++calls["self_attention"];
    ForwardedOps::self_attention(call, out);
  }
  void choose(Tensor logits, std::span<const RowRequest> requests, std::span<RowChoice> choices) override {
    ++calls["choose"];
    ForwardedOps::choose(logits, requests, choices);
  }
};

std::string first_word(const std::string& op) { return op.substr(0, op.find(' ')); }

const std::filesystem::path kModels = std::filesystem::path(ASHLAR_SOURCE_DIR) / "models";

struct Fixture {
  std::unique_ptr<Ops> ops = make_device("cpu", {});
  Counting counting{*ops};
  TimedOps timed{counting};
  std::unique_ptr<Model> model = Model::load(timed, kModels / "pebble-11m");
  BenchSubject subject;

  Fixture() {
    subject.ops = &timed;
    subject.model = model.get();
    subject.drafted.drafter = kModels / "pebble-11m-dflash";
    subject.drafted.method = method_of_drafter(subject.drafted.drafter);
    subject.prompts = {std::vector<int32_t>(300)};
    std::iota(subject.prompts[0].begin(), subject.prompts[0].end(), 100);
  }
};

TEST(KernelBench, HasEveryOpOfAPass) {
  Fixture fixture;
  KernelOptions options;
  options.repeat = 3;
  options.context = 100;
  options.prompt = 64;
  options.bandwidth_seconds = 0.01;
  options.available_memory = 64 << 20;
  const KernelBench bench = run_kernel_bench(fixture.subject, fixture.timed, options);
  ASSERT_EQ(bench.passes.size(), 4u);
  EXPECT_EQ(bench.passes[0].name, "plain step");
  EXPECT_EQ(bench.passes[1].name, "verify of 16 rows");
  EXPECT_EQ(bench.passes[2].name, "draft pass");
  EXPECT_EQ(bench.passes[3].name, "prompt of 64");
  for (const KernelPass& pass : bench.passes) {
    SCOPED_TRACE(pass.name);
    EXPECT_GT(pass.in_ops(), 0);
    EXPECT_LE(pass.in_ops(), pass.seconds);
    const Json json = kernel_bench_json(bench)["kernels"][static_cast<size_t>(&pass - bench.passes.data())];
    EXPECT_EQ(json["ops"].size(), pass.rows.size());
    for (const KernelRow& row : pass.rows) {
      EXPECT_NE(kernel_bench_text(bench).find("  " + row.op + " "), std::string::npos) << row.op;
    }
  }
  EXPECT_GT(bench.memory.best, 0);
}

// The device beneath sees the same ops as often.
TEST(TimedOps, NotesEveryCall) {
  Fixture fixture;
  StepBench bench(fixture.timed, make_decoder(*fixture.model, fixture.subject.drafted), fixture.subject.prompts[0], 64,
                  16, 512);
  bench.warm_up();
  fixture.counting.calls.clear();
  fixture.timed.record();
  bench.step();
  std::map<std::string, int32_t> noted;
  for (const OpCall& call : fixture.timed.take()) ++noted[first_word(call.op)];
  for (const auto& [op, calls] : fixture.counting.calls) EXPECT_EQ(noted[op], calls) << op;
  EXPECT_GE(fixture.counting.calls.size(), 4u);
  fixture.counting.calls.clear();
  bench.step();
  EXPECT_TRUE(fixture.timed.take().empty()) << "nothing is noted where nothing is to be recorded";
}

TEST(TimedOps, AProductReadsItsWeightAndRows) {
  constexpr int32_t kIn = 64, kOut = 96, kRows = 3;
  const std::unique_ptr<Ops> ops = make_device("cpu", {});
  TimedOps timed(*ops);
  const std::vector<BFloat16> stored(size_t{kIn} * kOut, to_bf16(0.5F));
  WeightSource source;
  source.parts.emplace_back("weight", Scheme::kBF16, stored.data(), kOut, kIn);
  const auto weight = timed.pack(source, {});
  std::vector<float> in(size_t{kIn} * kRows), out(size_t{kOut} * kRows);
  const Tensor x{in.data(), kRows, kIn, kIn}, y{out.data(), kRows, kOut, kOut};
  timed.record();
  timed.linear(*weight, x, Store::kOverwrite, y);
  timed.linear(*weight, x, Store::kAdd, y);
  const std::vector<OpCall> calls = timed.take();
  ASSERT_EQ(calls.size(), 2u);
  const int64_t rows_in = kRows * kIn * 4, rows_out = kRows * kOut * 4;
  EXPECT_EQ(calls[0].op, "linear 64 -> 96");
  EXPECT_EQ(calls[0].read, static_cast<int64_t>(weight->bytes()) + rows_in);
  EXPECT_EQ(calls[0].written, rows_out);
  EXPECT_EQ(calls[0].products, 2 * kRows * kIn * kOut);
  EXPECT_EQ(calls[1].read, calls[0].read + rows_out);
}

// Of 16 rows after 100 tokens each layer reads the K and V of 116 once.
TEST(TimedOps, AttentionReadsWhatItsRowsSee) {
  Fixture fixture;
  const StackConfig& stack = fixture.model->config().stack;
  KernelOptions options;
  options.repeat = 1;
  options.context = 100;
  options.prompt = 64;
  options.bandwidth_seconds = 0.01;
  options.available_memory = 64 << 20;
  const KernelBench bench = run_kernel_bench(fixture.subject, fixture.timed, options);
  const auto products_of = [&](const KernelPass& pass) {
    for (const KernelRow& row : pass.rows) {
      if (first_word(row.op) == "self_attention") return row.products;
    }
    return int64_t{0};
  };
  // Rows r of 16 see 101 + r keys; projections are the same for 16 rows of any place.
  const AttentionShape& shape = stack.layers[0].shape;
  const int64_t projections = int64_t{2} * 16 * stack.hidden * (2 * shape.q_width() + 2 * shape.kv_width());
  const int64_t attended = int64_t{4} * shape.q_width() * (16 * 101 + 15 * 16 / 2);
  EXPECT_EQ(products_of(bench.passes[1]), stack.n_layers * (projections + attended));
}

/// A device with a clock of its own, on which each op takes a second and each pause ten.
class OwnClock final : public ForwardedOps {
 public:
  using ForwardedOps::ForwardedOps;
  std::unique_ptr<DeviceProbe> device_probe(int64_t /*bytes*/) override { return std::make_unique<Probe>(); }

 private:
  class Probe final : public DeviceProbe {
   public:
    int64_t bytes() const override { return 0; }
    double read() override { return 0; }
    double copy() override { return 0; }
    double multiply() override { return 0; }
    void watch() override {}
    DeviceWork work() override { return {}; }
    void mark() override { ++marks_; }
    std::vector<double> take_marks() override {
      std::vector<double> at;
      for (int32_t i = 0; i < marks_; ++i) at.push_back(i % 2 + i / 2 * 11);
      marks_ = 0;
      return at;
    }

   private:
    int32_t marks_ = 0;
  };
};

TEST(TimedOps, TakesTheTimeOfADevicesOwnClock) {
  const std::unique_ptr<Ops> ops = make_device("cpu", {});
  OwnClock device(*ops);
  TimedOps timed(device);
  std::vector<float> values(8);
  const Tensor x{values.data(), 2, 4, 4};
  for (int round = 0; round < 2; ++round) {
    timed.record();
    for (int i = 0; i < 3; ++i) timed.scale(x, 2.0F);
    const std::vector<OpCall> calls = timed.take();
    ASSERT_EQ(calls.size(), 3u);
    for (const OpCall& call : calls) EXPECT_EQ(call.seconds, 1);
    EXPECT_EQ(by_op(calls).front().seconds, 3);
  }
}

}  // namespace
}  // namespace ashlar
