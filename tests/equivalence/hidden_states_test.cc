// SPDX-License-Identifier: Apache-2.0
// Hidden states that requests ask for are those that training captures, to the bit, whatever the chunks, the batch, the
// cache, preemption and the drafter; and asking for them changes no token.

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "equivalence/configurations.h"
#include "golden/golden_data.h"
#include "train/capture/hidden_capture.h"

namespace ashlar::testing {
namespace {

const std::vector<int32_t> kLayers = {9, 1, 5, 11};

/// Keeps what it is given; each token of the prompt must come once, in order, before the answer.
class HiddenSink final : public EventSink {
 public:
  void on_hidden(const HiddenEvent& event) override {
    EXPECT_EQ(event.first, next_);
    EXPECT_TRUE(answer.empty());
    next_ += event.n;
    bytes.insert(bytes.end(), event.rows, event.rows + static_cast<size_t>(event.n) * event.row.bytes());
  }
  void on_tokens(const TokensEvent& event) override {
    answer.insert(answer.end(), event.tokens, event.tokens + event.n);
  }
  void on_end(EndEvent event) noexcept override { end = std::move(event); }

  std::vector<std::byte> bytes;
  std::vector<int32_t> answer;
  EndEvent end;

 private:
  int32_t next_ = 0;
};

struct Served {
  const char* name;
  bool drafter;
  int32_t chunk, depth;
  bool tight_memory, cached;
};

class HiddenStates : public ::testing::TestWithParam<Served> {
 protected:
  HiddenStates()
      : ops_(make_device("cpu", {.threads = 2, .isa = {}})),
        model_(Model::load(*ops_, models_folder() / "pebble-11m", 512)) {
    // Where memory is tight, the first answer's tokens take it from the last prompt while that is being read.
    for (const size_t size : {1, 280, 300, 310}) {
      std::vector<int32_t>& prompt = prompts_.emplace_back(size);
      for (size_t k = 0; k < size; ++k) prompt[k] = static_cast<int32_t>(100 + (size + k * k) % 7000);
    }
  }

  std::vector<std::shared_ptr<HiddenSink>> run(Engine& engine, bool hidden_states) const {
    std::vector<std::shared_ptr<HiddenSink>> sinks;
    for (const std::vector<int32_t>& prompt : prompts_) {
      Request request;
      request.prompt = prompt;
      // One asks for nothing and shares the steps of those that do.
      request.hidden_states = hidden_states && sinks.size() != 1;
      request.max_tokens = 100;
      request.sink = sinks.emplace_back(std::make_shared<HiddenSink>());
      const Result<RequestId> id = engine.submit(std::move(request));
      EXPECT_TRUE(id.ok()) << id.error();
    }
    engine.wait_idle();
    return sinks;
  }

