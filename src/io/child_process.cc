// SPDX-License-Identifier: Apache-2.0
#include "io/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace ashlar {
namespace {

constexpr int kLowestPriority = 19;
constexpr int kCannotRun = 127;

struct Pipe {
  Pipe() {
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw Error("process", std::string("no pipe: ") + std::strerror(errno));
  }
  ~Pipe() {
    for (const int end : ends) {
      if (end >= 0) close(end);
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int take_reading_end() { return std::exchange(ends[0], -1); }
  std::array<int, 2> ends{-1, -1};
};

// Between fork and exec locks of other threads are never let go: no memory, no library that takes a lock.
[[noreturn]] void become(char* const* argv, pid_t parent, int out, int lines) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kCannotRun);  // which ended before it could be noticed
  setpgid(0, 0);
  setpriority(PRIO_PROCESS, 0, kLowestPriority);
  const int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (score >= 0 && write(score, "1000", 4) < 0) {  // then it is chosen by its size
  }
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
      dup2(lines, STDERR_FILENO) < 0) {
    _exit(kCannotRun);
  }
  // Sockets that others' code opened without the flag, too. Older kernels lack it, and our own files have the flag.
#ifdef SYS_close_range
  syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0);
#endif
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &usual, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execv(argv[0], argv);
  constexpr std::string_view kWhy = "the program cannot be run\n";
  if (write(STDERR_FILENO, kWhy.data(), kWhy.size()) < 0) _exit(kCannotRun);
  _exit(kCannotRun);
}

}  // namespace

ChildProcess::ChildProcess(std::vector<std::string> command, std::function<void(const std::string&)> on_line)
    : on_line_(std::move(on_line)) {
  std::vector<char*> argv;
  for (std::string& part : command) argv.push_back(part.data());
  argv.push_back(nullptr);
  Pipe out, lines;
  const pid_t parent = getpid();
  id_ = fork();
  if (id_ == 0) become(argv.data(), parent, out.ends[1], lines.ends[1]);
  if (id_ < 0) throw Error("process", command.front() + ": no further process: " + std::strerror(errno));
  setpgid(id_, id_);  // here and there: signals to the group must find it
  try {
    reader_ = std::thread([this, a = out.ends[0], b = lines.ends[0]] { read(a, b); });
  } catch (const std::exception& error) {
    end();
    throw Error("process", command.front() + ": no further thread: " + message_of(error));
  }
  out.take_reading_end();  // the reader closes them
  lines.take_reading_end();
}

ChildProcess::~ChildProcess() {
  if (!exit_) end();
  if (reader_.joinable()) reader_.join();
}

// Its number, and that of its group, is its own until it has been waited for: where somebody else did that, both may be
// others' by now.
int ChildProcess::end() {
  siginfo_t info{};
  int status = 0;
  while (waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    if (errno != EINTR) return kCannotRun << 8;
  }
  kill(-id_, SIGKILL);
  while (waitpid(id_, &status, 0) < 0) {
    if (errno != EINTR) return kCannotRun << 8;
  }
  return status;
}

void ChildProcess::pause() {
  if (!exit_) kill(-id_, SIGSTOP);
}
void ChildProcess::resume() {
  if (!exit_) kill(-id_, SIGCONT);
}

std::optional<ChildProcess::Exit> ChildProcess::poll() {
  if (exit_) return exit_;
  siginfo_t info{};
  const int found = waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT);
  if (found == 0 ? info.si_pid == 0 : errno == EINTR) return std::nullopt;
  const int status = end();  // what it started and left goes with it
  exit_ = WIFSIGNALED(status) ? Exit{0, WTERMSIG(status)} : Exit{WEXITSTATUS(status), 0};
  return exit_;
}

std::string ChildProcess::output() {
  if (reader_.joinable()) reader_.join();
  return output_;
}

void ChildProcess::read(int out, int lines) noexcept {
  std::string line;
  std::array<pollfd, 2> ends = {pollfd{out, POLLIN, 0}, pollfd{lines, POLLIN, 0}};
  std::array<char, 4096> bytes;
  const auto take = [&](int fd, const char* begin, size_t n) {
    if (fd == out) {
      output_.append(begin, std::min(n, kMaxOutput - output_.size()));
      return;
    }
    for (const char* c = begin; c != begin + n; ++c) {
      if (*c != '\n') {
        if (line.size() < kLongestLine) line += *c;
        continue;
      }
      if (on_line_ && !line.empty()) on_line_(line);
      line.clear();
    }
  };
  // A last line without an end was cut short.
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    if (::poll(ends.data(), ends.size(), -1) < 0) {
      if (errno == EINTR) continue;
      break;
    }
    for (pollfd& end : ends) {
      if (end.fd < 0 || end.revents == 0) continue;
      const ssize_t n = ::read(end.fd, bytes.data(), bytes.size());
      try {
        if (n > 0) take(end.fd, bytes.data(), static_cast<size_t>(n));
      } catch (const std::exception&) {  // without memory a line is lost; what wrote it must not wait
      }
      if (n == 0 || (n < 0 && errno != EINTR)) end.fd = -1;  // poll() passes over it
    }
  }
  close(out);
  close(lines);
}

}  // namespace ashlar
