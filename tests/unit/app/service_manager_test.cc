// SPDX-License-Identifier: Apache-2.0
#include "app/serve/service_manager.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "temp_folder.h"

namespace ashlar {
namespace {

/// Stands where systemd does: a datagram socket that is listened to.
class Manager {
 public:
  explicit Manager(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    bound_ = bind(fd_, reinterpret_cast<sockaddr*>(&address), size) == 0;
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~Manager() { close(fd_); }
  bool bound() const { return bound_; }
  std::string heard() const {
    char bytes[512];
    const ssize_t n = recv(fd_, bytes, sizeof bytes, 0);
    return n < 0 ? "nothing" : std::string(bytes, static_cast<size_t>(n));
  }

 private:
  int fd_;
  bool bound_ = false;
};

class ServiceManagerTest : public testing::Test {
 protected:
  ~ServiceManagerTest() override {
    for (const char* variable : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(variable);
  }
};

TEST_F(ServiceManagerTest, SaysNothingWithoutASocket) {
  ::setenv("WATCHDOG_USEC", "1000000", 1);
  const ServiceManager manager;
  EXPECT_FALSE(manager.present());
  EXPECT_FALSE(manager.watchdog_interval());
  manager.notify("READY=1");
  for (const char* name : {"", "relative", "@", "/nobody/is/here"}) {
    ::setenv("NOTIFY_SOCKET", name, 1);
    EXPECT_FALSE(ServiceManager().present()) << name;
  }
  ::setenv("NOTIFY_SOCKET", ("/" + std::string(500, 'x')).c_str(), 1);
  EXPECT_FALSE(ServiceManager().present());
}

TEST_F(ServiceManagerTest, TellsOverAPathAndAnAbstractName) {
  const std::string id = std::to_string(::getpid());
  const TempFolder folder;
  for (const std::string& name : {(folder / "notify").string(), "@ashlar_notify_" + id}) {
    const Manager systemd(name);
    ASSERT_TRUE(systemd.bound()) << name;
    const ServiceManager manager;
    EXPECT_TRUE(manager.present());
    EXPECT_EQ(std::getenv("NOTIFY_SOCKET"), nullptr);  // not for children
    manager.notify("READY=1\nSTATUS=x");
    EXPECT_EQ(systemd.heard(), "READY=1\nSTATUS=x");
    EXPECT_EQ(systemd.heard(), "nothing");
  }
}

TEST_F(ServiceManagerTest, TheWatchdogIsFedTwiceAsOftenAsAsked) {
  const Manager systemd("@ashlar_watchdog_" + std::to_string(::getpid()));
  const std::string socket = std::getenv("NOTIFY_SOCKET");
  const auto interval = [&socket](const char* period, const std::string& pid) {
    ::setenv("NOTIFY_SOCKET", socket.c_str(), 1);
    ::setenv("WATCHDOG_USEC", period, 1);
    if (!pid.empty()) ::setenv("WATCHDOG_PID", pid.c_str(), 1);
    const auto found = ServiceManager().watchdog_interval();
    return found ? found->count() : -1;
  };
  EXPECT_EQ(interval("3000000", ""), 1500000);
  EXPECT_EQ(interval("3000000", std::to_string(::getpid())), 1500000);
  EXPECT_EQ(interval("3000000", "1"), -1);  // meant for another process
  EXPECT_EQ(interval("3000000", "x"), -1);
  EXPECT_EQ(interval("0", ""), -1);
  EXPECT_EQ(interval("-5", ""), -1);
  EXPECT_EQ(interval("5s", ""), -1);
}

}  // namespace
}  // namespace ashlar
