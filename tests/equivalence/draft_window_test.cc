// SPDX-License-Identifier: Apache-2.0
// A draft window bounds the drafter's memory as it bounds its cost, and drafts are those that the whole of its planes
// would give: window pages are taken from pages that nothing looks at.

#include <gtest/gtest.h>

#include "equivalence/configurations.h"
#include "golden/golden_data.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kWindow = 32;

DecoderSpec drafting(int32_t width, int32_t window) {
  return {"dflash", models_folder() / "pebble-11m-dflash", {width, window, 1, DenoiseSchedule::kCosine}, {}};
}

/// `length` tokens of questions in a row, from the given one on.
std::vector<int32_t> text(size_t first, size_t length) {
  static const Json json = read_json_file(data_folder() / "pebble-11m" / "goldens.json");
  std::vector<int32_t> ids;
  for (size_t i = first; ids.size() < length; ++i) {
    const auto next = json["cases"][i % json["cases"].size()]["prompt_ids"].get<std::vector<int32_t>>();
    ids.insert(ids.end(), next.begin(), next.end());
  }
  ids.resize(length);
  return ids;
}

Request request(std::vector<int32_t> prompt, int32_t max_tokens) {
  Request made;
  made.prompt = std::move(prompt);
  made.max_tokens = max_tokens;
  return made;
}

struct World {
  explicit World(int32_t longest)
      : ops(make_device("cpu", {.threads = 1, .isa = {}})),
        model(Model::load(*ops, models_folder() / "pebble-11m", longest)) {}
  std::unique_ptr<Engine> open(const DecoderSpec& spec, const EngineOptions& options) const {
    return std::make_unique<Engine>(*ops, make_decoder(*model, spec), options);
  }
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Model> model;
};

TEST(DraftWindow, BoundsTheDraftersMemory) {
  const World world(512);
  const auto drafter_bytes = [&](int32_t window, int32_t pages) {
    KvLayout plain, drafted;
    DecoderSpec spec = drafting(16, window);
    spec.dflash.branches = 0;
    make_decoder(*world.model, {})->register_state(plain, {512, 4, 4});
    make_decoder(*world.model, spec)->register_state(drafted, {512, 4, 4});
    return KvMemory(*world.ops, drafted, pages).bytes() - KvMemory(*world.ops, plain, pages).bytes();
  };
  const int64_t page = drafter_bytes(0, 1);
  EXPECT_EQ(drafter_bytes(0, 400), 400 * page);
  // 32 + 16 positions lie in up to 4 pages.
  EXPECT_EQ(drafter_bytes(kWindow, 400), 2 * 4 * 4 * page);
  EXPECT_EQ(drafter_bytes(kWindow, 4000), 2 * 4 * 4 * page);
  EXPECT_EQ(drafter_bytes(kWindow, 20), 20 * page);  // and never more than without a window
}

// Two engines whose window is the same: one has a window page for every page, since more sequences might run.
TEST(DraftWindow, LongSequencesDraftAsWithAWindowPageForEveryPage) {
  constexpr int32_t kLongest = 1024;
  const World world(kLongest);
  const DecoderSpec spec = drafting(16, kWindow);
  EngineOptions options;
  options.kv_pages = kLongest / kPageTokens;
  options.max_sequences = 8;  // 2 * 4 * 8 window pages: one for each of the 64 pages
  const auto whole = world.open(spec, options);
  options.max_sequences = 1;  // 8 window pages
  const auto few = world.open(spec, options);
  options.prefill_chunk = 13;  // rows that a long chunk leaves out are written
  const auto in_pieces = world.open(spec, options);
  int64_t accepted = 0;
  for (size_t i = 0; i < 2; ++i) {
    const auto prompt = text(i, 200 + 300 * i);
    const Answer expected = run_together(*whole, {request(prompt, 300)})[0];
    for (Engine* engine : {few.get(), in_pieces.get()}) {
      const Answer found = run_together(*engine, {request(prompt, 300)})[0];
      EXPECT_EQ(found.tokens, expected.tokens);
      EXPECT_EQ(found.end.stats.accepted_at, expected.end.stats.accepted_at);
      EXPECT_EQ(found.end.stats.verify_steps, expected.end.stats.verify_steps);
    }
    accepted += expected.end.stats.accepted;
  }
  EXPECT_GT(accepted, 100);
}

// Few window pages, few pages, prompts that begin alike: window pages are taken, pages found again, sequences
// preempted.
TEST(DraftWindow, TokensAreThoseOfPlainDecodingWhateverIsLost) {
  constexpr int32_t kLongest = 160;
  const World world(kLongest);
  std::vector<std::vector<int32_t>> prompts;
  for (size_t i = 0; i < 10; ++i) {
    prompts.push_back(text(i % 3, 40 + 8 * i));
    if (i % 2 == 1) prompts.back().back() = 300 + static_cast<int32_t>(i);
  }
  std::vector<std::vector<int32_t>> expected;
  const auto plain = open_engine(*world.ops, *world.model, {}, kLongest);
  for (const auto& prompt : prompts) expected.push_back(run_together(*plain, {request(prompt, 40)})[0].tokens);

  EngineCounters total;
  for (const auto& [width, window] : {std::pair(0, 16), {16, 16}, {4, 4}}) {
    for (const int32_t depth : {1, 2}) {
      EngineOptions options;
      options.max_sequences = 2;
      options.kv_pages = 15;  // 12 or 8 window pages, and two sequences of up to 10 pages
      options.depth = depth;
      options.prefill_chunk = depth == 1 ? 13 : 256;
      const auto engine = world.open(drafting(width, window), options);
      for (int round = 0; round < 2; ++round) {
        std::vector<Request> requests;
        for (const auto& prompt : prompts) requests.push_back(request(prompt, 40));
        const std::vector<Answer> found = run_together(*engine, std::move(requests));
        for (size_t i = 0; i < prompts.size(); ++i) {
          EXPECT_EQ(found[i].tokens, expected[i])
              << "width " << width << ", window " << window << ", depth " << depth << ", prompt " << i;
        }
      }
      const EngineCounters counters = engine->counters();
      total.preemptions += counters.preemptions;
      total.cached_tokens += counters.cached_tokens;
      total.accepted += counters.accepted;
    }
  }
  EXPECT_GT(total.preemptions, 0U);
  EXPECT_GT(total.cached_tokens, 0U);
  EXPECT_GT(total.accepted, 0U);
}

}  // namespace
}  // namespace ashlar::testing
