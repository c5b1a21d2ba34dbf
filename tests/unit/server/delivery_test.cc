// SPDX-License-Identifier: Apache-2.0
#include "server/service/delivery.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <new>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>

namespace ashlar::server {
namespace {

// What one answer got, in order.
class Recorder final : public EventReceiver {
 public:
  void on_tokens(int32_t, const TokenChunk& chunk) override { chunks_.push_back(chunk); }
  void on_end(int32_t, const EndEvent&) override { has_ended_ = true; }
  void on_pause() override {
    ++pauses_;
    if (std::exchange(has_ended_, false)) ended_.set_value();
  }

  const std::vector<TokenChunk>& await_end() {
    done_.wait();
    return chunks_;
  }
  int pauses() const { return pauses_; }

 private:
  int pauses_ = 0;
  bool has_ended_ = false;
  std::vector<TokenChunk> chunks_;
  std::promise<void> ended_;
  std::future<void> done_ = ended_.get_future();
};

class DeliveryTest : public testing::Test {
 protected:
  ~DeliveryTest() override { delivery_->stop(); }

  static void put(EventSink& sink, std::vector<int32_t> tokens, int32_t n_drafted = 0) {
    TokensEvent event;
    event.tokens = tokens.data();
    event.n = static_cast<int32_t>(tokens.size());
    event.n_drafted = n_drafted;
    sink.on_tokens(event);
  }

