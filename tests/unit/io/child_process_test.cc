// SPDX-License-Identifier: Apache-2.0
#include "io/child_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <mutex>

#include "temp_folder.h"

namespace ashlar {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Exit = ChildProcess::Exit;

class ChildProcessTest : public testing::Test {
 protected:
  void run(const std::string& script) {
    child_.emplace(std::vector<std::string>{"/bin/sh", "-c", script}, [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
    });
  }
  template <typename Condition>
  static bool eventually(const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      usleep(2000);
    }
    return true;
  }
  Exit end() {
    std::optional<Exit> exit;
    EXPECT_TRUE(eventually([&] { return (exit = child_->poll()).has_value(); }));
    return exit.value_or(Exit{-1, -1});
  }
  size_t lines() {
    const std::lock_guard lock(mutex_);
    return lines_.size();
  }
  // "S", "T" where it is stopped, "Z" where no one waited for its end; "" where there is none.
  static std::string state(pid_t id) {
    std::ifstream file("/proc/" + std::to_string(id) + "/stat");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    return text.empty() ? "" : text.substr(text.rfind(')') + 2, 1);
  }

  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::optional<ChildProcess> child_;
};

TEST_F(ChildProcessTest, SaysWhatItWroteAndHowItEnded) {
  run("echo one >&2; echo answer; printf 'two\\n\\nhalf' >&2; head -c 100000 /dev/zero >&2; echo >&2; exit 3");
  EXPECT_EQ(end(), (Exit{3, 0}));
  EXPECT_EQ(child_->output(), "answer\n");
  ASSERT_EQ(lines(), 3U);
  EXPECT_THAT(std::vector<std::string>(lines_.begin(), lines_.begin() + 2), ElementsAre("one", "two"));
  EXPECT_EQ(lines_[2].size(), ChildProcess::kLongestLine);
  run("head -c 1000000 /dev/zero");
  EXPECT_EQ(end(), (Exit{0, 0}));
  EXPECT_EQ(child_->output().size(), ChildProcess::kMaxOutput);
  run("kill -9 $$");
  EXPECT_EQ(end(), (Exit{0, SIGKILL}));
  child_.emplace(std::vector<std::string>{"/no/such/program"}, nullptr);
  EXPECT_EQ(end(), (Exit{127, 0}));
}

// Its number may be another's by then, and so may its group's.
TEST_F(ChildProcessTest, SendsNoSignalOnceSomebodyElseWaitedForIt) {
  run("sleep 1000 >/dev/null 2>&1 & echo $!");
  ASSERT_EQ(waitpid(child_->id(), nullptr, 0), child_->id());
  EXPECT_EQ(end(), (Exit{127, 0}));
  const pid_t left = std::stoi(child_->output());
  // At the lowest priority it may take its time to begin.
  EXPECT_TRUE(eventually([&] { return state(left) == "S"; }));
  kill(left, SIGKILL);
}

// Nothing of what a server does to itself holds for it, and none of its files is there.
TEST_F(ChildProcessTest, BeginsWithNothingOfItsParent) {
  const int file = dup(STDERR_FILENO);  // without the flag
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto ignored = std::signal(SIGUSR1, SIG_IGN);
  // The shell itself blocks signals while it begins a program.
  run("ls /proc/$$/fd; grep -E 'SigBlk|SigIgn' /proc/self/status; cut -d ' ' -f 5,19 /proc/$$/stat; echo $$; "
      "cat /proc/$$/oom_score_adj; cat");
  std::signal(SIGUSR1, ignored);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(end(), (Exit{0, 0}));
  const std::string id = std::to_string(child_->id());
  EXPECT_EQ(child_->output(),
            "0\n1\n2\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n" + id + " 19\n" + id + "\n1000\n");
  close(file);
}

TEST_F(ChildProcessTest, StopsGoesOnAndIsKilledWhileItIsStopped) {
  run("while true; do echo line >&2; sleep 0.01; done");
  ASSERT_TRUE(eventually([&] { return lines() > 3; }));
  child_->pause();
  // D where it waits for a program that it has just begun, and which is stopped.
  ASSERT_TRUE(eventually([&] { return state(child_->id()) == "T" || state(child_->id()) == "D"; }));
  size_t then = 0;
  EXPECT_TRUE(eventually([&] {  // after what was in the pipe
    then = lines();
    usleep(100'000);
    return lines() == then;
  }));
  EXPECT_EQ(child_->poll(), std::nullopt);
  child_->resume();
  EXPECT_TRUE(eventually([&] { return lines() > then; }));
  child_->pause();
  const pid_t id = child_->id();
  child_.reset();
  EXPECT_EQ(state(id), "");
}

// Stopped as it is, when its parent has no time for farewells.
TEST_F(ChildProcessTest, DiesWithItsParent) {
  const TempFolder folder;
  const std::string named = folder / "id";
  const pid_t parent = fork();
  if (parent == 0) {
    const ChildProcess child(
        {"/bin/sh", "-c", "echo $$ >" + named + ".new; mv " + named + ".new " + named + "; sleep 1000"}, nullptr);
    while (access(named.c_str(), R_OK) != 0) usleep(1000);
    kill(-child.id(), SIGSTOP);
    raise(SIGKILL);
  }
  waitpid(parent, nullptr, 0);
  pid_t id = 0;
  ASSERT_TRUE(std::ifstream(named) >> id);
  EXPECT_TRUE(eventually([&] { return state(id).empty() || state(id) == "Z"; }));
}

}  // namespace
}  // namespace ashlar
