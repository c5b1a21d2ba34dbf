// SPDX-License-Identifier: Apache-2.0
#pragma once
// The same promise for models that fill blocks, on any device: the tokens of a request depend on weights, prompt,
// algorithm, sampling parameters and seed alone.

#include <gtest/gtest.h>

#include <cstdio>

#include "equivalence/configurations.h"
#include "golden/golden_data.h"

namespace ashlar::testing::blocks {

inline constexpr int32_t kLongest = 160;  // tokens of one sequence
inline constexpr int32_t kAnswer = 20;

// Of all lengths around a block's border. Three begin alike and part within a page, within a block of 32 and after it.
inline std::vector<std::vector<int32_t>> prompts() {
  const Json json = read_json_file(data_folder() / "pebble-11m" / "goldens.json");
  const auto text = [&](int32_t i, size_t length) {
    auto ids = json["cases"][i]["prompt_ids"].get<std::vector<int32_t>>();
    for (int32_t more = i + 1; ids.size() < length; ++more) {
      const auto next = json["cases"][more]["prompt_ids"].get<std::vector<int32_t>>();
      ids.insert(ids.end(), next.begin(), next.end());
    }
    ids.resize(length);
    return ids;
  };
  std::vector<std::vector<int32_t>> all = {text(0, 1), text(1, 31), text(2, 32), text(3, 65), text(4, 120)};
  for (const size_t part : {9UL, 20UL, 40UL}) {
    all.push_back(text(4, 70));
    for (size_t i = part; i < 70; ++i) all.back()[i] = text(5, 70)[i];
  }
  return all;
}

inline std::vector<SamplingParams> samplings() { return {{}, warm_sampling(), penalised_sampling()}; }

inline std::vector<Request> requests(SamplingParams sampling, const std::vector<int32_t>& stop_ids) {
  std::vector<Request> all;
  for (const std::vector<int32_t>& prompt : prompts()) {
    Request request;
    request.prompt = prompt;
    request.sampling = sampling;
    request.sampling.seed += all.size();
    if (all.size() % 2 == 0) request.sampling.top_logprobs = 0;
    request.max_tokens = kAnswer - static_cast<int32_t>(all.size());
    request.stop_ids = stop_ids;
    if (all.size() == 5) request.width = 1;
    all.push_back(std::move(request));
  }
  return all;
}

struct Way {
  int32_t block;
  AlgorithmSpec algorithm;
};

inline std::vector<Way> ways() {
  return {{4, {"low_confidence", {{"threshold", 0.5}}}},
          {8, {"low_confidence", {}}},
          {12, {"low_confidence", {{"threshold", 0.7}}}},
          {32, {"low_confidence", {{"threshold", 0.6}}}},
          {8, {"s2d2", {{"threshold", 0.5}}}},
          {32, {"s2d2", {{"min_span", 4}, {"cost", 1}, {"threshold", 0.6}}}},
          {8, {"joint_threshold", {{"max_post_edit_steps", 2}}}},
          {12, {"klass", {{"threshold", 0.5}}}}};
}

inline std::vector<Configuration> configurations(const Way& way) {
  std::vector<Configuration> all;
  for (const bool fused : {true, false}) {
    for (const int32_t depth : {1, 2}) {
      for (const int32_t chunk : {4096, 13}) {
        for (const bool tight : {false, true}) {
          Configuration configuration;
          configuration.decoder.block = {way.block, way.algorithm, fused};
          configuration.depth = depth;
          configuration.prefill_chunk = chunk;
          configuration.tight_memory = tight;
          configuration.name = way.algorithm.name + ", block " + std::to_string(way.block) +
                               (fused ? ", fused" : ", KV commit passes apart") +
                               (depth == 1 ? ", plain loop" : ", overlapped") +
                               (chunk == 13 ? ", chunks of 13" : ", whole") + (tight ? ", tight memory" : "");
          all.push_back(configuration);
        }
      }
    }
  }
  return all;
}

inline int64_t comparisons = 0;

inline void expect_same(const Answer& expected, const Answer& found, const std::string& where) {
  ++comparisons;
  EXPECT_EQ(expected.tokens, found.tokens) << where;
  EXPECT_EQ(expected.logprobs, found.logprobs) << where;
  EXPECT_EQ(expected.passes, found.passes) << where;
  EXPECT_EQ(expected.end.reason, found.end.reason) << where;
}

/// On two devices whose bits are the same.
inline void expect_same_by_every_configuration(Ops& first, Ops& second, const std::vector<Way>& some = ways()) {
  struct Machine {
    explicit Machine(Ops& device)
        : ops(&device), model(Model::load(device, models_folder() / "pebble-11m-sdar", kLongest)) {}
    Ops* ops;
    std::unique_ptr<Model> model;
  };
  Machine one(first), two(second);
  const std::vector<int32_t> stop_ids = one.model->config().stop_ids;
  uint64_t preemptions = 0, cached = 0;
  size_t pair = 0;  // of a way and a sampling
  comparisons = 0;
  for (const Way& way : some) {
    for (const SamplingParams& sampling : samplings()) {
      std::vector<Answer> expected;
      {
        Configuration plain;
        plain.decoder.block = {way.block, way.algorithm, false};
        const auto engine = open_engine(*one.ops, *one.model, plain, kLongest);
        for (Request& request : requests(sampling, stop_ids)) {
          engine->drop_prefix_cache();
          expected.push_back(run_together(*engine, {std::move(request)})[0]);
        }
      }
      const std::vector<Configuration> all = configurations(way);
      ++pair;
      for (size_t c = 0; c < all.size(); ++c) {
        // In the short tier every way and sampling meets one of the sixteen configurations, each time another.
        if (!is_long() && c != 5 * pair % all.size()) continue;
        const Configuration& configuration = all[c];
        Machine& machine = (c + pair / 2) % 2 == 0 ? one : two;
        const auto engine = open_engine(*machine.ops, *machine.model, configuration, kLongest);
        for (const char* memory : {", cold", ", warm"}) {
          const std::vector<Answer> found = run_together(*engine, requests(sampling, stop_ids));
          for (size_t i = 0; i < expected.size(); ++i) {
            expect_same(expected[i], found[i], configuration.name + memory + ", prompt " + std::to_string(i));
          }
        }
        for (const size_t i : {4UL, 6UL}) {
          expect_same(expected[i], run_together(*engine, {requests(sampling, stop_ids)[i]})[0],
                      configuration.name + ", alone");
        }
        preemptions += engine->counters().preemptions;
        cached += engine->counters().cached_tokens;
      }
    }
  }
  std::printf("%lld comparisons; %llu preemptions, %llu cached prompt tokens\n", static_cast<long long>(comparisons),
              static_cast<unsigned long long>(preemptions), static_cast<unsigned long long>(cached));
  EXPECT_GT(comparisons, 31 * static_cast<int64_t>(some.size()));
  EXPECT_GT(preemptions, some.size());
  EXPECT_GT(cached, 125 * some.size());
}

}  // namespace ashlar::testing::blocks