  std::shared_ptr<Delivery> delivery_ = std::make_shared<Delivery>([] {});
  std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
  std::shared_ptr<EventSink> sink_ = delivery_->sink(recorder_, 0);
};

// All is queued before the thread starts: one group.
TEST_F(DeliveryTest, JoinsTokensThatNoDraftGave) {
  for (int32_t id = 0; id < 5; ++id) put(*sink_, {id});
  put(*sink_, {5, 6}, 1);
  put(*sink_, {7, 8}, 1);
  put(*sink_, {9});
  put(*sink_, {10});
  sink_->on_end({});
  delivery_->start();
  std::vector<std::vector<int32_t>> got;
  for (const TokenChunk& chunk : recorder_->await_end()) got.push_back(chunk.tokens);
  EXPECT_EQ(got, (std::vector<std::vector<int32_t>>{{0, 1, 2, 3, 4}, {5, 6}, {7, 8}, {9, 10}}));
  EXPECT_EQ(recorder_->pauses(), 1);
}

TEST_F(DeliveryTest, GivesEveryReceiverItsTokensTogether) {
  const auto other = std::make_shared<Recorder>();
  const auto other_sink = delivery_->sink(other, 0);
  for (int32_t id = 0; id < 6; ++id) put(id % 2 == 0 ? *sink_ : *other_sink, {id}, id == 3 ? 1 : 0);
  sink_->on_end({});
  other_sink->on_end({});
  delivery_->start();
  ASSERT_EQ(recorder_->await_end().size(), 1);
  EXPECT_EQ(recorder_->await_end()[0].tokens, (std::vector<int32_t>{0, 2, 4}));
  EXPECT_EQ(recorder_->pauses(), 1);
  ASSERT_EQ(other->await_end().size(), 3);
  EXPECT_EQ(other->await_end()[2].tokens, std::vector<int32_t>{5});
  EXPECT_EQ(other->pauses(), 1);
}

TEST_F(DeliveryTest, KeepsTheAnswersOfAReceiverApart) {
  const auto second_sink = delivery_->sink(recorder_, 1);
  put(*sink_, {0});
  put(*second_sink, {1});
  put(*sink_, {2});
  sink_->on_end({});
  delivery_->start();
  std::vector<std::vector<int32_t>> got;
  for (const TokenChunk& chunk : recorder_->await_end()) got.push_back(chunk.tokens);
  EXPECT_EQ(got, (std::vector<std::vector<int32_t>>{{0}, {1}, {2}}));
}

// Its tokens wait for the next group, which comes 8 ms later: a busy machine may need several attempts to see it.
TEST_F(DeliveryTest, AnEndTakesAlongItsOwnTokensAndNobodyElses) {
  class Counter final : public EventReceiver {
   public:
    void on_tokens(int32_t, const TokenChunk& chunk) override { count += static_cast<int32_t>(chunk.tokens.size()); }
    void on_end(int32_t, const EndEvent&) override {}
    std::atomic<int32_t> count = 0;
  };
  delivery_->start();
  bool waited = false;
  for (int attempt = 0; attempt < 1000 && !waited; ++attempt) {
    const auto other = std::make_shared<Counter>();
    const auto ending = std::make_shared<Recorder>();
    const auto other_sink = delivery_->sink(other, 0);
    const auto sink = delivery_->sink(ending, 0);
    put(*other_sink, {1});
    while (other->count == 0) std::this_thread::yield();
    put(*other_sink, {2});
    put(*sink, {3});
    put(*sink, {4});
    sink->on_end({});
    const auto& chunks = ending->await_end();
    waited = other->count == 1;
    size_t got = 0;
    for (const TokenChunk& chunk : chunks) got += chunk.tokens.size();
    EXPECT_EQ(got, 2U);
    while (other->count == 1) std::this_thread::yield();
    EXPECT_EQ(other->count, 2);
  }
  EXPECT_TRUE(waited);
}

class Breaking final : public EventReceiver {
 public:
  void on_tokens(int32_t, const TokenChunk&) override { throw std::runtime_error("tokens"); }
  void on_end(int32_t, const EndEvent&) override { throw std::bad_alloc(); }
  void on_pause() override { throw std::runtime_error("pause"); }
  void on_failure(const std::string& what) override {
    failures.push_back(what);
    if (what == "pause") throw std::runtime_error("again");
  }
  std::vector<std::string> failures;
};

TEST_F(DeliveryTest, AReceiverThatBreaksLeavesTheOthersAlone) {
  const auto broken = std::make_shared<Breaking>();
  const auto broken_sink = delivery_->sink(broken, 0);
  put(*broken_sink, {1});
  put(*sink_, {2});
  broken_sink->on_end({});
  sink_->on_end({});
  delivery_->start();
  EXPECT_EQ(recorder_->await_end().size(), 1U);
  delivery_->stop();
  ASSERT_GE(broken->failures.size(), 3U);
  EXPECT_EQ(broken->failures[0], "tokens");
  EXPECT_EQ(std::count(broken->failures.begin(), broken->failures.end(), "out of memory"), 1);
}

TEST_F(DeliveryTest, LosesNothingAtAnyPace) {
  delivery_->start();
  std::vector<int32_t> want;
  for (int32_t id = 0; id < 3000; ++id) {
    put(*sink_, {id});
    want.push_back(id);
    if (id % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  sink_->on_end({});
  std::vector<int32_t> got;
  for (const TokenChunk& chunk : recorder_->await_end()) {
    got.insert(got.end(), chunk.tokens.begin(), chunk.tokens.end());
  }
  EXPECT_EQ(got, want);
}

class Receiver final : public EventReceiver {
 public:
  void on_tokens(int32_t answer, const TokenChunk& chunk) override {
    EXPECT_EQ(answer, 1);
    tokens.insert(tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
  }
  void on_end(int32_t, const EndEvent&) override { ended = true; }
  std::vector<int32_t> tokens;
  std::atomic<bool> ended{false};
};

TEST(Delivery, HandsOnInOrderAndLetsGo) {
  const auto delivery = std::make_shared<Delivery>([] {});
  delivery->start();
  const auto receiver = std::make_shared<Receiver>();
  {
    const auto sink = delivery->sink(receiver, 1);
    for (int32_t i = 0; i < 1000; ++i) sink->on_tokens({&i, 1, 0, nullptr});
    sink->on_end({});
  }
  while (!receiver->ended) std::this_thread::yield();
  std::vector<int32_t> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(receiver->tokens, expected);
  delivery->stop();
  EXPECT_EQ(receiver.use_count(), 1);
  delivery->sink(receiver, 1)->on_end({});  // after the end: nothing happens
}

}  // namespace
}  // namespace ashlar::server
