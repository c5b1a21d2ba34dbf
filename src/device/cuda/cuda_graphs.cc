// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_graphs.h"

#include "base/error.h"
#include "device/cuda/cuda_status.h"

namespace ashlar::cuda {
namespace {

/// Passes of a key that run as they are: about what a graph must save before it has paid for being made.
constexpr int32_t kPlainRuns = 16;
/// A pass of more rows keeps the GPU busy for longer than its launches take.
constexpr int32_t kMostRows = 512;
constexpr int32_t kMostGraphs = 64;  ///< docs/gpu.md says what they take
constexpr size_t kMostKeys = 512;

}  // namespace

void Graphs::run(const PassKey& key, const std::function<void()>& pass) {
  if (records_ || !key.is_whole() || key.rows() > kMostRows) return pass();
  if (const uint64_t freed = memory_.freed(); freed != freed_) {
    clear();
    freed_ = freed;
  }
  if (passes_.size() >= kMostKeys && !passes_.contains(key)) {
    if (const cudaGraphExec_t graph = forget_oldest(false); graph != nullptr) cudaGraphExecDestroy(graph);
  }
  Known& known = passes_[key];
  known.used = ++count_;
  if (known.graph == nullptr && known.is_recordable && ++known.runs > kPlainRuns) record(known, pass);
  if (known.graph == nullptr) return pass();
  check(cudaGraphLaunch(known.graph, memory_.stream_of_passes()), "cudaGraphLaunch");
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
  } catch (const Error&) {  // it runs as it is, and says then what is wrong, if it still is
    records_ = false;
    return;
  } catch (...) {
    records_ = false;
    throw;
  }
  records_ = false;
  // Memory that was freed meanwhile may be what the first kernels are to use.
  if (graph != nullptr && memory_.freed() == freed_) known.graph = executable(graph);
  known.is_recordable = known.graph != nullptr;
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();  // the next check is not about this
}

cudaGraphExec_t Graphs::executable(cudaGraph_t graph) {
  cudaGraphExec_t made = graphs_ < kMostGraphs ? nullptr : forget_oldest(true);
  // To change one takes a tenth of the time, where as many kernels follow each other. Those in flight stay as they are.
  cudaGraphExecUpdateResultInfo result;
  if (made != nullptr && cudaGraphExecUpdate(made, graph, &result) != cudaSuccess) {
    cudaGraphExecDestroy(made);
    made = nullptr;
  }
  if (made == nullptr && cudaGraphInstantiate(&made, graph, 0) != cudaSuccess) return nullptr;
  // Takes memory of the GPU, which the launch is not to fail for.
  if (cudaGraphUpload(made, memory_.stream_of_passes()) != cudaSuccess) {
    cudaGraphExecDestroy(made);
    return nullptr;
  }
  ++graphs_;
  return made;
}

cudaGraphExec_t Graphs::forget_oldest(bool with_graph) {
  auto oldest = passes_.end();
  for (auto it = passes_.begin(); it != passes_.end(); ++it) {
    if (with_graph && it->second.graph == nullptr) continue;
    if (oldest == passes_.end() || it->second.used < oldest->second.used) oldest = it;
  }
  if (oldest == passes_.end()) return nullptr;
  const cudaGraphExec_t graph = oldest->second.graph;
  if (graph != nullptr) --graphs_;
  passes_.erase(oldest);
  return graph;
}

void Graphs::clear() {
  for (auto& [key, known] : passes_) {
    if (known.graph != nullptr) cudaGraphExecDestroy(known.graph);
  }
  passes_.clear();
  graphs_ = 0;
}

}  // namespace ashlar::cuda
