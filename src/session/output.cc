// SPDX-License-Identifier: Apache-2.0
#include "session/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace ashlar {
namespace {

std::atomic<int> first_error{0};

void remember(int error) {
  int none = 0;
  first_error.compare_exchange_strong(none, error != 0 ? error : EIO);
}

}  // namespace

void hold_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is `fd` itself. The wrong direction, so that its use fails as that of a closed one.
    [[maybe_unused]] const int held = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void write_output(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) remember(errno);
}

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) != 0) {
    remember(errno);
  } else if (std::ferror(stdout) != 0) {  // of a write elsewhere, whose reason is gone
    remember(EIO);
  }
}

int output_error() { return first_error; }

void check_output() {
  if (const int why = first_error; why != 0)
    throw Error("output", std::string("standard output: ") + std::strerror(why));
}

}  // namespace ashlar
