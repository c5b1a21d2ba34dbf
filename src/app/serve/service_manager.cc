// SPDX-License-Identifier: Apache-2.0
#include "app/serve/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace ashlar {
namespace {

std::optional<int64_t> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  int64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value <= 0) return std::nullopt;
  return value;
}

int connected_socket(const char* name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t size = std::strlen(name);
  // A path, or with @ a name in the abstract namespace, whose first byte is zero.
  if (size < 2 || size >= sizeof address.sun_path || (name[0] != '/' && name[0] != '@')) return -1;
  std::memcpy(address.sun_path, name, size);
  if (name[0] == '@') address.sun_path[0] = '\0';
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0) return fd;
  close(fd);
  return -1;
}

}  // namespace

ServiceManager::ServiceManager() {
  const char* name = std::getenv("NOTIFY_SOCKET");
  if (name != nullptr) fd_ = connected_socket(name);
  const auto period = number_in("WATCHDOG_USEC");
  const auto pid = number_in("WATCHDOG_PID");
  const bool meant = std::getenv("WATCHDOG_PID") == nullptr || pid == int64_t{getpid()};
  if (fd_ >= 0 && period && meant) interval_ = std::chrono::microseconds(std::max<int64_t>(1, *period / 2));
  for (const char* variable : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) unsetenv(variable);
}

ServiceManager::~ServiceManager() {
  if (fd_ >= 0) close(fd_);
}

void ServiceManager::notify(const std::string& state) const {
  if (fd_ >= 0) (void)!send(fd_, state.data(), state.size(), MSG_NOSIGNAL);
}

}  // namespace ashlar
