// SPDX-License-Identifier: Apache-2.0
// When memory runs out at any point of a short run, every request still ends once, with an answer or a clear error.

#include <optional>
#include <thread>

#include "base/bf16.h"
#include "decode/registry.h"
#include "device/device.h"
#include "engine/event_queue.h"
#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"
#include "measure/completion.h"
#include "scenario/counted_allocations.h"
#include "scenario/fake_decoder.h"
#include "server/service/delivery.h"
#include "session/answers.h"
#include "text/grammar/compile.h"
#include "text/grammar/state_graph.h"
#include "text/grammar/token_trie.h"
#include "text/tokenizer/tokenizer.h"

namespace ashlar::testing {
namespace {

struct Outcome {
  bool started = false;
  int submitted = 0;
  int answered = 0;
  int failed = 0;
};

// The answers are `answer`, or how it begins and an error. An empty one becomes that of the first call, without
// failures; it must have its memory by then.
void serve(Engine& engine, int32_t vocab, std::vector<int32_t>& answer) {
  std::shared_ptr<CountingSink> sinks[3];
  for (auto& sink : sinks) {
    try {
      auto made = std::make_shared<CountingSink>(0, 0);
      Request request;
      request.prompt = {1 % vocab, 2 % vocab, 3 % vocab, 4 % vocab, 5 % vocab};
      request.max_tokens = 9;
      request.sink = made;
      if (engine.submit(std::move(request)).ok()) sink = made;
    } catch (const std::bad_alloc&) {
    }
  }
  engine.wait_idle();
  for (const auto& sink : sinks) {
    if (!sink) continue;
    ASSERT_EQ(sink->ends, 1);
    if (sink->reason == FinishReason::kError) {
      ASSERT_TRUE(sink->has_error);
    } else {
      ASSERT_EQ(sink->tokens, 9);
    }
    ASSERT_TRUE(sink->is_of(answer));
  }
  ASSERT_EQ(engine.counters().pages_held, 0);
}

class OutOfMemory : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Depths, OutOfMemory, ::testing::Values(1, 2));

TEST_P(OutOfMemory, AnywhereInTheEngineIsTold) {
  const auto ops = make_device("ref", {});
  std::vector<int32_t> answer;
  answer.reserve(CountingSink::kKept);
  const int64_t total = for_every_allocation([&] {
    try {
      EngineOptions options;
      options.depth = GetParam();
      options.max_sequences = 2;
      options.kv_pages = 8;
      Engine engine(*ops, std::make_unique<FakeDecoder>(2, 64), options);
      serve(engine, kFakeVocab, answer);
    } catch (const std::bad_alloc&) {
    }
  });
  EXPECT_GT(total, 30);
}

std::unique_ptr<Engine> fake_engine(Ops& ops, int32_t depth) {
  EngineOptions options;
  options.depth = depth;
  options.max_sequences = 2;
  options.kv_pages = 8;
  return std::make_unique<Engine>(ops, std::make_unique<FakeDecoder>(2, 64), options);
}

Request fake_request() {
  Request request;
  request.prompt = {1, 2, 3, 4, 5};
  request.max_tokens = 9;
  return request;
}

TEST_P(OutOfMemory, EndsTheCallThatCompletesRequests) {
  const auto ops = make_device("ref", {});
  const int64_t total = for_every_allocation([&] {
    try {
      const auto engine = fake_engine(*ops, GetParam());
      std::vector<Request> requests(3, fake_request());
      const std::vector<Completion> completions = complete(*engine, std::move(requests), 2);
      for (const Completion& completion : completions) ASSERT_EQ(completion.tokens.size(), 9U);
    } catch (const std::exception&) {
    }
  });
  EXPECT_GT(total, 30);
}

TEST_P(OutOfMemory, EndsTheCallThatRunsAnswers) {
  const auto ops = make_device("ref", {});
  const Tokenizer tokenizer = Tokenizer::from_file(models_folder() / "pebble-11m" / "tokenizer.json");
  const int64_t total = for_every_allocation([&] {
    try {
      const auto engine = fake_engine(*ops, GetParam());
      std::vector<AnswerJob> jobs(3, {fake_request(), {}, {}});
      AnswerListener listener;
      const std::vector<Answer> answers = run_answers(*engine, tokenizer, std::move(jobs), listener);
      for (const Answer& answer : answers) {
        ASSERT_EQ(answer.finish == "error", !answer.error.empty());
        ASSERT_EQ(answer.finish == "length", answer.tokens.size() == 9);
      }
    } catch (const std::exception&) {
    }
  });
  EXPECT_GT(total, 30);
}

class EndCounter final : public server::EventReceiver {
 public:
  void on_tokens(int32_t, const TokenChunk&) override {}
  void on_end(int32_t, const EndEvent&) override {
    ++ends;
    ends.notify_all();
  }
  std::atomic<int> ends = 0;
};

TEST_P(OutOfMemory, LeavesNoEndUndelivered) {
  const auto ops = make_device("ref", {});
  const int64_t total = for_every_allocation([&] {
    std::shared_ptr<server::Delivery> delivery;
    try {
      const auto receiver = std::make_shared<EndCounter>();
      delivery = std::make_shared<server::Delivery>([] {});
      delivery->start();
      const auto engine = fake_engine(*ops, GetParam());
      int submitted = 0;
      for (int32_t answer = 0; answer < 3; ++answer) {
        try {
          Request request = fake_request();
          request.sink = delivery->sink(receiver, answer);
          submitted += engine->submit(std::move(request)).ok() ? 1 : 0;
        } catch (const std::bad_alloc&) {
        }
      }
      for (int ends = receiver->ends; ends < submitted; ends = receiver->ends) receiver->ends.wait(ends);
      ASSERT_EQ(receiver->ends, submitted);
    } catch (const std::exception&) {
    }
    if (delivery) delivery->stop();
  });
  EXPECT_GT(total, 30);
}

// Sequences give way for one another, which needs a place in the queue. Memory for it may lack twice in a row: once in
// the step, once while everything is ended for it.
TEST_P(OutOfMemory, TwiceInARowIsTold) {
  constexpr int kBefore = 61;  // a block of the queue has 64 places: those after give way at its border
  constexpr int kRequests = 6;
  const auto ops = make_device("ref", {});
  uint64_t preempted = 0;
  fails = 2;
  const int64_t total = for_every_allocation([&] {
    std::optional<Uncounted> beginning(std::in_place);
    EngineOptions options;
    options.depth = GetParam();
    options.max_sequences = 4;
    options.kv_pages = 5;
    Engine engine(*ops, std::make_unique<FakeDecoder>(2, 64), options);
    std::vector<std::shared_ptr<CountingSink>> sinks;
    std::promise<void> all_submitted;
    const std::shared_future<void> go = all_submitted.get_future().share();
    for (int i = 0; i < kBefore + kRequests; ++i) {
      if (i == kBefore) engine.wait_idle();
      Request request = fake_request();
      request.max_tokens = i < kBefore ? 1 : 40;
      sinks.push_back(std::make_shared<CountingSink>(0, 0, i < kBefore ? std::shared_future<void>() : go));
      request.sink = sinks.back();
      ASSERT_TRUE(engine.submit(std::move(request)).ok());
    }
    beginning.reset();
    all_submitted.set_value();
    engine.wait_idle();
    for (const auto& sink : sinks) ASSERT_EQ(sink->ends, 1);
    preempted += engine.counters().preemptions;
    ASSERT_EQ(engine.counters().pages_held, 0);
  });
  fails = 1;
  EXPECT_GT(total, 100);
  EXPECT_GT(preempted, 0U);
}

// An error of many words ends a request; where memory lacks for them too, it ends with fewer.
TEST_P(OutOfMemory, WhileAnErrorIsToldIsToldAsWell) {
  class Broken final : public EventSink {
   public:
    void on_tokens(const TokensEvent&) override {
      throw std::runtime_error("this text is far too long for the room that a string has in itself");
    }
    void on_end(EndEvent event) noexcept override {
      ++ends;
      has_error = !event.error.empty();
    }
    int ends = 0;
    bool has_error = false;
  };
  const auto ops = make_device("ref", {});
  const int64_t total = for_every_allocation([&] {
    try {
      const auto engine = fake_engine(*ops, GetParam());
      const auto sink = std::make_shared<Broken>();
      Request request = fake_request();
      request.sink = sink;
      if (!engine->submit(std::move(request)).ok()) return;
      engine->wait_idle();
      ASSERT_EQ(sink->ends, 1);
      ASSERT_TRUE(sink->has_error);
    } catch (const std::bad_alloc&) {
    }
  });
  EXPECT_GT(total, 10);
}

// With a real model and drafter. Loading is left out, which would be nearly all of the allocations.
TEST(OutOfMemory, AnywhereFromStartToAnswerIsTold) {
  const auto ops = make_device("cpu", {.threads = 2, .isa = {}});
  const SeededCheckpoint target(data_folder() / "families" / "qwen3");
  const SeededCheckpoint drafter(data_folder() / "drafters" / "dflash_full");
  const auto model = Model::load(*ops, target.folder(), 64);
  DecoderSpec spec;
  spec.method = "dflash";
  spec.drafter = drafter.folder();
  std::vector<int32_t> answer;
  answer.reserve(CountingSink::kKept);
  const int64_t total = for_every_allocation([&] {
    std::optional<Uncounted> loading(std::in_place);
    auto decoder = make_decoder(*model, spec);
    loading.reset();
    try {
      EngineOptions options;
      options.max_sequences = 2;
      options.kv_pages = 16;
      Engine engine(*ops, std::move(decoder), options);
      serve(engine, model->config().vocab, answer);
    } catch (const std::bad_alloc&) {
    }
  });
  EXPECT_GT(total, 100);
}

// A prompt longer than all that the device has seen: its scratch grows in a step after which the next one is planned.
// Nothing is calibrated here, which would have grown it.
TEST(OutOfMemory, InALongPromptEndsTheRequest) {
  const SeededCheckpoint target(data_folder() / "families" / "qwen3");
  const SeededCheckpoint drafter(data_folder() / "drafters" / "dflash_full");
  std::vector<int32_t> answer;  // of both methods
  answer.reserve(CountingSink::kKept);
  for (const char* method : {"autoregressive", "ngram", "dflash"}) {
    const int64_t total = for_every_allocation([&] {
      std::optional<Uncounted> beginning(std::in_place);
      const auto ops = make_device("cpu", {.threads = 2, .isa = {}});
      const auto model = Model::load(*ops, target.folder(), 256);
      DecoderSpec spec;
      spec.method = method;
      spec.drafter = drafter.folder();
      spec.dflash.width = 4;
      EngineOptions options;
      options.max_sequences = 2;
      options.kv_pages = 32;
      Engine engine(*ops, make_decoder(*model, spec), options);
      auto sink = std::make_shared<CountingSink>(0, 0);
      Request request;
      for (int32_t i = 0; i < 100; ++i) request.prompt.push_back(1 + i % 90);
      request.max_tokens = 9;
      request.sink = sink;
      beginning.reset();
      try {
        if (!engine.submit(std::move(request)).ok()) return;
      } catch (const std::bad_alloc&) {
        return;
      }
      engine.wait_idle();
      ASSERT_EQ(sink->ends, 1);
      ASSERT_EQ(sink->has_error, sink->reason == FinishReason::kError);
      ASSERT_EQ(sink->tokens == 9, sink->reason == FinishReason::kLength);
      ASSERT_TRUE(sink->is_of(answer));
      ASSERT_EQ(engine.counters().pages_held, 0);
    });
    EXPECT_GT(total, 10) << method;
  }
}

// What is known of a grammar is shared by the requests that have it, and outlives one whose memory ran out.
TEST(OutOfMemory, InAGrammarLosesNoText) {
  const Tokenizer tokenizer = Tokenizer::from_file(models_folder() / "pebble-11m" / "tokenizer.json");
  const grammar::TokenTrie trie(tokenizer);
  const grammar::Grammar rules = grammar::compile_ebnf(
      "root ::= term | term \"+\" root | term \"-\" root\n"
      "term ::= [0-9]+ | \"(\" root \")\" | \"f\" \"(\" root (\",\" root)? \")\"");
  const std::string text = "((1+2)-f(3,(4)))";
  using Mask = std::vector<uint32_t>;
  // With allocation `failing` of it, if any, and again what that interrupted.
  const auto walk = [&](grammar::StateGraph& graph, int64_t failing) {
    std::vector<Mask> masks(text.size() + 1, Mask((trie.vocab() + 31) / 32));
    if (failing >= 0) fail_at.store(allocations.load() + failing);
    grammar::StateGraph::State state = graph.start();
    for (size_t i = 0; i <= text.size();) {
      try {
        masks[i] = *graph.find_mask(state, trie, UINT64_MAX, nullptr);
        if (i < text.size()) state = graph.step(state, static_cast<uint8_t>(text[i]));
        ++i;
      } catch (const std::bad_alloc&) {
        fail_at.store(-1);
      }
    }
    fail_at.store(-1);
    return masks;
  };
  grammar::StateGraph undisturbed(rules);
  const int64_t before = allocations.load();
  const std::vector<Mask> expected = walk(undisturbed, -1);
  const int64_t total = allocations.load() - before;
  ASSERT_GT(total, 100);
  for (int64_t n = 0; n < total; n += 3) {
    grammar::StateGraph graph(rules);
    ASSERT_EQ(walk(graph, n), expected) << "allocation " << n << " of " << total;
  }
}

// What a device grows for a new shape, it grows before its workers begin: a loop cannot throw.
TEST(OutOfMemory, InAProductReachesTheCaller) {
  constexpr int32_t kColumns = 2048;
  constexpr int32_t kDepth = 256;
  constexpr int32_t kRows = 40;
  const std::vector<uint16_t> values(static_cast<size_t>(2) * kColumns * kDepth, 0x3C00);
  const WeightPart gate = {"gate", Scheme::kBF16, values.data(), kColumns, kDepth};
  const WeightPart down = {"down", Scheme::kBF16, values.data(), kDepth, kColumns};
  std::vector<float> in(static_cast<size_t>(kRows) * kDepth, 1.0F);
  std::vector<float> out(static_cast<size_t>(kRows) * kColumns);
  const std::vector<float> norm(kDepth, 1.0F);
  for (const int32_t rows : {1, 16, kRows}) {
    for (int64_t n = 0; n < 12; ++n) {
      const auto ops = make_device("cpu", {.threads = 4, .isa = {}});
      const auto gate_up = ops->pack({{gate, gate}, {}}, {.gated = true});
      const auto back = ops->pack({{down}, {}});
      const auto wide = ops->pack({{gate}, {}});
      const Tensor x = {in.data(), rows, kDepth, kDepth};
      const auto run = [&] {
        ops->linear(*wide, {x, norm.data(), 1e-6F}, Store::kOverwrite, {out.data(), rows, kColumns, kColumns});
        std::fill(in.begin(), in.end(), 1.0F);
        ops->gated_mlp(*gate_up, *back, {x, norm.data(), 1e-6F}, x);
      };
      fail_at.store(allocations.load() + n);
      try {
        run();
      } catch (const std::bad_alloc&) {
      }
      fail_at.store(-1);
      run();
      const float normed = out[0];
      EXPECT_NEAR(normed, 2.0F, 1e-2F) << rows << " rows, allocation " << n;  // 256 x 1 x 2^-7
    }
  }
}

}  // namespace
}  // namespace ashlar::testing
