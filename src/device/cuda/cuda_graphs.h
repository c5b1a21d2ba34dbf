// SPDX-License-Identifier: Apache-2.0
#pragma once
// Passes that came before, as CUDA graphs: launched in one call, instead of a call for each kernel.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <unordered_map>

#include "device/cuda/cuda_memory.h"
#include "device/pass_key.h"

namespace ashlar::cuda {

/// Of one thread at a time.
class Graphs {
 public:
  explicit Graphs(Memory& memory) : memory_(memory) {}
  ~Graphs() { clear(); }
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  /// What Ops::run_pass says. The first passes of a key run as they are, which sees to it that scratch memory has grown
  /// and kernels are loaded; then one is recorded.
  void run(const PassKey& key, const std::function<void()>& pass);

 private:
  struct Known {
    int32_t runs = 0;
    uint64_t used = 0;  ///< when, by count_
    bool is_recordable = true;
    cudaGraphExec_t graph = nullptr;
  };
  void record(Known& known, const std::function<void()>& pass);
  /// Null if there is no room for it.
  cudaGraphExec_t executable(cudaGraph_t graph);
  /// Forgets the key that was used least lately, of those with a graph or of all, and returns its graph, if any.
  cudaGraphExec_t forget_oldest(bool with_graph);
  void clear();

  Memory& memory_;
  uint64_t freed_ = 0;  ///< of memory, when the first of the keys came
  uint64_t count_ = 0;
  int32_t graphs_ = 0;
  bool records_ = false;  ///< a pass within one that is recorded becomes part of it
  std::unordered_map<PassKey, Known, PassKey::Hash> passes_;
};

}  // namespace ashlar::cuda
