// SPDX-License-Identifier: Apache-2.0
// Rejection sampling through a whole engine: whatever drafts are made of, the tokens have the target's frequencies.
// N-gram drafts, or drafts that were not drawn one after the other, come without a distribution and count as certain.

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "equivalence/configurations.h"
#include "equivalence/head_drafter.h"
#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"
#include "text/tokenizer/tokenizer.h"

namespace ashlar::testing {
namespace {

// The number of them in the long tier; in the short one it is half of it, and one thread leaves the other core to
// another test.
struct Draws {
  int32_t answers, tokens;  // tokens of each
  int32_t kept;             // tokens that the filter leaves
  double temperature;
};

// Whole pages and one token, which is all that an answer has to compute of a prompt that was there before: what does
// not fit goes from the beginning.
std::vector<int32_t> prompt_of(const Tokenizer& tokenizer, const char* text) {
  std::vector<int32_t> ids = tokenizer.encode(text);
  EXPECT_GT(ids.size(), size_t{kPageTokens});
  ids.erase(ids.begin(), ids.begin() + static_cast<int64_t>((ids.size() - 1) % kPageTokens));
  return ids;
}

// Probabilities of what may follow `prompt`, from the log-probabilities of a plain answer.
std::map<int32_t, double> next_tokens(Engine& plain, const std::vector<int32_t>& prompt, const Draws& draws) {
  Request request;
  request.prompt = prompt;
  request.max_tokens = 1;
  request.sampling.top_logprobs = draws.kept;
  const auto queue = std::make_shared<EventQueue>();
  request.sink = queue;
  EXPECT_TRUE(plain.submit(std::move(request)).ok());
  std::map<int32_t, double> out;
  double sum = 0;
  for (;;) {
    const Event event = queue->next();
    if (std::holds_alternative<EndEvent>(event)) break;
    const TokenLogprobs& top = std::get<TokenChunk>(event).logprobs.at(0);
    for (int32_t i = 0; i < draws.kept; ++i) {
      sum += out[top.top_ids[i]] = std::exp(top.top_values[i] / draws.temperature);
    };
  }
  for (auto& [id, probability] : out) probability /= sum;
  return out;
}

// Draws answers by rejection, and holds the frequencies of what followed every frequent beginning against the target's.
EngineCounters draw_and_compare(Model& model, const DecoderSpec& spec, const std::vector<int32_t>& prompt,
                                const Draws& draws) {
  const int32_t shares = is_long() ? 1 : 2;
  const int32_t frequent = 200 / shares;
  EngineOptions options;
  options.max_sequences = 16;
  options.kv_pages = 16 * model.max_positions() / kPageTokens;
  Engine engine(model.ops(), make_decoder(model, spec), options);
  std::map<std::vector<int32_t>, int32_t> counts;
  for (int32_t first = 0; first < draws.answers / shares; first += options.max_sequences) {
    std::vector<Request> requests(static_cast<size_t>(options.max_sequences));
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].prompt = prompt;
      requests[i].max_tokens = draws.tokens;
      requests[i].sampling.temperature = draws.temperature;
      requests[i].sampling.top_k = draws.kept;
      requests[i].sampling.seed = static_cast<uint64_t>(first) + i;
      requests[i].sampling.scheme = SamplingScheme::kRejection;
    }
    for (const Answer& answer : run_together(engine, std::move(requests))) {
      EXPECT_NE(answer.end.reason, FinishReason::kError) << answer.end.error;
      for (size_t n = 0; n <= answer.tokens.size(); ++n) {
        ++counts[std::vector<int32_t>(answer.tokens.begin(), answer.tokens.begin() + static_cast<int64_t>(n))];
      }
    }
  }
  const EngineCounters counters = engine.counters();
  Engine plain(model.ops(), make_decoder(model, {}), options);
  int32_t verified = 0;
  for (const auto& [begun, n] : counts) {
    if (n < frequent || begun.size() == static_cast<size_t>(draws.tokens)) continue;
    std::vector<int32_t> text = prompt;
    text.insert(text.end(), begun.begin(), begun.end());
    for (const auto& [id, p] : next_tokens(plain, text, draws)) {
      std::vector<int32_t> longer = begun;
      longer.push_back(id);
      const auto found = counts.find(longer);
      const double share = (found == counts.end() ? 0.0 : found->second) / n;
      EXPECT_NEAR(share, p, 4 * std::sqrt(p * (1 - p) / n) + 1e-3) << "token " << id << " after " << begun.size();
      ++verified;
    }
  }
  EXPECT_GE(verified, 5 * draws.kept);
  return counters;
}

