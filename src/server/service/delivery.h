// SPDX-License-Identifier: Apache-2.0
#pragma once
// Takes events off the engine's thread: text work and formats run on a thread of their own.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/event_queue.h"

namespace ashlar::server {

/// Gets the events of several answers of one request, on the delivery's thread.
class EventReceiver {
 public:
  virtual ~EventReceiver() = default;
  virtual void on_prompt(int32_t /*answer*/, const PromptChunk& /*chunk*/) {}
  virtual void on_tokens(int32_t answer, const TokenChunk& chunk) = 0;
  virtual void on_end(int32_t answer, const EndEvent& end) = 0;
  /// Nothing more comes for a while: what events made may be sent on, all at once.
  virtual void on_pause() {}
  /// One of the above threw this, memory having run out for instance. Further events come all the same.
  virtual void on_failure(const std::string& /*what*/) {}
};

/// A queue and its thread. What it holds is bounded by what the running requests may generate.
///
/// Tokens that come faster than anybody reads are handed on in groups: what wakes this thread, the connection's and the
/// client's for each token would take the cores from the engine. A group comes 2 ms after the one before, and 8 ms
/// where every answer in it gets tokens faster than one in 8 ms. Tokens of a group that no draft gave become one event.
/// The first tokens after a pause, those of an answer and its end wait for nothing, and take along what their receiver
/// was to get before, but no other's.
class Delivery : public std::enable_shared_from_this<Delivery> {
 public:
  /// `tick` runs on the thread about every 50 ms.
  explicit Delivery(std::function<void()> tick);
  /// stop() has been called.
  ~Delivery();
  void start();
  /// Ends the thread; what is queued is dropped. Not on the delivery's own thread.
  void stop();

  /// A sink for one answer, which keeps the receiver alive until its end has been delivered.
  std::shared_ptr<EventSink> sink(std::shared_ptr<EventReceiver> receiver, int32_t answer);

  /// How soon an event must be handed on.
  enum class Pace : uint8_t { kAtOnce, kUsual, kQuick };
  struct Item {
    std::shared_ptr<EventReceiver> receiver;
    int32_t answer;
    Event event;
    bool at_once = false;  ///< it waits for nothing
  };
  void put(const std::shared_ptr<EventReceiver>& receiver, int32_t answer, Event event, Pace pace);
  /// Queues the end of an answer, at once. A list of one item, which its sink made at the start: nothing is allocated.
  void put_end(std::list<Item> end) noexcept;

 private:
  void run();
  std::list<Item>::iterator after(const EventReceiver* receiver);
  std::list<Item> take_urgent();
  static void hand_on(const Item& item);

  std::function<void()> tick_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::list<Item> items_;  // those of a receiver together
  bool stop_ = false;
  bool gathering_ = false;  // tokens need not wake the thread
  bool at_once_ = false;    // something has been queued that waits for nothing
  bool all_quick_ = true;   // what is queued came quickly
  std::thread thread_;
};

}  // namespace ashlar::server
