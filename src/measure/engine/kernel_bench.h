// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a step, a verify, a draft pass and a prompt spend their time, op by op, next to the ceilings of the machine in
// the same run.

#include <cstdint>
#include <string>
#include <vector>

#include "io/json.h"
#include "measure/engine/bench.h"
#include "measure/engine/timed_ops.h"

namespace ashlar {

struct KernelOptions {
  int32_t repeat = 50;  ///< runs of each pass
  int32_t context = 256;
  int32_t verify_rows = 16;
  int32_t prompt = 512;  ///< tokens, or as many as the model's context holds
  double seconds = 60;   ///< about as long as all runs may take together; 0: any time
  double bandwidth_seconds = 1.0;
  int64_t available_memory = 0;  ///< 0: unknown
};

/// All calls of one op in a pass.
struct KernelRow {
  std::string op;
  int32_t calls = 0;
  double seconds = 0;
  int64_t read = 0, written = 0, products = 0;  ///< as OpCall
};

/// One run of a pass, that of the median time.
struct KernelPass {
  std::string name;
  double seconds = 0;           ///< of all, from the host's call to its return
  std::vector<KernelRow> rows;  ///< those that take longest first
  double in_ops() const;        ///< seconds of all rows
};

struct KernelBench {
  KernelOptions options;
  Bandwidth memory, copies;  ///< the latter of a device with a memory of its own
  double products = 0;       ///< multiplications and additions a second of a device's matrix units; 0: the host's
  std::vector<KernelPass> passes;
};

/// Rows of the ops that ran, by their names.
std::vector<KernelRow> by_op(const std::vector<OpCall>& calls);

/// `timed`: the device of the subject, or what it computes with. Throws Error("bench", ...) where the model's context
/// is too short.
KernelBench run_kernel_bench(const BenchSubject& subject, TimedOps& timed, const KernelOptions& options,
                             const BenchProgress& progress = {});

std::string kernel_bench_text(const KernelBench& bench);
Json kernel_bench_json(const KernelBench& bench);

}  // namespace ashlar
