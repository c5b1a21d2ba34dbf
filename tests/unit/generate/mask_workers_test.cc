// SPDX-License-Identifier: Apache-2.0
// Work outside the engine's steps: turns, ends, and the masks of a grammar that takes long.

#include "generate/mask_workers.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "generate/grammar_constraint.h"
#include "text/grammar/compile.h"
#include "text/tokenizer/tokenizer.h"

namespace ashlar {
namespace {

struct Journal {
  std::mutex mutex;
  std::string slices;
  WakeSignal done;
};

// Writes its name into the journal, slice by slice.
class NamedTask final : public SlicedTask {
 public:
  NamedTask(Journal& journal, char name, int slices) : journal_(journal), name_(name), left_(slices) {}
  bool run_slice() noexcept override {
    const std::lock_guard lock(journal_.mutex);
    journal_.slices += name_;
    return --left_ == 0;
  }
  void on_done() noexcept override { journal_.done.raise(); }

 private:
  Journal& journal_;
  char name_;
  int left_;
};

TEST(MaskWorkers, GroupsTakeTurnsAndTheirTasksFollowOneAnother) {
  Journal journal;
  const int first = 0;
  const int second = 0;
  MaskWorkers workers(1);
  {
    const std::lock_guard lock(journal.mutex);  // until all are posted
    workers.post(std::make_shared<NamedTask>(journal, 'a', 3), &first);
    workers.post(std::make_shared<NamedTask>(journal, 'b', 2), &first);
    workers.post(std::make_shared<NamedTask>(journal, 'x', 4), &second);
    workers.post(std::make_shared<NamedTask>(journal, 'y', 1), &second);
  }
  for (uint32_t seen = 0; seen < 4; seen = journal.done.count()) journal.done.wait(seen);
  std::string a, x;
  for (const char c : journal.slices) (c < 'x' ? a : x) += c;
  EXPECT_EQ(a, "aaabb");
  EXPECT_EQ(x, "xxxxy");
  // The first slice may have been taken before the other group came.
  EXPECT_EQ(journal.slices.substr(1).find("aa"), std::string::npos) << journal.slices;
}

TEST(MaskWorkers, EveryTaskOfManyThreadsIsDoneOnce) {
  Journal journal;
  constexpr int kThreads = 4;
  constexpr int kTasks = 200;
  MaskWorkers workers(3);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTasks; ++i) {
        workers.post(std::make_shared<NamedTask>(journal, 'a', 1 + i % 3), &threads + (t + i) % 5);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint32_t seen = 0; seen < kThreads * kTasks; seen = journal.done.count()) journal.done.wait(seen);
  EXPECT_EQ(journal.slices.size(), kThreads * (kTasks / 3 * 6 + 1 + 2));
}

TEST(MaskWorkers, EndWithWorkLeft) {
  Journal journal;
  std::weak_ptr<SlicedTask> dropped;
  {
    MaskWorkers workers(1);
    const auto task = std::make_shared<NamedTask>(journal, 'a', 1 << 30);
    dropped = task;
    workers.post(task, nullptr);
  }
  EXPECT_TRUE(dropped.expired());
}

class SlowMasks : public ::testing::Test {
 protected:
  SlowMasks()
      : tokenizer_(Tokenizer::from_file(std::filesystem::path(ASHLAR_SOURCE_DIR) / "models" / "pebble-11m" /
                                        "tokenizer.json")),
        trie_(std::make_shared<const grammar::TokenTrie>(tokenizer_)) {
    std::string pattern;
    for (char a = 'a'; a <= 'z'; ++a) {
      for (char b = 'a'; b <= 'j'; ++b)
        pattern += (pattern.empty() ? "" : "|") + std::string(".*") + a + ".*" + b + "q";
    }
    grammar_ = std::make_shared<grammar::TokenGrammar>(grammar::compile_regex(pattern), trie_, std::vector<int32_t>{0});
  }
  std::unique_ptr<GrammarConstraint> constraint(const std::shared_ptr<MaskWorkers>& workers) {
    return std::make_unique<GrammarConstraint>(grammar::GrammarMatcher(grammar_), &tokenizer_, workers);
  }
  std::vector<uint32_t> mask_of(GrammarConstraint& constraint) {
    std::vector<uint32_t> mask((trie_->vocab() + 31) / 32);
    EXPECT_TRUE(constraint.mask(mask));
    return mask;
  }

  Tokenizer tokenizer_;
  std::shared_ptr<const grammar::TokenTrie> trie_;
  std::shared_ptr<grammar::TokenGrammar> grammar_;
};

TEST_F(SlowMasks, AreFoundElsewhereAndRaiseTheSignal) {
  const auto alone = constraint(nullptr);
  const auto workers = std::make_shared<MaskWorkers>(2);
  const auto signal = std::make_shared<WakeSignal>();
  const auto elsewhere = constraint(workers);
  elsewhere->wake_with(signal);
  int32_t away = 0;
  for (const int32_t token : tokenizer_.encode("some text and jq")) {
    const uint32_t seen = signal->count();
    if (!elsewhere->prepare()) {
      ++away;
      signal->wait(seen);
      EXPECT_FALSE(elsewhere->waits());
    }
    EXPECT_TRUE(elsewhere->prepare());
    EXPECT_EQ(mask_of(*elsewhere), mask_of(*alone));
    alone->advance(token);
    elsewhere->advance(token);
  }
  EXPECT_GT(away, 0);
}

TEST_F(SlowMasks, EndWithTheirAnswer) {
  const auto workers = std::make_shared<MaskWorkers>(1);
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(constraint(workers)->prepare());
  const auto last = constraint(workers);
  last->prepare();
  mask_of(*last);  // those before it cost it no more than a slice
  EXPECT_FALSE(last->waits());
}

}  // namespace
}  // namespace ashlar