  std::vector<std::byte> captured(const std::vector<int32_t>& prompt) const {
    HiddenCapture capture(*model_, kLayers, 512);
    const std::span<const int32_t> document = prompt;
    const Tensor rows = capture.capture({&document, 1}).front();
    std::vector<std::byte> bytes(prompt.size() * static_cast<size_t>(rows.cols) * bytes_of(rows.dtype));
    ops_->download(static_cast<const std::byte*>(rows.data), bytes.data(), bytes.size());
    return bytes;
  }

  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;
  std::vector<std::vector<int32_t>> prompts_;
};

// Invariant: row-invariance
TEST_P(HiddenStates, AreThoseOfTheCapture) {
  Configuration configuration;
  configuration.prefill_chunk = GetParam().chunk;
  configuration.depth = GetParam().depth;
  configuration.tight_memory = GetParam().tight_memory;
  if (GetParam().drafter) {
    configuration.decoder = {"dflash", models_folder() / "pebble-11m-dflash", {16, 0, 1, DenoiseSchedule::kCosine}};
  }
  std::vector<std::vector<int32_t>> answers;
  for (const auto& sink : run(*open_engine(*ops_, *model_, configuration, 512), false)) answers.push_back(sink->answer);
  configuration.decoder.hidden_layers = kLayers;
  std::vector<std::shared_ptr<HiddenSink>> sinks;
  {
    const auto engine = open_engine(*ops_, *model_, configuration, 512);
    const HiddenRow row = engine->hidden_row();
    EXPECT_EQ(row.layers, 4);
    EXPECT_EQ(row.size, 256);
    if (GetParam().cached) run(*engine, false);
    sinks = run(*engine, true);
  }
  int32_t preemptions = 0;
  for (size_t i = 0; i < prompts_.size(); ++i) {
    EXPECT_EQ(sinks[i]->answer, answers[i]) << i;
    preemptions += sinks[i]->end.stats.preemptions;
    if (i == 1) {
      EXPECT_TRUE(sinks[i]->bytes.empty());
      continue;
    }
    EXPECT_EQ(sinks[i]->end.stats.cached_tokens, 0) << i;
    EXPECT_EQ(sinks[i]->bytes, captured(prompts_[i])) << i;
  }
  EXPECT_EQ(preemptions > 0, GetParam().tight_memory);
}

INSTANTIATE_TEST_SUITE_P(Configurations, HiddenStates,
                         ::testing::Values(Served{"Plain", false, 512, 1, false, false},
                                           Served{"Chunks", false, 48, 2, false, true},
                                           Served{"Drafter", true, 64, 2, false, true},
                                           Served{"Preempted", true, 16, 2, true, false}),
                         [](const auto& served) { return std::string(served.param.name); });

// The prompt is one chunk, so that its first token is chosen in the step whose hidden states are not taken.
TEST(HiddenStatesThatAreNotTaken, EndTheRequestAtOnce) {
  class Full final : public EventSink {
   public:
    void on_prompt(const PromptEvent&) override { fail_if(of_scores); }
    void on_hidden(const HiddenEvent&) override { fail_if(!of_scores); }
    void on_tokens(const TokensEvent&) override { ADD_FAILURE() << "tokens after the end"; }
    void on_end(EndEvent event) noexcept override {
      ++ends;
      end = std::move(event);
    }
    static void fail_if(bool fails) {
      if (fails) throw std::runtime_error("no room for these rows");
    }
    bool of_scores = false;
    int ends = 0;
    EndEvent end;
  };
  const auto ops = make_device("cpu", {.threads = 1, .isa = {}});
  const auto model = Model::load(*ops, models_folder() / "pebble-11m", 512);
  Configuration configuration;
  configuration.decoder.hidden_layers = kLayers;
  const auto engine = open_engine(*ops, *model, configuration, 512);
  for (const bool of_scores : {false, true}) {
    const auto sink = std::make_shared<Full>();
    sink->of_scores = of_scores;
    Request request;
    request.prompt = {5, 6, 7};
    request.hidden_states = true;
    if (of_scores) request.prompt_logprobs.from = 1;
    request.max_tokens = 4;
    request.sink = sink;
    ASSERT_TRUE(engine->submit(std::move(request)).ok());
    engine->wait_idle();
    EXPECT_EQ(sink->ends, 1);
    EXPECT_EQ(sink->end.reason, FinishReason::kError);
    EXPECT_EQ(sink->end.error, "no room for these rows");
  }
}

TEST(HiddenStatesWithout, AreRefused) {
  const auto ops = make_device("cpu", {.threads = 1, .isa = {}});
  const auto model = Model::load(*ops, models_folder() / "pebble-11m", 512);
  const auto engine = open_engine(*ops, *model, {}, 512);
  Request request;
  request.prompt = {5, 6, 7};
  request.hidden_states = true;
  request.sink = std::make_shared<HiddenSink>();
  EXPECT_FALSE(engine->submit(std::move(request)).ok());
  DecoderSpec spec;
  spec.hidden_layers = {1, 12};
  EXPECT_THROW(make_decoder(*model, spec), Error);
  const auto blocks = Model::load(*ops, models_folder() / "pebble-11m-sdar", 512);
  spec.hidden_layers = {1};
  EXPECT_THROW(make_decoder(*blocks, spec), Error);
}

}  // namespace
}  // namespace ashlar::testing
