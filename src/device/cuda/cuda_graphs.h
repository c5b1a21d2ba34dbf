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
  /// and kernels are loaded; while the GPU works at the last of them, the host records it.
  void run(const PassKey& key, const std::function<void()>& pass);

 private:
  struct Known {
    int32_t runs = 0;   ///< without a graph
    uint64_t used = 0;  ///< when, by count_
    bool is_recordable = true;
    cudaGraphExec_t graph = nullptr;
    size_t kernels = 0;  ///< of the graph
  };
  using Passes = std::unordered_map<PassKey, Known, PassKey::Hash>;
  void record(Known& known, const std::function<void()>& pass);
  /// Gives the key none if there is no room for it.
  void make_executable(cudaGraph_t graph, Known& known);
  bool is_full() const;
  /// The key that was used least lately, of those with a graph or of all.
  Passes::iterator oldest(bool with_graph);
  /// The graph of a key that has one, which has none from now on.
  cudaGraphExec_t take(Known& known);
  void forget(Passes::iterator pass);
  void clear();

  Memory& memory_;
  uint64_t freed_ = 0;  ///< of memory, when the first of the keys came
  uint64_t count_ = 0;
  size_t graphs_ = 0, kernels_ = 0;  ///< that there are, and in all of them
  bool records_ = false;             ///< a pass within one that is recorded becomes part of it
  Passes passes_;
};

}  // namespace ashlar::cuda
