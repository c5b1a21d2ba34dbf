// SPDX-License-Identifier: Apache-2.0
// Memory of machines and control groups as the kernel shows them.

#include "base/machine/available_memory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

namespace ashlar::testing {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMiB = int64_t{1} << 20;
std::string mib(int64_t n) { return std::to_string(n * kMiB) + "\n"; }

struct Case {
  const char* name;
  std::map<std::string, std::string> files;  ///< below sys/fs/cgroup, but "cgroup" and "meminfo", which are in proc
  int64_t bytes;
  int64_t group_limit;
};

const std::string kMachine = "MemTotal: 16777216 kB\nMemFree: 1 kB\nMemAvailable: 8388608 kB\n";  // 8192 MiB

std::vector<Case> cases() {
  const std::string v2 = "0::/a.slice/b.service\n", v1 = "9:name=systemd:/x\n4:hugetlb,memory:/docker/abc\nnothing\n";
  return {
      {"NoGroups", {{"meminfo", kMachine}}, 8192 * kMiB, 0},
      {"NothingAtAll", {}, 0, 0},
      {"V2Max", {{"meminfo", kMachine}, {"memory.max", "max\n"}, {"memory.current", mib(5)}}, 8192 * kMiB, 0},
      {"V2Root",
       {{"meminfo", kMachine}, {"memory.max", mib(1000)}, {"memory.current", mib(300)}},
       700 * kMiB,
       1000 * kMiB},
      {"V2LargerThanTheMachine", {{"meminfo", kMachine}, {"memory.max", mib(9000)}}, 8192 * kMiB, 0},
      {"V2UseTakesMoreThanTheMachine",
       {{"meminfo", kMachine}, {"memory.max", mib(9000)}, {"memory.current", mib(3000)}},
       6000 * kMiB,
       9000 * kMiB},
      {"V2PageCacheIsNoUse",
       {{"meminfo", kMachine},
        {"memory.max", mib(1000)},
        {"memory.current", mib(900)},
        {"memory.stat", "anon 1\nactive_file " + mib(100) + "inactive_file " + mib(600) + "shmem 3\n"}},
       800 * kMiB,
       1000 * kMiB},
      {"V2Nested",
       {{"meminfo", kMachine},
        {"cgroup", v2},
        {"a.slice/memory.max", mib(2000)},
        {"a.slice/memory.current", mib(1500)},
        {"a.slice/b.service/memory.max", mib(1000)},
        {"a.slice/b.service/memory.current", mib(100)}},
       500 * kMiB,
       2000 * kMiB},
      {"V2High",
       {{"meminfo", kMachine},
        {"cgroup", v2},
        {"a.slice/b.service/memory.max", mib(1000)},
        {"a.slice/b.service/memory.high", mib(800)},
        {"a.slice/b.service/memory.current", mib(100)}},
       700 * kMiB,
       800 * kMiB},
      {"V2Full", {{"meminfo", kMachine}, {"memory.max", mib(100)}, {"memory.current", mib(120)}}, 0, 100 * kMiB},
      {"V2OutsideOfWhatIsSeen",
       {{"meminfo", kMachine}, {"cgroup", "0::/../../b\n"}, {"memory.max", mib(1000)}},
       1000 * kMiB,
       1000 * kMiB},
      {"V1",
       {{"meminfo", kMachine},
        {"cgroup", v1},
        {"memory/memory.limit_in_bytes", "9223372036854771712\n"},
        {"memory/docker/abc/memory.limit_in_bytes", mib(1000)},
        {"memory/docker/abc/memory.usage_in_bytes", mib(900)},
        {"memory/docker/abc/memory.stat", "inactive_file 0\ntotal_active_file 0\ntotal_inactive_file " + mib(500)}},
       600 * kMiB,
       1000 * kMiB},
      {"V1InItsOwnMount",
       {{"meminfo", kMachine}, {"cgroup", v1}, {"memory/memory.limit_in_bytes", mib(1000)}},
       1000 * kMiB,
       1000 * kMiB},
      {"V1Unlimited",
       {{"meminfo", kMachine}, {"cgroup", v1}, {"memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n"}},
       8192 * kMiB,
       0},
      {"GroupWithoutMeminfo", {{"memory.max", mib(64)}}, 64 * kMiB, 64 * kMiB},
      {"Garbage",
       {{"meminfo", "MemAvailable\nMemAvailable: many kB\n"},
        {"cgroup", ":\n::\n0:\nmemory\n"},
        {"memory.max", "lots\n"},
        {"memory.high", "-5\n"},
        {"memory.current", ""}},
       0,
       0},
      {"GarbageBesideALimit",
       {{"meminfo", kMachine},
        {"memory.max", mib(1000)},
        {"memory.current", "x"},
        {"memory.stat", "inactive_file\n\n7 7 7\ninactive_file x\n"}},
       1000 * kMiB,
       1000 * kMiB},
      {"NumbersBeyondAll",
       {{"meminfo", "MemAvailable: 9223372036854775807 kB\n"},
        {"memory.max", "99999999999999999999999\n"},
        {"memory.stat", "inactive_file 9223372036854775807\nactive_file 9223372036854775807\n"}},
       INT64_MAX / 1024 * 1024,
       0}};
}

class AvailableMemoryTest : public ::testing::TestWithParam<Case> {};

TEST_P(AvailableMemoryTest, IsTheLeastOfMachineAndGroups) {
  const fs::path root = fs::path(::testing::TempDir()) / ("available_memory_" + std::string(GetParam().name));
  fs::remove_all(root);
  for (const auto& [name, text] : GetParam().files) {
    const fs::path path = name == "meminfo"  ? root / "proc/meminfo"
                          : name == "cgroup" ? root / "proc/self/cgroup"
                                             : root / "sys/fs/cgroup" / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  const AvailableMemory found = available_memory(root);
  fs::remove_all(root);
  EXPECT_EQ(found.bytes, GetParam().bytes);
  EXPECT_EQ(found.group_limit, GetParam().group_limit);
  EXPECT_EQ(found.known(), GetParam().bytes > 0 || GetParam().group_limit > 0);
}

INSTANTIATE_TEST_SUITE_P(All, AvailableMemoryTest, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(AvailableMemory, ThisMachineHasSome) { EXPECT_GT(available_memory().bytes, 0); }

}  // namespace
}  // namespace ashlar::testing
