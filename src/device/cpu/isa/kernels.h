// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an instruction set must provide. CpuOps splits an op into calls of these; each call runs on one thread.
//
// Packed layouts. All paths share them, so that weights and pages do not depend on the path. A matrix [n, k] lies in
// blocks of 16 columns (n), each a stream of its own:
// clang-format off
//   bf16    [n / 16][k / 2 pairs][16 columns][2]; 16 pairs are one AMX tile, 1 KiB
//   f32     [n / 16][k][16 columns]
//   8 bits  panels of { [4][k / 4 quads][16 columns][4], the scales of its 64 columns in f32 }, k padded to 64
//   groups  [n / 16][k / 64 pairs of groups]{ integers of both, [2][16] scales in f16, of 4 bits [2][16] lowest values }
//           integers of 8 bits: [8 quads of k][16 columns][4]; of 4 bits: [4][16][4], each with that of 16 k after it above
//   E4M3    [n / 16][k / 128]{ [16] scales in f32, [128 of k][16 columns] codes }, k padded to 128
//   weight  n padded to 64 (a panel: 4 blocks) and k to 32, with zeros
//   page    [n_kv_heads] x { K: n = 16 tokens, k = head_dim;  V: n = head_dim padded to 16, k = 16 tokens }
// clang-format on
// A vector load therefore holds neighbouring output columns, and the sum over k runs inside a lane, from 0 to k - 1,
// with one accumulator: the order cannot depend on the number of rows or on how a kernel blocks them.

#include <cstddef>
#include <cstdint>

#include "device/rows.h"
#include "device/tensor.h"

namespace ashlar::cpu {

inline constexpr int32_t kBlockColumns = 16;
inline constexpr int32_t kPanelColumns = 64;
/// Gates in a panel of a gated weight; what they multiply fills the other half.
inline constexpr int32_t kGateColumns = 32;
inline constexpr int32_t kDepthMultiple = 32;
/// Keys of one attention segment: softmax is done whole within a segment, segments are merged in ascending order.
inline constexpr int32_t kSegmentKeys = 256;
/// Floats from the scores of one query to those of the next: off a power of two, so that they do not share cache sets.
inline constexpr int32_t kScoreStride = kSegmentKeys + 16;
/// A memory page: hardware prefetchers run ahead within one. What two workers write lies in different ones, or each
/// takes lines away from the other (docs/kernels.md).
inline constexpr int32_t kFloatsOfPage = 1024;
/// Query vectors (rows x heads of one group) that walk the keys together.
inline constexpr int32_t kMaxQueries = 32;

/// Handing a loop to the pool and waiting for it costs about a microsecond when the workers are awake: nanoseconds of
/// serial work below which a loop runs on the caller.
inline constexpr int64_t kWorthWaking = 4000;
/// The same for row-wise ops of several rows, which come in the midst of a pass, when all workers are awake: then a
/// loop costs 0.2 us.
inline constexpr int64_t kWorthSharing = 500;

constexpr int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

/// Bytes of a panel of 8-bit weights, scales included.
constexpr int64_t quantised_panel_bytes(int64_t k) {
  return kPanelColumns * (round_up(k, 64) + static_cast<int64_t>(sizeof(float)));
}

/// Values of k whose weights share a scale.
inline constexpr int32_t kGroup = 32;
/// Bytes of the integers of a group of 16 columns, and of two groups with all that belongs to them.
constexpr int64_t grouped_values_bytes(int32_t bits) { return int64_t{kGroup} * kBlockColumns * bits / 8; }
constexpr int64_t grouped_pair_bytes(int32_t bits) {
  return 2 * (grouped_values_bytes(bits) + int64_t{kBlockColumns} * 2 * (bits == 4 ? 2 : 1));
}

/// E4M3 of 16 columns, 128 values of k each. A scale is 2^8 times that of the numbers, since codes are widened to 2^-8
/// of what they mean.
struct E4M3Group {
  static constexpr int32_t kDepth = 128;
  float scales[kBlockColumns];
  uint8_t codes[kDepth][kBlockColumns];
};

/// Rows times consecutive panels of one packed matrix. The rows of an op are cut into `blocks` even blocks: block b is
/// rows [rows * b / blocks, rows * (b + 1) / blocks), small enough for accumulators to stay in registers; a call does
/// some of them.
struct LinearCall {
  const void* weight = nullptr;  ///< first panel
  int32_t panels = 0;
  int32_t columns = 0;  ///< real output columns in these panels
  int32_t k = 0;
  const float* bias = nullptr;  ///< for the first column, or null
  int32_t rows = 0;
  int32_t blocks = 0;
  int32_t first_block = 0;
  int32_t last_block = 0;
  const float* x = nullptr;  ///< [rows, k]
  int64_t x_stride = 0;
  const float* norm = nullptr;  ///< packing applies the rms_norm of this weight and eps; kernels see normed rows
  float eps = 0;
  const std::byte* packed = nullptr;  ///< blocks as LinearKernels::pack left them, or null
  int64_t packed_block = 0;           ///< bytes from one packed block to the next
  float* out = nullptr;               ///< row 0, first column
  int64_t out_stride = 0;
  bool add = false;

