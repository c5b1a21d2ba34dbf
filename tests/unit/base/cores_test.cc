// SPDX-License-Identifier: Apache-2.0
// Topologies and control groups as the kernel shows them.

#include "base/machine/cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace ashlar::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

class CoresTest : public ::testing::Test {
 protected:
  CoresTest()
      : root_(fs::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(root_);
  }
  ~CoresTest() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  void siblings(int cpu, const std::string& list) const {
    write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list", list + "\n");
  }
  std::vector<int> order(const std::vector<int>& allowed) const {
    std::vector<int> ids;
    for (const Cpu& cpu : usable_cores(allowed, root_).cpus) ids.push_back(cpu.id);
    return ids;
  }
  int32_t workers(const std::vector<int>& allowed) const { return usable_cores(allowed, root_).workers(); }

  const fs::path root_;
  const std::vector<int> eight_ = {0, 1, 2, 3, 4, 5, 6, 7};
};

TEST_F(CoresTest, OneThreadOfEachCoreComesFirst) {
  for (int cpu = 0; cpu < 8; ++cpu) siblings(cpu, std::to_string(cpu / 2 * 2) + "-" + std::to_string(cpu / 2 * 2 + 1));
  EXPECT_THAT(order(eight_), ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
  EXPECT_EQ(workers(eight_), 4);
  EXPECT_EQ(usable_cores(eight_, root_).cpus[4].core, 0);
  for (int cpu = 0; cpu < 8; ++cpu) siblings(cpu, std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4));
  EXPECT_THAT(order(eight_), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(workers(eight_), 4);
  EXPECT_THAT(order({2, 6, 7}), ElementsAre(2, 7, 6));  // of a core only the second thread may be usable
  EXPECT_EQ(workers({2, 6, 7}), 2);
}

TEST_F(CoresTest, WithoutATopologyEachIsACore) {
  EXPECT_THAT(order({3, 5}), ElementsAre(3, 5));
  EXPECT_EQ(workers({3, 5}), 2);
  siblings(3, "what");
  siblings(5, "-7");
  EXPECT_THAT(order({3, 5}), ElementsAre(3, 5));
  EXPECT_EQ(workers({}), 1);
}

TEST_F(CoresTest, ControlGroupsLimitThreads) {
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(workers(eight_), 8);
  write("sys/fs/cgroup/cpu.max", "250000 100000\n");
  EXPECT_EQ(workers(eight_), 2);
  EXPECT_DOUBLE_EQ(usable_cores(eight_, root_).granted, 2.5);
  write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(workers(eight_), 1);
  write("sys/fs/cgroup/cpu.max", "9000000 100000\n");
  EXPECT_EQ(workers(eight_), 8);
  write("sys/fs/cgroup/cpu.max", "-3 100000\n");
  EXPECT_EQ(workers(eight_), 8);
}

// A service's limit may stand at any of the groups around it.
TEST_F(CoresTest, TheLeastOfTheGroupsAroundCounts) {
  write("proc/self/cgroup", "0::/system.slice/ashlar.service\n");
  write("sys/fs/cgroup/system.slice/cpu.max", "300000 100000\n");
  EXPECT_EQ(workers(eight_), 3);
  write("sys/fs/cgroup/system.slice/ashlar.service/cpu.max", "500000 100000\n");
  EXPECT_EQ(workers(eight_), 3);
  write("sys/fs/cgroup/system.slice/ashlar.service/cpu.max", "100000 100000\n");
  EXPECT_EQ(workers(eight_), 1);
}

TEST_F(CoresTest, FirstVersionOfControlGroups) {
  write("proc/self/cgroup", "9:name=systemd:/x\n4:cpuset,cpu:/docker/abc\nnothing\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(workers(eight_), 8);
  write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "400000\n");
  EXPECT_EQ(workers(eight_), 4);
}

TEST_F(CoresTest, ThisMachineHasSome) {
  const Cores cores = usable_cores();
  EXPECT_GE(cores.workers(), 1);
  EXPECT_LE(cores.workers(), cores.cores);
  EXPECT_LE(static_cast<size_t>(cores.cores), cores.cpus.size());
}

}  // namespace
}  // namespace ashlar::testing
