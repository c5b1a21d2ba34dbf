// SPDX-License-Identifier: Apache-2.0
#include "app/line_writer.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <thread>

namespace ashlar {
namespace {

// What a pipe takes at once if it takes anything, so that a write after poll() does not block.
constexpr size_t kPiece = 4096;
constexpr int kLook_ms = 100;
constexpr std::chrono::milliseconds kAtEnd{500};

// Other threads get the program's signals: one that came here would end the program at once.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace

struct LineWriter::State {
  explicit State(int descriptor) : fd(descriptor) {}

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return stop || !queued.empty(); });
      if (queued.empty()) break;
      writing.swap(queued);
      busy = true;
      lock.unlock();
      const bool all = write_all();
      lock.lock();
      writing.clear();
      busy = false;
      ++progress;
      changed.notify_all();
      if (!all) break;
    }
    ended = true;
    changed.notify_all();
  }

  // False if it was asked to stop before. What the descriptor refuses for another reason than being full is lost: to
  // say so on the same descriptor would not help.
  bool write_all() {
    for (size_t at = 0; at < writing.size();) {
      pollfd item{fd, POLLOUT, 0};
      const int ready = poll(&item, 1, kLook_ms);
      if (ready == 0) {
        const std::lock_guard lock(mutex);
        if (give_up) return false;
        continue;
      }
      if (ready < 0 && errno == EINTR) continue;
      const ssize_t n = ::write(fd, writing.data() + at, std::min(kPiece, writing.size() - at));
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n <= 0) return true;
      at += static_cast<size_t>(n);
      const std::lock_guard lock(mutex);
      ++progress;
      changed.notify_all();
    }
    return true;
  }

  const int fd;
  std::string writing;  // the thread's
  std::mutex mutex;
  std::condition_variable changed;
  std::string queued;
  bool busy = false;  // the thread has taken what was queued
  uint64_t progress = 0;
  bool stop = false;     // once all is written
  bool give_up = false;  // as soon as nothing can be written
  bool ended = false;
};

LineWriter::LineWriter(int fd) : state_(std::make_shared<State>(fd)) {
  const SignalsBlocked blocked;
  std::thread([state = state_] { state->run(); }).detach();
}

LineWriter::~LineWriter() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->changed.notify_all();
  flush(kAtEnd);
  std::unique_lock lock(state_->mutex);
  state_->give_up = true;
  // A thread that does not end now is stuck in a write, and ends with the program.
  state_->changed.wait_for(lock, kAtEnd, [this] { return state_->ended; });
}

bool LineWriter::add(const std::string& line) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->queued.size() + line.size() > kMaxQueued) return false;
    state_->queued += line;
  }
  state_->changed.notify_all();
  return true;
}

bool LineWriter::has_room() const {
  const std::lock_guard lock(state_->mutex);
  return state_->queued.size() < kMaxQueued / 2;
}

void LineWriter::flush(std::chrono::milliseconds patience) {
  std::unique_lock lock(state_->mutex);
  const auto done = [this] { return state_->ended || (state_->queued.empty() && !state_->busy); };
  while (!done()) {
    const uint64_t before = state_->progress;
    const bool moved = state_->changed.wait_for(lock, patience, [&] { return done() || state_->progress != before; });
    if (!moved) return;
  }
}

}  // namespace ashlar
