// SPDX-License-Identifier: Apache-2.0
#include "app/chat/line_signals.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace ashlar {
namespace {

// A handler can do little more than set these and write a byte, which wakes the thread that waits: the system may have
// run the handler on another one.
volatile std::sig_atomic_t line_interrupted = 0, window_resized = 0;
int wake_pipe[2] = {-1, -1};

void wake(int signal) {
  const int error = errno;
  (signal == SIGINT ? line_interrupted : window_resized) = 1;
  [[maybe_unused]] const ssize_t full_is_as_good = write(wake_pipe[1], "", 1);
  errno = error;
}

}  // namespace

LineSignals::LineSignals() {
  // It stays open: a handler may still run on another thread when this is gone.
  if (wake_pipe[0] < 0 && pipe2(wake_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
    throw std::system_error(errno, std::system_category(), "[chat] no pipe for signals");
  line_interrupted = 0;
  window_resized = 0;
  struct sigaction action {};
  action.sa_handler = wake;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &old_interrupt_);
  sigaction(SIGWINCH, &action, &old_resize_);
}

LineSignals::~LineSignals() {
  sigaction(SIGINT, &old_interrupt_, nullptr);
  sigaction(SIGWINCH, &old_resize_, nullptr);
}

LineSignals::Event LineSignals::wait(int fd) const {
  for (;;) {
    if (line_interrupted != 0) return Event::kInterrupt;
    if (window_resized != 0) {
      window_resized = 0;
      return Event::kResize;
    }
    pollfd waits[] = {{fd, POLLIN, 0}, {wake_pipe[0], POLLIN, 0}};
    if (poll(waits, 2, -1) < 0) {
      if (errno != EINTR) return Event::kInput;  // reading says what is wrong
      continue;
    }
    if (waits[1].revents != 0) {
      char bytes[64];
      while (read(wake_pipe[0], bytes, sizeof bytes) > 0) {
      }
      continue;
    }
    if (waits[0].revents != 0) return Event::kInput;
  }
}

bool LineSignals::interrupted() { return line_interrupted != 0; }

}  // namespace ashlar