  int32_t block_row(int32_t block) const { return static_cast<int32_t>(int64_t{rows} * block / blocks); }
};

struct GatedCall;

/// Linear for one format of packed weights.
struct LinearKernels {
  void (*run)(const LinearCall& call) = nullptr;
  int32_t block_rows = 1;  ///< most rows of a block
  /// Blocks of at least this many rows are packed before the call.
  int32_t pack_from = INT32_MAX;
  int64_t (*packed_bytes)(int32_t k) = nullptr;  ///< of a block
  void (*pack)(const float* x, int64_t stride, int32_t rows, int32_t k, void* packed) = nullptr;
  /// A gated product and its activation in one, for a next product of the same kernels; null where rows are packed in a
  /// pass of their own.
  void (*gated_pack)(const GatedCall& call) = nullptr;
  /// What Kernels::finish does, to columns [column, column + head_dim), multiples of 64, of a row of a block as pack
  /// would leave it; null likewise.
  void (*finish_packed)(const float* state, int32_t head_dim, int32_t row, int32_t column, std::byte* packed) = nullptr;
  /// What pack does to the blocks of a call that has several, where run wants them otherwise; null: the same.
  void (*pack_several)(const float* x, int64_t stride, int32_t rows, int32_t k, void* packed) = nullptr;
};

/// out[r][i] = silu(products[r][i]) * products[r][kGateColumns + i] for i < columns <= kGateColumns.
struct GateCall {
  const float* products = nullptr;  ///< [rows, kPanelColumns]
  int32_t rows = 0;
  int32_t columns = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
  bool fetches = false;  ///< memory is idle meanwhile: weights after those read last may be fetched
};

/// A gated product whose activations go to the packed rows of the next product.
struct GatedCall {
  LinearCall product;           ///< without out
  std::byte* packed = nullptr;  ///< columns of the first panel in block 0
  int64_t packed_block = 0;
};

/// One row of store_kv for one head: normalises (weight may be null) and rotates in place.
struct HeadCall {
  float* head = nullptr;
  int32_t head_dim = 0;
  const float* norm = nullptr;
  float eps = 0;
  const float* cos = nullptr;
  const float* sin = nullptr;
  int32_t rotary_dim = 0;
};

/// Queries that share a sequence and a key/value head: `rows` consecutive rows x `heads` consecutive heads, at most
/// kMaxQueries.
struct AttentionBlock {
  const float* q = nullptr;  ///< first row, first head
  int64_t q_stride = 0;
  int32_t rows = 0;
  int32_t heads = 0;
  int32_t head_dim = 0;
  float scale = 0;
  const int32_t* begin = nullptr;  ///< visibility of each row
  const int32_t* end = nullptr;
  const int32_t* page_table = nullptr;
  const std::byte* base = nullptr;  ///< K of this head in page 0
  int64_t page_stride = 0;
  DType dtype = DType::kBF16;  ///< of the cache: kF32 or kBF16
  /// Null where no row has a branch table. Rows differ in theirs only if Kernels::joins_branches.
  const BranchTable* branch_tables = nullptr;
  const int32_t* tables = nullptr;       ///< number of each row's branch table, ascending
  const float* scratch_slots = nullptr;  ///< K of this head in slot 0 of page 0; V is half a slot after
  int32_t scratch_slot_floats = 0;       ///< of one scratch slot

