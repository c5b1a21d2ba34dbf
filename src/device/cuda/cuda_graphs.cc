// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_graphs.h"

#include <utility>

#include "base/error.h"
#include "device/cuda/cuda_status.h"

namespace ashlar::cuda {
namespace {

/// Passes of a key that run as they are, one after the other, until it has a graph: as few as may be where the GPU is
/// busy for longer than the host takes to make one, so that this costs nothing, else about what must be saved first.
constexpr int32_t kFewRuns = 2;
constexpr int32_t kManyRuns = 16;
constexpr int64_t kMakeKernelNs = 6500;  ///< what making a graph takes, a kernel
/// A pass of more rows keeps the GPU busy for longer than its launches take.
constexpr int32_t kMaxRows = 512;
// docs/gpu.md says what graphs take, which is about as much as they have kernels. The last one may exceed it.
constexpr size_t kMaxKernels = size_t{64} * 256;
constexpr size_t kMaxGraphs = 192;
constexpr size_t kMaxKeys = 512;

}  // namespace

void Graphs::run(const PassKey& key, const std::function<void()>& pass) {
  if (records_ || !key.is_whole() || key.rows() > kMaxRows) return pass();
  if (const uint64_t freed = memory_.freed(); freed != freed_) {
    clear();
    freed_ = freed;
  }
  if (passes_.size() >= kMaxKeys && !passes_.contains(key)) forget(oldest(false));
  Known& known = passes_[key];
  const uint64_t before = std::exchange(known.used, ++count_);
  if (known.graph != nullptr) {
    check(cudaGraphLaunch(known.graph, memory_.stream_of_passes()), "cudaGraphLaunch");
    memory_.count_recorded(static_cast<int64_t>(known.kernels));
    return;
  }
  pass();
  const bool is_hidden = memory_.wait_of_kernel_ns() > kMakeKernelNs;
  if (++known.runs < (is_hidden ? kFewRuns : kManyRuns) || !known.is_recordable || memory_.freed() != freed_) return;
  // Of keys that come in turns and are too many, those that have graphs keep them.
  if (is_full() && oldest(true)->second.used > before) return;
  record(known, pass);  // for the next time, while the GPU is busy
}

void Graphs::record(Known& known, const std::function<void()>& pass) {
  known.is_recordable = false;
  cudaGraph_t graph = nullptr;
  records_ = true;
  try {
    Memory::Recording recording(memory_);
    memory_.mark_recording(false);
    pass();
    memory_.mark_recording(true);
    graph = recording.take();
  } catch (const DeviceLost&) {
    records_ = false;
    throw;
  } catch (const Error&) {  // it runs as it is, and says then what is wrong, if it still is
    records_ = false;
    return;
  } catch (...) {
    records_ = false;
    throw;
  }
  records_ = false;
  // Memory that was freed meanwhile may be what the first kernels are to use.
  if (graph != nullptr && memory_.freed() == freed_) make_executable(graph, known);
  known.is_recordable = known.graph != nullptr;
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();  // the next check is not about this
}

void Graphs::make_executable(cudaGraph_t graph, Known& known) {
  size_t kernels = 0;
  if (cudaGraphGetNodes(graph, nullptr, &kernels) != cudaSuccess) return;
  cudaGraphExec_t made = nullptr;
  while (is_full()) {
    Known& other = oldest(true)->second;
    const bool is_alike = made == nullptr && other.kernels == kernels;
    const cudaGraphExec_t taken = take(other);
    if (is_alike)
      made = taken;
    else
      cudaGraphExecDestroy(taken);
  }
  // To change one takes a tenth of the time, where as many kernels follow each other. Those in flight stay as they are.
  cudaGraphExecUpdateResultInfo result;
  if (made != nullptr && cudaGraphExecUpdate(made, graph, &result) != cudaSuccess) {
    cudaGraphExecDestroy(made);
    made = nullptr;
  }
  if (made == nullptr && cudaGraphInstantiate(&made, graph, 0) != cudaSuccess) return;
  // Takes memory of the GPU, which the launch is not to fail for.
  if (cudaGraphUpload(made, memory_.stream_of_passes()) != cudaSuccess) {
    cudaGraphExecDestroy(made);
    return;
  }
  known.graph = made;
  known.kernels = kernels;
  kernels_ += kernels;
  ++graphs_;
}

bool Graphs::is_full() const { return graphs_ >= kMaxGraphs || kernels_ >= kMaxKernels; }

Graphs::Passes::iterator Graphs::oldest(bool with_graph) {
  auto oldest = passes_.end();
  for (auto it = passes_.begin(); it != passes_.end(); ++it) {
    if (with_graph && it->second.graph == nullptr) continue;
    if (oldest == passes_.end() || it->second.used < oldest->second.used) oldest = it;
  }
  return oldest;
}

cudaGraphExec_t Graphs::take(Known& known) {
  kernels_ -= known.kernels;
  --graphs_;
  known.kernels = 0;
  return std::exchange(known.graph, nullptr);
}

void Graphs::forget(Passes::iterator pass) {
  if (pass->second.graph != nullptr) cudaGraphExecDestroy(take(pass->second));
  passes_.erase(pass);
}

void Graphs::clear() {
  while (!passes_.empty()) forget(passes_.begin());
}

}  // namespace ashlar::cuda
