#include "base/time_slices.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace ashlar {
namespace {

// With two cores and 11 million weights (docs/kernels.md) up to 8 answers gain latency and lose no throughput; 16 lose
// 3 to 7 % of it.
constexpr int32_t kFewAnswers = 8;
constexpr uint64_t kShortSlice = 100'000;  // ns, the least that the kernel takes

// struct sched_attr of the kernel in its first version; glibc has it since 2.41.
struct Attributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime;  // of ordinary threads: the slice in ns
  uint64_t deadline;
  uint64_t period;
};

std::atomic<bool> crowded = false;

}  // namespace

void tell_company(int32_t answers) { crowded.store(answers > kFewAnswers, std::memory_order_relaxed); }

void suit_time_slices() {
  thread_local bool is_short = false;
  thread_local uint64_t usual = 0;
  const bool wanted = !crowded.load(std::memory_order_relaxed);
  if (wanted == is_short) return;
  is_short = wanted;
  Attributes attributes = {};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  if (attributes.policy != 0) return;  // somebody has chosen another way to schedule this process
  if (usual == 0) usual = attributes.runtime;
  attributes.runtime = wanted ? kShortSlice : usual;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace ashlar