  BranchTable branch_table(int32_t row) const {
    return branch_tables != nullptr ? branch_tables[tables[row]] : BranchTable{};
  }
  const float* scratch_keys(int32_t slot) const {
    return reinterpret_cast<const float*>(reinterpret_cast<const std::byte*>(scratch_slots) +
                                          slot / kScratchSlotsPerPage * page_stride) +
           int64_t{slot % kScratchSlotsPerPage} * scratch_slot_floats;
  }
};

/// Softmax state of one query: floats [maximum, sum, unused..., weighted values (padded head_dim)].
inline constexpr int32_t kStateHeader = 16;
constexpr int32_t padded_head_dim(int32_t head_dim) { return static_cast<int32_t>(round_up(head_dim, 16)); }
constexpr int32_t state_floats(int32_t head_dim) { return kStateHeader + padded_head_dim(head_dim); }
/// Pages that a branch table touches.
inline constexpr int32_t kBranchTablePages = (kMaxBranchTokens + kPageTokens - 2) / kPageTokens + 1;
/// Floats of scratch a thread needs for attend(): scores, queries, for tiles the weights in two parts of bf16 and the
/// values of two pages,
constexpr int64_t plain_attention_scratch(int32_t head_dim) {
  return int64_t{kMaxQueries} * (2 * kScoreStride + padded_head_dim(head_dim)) +
         int64_t{kPageTokens} * padded_head_dim(head_dim);
}
/// and the pages of a branch table.
constexpr int64_t attention_scratch(int32_t head_dim) {
  return plain_attention_scratch(head_dim) +
         int64_t{kBranchTablePages} * kPageTokens * (head_dim + padded_head_dim(head_dim));
}

/// out[i] = silu(sum over t of inputs[t][i] * taps[t * taps_stride + i]) for i < n.
struct ConvolutionCall {
  const float* const* inputs = nullptr;  ///< [n_taps]
  const float* taps = nullptr;
  int64_t taps_stride = 0;
  int32_t n_taps = 0;
  int32_t n = 0;
  float* out = nullptr;
};

/// A row of a head of a gated delta net (Ops::gated_delta_net).
struct DeltaRow {
  const float* k = nullptr;  ///< [k_dim]
  const float* q = nullptr;  ///< [k_dim]; null: a row of the log, whose u is known
  const float* v = nullptr;  ///< [v_dim]
  float* u = nullptr;        ///< [v_dim]
  float* o = nullptr;        ///< [v_dim]: g (q S) + (k q) u, the answer of S after the row
  float g = 0;
  float beta = 0;
  float kq = 0;               ///< the sum of k * q
  float* snapshot = nullptr;  ///< S after the row goes here, or null
};

/// Consecutive rows of one head.
struct DeltaCall {
  float* state = nullptr;  ///< [k_dim, v_dim]: S before the rows; afterwards S after the first `kept` of them
  const DeltaRow* rows = nullptr;
  int32_t n = 0;
  int32_t kept = 0;
  int32_t k_dim = 0;
  int32_t v_dim = 0;
  float* scratch = nullptr;  ///< [k_dim, kDeltaTile]
};
/// Most columns of a matrix that go through the rows together.
inline constexpr int32_t kDeltaTile = 32;

/// Of gated delta nets and of gates. All sums in an order of their own.
struct DeltaKernels {
  void (*sigmoid_gate)(const float* gate, int32_t n, float* x) = nullptr;  ///< x *= sigmoid(gate)
  void (*silu_gate)(const float* gate, int32_t n, float* x) = nullptr;     ///< x *= silu(gate)
  void (*gelu_gate)(const float* gate, int32_t n, float* x) = nullptr;     ///< x *= gelu(gate), as Ops has it
  void (*convolve)(const ConvolutionCall& call) = nullptr;
  float (*dot)(const float* a, const float* b, int32_t n) = nullptr;
  void (*scale)(float factor, int32_t n, float* x) = nullptr;  ///< x *= factor
  void (*rows)(const DeltaCall& call) = nullptr;
};

struct Kernels {
  const char* isa = "";
  LinearKernels bf16;  ///< by format of the packed weight (weight_format.cc)
  LinearKernels f32;
  LinearKernels e4m3;
  void (*rms_norm)(const float* x, const float* weight, float eps, int32_t n, float* out) = nullptr;
  void (*silu_mul)(const GateCall& call) = nullptr;
  /// The highest of n values; minus infinity if none is a number.
  float (*highest)(const float* values, int32_t n) = nullptr;
  void (*finish_head)(const HeadCall& call) = nullptr;
  /// One token of one head to bf16, nearest even, in the layout of a page: to K, to V.
  void (*store_key)(const float* k, int32_t head_dim, int32_t token, uint16_t* keys) = nullptr;
  void (*store_value)(const float* v, int32_t head_dim, int32_t token, uint16_t* values) = nullptr;

  /// Scales the queries of a block into scratch, transposed as attend() wants them.
  void (*pack_queries)(const AttentionBlock& block, float* scratch) = nullptr;
  /// States of all queries of the block over keys [segment * kSegmentKeys, ...). A query that sees none gets sum 0.
  void (*attend)(const AttentionBlock& block, int32_t segment, float* scratch, float* states) = nullptr;
  /// state = state followed by next.
  void (*merge)(float* state, const float* next, int32_t head_dim) = nullptr;
  /// out[head_dim] = values / sum, zeros if sum is 0.
  void (*finish)(const float* state, int32_t head_dim, float* out) = nullptr;

  DeltaKernels delta;

  LinearKernels quantised;  ///< of 8-bit weights; without `run` where they would be no faster
  LinearKernels groups8;    ///< of weights in groups; likewise
  LinearKernels groups4;
  /// This thread will read [first, last) of weights next: kernels that leave memory idle may fetch them. Null: no use.
  void (*expect)(const void* first, const void* last) = nullptr;
  /// Whether attend() takes blocks of this head size and cache whose rows have several branch tables over one page
  /// table: what lies before them is then walked together. Null: no.
  bool (*joins_branches)(int32_t head_dim, DType dtype) = nullptr;
};

const Kernels& portable_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
const Kernels& avx512bf16_kernels();
const Kernels& amx_kernels();
/// Products of 8-bit weights for the AVX-512 paths of a machine with VNNI.
LinearKernels vnni_quantised_kernels();
LinearKernels vnni_grouped_kernels(int32_t bits);
/// The same for the AVX2 path of a machine with AVX-VNNI.
LinearKernels avxvnni_quantised_kernels();
LinearKernels avxvnni_grouped_kernels(int32_t bits);

}  // namespace ashlar::cpu
