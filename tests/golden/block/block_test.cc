// SPDX-License-Identifier: Apache-2.0
// The bundled block-diffusion model against decoding by PyTorch in float32 without a cache: tokens, passes, and which
// positions each pass unmasked. The variable ASHLAR_BLOCK_GOLDENS names the folder of another model in SDAR form to
// hold against its own 64 cases in goldens.json there (tools/goldens/make_block_goldens.py answers them).

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "base/bf16.h"
#include "decode/registry.h"
#include "device/device.h"
#include "device/row_statistics.h"
#include "engine/engine.h"
#include "engine/event_queue.h"
#include "golden/golden_data.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kBlockMaxTokens = 512;

using Order = std::vector<std::vector<int32_t>>;  // positions by pass

struct BlockRun {
  std::vector<int32_t> tokens;
  Order accepted;
};

struct Case {
  explicit Case(const Json& json)
      : block(json["block_size"].get<int32_t>()),
        threshold(json["threshold"].get<double>()),
        prompt(json["prompt_ids"].get<std::vector<int32_t>>()),
        tokens(json["tokens"].get<std::vector<int32_t>>()),
        accepted(json["accepted_positions"].get<Order>()) {}
  int32_t block;
  double threshold;
  std::vector<int32_t> prompt, tokens;
  Order accepted;
};

struct Subject {
  std::filesystem::path model, goldens;
};

Subject subject() {
  if (const char* other = std::getenv("ASHLAR_BLOCK_GOLDENS")) {
    return {other, std::filesystem::path(other) / "goldens.json"};
  }
  return {models_folder() / "pebble-11m-sdar", data_folder() / "pebble-11m-sdar" / "goldens.json"};
}

std::vector<Case> load_cases() {
  std::vector<Case> cases;
  const Json json = read_json_file(subject().goldens);
  for (const Json& golden : json["cases"]) cases.emplace_back(golden);
  return cases;
}

// Decodes as far as the golden does: to the end of the block that holds the end of the answer, so without stop tokens.
BlockRun decode_golden(Ops& ops, Model& model, const Case& golden, bool fuses_commit_pass, EndEvent* end = nullptr) {
  DecoderSpec spec;
  spec.block.block_size = golden.block;
  spec.block.algorithm = {"low_confidence", {{"threshold", golden.threshold}}};
  spec.block.fuses_commit_pass = fuses_commit_pass;
  EngineOptions options;
  options.max_sequences = 1;
  Engine engine(ops, make_decoder(model, spec), options);
  int32_t limit = 0;
  for (const auto& positions : golden.accepted) {
    for (const int32_t p : positions) limit = std::max(limit, p + 1);
  }
  const auto queue = std::make_shared<EventQueue>();
  Request request;
  request.prompt = golden.prompt;
  request.max_tokens = limit - static_cast<int32_t>(golden.prompt.size());
  request.sink = queue;
  EXPECT_TRUE(engine.submit(request).ok());
  BlockRun run;
  auto position = static_cast<int32_t>(golden.prompt.size());
  size_t passes_before = 0;  // over earlier blocks
  for (;;) {
    Event event = queue->next();
    if (auto* ended = std::get_if<EndEvent>(&event)) {
      if (end != nullptr) *end = std::move(*ended);
      break;
    }
    const auto& chunk = std::get<TokenChunk>(event);
    for (size_t i = 0; i < chunk.tokens.size(); ++i, ++position) {
      if (position % golden.block == 0) passes_before = run.accepted.size();
      const size_t pass = passes_before + chunk.unmask_pass[i];
      if (run.accepted.size() <= pass) run.accepted.resize(pass + 1);
      run.accepted[pass].push_back(position);
      run.tokens.push_back(chunk.tokens[i]);
    }
  }
  return run;
}

void expect_equal(const BlockRun& run, const Case& golden) {
  ASSERT_GE(run.tokens.size(), golden.tokens.size());
  EXPECT_EQ(std::vector<int32_t>(run.tokens.begin(), run.tokens.begin() + golden.tokens.size()), golden.tokens);
  EXPECT_EQ(run.accepted, golden.accepted);
}

bool contains(const std::vector<int32_t>& positions, int32_t p) {
  return std::find(positions.begin(), positions.end(), p) != positions.end();
}

