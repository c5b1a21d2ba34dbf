#include "device/cpu/cpu_ops.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "device/cpu/cpu_features.h"
#include "device/cpu/cpu_memory.h"
#include "device/cpu/linear_call.h"

namespace ashlar {

std::unique_ptr<Ops> make_cpu_ops(const DeviceOptions& options) {
  const std::string isa = options.isa.empty() ? cpu::runnable_isas().front() : options.isa;
  const cpu::Kernels& kernels = cpu::kernels_for(isa);
  if (options.kv_dtype == DType::kF16) throw Error("device", "the cpu device keeps K and V in bf16 or f32, not f16");
  return std::make_unique<cpu::CpuOps>(kernels, options.threads, options.kv_dtype);
}

std::vector<std::string> isa_choices() { return cpu::runnable_isas(); }

namespace cpu {
CpuOps::CpuOps(const Kernels& kernels, int32_t threads, DType kv_dtype)
    : kernels_(kernels), kv_dtype_(kv_dtype), pool_(threads), packed_rows_(static_cast<size_t>(pool_.size())) {}

std::unique_ptr<Buffer> CpuOps::allocate(size_t bytes) { return std::make_unique<CpuBuffer>(bytes); }

std::unique_ptr<Weight> CpuOps::pack(std::span<const HostTensor> parts, std::span<const float> bias) {
  return std::make_unique<PackedWeight>(parts, bias, arena_);
}

void CpuOps::embed(const Weight& table, const int32_t* ids, float scale, Tensor out) {
  const PackedWeight& weight = as_packed(table);
  ASHLAR_CHECK_EQ(out.cols, weight.k());
  for (int32_t r = 0; r < out.rows; ++r) ASHLAR_CHECK(ids[r] >= 0 && ids[r] < weight.n());
  for_rows(out.rows, 2 * weight.k(), [&](int32_t r) { weight.read_row(ids[r], scale, out.row(r)); });
}

void CpuOps::rms_norm(Tensor x, const float* weight, float eps, Tensor out) {
  for_rows(x.rows, x.cols / 8, [&](int32_t r) { kernels_.rms_norm(x.row(r), weight, eps, x.cols, out.row(r)); });
}

void CpuOps::pack_rows(const LinearKernels& kernels, LinearCall& call) {
  ++linears_;
  call.packed_block = packed_block_bytes(kernels, call);
  if (call.packed_block == 0) return;
  const auto needed = static_cast<size_t>(call.packed_block * call.blocks) + kPackedAlignment;
  const size_t copies = call.blocks == 1 ? packed_rows_.size() : 1;
  for (size_t i = 0; i < copies; ++i) {
    if (packed_rows_[i].memory.size() < needed) packed_rows_[i].memory.resize(needed);
  }
  if (call.blocks == 1) return;
  std::byte* to = aligned(packed_rows_[0].memory.data());
  call.packed = to;
  for_rows(call.blocks, int64_t{kernels.block_rows} * call.k / 8,
           [&](int32_t block) { pack_block(kernels, call, block, to + block * call.packed_block); });
}

void CpuOps::pack_own(const LinearKernels& kernels, LinearCall& call, int32_t worker) {
  if (call.packed != nullptr || call.packed_block == 0) return;
  PackedRows& own = packed_rows_[static_cast<size_t>(worker)];
  std::byte* to = aligned(own.memory.data());
  if (own.call != linears_) pack_block(kernels, call, 0, to);
  own.call = linears_;
  call.packed = to;
}

void CpuOps::linear(const Weight& weight, Tensor x, Store store, Tensor out) {
  const PackedWeight& w = as_packed(weight);
  ASHLAR_CHECK_EQ(x.cols, w.k());
  ASHLAR_CHECK_EQ(out.cols, w.n());
  ASHLAR_CHECK_EQ(x.rows, out.rows);
  if (x.rows == 0) return;
  const LinearKernels& kernels = kernels_of(kernels_, w);
  LinearCall call = whole_call(w, kernels, x, out);
  call.add = store == Store::kAdd;
  pack_rows(kernels, call);

  const bool alone = linear_cost(w, x.rows) < kWorthWaking;
  const int32_t workers = alone ? 1 : pool_.size();
  // Work is cut into groups of blocks of rows times groups of panels, about eight pieces a worker so that stealing
  // evens out.
  const int32_t block_group = std::max(1, kRowsPerPanel / kernels.block_rows);
  const int32_t groups = (call.blocks + block_group - 1) / block_group;
  const int64_t panel_bytes = w.panel_bytes();
  const int32_t panel_chunk = std::max(1, call.panels * groups / (workers == 1 ? 1 : workers * 8));
  const int32_t panel_chunks = (call.panels + panel_chunk - 1) / panel_chunk;
  // By value: a worker then fetches what it needs from the caller's core at once, not pointer by pointer.
  const auto piece = [=, this, &kernels](int32_t item, int32_t worker) {
    LinearCall part = call;
    pack_own(kernels, part, worker);
    part.first_block = item / panel_chunks * block_group;
    part.last_block = std::min(part.first_block + block_group, call.blocks);
    take_panels(part, panel_bytes, item % panel_chunks * panel_chunk, panel_chunk);
    kernels.run(part);
  };
  const int32_t pieces = groups * panel_chunks;
  if (!alone) return pool_.run(pieces, piece);
  for (int32_t item = 0; item < pieces; ++item) piece(item, 0);
}

void CpuOps::silu_mul(Tensor gate_up, Tensor out) {
  ASHLAR_CHECK_EQ(gate_up.cols, 2 * out.cols);
  for_rows(out.rows, out.cols / 4,
           [&](int32_t r) { kernels_.silu_mul(gate_up.row(r), gate_up.row(r) + out.cols, out.cols, out.row(r)); });
}

void CpuOps::gather_rows(Tensor x, const int32_t* indices, Tensor out) {
  for (int32_t r = 0; r < out.rows; ++r) ASHLAR_CHECK(indices[r] >= 0 && indices[r] < x.rows);
  for_rows(out.rows, out.cols / 8, [&](int32_t r) {
    std::memcpy(out.row(r), x.row(indices[r]), sizeof(float) * static_cast<size_t>(out.cols));
  });
}

void CpuOps::copy(Tensor x, Tensor out) {
  for_rows(out.rows, out.cols / 8,
           [&](int32_t r) { std::memcpy(out.row(r), x.row(r), sizeof(float) * static_cast<size_t>(out.cols)); });
}

void CpuOps::for_each(int32_t n, void (*fn)(void*, int32_t), void* context) {
  pool_.run(n, [&](int32_t item, int32_t) { fn(context, item); });
}

}  // namespace cpu
}  // namespace ashlar
