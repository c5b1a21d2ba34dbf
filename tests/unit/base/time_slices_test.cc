#include "base/time_slices.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <thread>

namespace ashlar {
namespace {

/// The calling thread's slice in ns as the kernel tells it; 0 where ordinary threads have none of their own.
uint64_t slice() {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attributes = {};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0 || attributes.policy != 0) return 0;
  return attributes.runtime;
}

TEST(TimeSlices, AreShortWhileFewAnswersAreUnderWay) {
  const uint64_t usual = slice();
  if (usual <= 100'000) GTEST_SKIP() << "this kernel has no slices of threads, or none that are longer";
  uint64_t few = 0, many = 0, few_again = 0;
  std::thread([&] {
    tell_company(8);
    suit_time_slices();
    few = slice();
    tell_company(9);
    suit_time_slices();
    many = slice();
    tell_company(0);
    suit_time_slices();
    few_again = slice();
  }).join();
  EXPECT_LT(few, usual);
  EXPECT_EQ(many, usual);
  EXPECT_EQ(few_again, few);
  EXPECT_EQ(slice(), usual) << "of another thread";
}

}  // namespace
}  // namespace ashlar
