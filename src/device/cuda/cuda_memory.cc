// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_memory.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "device/cuda/cuda_status.h"

namespace ashlar::cuda {
namespace {

constexpr size_t kPinned = size_t{4} << 20;  // bytes each way; a step uploads a few KiB
constexpr size_t kAlignment = 64;
// What no plan counts: code of kernels, which the driver loads when they first run, and their stacks; recorded passes
// (16,384 kernels are 46 MiB), values of weights of few bits (64 MiB) and other scratch between two kernels of an op.
constexpr int64_t kReserved = int64_t{512} << 20;

}  // namespace

class Memory::StreamBuffer final : public Buffer {
 public:
  StreamBuffer(Memory& memory, size_t bytes) : memory_(memory), size_(bytes) {
    void* data = nullptr;
    const size_t taken = std::max(bytes, size_t{1});
    enter_device(memory.device_);
    check(cudaMallocFromPoolAsync(&data, taken, memory.pool_, memory.stream_),
          "cudaMallocFromPoolAsync of " + std::to_string(taken) + " bytes");
    data_ = static_cast<std::byte*>(data);
    const cudaError_t zeroed = cudaMemsetAsync(data_, 0, taken, memory.stream_);
    if (zeroed != cudaSuccess) cudaFreeAsync(data_, memory.stream_);
    check(zeroed, "cudaMemsetAsync");
  }
  ~StreamBuffer() override {
    memory_.freed_.fetch_add(1, std::memory_order_relaxed);
    cudaSetDevice(memory_.device_);
    cudaFreeAsync(data_, memory_.stream_);
  }
  std::byte* data() override { return data_; }
  size_t size() const override { return size_; }

 private:
  Memory& memory_;
  size_t size_;
  std::byte* data_ = nullptr;
};

Memory::Memory(int32_t device) : device_(device) {
  enter_device(device_);
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check(cudaStreamCreateWithFlags(&recorder_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, device_};
  check(cudaMemPoolCreate(&pool_, &properties), "cudaMemPoolCreate");
  uint64_t keep = UINT64_MAX;  // what was given back serves again, instead of going to the driver
  check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep), "cudaMemPoolSetAttribute");
  for (std::byte** buffer : {&outgoing_, &incoming_}) {
    check(cudaMallocHost(reinterpret_cast<void**>(buffer), kPinned), "cudaMallocHost");
  }
}

Memory::~Memory() {
  cudaSetDevice(device_);
  cudaStreamSynchronize(stream_);
  cudaFreeHost(fetched_);
  cudaFreeHost(incoming_);
  cudaFreeHost(outgoing_);
  if (pool_ != nullptr) cudaMemPoolDestroy(pool_);
  cudaStreamDestroy(recorder_);
  cudaStreamDestroy(stream_);
}

cudaStream_t Memory::queue() const {
  enter_device(device_);
  return records_here() ? recorder_ : stream_;
}

cudaStream_t Memory::stream() {
  const cudaStream_t to = queue();
  if (to == stream_) {
    loose_launches_.fetch_add(1, std::memory_order_relaxed);
    begin_loose();
  }
  return to;
}

cudaStream_t Memory::stream_of_passes() {
  end_loose();
  return queue();
}

void Memory::watch(Stamps* stamps) {
  end_loose();
  if (stamps_.exchange(stamps, std::memory_order_relaxed) == stamps) return;
  freed_.fetch_add(1, std::memory_order_relaxed);  // recordings have stamps, or none
}

void Memory::mark_recording(bool end) {
  if (Stamps* const stamps = stamps_.load(std::memory_order_relaxed); stamps != nullptr) stamp(queue(), stamps, end);
}

void Memory::begin_loose() {
  Stamps* const stamps = stamps_.load(std::memory_order_relaxed);
  if (stamps == nullptr || is_loose_.exchange(true, std::memory_order_relaxed)) return;
  stamp(stream_, stamps, false);
}

void Memory::end_loose() {
  Stamps* const stamps = stamps_.load(std::memory_order_relaxed);
  if (stamps == nullptr || !is_loose_.exchange(false, std::memory_order_relaxed)) return;
  stamp(stream_, stamps, true);
}

