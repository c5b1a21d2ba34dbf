// The promise of the engine: a request's tokens depend on weights, prompt, sampling parameters and seed alone. The same
// requests are served by every configuration, and every answer must equal the one of the plainest configuration, token
// for token.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "equivalence/configurations.h"
#include "golden/golden_data.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kLongest = 160;  // tokens of one sequence
constexpr int32_t kAnswer = 16;
constexpr int32_t kPrompts = 8;

std::vector<std::vector<int32_t>> prompts() {
  const Json json = read_json_file(data_folder() / "pebble-11m" / "goldens.json");
  std::vector<std::vector<int32_t>> all;
  for (int32_t i = 0; i < kPrompts; ++i) {
    // From one question to several in a row, so that some prompts span many pages and chunks.
    std::vector<int32_t> prompt;
    for (int32_t part = 0; part <= i % 4; ++part) {
      const auto ids = json["cases"][i + 2 * part]["prompt_ids"].get<std::vector<int32_t>>();
      if (prompt.size() + ids.size() < static_cast<size_t>(kLongest - kAnswer))
        prompt.insert(prompt.end(), ids.begin(), ids.end());
    }
    all.push_back(std::move(prompt));
  }
  return all;
}

struct NamedSampling {
  const char* name;
  SamplingParams params;
};

std::vector<NamedSampling> samplings() {
  return {{"greedy", {}}, {"0.7", warm_sampling()}, {"1.0", hot_sampling()}, {"penalties", penalised_sampling()}};
}

std::vector<Configuration> configurations() {
  const auto drafter = models_folder() / "pebble-11m-dflash";
  std::vector<Configuration> decoders(1);
  decoders[0].name = "autoregressive";
  for (const int32_t width : {2, 4, 8, 16}) {
    Configuration configuration;
    configuration.name = "dflash/" + std::to_string(width);
    configuration.decoder = {"dflash", drafter, {width, 0, 1, DenoiseSchedule::kCosine}};
    decoders.push_back(configuration);
  }
  for (const auto& [width, branches] : {std::pair{16, 0}, {8, 0}, {16, 15}}) {
    Configuration configuration;
    configuration.name = "dflash/" + std::to_string(width) + (branches == 0 ? " in a chain" : " all branches");
    configuration.decoder = {"dflash", drafter, {width, 0, 1, DenoiseSchedule::kCosine, branches}};
    decoders.push_back(configuration);
  }
  for (const int32_t passes : {2, 4}) {
    Configuration configuration;
    configuration.name = "denoise/" + std::to_string(passes);
    configuration.decoder = {
        "dflash", drafter, {16, 0, passes, passes == 2 ? DenoiseSchedule::kCosine : DenoiseSchedule::kSquareRoot}};
    decoders.push_back(configuration);
  }
  Configuration adaptive;
  adaptive.name = "dflash, width chosen";
  adaptive.decoder = {"dflash", drafter, {}};
  decoders.push_back(adaptive);
  Configuration with_ngrams;
  with_ngrams.name = "dflash, n-gram drafts wherever there are any";
  with_ngrams.decoder = {"dflash", drafter, {}};
  with_ngrams.decoder.ngram = NgramUse::kAlways;
  decoders.push_back(with_ngrams);
  for (const NgramUse use : {NgramUse::kWherePaying, NgramUse::kAlways}) {
    Configuration ngrams;
    ngrams.name = use == NgramUse::kAlways ? "n-grams wherever there are any" : "n-grams";
    ngrams.decoder.method = "ngram";
    ngrams.decoder.ngram = use;
    if (use == NgramUse::kAlways) ngrams.decoder.ngram_width = 24;
    decoders.push_back(ngrams);
  }
  for (const int32_t width : {16, 4}) {  // with few frames for the drafter: 64 and 48, of 96 pages
    Configuration window;
    window.name = "dflash/" + std::to_string(width) + " window " + std::to_string(2 * width);
    window.decoder = {"dflash", drafter, {width, 2 * width, 1, DenoiseSchedule::kCosine}};
    decoders.push_back(window);
  }

  std::vector<Configuration> all;
  for (const Configuration& decoder : decoders) {
    for (const int32_t depth : {1, 2}) {
      for (const int32_t chunk : {4096, 13}) {
        for (const bool tight : {false, true}) {
          Configuration configuration = decoder;
          configuration.depth = depth;
          configuration.prefill_chunk = chunk;
          configuration.tight_memory = tight;
          configuration.late_plans = depth == 2 && chunk == 13;
          configuration.name += std::string(depth == 1 ? ", plain loop" : ", overlapped") +
                                (chunk == 13 ? ", chunks of 13" : ", whole") +
                                (configuration.late_plans ? ", planned late" : "") + (tight ? ", tight memory" : "");
          all.push_back(configuration);
        }
      }
    }
  }
  return all;
}

struct Machine {
  explicit Machine(int32_t threads)
      : ops(make_device("cpu", {.threads = threads, .isa = {}})),
        model(Model::load(*ops, models_folder() / "pebble-11m", kLongest)) {}
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Model> model;
};