TEST(Rejection, OfNgramDrafts) {
  const auto ops = make_device("cpu", {.threads = is_long() ? 2 : 1, .isa = {}});
  const auto model = Model::load(*ops, models_folder() / "pebble-11m", 128);
  const Tokenizer tokenizer = Tokenizer::from_file(models_folder() / "pebble-11m" / "tokenizer.json");
  for (const char* method : {"dflash", "ngram"}) {
    SCOPED_TRACE(method);
    DecoderSpec spec{method, models_folder() / "pebble-11m-dflash", {}};
    spec.ngram = NgramUse::kAlways;
    const EngineCounters counters = draw_and_compare(
        *model, spec,
        prompt_of(tokenizer,
                  "It was an old town. The wall was built of grey stone, and the gate was made of oak. The wall was "
                  "built of grey stone, and the"),
        {2000, 8, 4, 1.2});
    EXPECT_GT(counters.ngram_accepted, 250U);
  }
}

// Each draft is drawn knowing the one before it, of DFlash2 and LiLiCorr from a few candidates: all else has no chance
// there.
TEST(Rejection, OfDraftsThatKnowTheOneBefore) {
  const auto ops = make_device("cpu", {.threads = is_long() ? 2 : 1, .isa = {}});
  const auto model = Model::load(*ops, models_folder() / "pebble-11m", 128);
  const Tokenizer tokenizer = Tokenizer::from_file(models_folder() / "pebble-11m" / "tokenizer.json");
  for (const char* head : {"dflash2", "dspark", "lilicorr", "domino", "xpress"}) {
    SCOPED_TRACE(head);
    const HeadDrafter drafter(head);
    DecoderSpec spec{"dflash", drafter.folder(), {.width = 8}};
    spec.ngram = NgramUse::kNever;
    const EngineCounters counters = draw_and_compare(
        *model, spec, prompt_of(tokenizer, "It was an old town on a hill. The wall was built of grey stone, and the"),
        {1600, 6, 4, 1.2});
    EXPECT_GT(counters.accepted, 500U);
  }
}

// A later pass draws positions that stand before others it already knows: no distribution of one position says what it
// was drawn from. (A draft that is certain is right whatever it was made of: verify_test.cc.)
TEST(Rejection, OfDraftsMadeInSeveralPassesKnowsNoDistribution) {
  const auto ops = make_device("ref", {});
  const SeededCheckpoint target(data_folder() / "families" / "qwen3");
  const SeededCheckpoint drafter(data_folder() / "drafters" / "dflash_full");
  const auto model = Model::load(*ops, target.folder(), 64);
  for (const int32_t passes : {1, 2, 3}) {
    DflashProposer proposer(DflashDrafter::load(*model, drafter.folder()), *ops, {.width = 4, .passes = passes});
    KvLayout layout;
    proposer.register_state(layout);
    const KvMemory kv(*ops, layout, 4);
    proposer.start({64, 1, 1}, kv);
    Slot slot;
    slot.params.temperature = 1;
    slot.params.scheme = SamplingScheme::kRejection;
    proposer.admit(0, slot, {});
    EXPECT_EQ(proposer.draft_distribution(0, 1) == nullptr, passes > 1) << passes << " passes";
  }
}

}  // namespace
}  // namespace ashlar::testing