AvailableMemory Memory::available() const {
  enter_device(device_);
  int shares = 0;
  check(cudaDeviceGetAttribute(&shares, cudaDevAttrIntegrated, device_), "cudaDeviceGetAttribute");
  if (shares != 0) return available_memory();
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  uint64_t held = 0, used = 0;
  check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &held), "cudaMemPoolGetAttribute");
  check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemCurrent, &used), "cudaMemPoolGetAttribute");
  const int64_t left = static_cast<int64_t>(free) + static_cast<int64_t>(held - std::min(used, held));
  AvailableMemory out;
  out.owner = "the GPU";
  out.total = static_cast<int64_t>(total);
  out.reserved = std::min(left, kReserved);
  out.bytes = left - out.reserved;
  return out;
}

std::unique_ptr<Buffer> Memory::allocate(size_t bytes) { return std::make_unique<StreamBuffer>(*this, bytes); }

Memory::Recording::Recording(Memory& memory) : memory_(memory) {
  // Relaxed: memory in the order of the other stream may be made and freed meanwhile.
  check(cudaStreamBeginCapture(memory_.recorder_, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  memory_.recording_.store(std::this_thread::get_id(), std::memory_order_relaxed);
}

Memory::Recording::~Recording() {
  if (!records_) return;
  if (cudaGraph_t graph = take(); graph != nullptr) cudaGraphDestroy(graph);
}

cudaGraph_t Memory::Recording::take() {
  records_ = false;
  memory_.recording_.store({}, std::memory_order_relaxed);
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(memory_.recorder_, &graph) == cudaSuccess) return graph;
  cudaGetLastError();  // the next check is not about this
  return nullptr;
}

void Memory::wait() {
  enter_device(device_);
  const int64_t begin = now_ns();
  check(cudaStreamSynchronize(stream_), "waiting for the GPU");
  const int64_t launches = loose_launches() + recorded_launches_.load(std::memory_order_relaxed);
  const int64_t kernels = launches - launches_before_wait_.exchange(launches, std::memory_order_relaxed);
  if (kernels > 0) wait_of_kernel_ns_.store((now_ns() - begin) / kernels, std::memory_order_relaxed);
}

void Memory::upload(const void* from, std::byte* to, size_t bytes) {
  ASHLAR_CHECK(!records_here());  // it would be done once, and not again with the graph
  const std::lock_guard lock(mutex_);
  const auto* next = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    if (used_ == kPinned) {
      wait();
      used_ = 0;
    }
    const size_t part = std::min(bytes, kPinned - used_);
    std::memcpy(outgoing_ + used_, next, part);
    check(cudaMemcpyAsync(to, outgoing_ + used_, part, cudaMemcpyHostToDevice, queue()), "copying to the GPU");
    used_ = std::min(kPinned, (used_ + part + kAlignment - 1) / kAlignment * kAlignment);
    next += part, to += part, bytes -= part;
  }
}

void Memory::download(const std::byte* from, void* to, size_t bytes) {
  ASHLAR_CHECK(!records_here());
  const std::lock_guard lock(mutex_);
  auto* next = static_cast<std::byte*>(to);
  end_loose();
  while (bytes > 0) {
    const size_t part = std::min(bytes, kPinned);
    check(cudaMemcpyAsync(incoming_, from, part, cudaMemcpyDeviceToHost, queue()), "copying from the GPU");
    wait();
    std::memcpy(next, incoming_, part);
    from += part, next += part, bytes -= part;
  }
  used_ = 0;  // all that was on its way has arrived
}

std::byte* Memory::fetch(const std::byte* from, size_t bytes) {
  ASHLAR_CHECK(!records_here());
  if (bytes > fetched_size_) {
    cudaFreeHost(fetched_);
    fetched_ = nullptr;
    fetched_size_ = 0;
    enter_device(device_);
    check(cudaMallocHost(reinterpret_cast<void**>(&fetched_), bytes), "cudaMallocHost");
    fetched_size_ = bytes;
  }
  const std::lock_guard lock(mutex_);
  end_loose();
  check(cudaMemcpyAsync(fetched_, from, bytes, cudaMemcpyDeviceToHost, queue()), "copying from the GPU");
  wait();
  used_ = 0;
  return fetched_;
}

void Memory::copy(const std::byte* from, std::byte* to, size_t bytes) {
  ASHLAR_CHECK(!records_here());
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, queue()), "copying on the GPU");
}

void* Scratch::reserve(size_t bytes) {
  if (buffer_ == nullptr || buffer_->size() < bytes) {
    buffer_.reset();
    buffer_ = memory_.allocate(bytes);
  }
  return buffer_->data();
}

}  // namespace ashlar::cuda
