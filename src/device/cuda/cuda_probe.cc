// SPDX-License-Identifier: Apache-2.0
// How fast this GPU moves what lies in its memory, and multiplies, by its own clock.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/error.h"
#include "device/cuda/cuda_ops_impl.h"
#include "device/cuda/cuda_status.h"

namespace ashlar::cuda {
namespace {

constexpr int64_t kMaxBytes = int64_t{2} << 30;  // many times what a second-level cache holds
constexpr int64_t kMinBytes = int64_t{256} << 20;
constexpr int64_t kUnit = 4096;
constexpr double kMultiplySeconds = 0.05;  // long enough for a steady clock
constexpr int32_t kFewRounds = 500;

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  double seconds_since(const Event& begin) const {
    check(cudaEventSynchronize(event_), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.event_, event_), "cudaEventElapsedTime");
    return milliseconds * 1e-3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaProbe final : public DeviceProbe {
 public:
  CudaProbe(Memory& memory, int64_t bytes, bool hopper)
      : memory_(memory),
        hopper_(hopper),
        bytes_(bytes / (2 * kUnit) * (2 * kUnit)),
        buffer_(memory.allocate(static_cast<size_t>(bytes_) + sizeof(uint32_t))) {
    check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, memory.device()),
          "cudaDeviceGetAttribute");
  }
  ~CudaProbe() override {
    if (watches_) memory_.watch(nullptr);
  }

  int64_t bytes() const override { return bytes_; }
  double read() override {
    return timed([this] {
      read_memory(memory_.stream(), buffer_->data(), bytes_, multiprocessors_,
                  reinterpret_cast<uint32_t*>(buffer_->data() + bytes_));
      check_launch("read_memory");
    });
  }
  double copy() override {
    return timed(
        [this] { memory_.copy(buffer_->data(), buffer_->data() + bytes_ / 2, static_cast<size_t>(bytes_ / 2)); });
  }
  double multiply() override {
    const double few = timed([this] { multiply(kFewRounds); });
    const auto rounds = static_cast<int32_t>(std::clamp(kMultiplySeconds / few, 1.0, 1e5) * kFewRounds);
    double operations = 0;
    const double seconds = timed([&] { operations = multiply(rounds); });
    return operations / seconds;
  }
  void watch() override {
    static_assert(sizeof(Stamps) < kMinBytes);
    watches_ = true;
    memory_.watch(stamps());
    const uint32_t none = 0;
    memory_.upload(&none, buffer_->data() + offsetof(Stamps, n), sizeof(none));
    launches_before_ = memory_.loose_launches();
  }
  DeviceWork work() override {
    uint32_t n = 0;
    memory_.download(buffer_->data() + offsetof(Stamps, n), &n, sizeof(n));
    std::vector<uint64_t> at(n);
    memory_.download(buffer_->data() + offsetof(Stamps, at), at.data(), sizeof(uint64_t) * n);
    DeviceWork work;
    work.loose_launches = memory_.loose_launches() - launches_before_;
    if (at.empty()) return work;
    // In stream order: begin, end, begin, end.
    uint64_t busy = 0;
    for (size_t i = 1; i < at.size(); ++i) {
      if (at[i] % 2 == 1 && at[i - 1] % 2 == 0) busy += at[i] / 2 - at[i - 1] / 2;
    }
    const uint64_t all = at.back() / 2 - at.front() / 2;
    work.seconds = static_cast<double>(all) * 1e-9;
    work.idle = static_cast<double>(all - busy) * 1e-9;
    return work;
  }

  void mark() override {
    if (n_marks_ == marks_.size()) marks_.push_back(std::make_unique<Event>());
    marks_[n_marks_++]->record(memory_.queue());
  }
  std::vector<double> take_marks() override {
    std::vector<double> seconds;
    for (size_t i = 0; i < n_marks_; ++i) seconds.push_back(marks_[i]->seconds_since(*marks_.front()));
    n_marks_ = 0;
    return seconds;
  }

 private:
  Stamps* stamps() { return reinterpret_cast<Stamps*>(buffer_->data()); }

  double multiply(int32_t rounds) {
    auto* const sink = reinterpret_cast<float*>(buffer_->data() + bytes_);
    const double operations = hopper_ ? multiply_hopper(memory_.stream(), rounds, multiprocessors_, sink)
                                      : cuda::multiply(memory_.stream(), rounds, multiprocessors_, sink);
    check_launch("multiply");
    return operations;
  }

  template <class Work>
  double timed(const Work& work) {
    begin_.record(memory_.queue());
    work();
    end_.record(memory_.queue());
    return end_.seconds_since(begin_);
  }

  Memory& memory_;
  bool hopper_;
  int64_t bytes_;
  std::unique_ptr<Buffer> buffer_;
  int32_t multiprocessors_ = 0;
  bool watches_ = false;
  int64_t launches_before_ = 0;
  Event begin_, end_;
  std::vector<std::unique_ptr<Event>> marks_;  // made as they are needed, and used again
  size_t n_marks_ = 0;
};

}  // namespace

std::unique_ptr<DeviceProbe> CudaOps::device_probe(int64_t bytes) {
  // The host's caches and memory, which the wish may come from, say little of this device's; and the models that are
  // measured may have left little room.
  for (int64_t size = std::clamp(bytes, kMinBytes, kMaxBytes);; size /= 2) {
    try {
      return std::make_unique<CudaProbe>(memory_, size, hopper_multiprocessors_ > 0);
    } catch (const Error&) {
      if (size <= kMinBytes) throw;
    }
  }
}

}  // namespace ashlar::cuda
