// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which of the tasks that wait runs next. No threads and no clock: the caller reports what a task cost.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace ashlar::server {

/// Shares time among clients, however many tasks each has: the one that has used least goes next, counted from when it
/// last had nothing waiting. What tasks cost is learned for each client, kind and size. Of one client's tasks the one
/// expected to be cheapest goes next, unless others went before an older one for more than a second. Tasks expected to
/// take long leave a place to those that are not. Not thread-safe. Only push() may throw, and changes nothing then.
class FairQueue {
 public:
  struct Task {
    std::function<void()> run = {};
    std::function<bool()> wanted = {};  ///< asked before it runs; null: yes
    uint64_t client = 0;
    std::string kind = {};  ///< tasks of one kind and about one size cost about the same
    size_t bytes = 0;
  };
  struct Taken {
    Task task;
    double expected_s = 0;
    bool is_long = false;
  };

  void push(Task task);
  /// The next task, whose expected cost is charged at once; nothing if none may run. `long_too`: tasks that are
  /// expected to take long may.
  std::optional<Taken> take(bool long_too) noexcept;
  bool can_take(bool long_too) noexcept { return choose(long_too) != nullptr; }
  /// What a task that was taken did cost.
  void done(const Taken& taken, double seconds) noexcept;
  /// A task that was taken did not run.
  void dropped(const Taken& taken) noexcept;
  size_t size() const { return size_; }

  static constexpr double kLong_s = 0.2;
  static constexpr double kOvertaken_s = 1.0;

 private:
  using Class = std::pair<std::string, int>;  // kind, and the size's number of bits
  struct Waiting {
    Task task;
    uint64_t number;         // in the order of their coming
    double overtaken_s = 0;  // cost of younger tasks that went before it while it was the oldest of its class
  };
  struct Client {
    double used_s = 0;
    uint64_t id = 0;
    uint64_t last = 0;  // number of its newest task
    size_t waiting = 0, running = 0;
    std::map<Class, std::deque<Waiting>> tasks;  // none empty
    std::map<Class, double> costs_s;             // learned
  };
  using Tasks = std::map<Class, std::deque<Waiting>>;

  static double expected(const Client& client, const Class& of, size_t bytes);
  static bool is_long(double expected_s, size_t bytes);
  static Tasks::iterator choose(Client& client, bool long_too);
  Client* choose(bool long_too);
  void forget_idle();

  std::map<uint64_t, Client> clients_;
  std::set<uint64_t> waiting_;  // those of whose tasks some wait
  double used_s_ = 0;           // of the client that was served last when it was: where one that comes back begins
  uint64_t number_ = 0;
  size_t size_ = 0;
};

}  // namespace ashlar::server