std::vector<Request> requests(const SamplingParams& sampling, const std::vector<int32_t>& stop_ids) {
  std::vector<Request> all;
  for (const std::vector<int32_t>& prompt : prompts()) {
    Request request;
    request.prompt = prompt;
    request.sampling = sampling;
    request.sampling.seed += all.size();
    request.sampling.top_logprobs = 0;
    request.max_tokens = kAnswer;
    request.stop_ids = stop_ids;
    all.push_back(std::move(request));
  }
  return all;
}

// Every configuration meets every sampling in the long tier. Otherwise each meets one of the four with one thread and
// another with two, and so that all four are met by every decoder, depth, chunking and memory.
bool in_this_tier(size_t configuration, int32_t threads, size_t sampling) {
  if (std::getenv("ASHLAR_LONG_TESTS") != nullptr) return true;
  const size_t turn =
      static_cast<size_t>(__builtin_popcountll(configuration)) + configuration / 8 + 2 * static_cast<size_t>(threads);
  return sampling == turn % 4;
}

class Comparison {
 public:
  void expect(const std::vector<Answer>& expected, const std::vector<Answer>& found, const std::string& where) {
    for (size_t i = 0; i < expected.size(); ++i) {
      ++comparisons_;
      const bool same = expected[i].tokens == found[i].tokens && expected[i].end.reason == found[i].end.reason &&
                        expected[i].logprobs == found[i].logprobs;
      if (same) continue;
      ++mismatches_;
      ADD_FAILURE() << where << ", prompt " << i << ": " << ::testing::PrintToString(found[i].tokens) << " instead of "
                    << ::testing::PrintToString(expected[i].tokens)
                    << (expected[i].tokens == found[i].tokens ? " (log-probabilities or end differ)" : "");
    }
  }
  int64_t comparisons() const { return comparisons_; }
  int64_t mismatches() const { return mismatches_; }

 private:
  int64_t comparisons_ = 0;
  int64_t mismatches_ = 0;
};

TEST(Equivalence, EveryConfigurationGivesTheSameTokens) {
  Comparison comparison;
  std::map<std::string, std::vector<Answer>> expected;
  Machine one(1);
  const std::vector<int32_t> stop_ids = one.model->config().stop_ids;
  {
    const auto engine = open_engine(*one.ops, *one.model, Configuration{}, kLongest);
    for (const NamedSampling& sampling : samplings()) {
      for (Request& request : requests(sampling.params, stop_ids)) {
        engine->drop_prefix_cache();
        expected[sampling.name].push_back(run_together(*engine, {std::move(request)})[0]);
      }
    }
  }
  uint64_t preemptions = 0;
  uint64_t cached = 0;
  uint64_t accepted = 0;
  uint64_t ngram_accepted = 0;
  for (const int32_t threads : {1, 2}) {
    Machine machine(threads);
    const std::vector<Configuration> all_configurations = configurations();
    for (size_t r = 0; r < all_configurations.size(); ++r) {
      const Configuration& configuration = all_configurations[r];
      const auto engine = open_engine(*machine.ops, *machine.model, configuration, kLongest);
      const std::vector<NamedSampling> all_samplings = samplings();
      for (size_t s = 0; s < all_samplings.size(); ++s) {
        if (!in_this_tier(r, threads, s)) continue;
        const NamedSampling& sampling = all_samplings[s];
        const std::string where = configuration.name + ", " + std::to_string(threads) + " threads, " + sampling.name;
        engine->drop_prefix_cache();
        comparison.expect(expected[sampling.name], run_together(*engine, requests(sampling.params, stop_ids)),
                          where + ", together, cold");
        comparison.expect(expected[sampling.name], run_together(*engine, requests(sampling.params, stop_ids)),
                          where + ", together, warm");
        if (configuration.tight_memory) continue;
        const std::vector<Request> all = requests(sampling.params, stop_ids);
        for (const size_t i : {size_t{1}, size_t{6}}) {
          engine->drop_prefix_cache();
          comparison.expect({expected[sampling.name][i]}, run_together(*engine, {all[i]}), where + ", alone, cold");
          comparison.expect({expected[sampling.name][i]}, run_together(*engine, {all[i]}), where + ", alone, warm");
        }
      }
      const EngineCounters counters = engine->counters();
      if (!configuration.tight_memory) {
        EXPECT_GT(counters.cached_tokens, 0U) << configuration.name;
      }
      preemptions += counters.preemptions;
      cached += counters.cached_tokens;
      accepted += counters.accepted;
      ngram_accepted += counters.ngram_accepted;
    }
  }
  std::printf(
      "%lld comparisons, %lld mismatches; %llu preemptions, %llu cached prompt tokens, %llu accepted drafts, %llu "
      "of n-grams\n",
      static_cast<long long>(comparison.comparisons()), static_cast<long long>(comparison.mismatches()),
      static_cast<unsigned long long>(preemptions), static_cast<unsigned long long>(cached),
      static_cast<unsigned long long>(accepted), static_cast<unsigned long long>(ngram_accepted));
  EXPECT_GE(comparison.comparisons(), 2000);
  // Not on every configuration: the answers of one sampling may happen to fit.
  EXPECT_GT(preemptions, 36U);
  EXPECT_GT(accepted, ngram_accepted);
  EXPECT_GT(ngram_accepted, 0U);
}

}  // namespace
}  // namespace ashlar::testing
