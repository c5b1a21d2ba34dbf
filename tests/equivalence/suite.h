// SPDX-License-Identifier: Apache-2.0
#pragma once
// The same requests served by every configuration, on any device: every answer must equal the one of the plainest
// configuration, token for token. Invariant: same-tokens-by-every-configuration.

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "equivalence/configurations.h"
#include "golden/golden_data.h"

namespace ashlar::testing::suite {

inline constexpr int32_t kLongest = 160;  // tokens of one sequence
inline constexpr int32_t kAnswer = 16;
inline constexpr int32_t kPrompts = 8;

inline std::vector<std::vector<int32_t>> prompts() {
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

inline std::vector<NamedSampling> samplings() {
  return {{"greedy", {}}, {"0.7", warm_sampling()}, {"1.0", hot_sampling()}, {"penalties", penalised_sampling()}};
}

/// Every decoding method.
inline std::vector<Configuration> methods() {
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
  for (const int32_t width : {16, 4}) {  // with few window pages for the drafter: 64 and 48, of 96 pages
    Configuration window;
    window.name = "dflash/" + std::to_string(width) + " window " + std::to_string(2 * width);
    window.decoder = {"dflash", drafter, {width, 2 * width, 1, DenoiseSchedule::kCosine}};
    decoders.push_back(window);
  }
  return decoders;
}

/// Each of these by every loop, chunking and memory.
inline std::vector<Configuration> in_every_way(const std::vector<Configuration>& decoders) {
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

/// Whether a configuration of those of every method in every way meets a sampling with so many threads, where it meets
/// one: of the eight pairs of a sampling and one or two threads every method meets each once, and every way, too.
inline bool meets(size_t configuration, int32_t threads, size_t sampling) {
  const size_t pair = (configuration % 8 + configuration / 8) % 8;
  return sampling == pair % 4 && static_cast<size_t>(threads) == 1 + pair / 4;
}

/// Whether it is one of those where every method goes in two ways that have nothing in common.
inline bool in_two_ways(size_t configuration) {
  const size_t way = configuration % 8;
  const size_t first = (3 * (configuration / 8)) % 8;
  return way == first || way == 7 - first;
}

/// Whether it is one of those where every method goes in one way, each in another.
inline bool in_one_way(size_t configuration, size_t turn) {
  return configuration % 8 == (3 * (configuration / 8) + turn) % 8;
}

inline std::vector<Request> requests(const SamplingParams& sampling, const std::vector<int32_t>& stop_ids) {
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

class EquivalenceSuite {
 public:
  /// The answers of plain decoding, one request at a time, on this device.
  explicit EquivalenceSuite(Ops& ops) : model_(Model::load(ops, models_folder() / "pebble-11m", kLongest)) {
    const auto engine = open_engine(ops, *model_, Configuration{}, kLongest);
    for (const NamedSampling& sampling : samplings()) {
      for (Request& request : requests(sampling.params, model_->config().stop_ids)) {
        engine->drop_prefix_cache();
        expected_[sampling.name].push_back(run_together(*engine, {std::move(request)})[0]);
      }
    }
  }

  /// Compares those of a device whose bits are the same. takes: whether configuration i meets sampling s.
  void run(Ops& ops, const std::string& where, const std::function<bool(size_t i, size_t s)>& takes,
           const std::vector<Configuration>& all = in_every_way(methods())) {
    const auto model = Model::load(ops, models_folder() / "pebble-11m", kLongest);
    for (size_t i = 0; i < all.size(); ++i) {
      std::vector<NamedSampling> met;
      const std::vector<NamedSampling> all_samplings = samplings();
      for (size_t s = 0; s < all_samplings.size(); ++s) {
        if (takes(i, s)) met.push_back(all_samplings[s]);
      }
      if (!met.empty()) run(ops, *model, all[i], met, all[i].name + ", " + where);
    }
  }

  void print() const {
    std::printf(
        "%lld comparisons, %lld mismatches; %llu preemptions, %llu cached prompt tokens, %llu accepted drafts, %llu "
        "of n-grams\n",
        static_cast<long long>(comparisons), static_cast<long long>(mismatches),
        static_cast<unsigned long long>(preemptions), static_cast<unsigned long long>(cached),
        static_cast<unsigned long long>(accepted), static_cast<unsigned long long>(ngram_accepted));
  }

  int64_t comparisons = 0, mismatches = 0;
  uint64_t preemptions = 0, cached = 0, accepted = 0, ngram_accepted = 0;

 private:
  void run(Ops& ops, Model& model, const Configuration& configuration, const std::vector<NamedSampling>& samplings,
           const std::string& where) {
    const auto engine = open_engine(ops, model, configuration, kLongest);
    for (const NamedSampling& sampling : samplings) {
      const std::string named = where + ", " + sampling.name;
      const std::vector<Answer>& expected = expected_[sampling.name];
      const std::vector<Request> all = requests(sampling.params, model.config().stop_ids);
      engine->drop_prefix_cache();
      compare(expected, run_together(*engine, all), named + ", together, cold");
      compare(expected, run_together(*engine, all), named + ", together, warm");
      if (configuration.tight_memory) continue;
      for (const size_t i : {size_t{1}, size_t{6}}) {
        engine->drop_prefix_cache();
        compare({expected[i]}, run_together(*engine, {all[i]}), named + ", alone, cold");
        compare({expected[i]}, run_together(*engine, {all[i]}), named + ", alone, warm");
      }
    }
    const EngineCounters counters = engine->counters();
    if (!configuration.tight_memory) {
      EXPECT_GT(counters.cached_tokens, 0U) << where;
    }
    preemptions += counters.preemptions;
    cached += counters.cached_tokens;
    accepted += counters.accepted;
    ngram_accepted += counters.ngram_accepted;
  }

  void compare(const std::vector<Answer>& expected, const std::vector<Answer>& found, const std::string& where) {
    for (size_t i = 0; i < expected.size(); ++i) {
      ++comparisons;
      const bool same = expected[i].tokens == found[i].tokens && expected[i].end.reason == found[i].end.reason &&
                        expected[i].logprobs == found[i].logprobs;
      if (same) continue;
      ++mismatches;
      ADD_FAILURE() << where << ", prompt " << i << ": " << ::testing::PrintToString(found[i].tokens) << " instead of "
                    << ::testing::PrintToString(expected[i].tokens)
                    << (expected[i].tokens == found[i].tokens ? " (log-probabilities or end differ)" : "");
    }
  }

  std::unique_ptr<Model> model_;
  std::map<std::string, std::vector<Answer>> expected_;
};

}  // namespace ashlar::testing::suite