// The first pass that unmasks something else than the golden's, seen by the reference: whether one of the choices it
// had to make was so close that rounding may decide it.
bool is_close_call(Ops& ref, const Case& golden, const BlockRun& run) {
  const auto model = Model::load(ref, subject().model, kBlockMaxTokens);
  size_t pass = 0;
  std::vector<int32_t> ids = golden.prompt;
  const auto token_at = [&](int32_t p) { return run.tokens[p - golden.prompt.size()]; };
  const int32_t mask = model->config().diffusion->mask_id;
  int32_t start = static_cast<int32_t>(ids.size()) / golden.block * golden.block;
  ids.resize(start + golden.block, mask);
  for (; pass < golden.accepted.size(); ++pass) {
    if (std::find(ids.begin(), ids.end(), mask) == ids.end()) {
      start += golden.block;
      ids.resize(start + golden.block, mask);
    }
    bool same = pass < run.accepted.size() && run.accepted[pass] == golden.accepted[pass];
    for (const int32_t p : golden.accepted[pass]) {
      const size_t i = p - golden.prompt.size();
      same = same && (i >= golden.tokens.size() || golden.tokens[i] == token_at(p));
    }
    if (!same) break;
    for (const int32_t p : golden.accepted[pass]) ids[p] = token_at(p);
  }
  const auto n = static_cast<int32_t>(ids.size());
  KvLayout layout;
  model->register_state(layout);
  std::vector<int32_t> pages;
  for (int32_t page = 0; page * kPageTokens < n; ++page) pages.push_back(page);
  const KvMemory kv(ref, layout, static_cast<int32_t>(pages.size()));
  model->reserve(n);
  RowBatch batch(ref, n, 1);
  batch.begin_sequence(pages.data());
  for (int32_t p = 0; p < n; ++p) {
    batch.add_row(ids[p], p, p / golden.block * golden.block + golden.block);
    if (p >= start) batch.want_output();
  }
  const int32_t vocab = model->config().vocab;
  std::vector<float> storage(static_cast<size_t>(golden.block) * vocab);
  const Tensor logits = {storage.data(), golden.block, vocab, vocab};
  model->head(model->forward(batch, kv, {}), logits);
  constexpr float kClose = 0.01F;
  std::vector<float> confidences;
  bool close = false;
  for (int32_t i = 0; i < golden.block; ++i) {
    if (ids[start + i] != mask) continue;
    logits.row(i)[mask] = -INFINITY;
    const RowStatistics row = row_statistics(logits.row(i), vocab);
    const bool matters = contains(golden.accepted[pass], start + i) ||
                         (pass < run.accepted.size() && contains(run.accepted[pass], start + i));
    close =
        close || std::abs(row.p_best - golden.threshold) < kClose || (matters && row.p_best - row.p_second < kClose);
    confidences.push_back(row.p_best);
  }
  std::sort(confidences.rbegin(), confidences.rend());
  return close || (confidences.size() > 1 && confidences[0] - confidences[1] < kClose);
}

// The rotary table as model.to(bfloat16).float() makes PyTorch compute it: frequencies rounded to bfloat16. Devices of
// this machine have their tables in its memory.
void round_frequencies(const Model& model) {
  const RopeTable& table = model.ropes().of_layer(0);
  const double theta = model.config().stack.layers[0].rope.theta;
  const int32_t half = table.rotary_dim / 2;
  for (int32_t i = 0; i < half; ++i) {
    const float frequency = to_float(to_bf16(static_cast<float>(std::pow(theta, -2.0 * i / table.rotary_dim))));
    for (int32_t p = 0; p < table.max_position; ++p) {
      const double angle = static_cast<float>(p) * frequency;
      const_cast<float*>(table.cos)[p * half + i] = static_cast<float>(std::cos(angle));
      const_cast<float*>(table.sin)[p * half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

// In parts, which run in parallel.
constexpr size_t kParts = 4;
class RefGoldens : public ::testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Parts, RefGoldens, ::testing::Range<size_t>(0, kParts));

TEST_P(RefGoldens, AreExact) {
  const auto ops = make_device("ref", {});
  const auto model = Model::load(*ops, subject().model, kBlockMaxTokens);
  const std::vector<Case> cases = load_cases();
  ASSERT_EQ(cases.size(), 64U);
  for (size_t i = GetParam(); i < cases.size(); i += kParts) {
    SCOPED_TRACE("case " + std::to_string(i));
    EndEvent end;
    expect_equal(decode_golden(*ops, *model, cases[i], true, &end), cases[i]);
    EXPECT_EQ(end.stats.verify_steps, static_cast<int32_t>(cases[i].accepted.size()));
  }
}

// Small differences of the arithmetic change a few answers; these are what PyTorch answers with those frequencies.
TEST_P(RefGoldens, AreExactWithRoundedFrequencies) {
  if (std::getenv("ASHLAR_BLOCK_GOLDENS") != nullptr) GTEST_SKIP() << "the answers are the bundled model's";
  const auto ops = make_device("ref", {});
  const auto model = Model::load(*ops, subject().model, kBlockMaxTokens);
  round_frequencies(*model);
  std::vector<Case> cases = load_cases();
  const Json others = read_json_file(data_folder() / "pebble-11m-sdar" / "rounded_frequencies.json");
  for (const auto& [index, answer] : others["cases"].items()) {
    Case& golden = cases.at(std::stoul(index));
    golden.tokens = answer["tokens"].get<std::vector<int32_t>>();
    golden.accepted = answer["accepted_positions"].get<Order>();
  }
  const bool all = std::getenv("ASHLAR_LONG_TESTS") != nullptr;
  for (size_t i = GetParam(); i < cases.size(); i += kParts) {
    if (!all && !others["cases"].contains(std::to_string(i))) continue;
    SCOPED_TRACE("case " + std::to_string(i));
    expect_equal(decode_golden(*ops, *model, cases[i], true), cases[i]);
  }
}

TEST(BlockGoldens, CpuDiffersOnlyInCloseCalls) {
  const auto ops = make_device("cpu", {});
  const auto ref = make_device("ref", {});
  const auto model = Model::load(*ops, subject().model, kBlockMaxTokens);
  size_t passes = 0, golden_passes = 0, tokens = 0, golden_tokens = 0;
  int32_t differ = 0;
  int32_t index = 0;
  for (const Case& golden : load_cases()) {
    SCOPED_TRACE("case " + std::to_string(index++));
    const BlockRun run = decode_golden(*ops, *model, golden, true);
    passes += run.accepted.size();
    tokens += run.tokens.size();
    golden_passes += golden.accepted.size();
    for (const auto& positions : golden.accepted) golden_tokens += positions.size();
    if (run.accepted == golden.accepted && std::equal(golden.tokens.begin(), golden.tokens.end(), run.tokens.begin(),
                                                      run.tokens.end() - (run.tokens.size() - golden.tokens.size())))
      continue;
    ++differ;
    EXPECT_TRUE(is_close_call(*ref, golden, run));
  }
  RecordProperty("differ", differ);
  std::printf("%d of 64 answers differ; tokens per pass %.4f (golden %.4f)\n", differ,
              static_cast<double>(tokens) / static_cast<double>(passes),
              static_cast<double>(golden_tokens) / static_cast<double>(golden_passes));
  EXPECT_NEAR(static_cast<double>(tokens) / static_cast<double>(passes),
              static_cast<double>(golden_tokens) / static_cast<double>(golden_passes), 0.02 * 1.6);
}

TEST(BlockGoldens, FusedCommitPassSavesOnePassABlockAndNoBit) {
  const auto ops = make_device("cpu", {});
  const auto model = Model::load(*ops, subject().model, kBlockMaxTokens);
  const std::vector<Case> cases = load_cases();
  for (size_t i = 0; i < cases.size(); i += 7) {
    SCOPED_TRACE("case " + std::to_string(i));
    EndEvent fused_end, apart_end;
    const BlockRun fused = decode_golden(*ops, *model, cases[i], true, &fused_end);
    const BlockRun apart = decode_golden(*ops, *model, cases[i], false, &apart_end);
    EXPECT_EQ(fused.tokens, apart.tokens);
    EXPECT_EQ(fused.accepted, apart.accepted);
    const auto start = static_cast<int32_t>(cases[i].prompt.size()) / cases[i].block;
    const auto end = static_cast<int32_t>(cases[i].prompt.size() + fused.tokens.size()) / cases[i].block;
    const int32_t committed = end - start - 1;  // the last block is never committed: nothing follows it
    EXPECT_EQ(apart_end.stats.verify_steps - fused_end.stats.verify_steps, committed);
  }
}

// What one request answers, alone in the engine.
std::vector<int32_t> answer(Engine& engine, std::vector<int32_t> prompt, int32_t tokens, MethodChoice choice = {}) {
  const auto queue = std::make_shared<EventQueue>();
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = tokens;
  request.choice = std::move(choice);
  request.sink = queue;
  EXPECT_TRUE(engine.submit(request).ok());
  std::vector<int32_t> out;
  for (;;) {
    const Event event = queue->next();
    if (const auto* end = std::get_if<EndEvent>(&event)) {
      EXPECT_EQ(end->error, "");
      return out;
    }
    const auto& chunk = std::get<TokenChunk>(event);
    out.insert(out.end(), chunk.tokens.begin(), chunk.tokens.end());
  }
}

TEST(BlockScheduling, RequestsChooseTheirAlgorithm) {
  const auto ops = make_device("cpu", {});
  const auto model = Model::load(*ops, subject().model, kBlockMaxTokens);
  const std::vector<int32_t> prompt = load_cases().front().prompt;
  const MethodChoice loose = {"", {{"threshold", 0.3}}};
  const auto decode_with = [&](double threshold) {
    DecoderSpec spec;
    spec.block.algorithm = {"low_confidence", {{"threshold", threshold}}};
    Engine engine(*ops, make_decoder(*model, spec), {});
    return answer(engine, prompt, 40);
  };
  DecoderSpec spec;
  spec.block.algorithm = {"", {{"threshold", 0.99}}};
  Engine engine(*ops, make_decoder(*model, spec), {});
  const std::vector<int32_t> strict_answer = decode_with(0.99), loose_answer = decode_with(0.3);
  EXPECT_NE(strict_answer, loose_answer);
  EXPECT_EQ(answer(engine, prompt, 40, loose), loose_answer);
  EXPECT_EQ(answer(engine, prompt, 40), strict_answer);  // the slot forgets the choice of the one before
  EXPECT_EQ(answer(engine, prompt, 40, {"low_confidence", {}}), strict_answer);
  EXPECT_EQ(engine.check(loose), "");
  EXPECT_NE(engine.check({"no such", {}}).find("no such"), std::string::npos);
  EXPECT_NE(engine.check({"", {{"treshold", 0.5}}}).find("treshold"), std::string::npos);
  EXPECT_NE(engine.check({"", {{"threshold", 7}}}).find("expected 0 to 1"), std::string::npos);
}

}  // namespace
}  // namespace ashlar::testing
