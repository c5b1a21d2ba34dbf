// SPDX-License-Identifier: Apache-2.0
// The rows of a sequence through the matrices of a gated delta net, one after the other. Columns of a matrix do not
// depend on each other: eight lanes have two of them (32 where they are long), each 16 numbers of both in registers,
// from the first row of a span to the last. Sums run in one order: a lane's numbers in four chains, the chains in
// pairs, then the lanes in pairs.

#include "../kernels/device_math.cuh"
#include "delta_net.h"
#include "state_rows.cuh"

namespace ashlar::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kNumbers = 16;  ///< of a column that a lane has
constexpr int kOwn = 2;       ///< columns of a lane, side by side: a row's numbers are read once for both
constexpr int kTileRows = 8;  ///< prepared rows that are in shared memory at a time, twice

__device__ __forceinline__ void copy16(float* to, const float* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from));
}
__device__ __forceinline__ void copies_made() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
}

/// A prepared row of a block's columns, in shared memory.
template <int kLanes>
struct TileRow {
  float q[kLanes * kNumbers], k[kLanes * kNumbers], v[kOwn * kThreads / kLanes], gates[4];
};

/// What a block has: columns [first_column, first_column + kColumns) of the matrix of a value head, of one sequence.
template <int kLanes>
struct Part {
  static constexpr int kColumns = kOwn * kThreads / kLanes;

  const DeltaNetCall& call;
  PreparedRow at;
  int32_t head, k_head, first_column;

  __device__ Part(const DeltaNetCall& c, int32_t block) : call(c), at(c.prepared_row()) {
    const int32_t blocks_of_head = (call.v_dim + kColumns - 1) / kColumns;
    head = block / blocks_of_head;
    first_column = block % blocks_of_head * kColumns;
    k_head = head / (call.n_v_heads / call.n_k_heads);
  }
  /// First of the thread's columns.
  __device__ int32_t column() const { return first_column + static_cast<int32_t>(threadIdx.x) / kLanes * kOwn; }
  /// Where it begins in a state; its numbers are v_dim apart.
  __device__ int64_t place() const { return int64_t{head} * call.k_dim * call.v_dim + column(); }
  /// Column c of the thread exists where c < columns(). Not clamped to [0, kOwn]: of that ptxas 13.0 makes one
  /// instruction (VIMNMX.RELU), by whose predicate lanes with less than no column had all of them.
  __device__ int32_t columns() const { return call.v_dim - column(); }
  __device__ int64_t log_keys() const { return int64_t{call.channels} + k_head * call.k_dim; }
  __device__ int64_t log_added() const {
    return int64_t{call.channels} + call.n_k_heads * call.k_dim + int64_t{head} * call.v_dim + column();
  }
  __device__ int64_t log_factor() const {
    return int64_t{call.channels} + call.n_k_heads * call.k_dim + int64_t{call.n_v_heads} * call.v_dim + head;
  }
};

/// A lane's numbers of its columns: four at d, d + 4 * kLanes, ... with d = 4 * lane; zeros from k_dim on.
template <int kLanes>
struct Columns {
  float numbers[kOwn][kNumbers];

  static __device__ int32_t place_of(int i) {
    return static_cast<int32_t>(threadIdx.x) % kLanes * 4 + i / 4 * (4 * kLanes) + i % 4;
  }
  static __device__ void load(const float* from, float (&to)[kNumbers]) {
#pragma unroll
    for (int i = 0; i < kNumbers; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(from + place_of(i));
      to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
    }
  }
  __device__ void clear() {
    for (auto& column : numbers) {
#pragma unroll
      for (float& number : column) number = 0.0F;
    }
  }
  /// Whether all of the block's columns and numbers exist, and lie so that a lane's two columns are read together: as
  /// of all models that are known.
  static __device__ bool is_whole(const Part<kLanes>& part, const float* state) {
    const DeltaNetCall& call = part.call;
    return call.k_dim == kLanes * kNumbers && call.v_dim % kOwn == 0 &&
           part.first_column + Part<kLanes>::kColumns <= call.v_dim &&
           reinterpret_cast<uintptr_t>(state) % sizeof(float2) == 0;
  }
  // Lanes of a warp have neighbouring columns: eight, and so whole sectors of memory.
  __device__ void load_from(const Part<kLanes>& part, const float* state) {
    const float* const from = state + part.place();
    const int32_t stride = part.call.v_dim;
    if (is_whole(part, state)) {
#pragma unroll
      for (int i = 0; i < kNumbers; ++i) {
        const float2 both = *reinterpret_cast<const float2*>(from + place_of(i) * stride);
        numbers[0][i] = both.x, numbers[1][i] = both.y;
      }
      return;
    }
#pragma unroll
    for (int c = 0; c < kOwn; ++c) {
#pragma unroll
      for (int i = 0; i < kNumbers; ++i) {
        const bool exists = c < part.columns() && place_of(i) < part.call.k_dim;
        numbers[c][i] = exists ? from[place_of(i) * stride + c] : 0.0F;
      }
    }
  }
  __device__ void store_to(const Part<kLanes>& part, float* state) const {
    float* const to = state + part.place();
    int32_t stride = part.call.v_dim;
    // Opaque, or the compiler would compute all places before the loop over rows and keep them in registers.
    asm volatile("" : "+r"(stride));
    if (is_whole(part, state)) {
#pragma unroll
      for (int i = 0; i < kNumbers; ++i) {
        *reinterpret_cast<float2*>(to + place_of(i) * stride) = make_float2(numbers[0][i], numbers[1][i]);
      }
      return;
    }
#pragma unroll
    for (int c = 0; c < kOwn; ++c) {
#pragma unroll
      for (int i = 0; i < kNumbers; ++i) {
        const bool exists = c < part.columns() && place_of(i) < part.call.k_dim;
        if (exists) to[place_of(i) * stride + c] = numbers[c][i];
      }
    }
  }
  /// Products of the columns with a row's keys and queries. A lane is left with one of them: with that of column
  /// lane % 2, of keys where lane / 2 is even. So few numbers go from lane to lane, which takes long.
  __device__ float ask(const float (&k)[kNumbers], const float (&q)[kNumbers]) const {
    float sums[2][kOwn];
#pragma unroll
    for (int c = 0; c < kOwn; ++c) {
      float by_k[4] = {}, by_q[4] = {};
#pragma unroll
      for (int i = 0; i < kNumbers; ++i) {
        by_k[i % 4] = fmaf(numbers[c][i], k[i], by_k[i % 4]);
        by_q[i % 4] = fmaf(numbers[c][i], q[i], by_q[i % 4]);
      }
      sums[0][c] = (by_k[0] + by_k[1]) + (by_k[2] + by_k[3]);
      sums[1][c] = (by_q[0] + by_q[1]) + (by_q[2] + by_q[3]);
    }
    const bool has_second = threadIdx.x % 2 != 0, has_queries = threadIdx.x / 2 % 2 != 0;
    float kept[2];
#pragma unroll
    for (int kind = 0; kind < 2; ++kind) {
      const float given = has_second ? sums[kind][0] : sums[kind][1];
      kept[kind] = (has_second ? sums[kind][1] : sums[kind][0]) + __shfl_xor_sync(~0u, given, 1);
    }
    float sum = has_queries ? kept[1] : kept[0];
    sum += __shfl_xor_sync(~0u, has_queries ? kept[0] : kept[1], 2);
#pragma unroll
    for (int distance = 4; distance < kLanes; distance *= 2) sum += __shfl_xor_sync(~0u, sum, distance);
    return sum;
  }
  /// The columns after a row: factor * themselves + added * k.
  __device__ void update(const float (&k)[kNumbers], const float (&added)[kOwn], float factor) {
#pragma unroll
    for (int c = 0; c < kOwn; ++c) {
#pragma unroll
      for (int i = 0; i < kNumbers; ++i) numbers[c][i] = fmaf(k[i], added[c], factor * numbers[c][i]);
    }
  }
};

/// Rows [begin, end) of the call, kTileRows at most, to shared memory. The caller waits for copies_made().
template <int kLanes>
__device__ void fetch(const Part<kLanes>& part, TileRow<kLanes>* tile, int32_t begin, int32_t end) {
  constexpr int kPieces = 2 * kLanes * kNumbers / 4;  // of 16 bytes: queries, then keys, which lie together
  constexpr int kValues = Part<kLanes>::kColumns / 4;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const float* const from = part.call.prepared + begin * part.at.floats();
  for (int32_t i = thread; i < kTileRows * kPieces; i += kThreads) {
    const int32_t row = i / kPieces, piece = i % kPieces;
    if (begin + row >= end) break;
    copy16(tile[row].q + piece * 4, from + row * part.at.floats() + part.at.queries(part.k_head) + piece * 4);
  }
  const int32_t row = thread / (kValues + 1), piece = thread % (kValues + 1);
  if (begin + row >= end || row >= kTileRows) return;
  const float* const own = from + row * part.at.floats();
  if (piece == kValues) {
    copy16(tile[row].gates, own + part.at.gates(part.head));
  } else if (part.first_column + piece * 4 < part.at.v_pad) {
    copy16(tile[row].v + piece * 4, own + part.at.values(part.head) + part.first_column + piece * 4);
  }
}

/// The rows of the log that were committed since the state was written.
template <int kLanes>
__device__ void replay(const Part<kLanes>& part, Columns<kLanes>& columns, TileRow<kLanes>* tile, int32_t slot,
                       int32_t rows) {
  for (int32_t begin = 0; begin < rows; begin += kTileRows) {
    const int32_t end = min(begin + kTileRows, rows);
    __syncthreads();
    for (auto i = static_cast<int32_t>(threadIdx.x); i < (end - begin) * kLanes * kNumbers; i += kThreads) {
      const int32_t row = i / (kLanes * kNumbers), d = i % (kLanes * kNumbers);
      tile[row].k[d] = d < part.call.k_dim ? log_of(part.call, slot, begin + row)[part.log_keys() + d] : 0.0F;
    }
    __syncthreads();
    for (int32_t r = begin; r < end; ++r) {
      const float* const log = log_of(part.call, slot, r);
      float k[kNumbers], added[kOwn];
      Columns<kLanes>::load(tile[r - begin].k, k);
      for (int c = 0; c < kOwn; ++c) added[c] = c < part.columns() ? log[part.log_added() + c] : 0.0F;
      columns.update(k, added, log[part.log_factor()]);
    }
  }
  __syncthreads();
}

/// Inputs to the convolution as they are after row `row` of the span (-1: before its first), to a state. Ascending, a
/// state may be written where it is read.
__device__ void copy_window(const DeltaNetCall& call, const SpanRows& rows, int32_t row, float* to) {
  const Span& span = call.spans[call.tables[rows.first]];
  const int64_t inputs = int64_t{call.n_v_heads} * call.k_dim * call.v_dim;
  const bool is_new = call.positions[rows.first] == 0;
  const int32_t replays = is_new ? 0 : span.replays;
  const float* const window = state_of(call, span.slot) + inputs;
  for (auto c = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x); c < call.channels;
       c += static_cast<int32_t>(gridDim.x * kThreads)) {
    for (int32_t t = 0; t < call.taps - 1; ++t) {
      const int32_t from = row + 1 - (call.taps - 1) + t;  // a row of the span; below 0: one before it
      float input = 0;
      if (from >= 0) {
        input = load(call.in.data, int64_t{rows.first + from} * call.in.stride + c, call.in.is_f32);
      } else if (from + replays >= 0) {
        input = log_of(call, span.slot, from + replays)[c];
      } else if (!is_new) {
        input = window[int64_t{from + replays + call.taps - 1} * call.channels + c];
      }
      to[inputs + int64_t{t} * call.channels + c] = input;
    }
  }
}

template <int kLanes>
__global__ void __launch_bounds__(kThreads, 4)
    scan_kernel(const __grid_constant__ DeltaNetCall call, bool takes_long_one) {
  let_successor_start();
  extern __shared__ float4 memory[];
  auto* const tiles = reinterpret_cast<TileRow<kLanes>*>(memory);
  const SpanRows rows = find_span<kThreads>(call, static_cast<int32_t>(blockIdx.y));
  wait_for_predecessors();
  if (rows.n == 0 || rows.is_only_long_one != takes_long_one) return;

  const Part<kLanes> part(call, static_cast<int32_t>(blockIdx.x));
  const Span& span = call.spans[call.tables[rows.first]];
  const bool is_new = call.positions[rows.first] == 0;
  const int32_t kept = rows.n - min(span.choices, rows.n);
  const int32_t replays = is_new ? 0 : span.replays;
  float* const state = state_of(call, span.slot);
  const bool changes = is_new || replays > 0 || kept > 0;

  fetch(part, tiles + kTileRows, rows.first, rows.first + min(kTileRows, rows.n));
  Columns<kLanes> columns;
  is_new ? columns.clear() : columns.load_from(part, state);
  replay(part, columns, tiles, span.slot, replays);
  const Save save = span.saves[0], other = span.saves[1];
  if (save.row >= 0) copy_window(call, rows, save.row, snapshot_of(call, save.snapshot));
  if (other.row >= 0) copy_window(call, rows, other.row, snapshot_of(call, other.snapshot));
  if (changes) copy_window(call, rows, kept - 1, state);
  if (blockIdx.x == 0) {
    for (auto r = static_cast<int32_t>(threadIdx.x); r < rows.n; r += kThreads) {
      call.log_row[rows.first + r] = r < kept ? -1 : r - kept;
    }
  }

  // Of the lanes of two columns, which have their sums by turns, the second pair writes the answers.
  const auto lane = static_cast<int32_t>(threadIdx.x % kLanes);
  const int32_t own_column = lane % kOwn, first_lane = static_cast<int32_t>(threadIdx.x % 32) - lane;
  const bool answers = lane / kOwn == 1 && own_column < part.columns();
  const int64_t step = part.at.floats(), log_step = call.log_stride / static_cast<int64_t>(sizeof(float));
  float* answer = call.prepared + rows.first * step + part.at.values(part.head) + part.column() + own_column;
  float* logged = log_of(call, span.slot, 0) + part.log_added() + own_column;
  int32_t r = 0;
  while (true) {
    // The state before row r, or after all rows, to where it is wanted.
    if (r == kept && changes) columns.store_to(part, state);
    if (save.row >= 0 && r == save.row + 1) columns.store_to(part, snapshot_of(call, save.snapshot));
    if (other.row >= 0 && r == other.row + 1) columns.store_to(part, snapshot_of(call, other.snapshot));
    if (r == rows.n) break;
    const TileRow<kLanes>* own = tiles + (r / kTileRows % 2 == 0 ? kTileRows : 0) + r % kTileRows;
    if (r % kTileRows == 0) {
      copies_made();
      const int32_t next = rows.first + r + kTileRows, end = rows.first + rows.n;
      if (next < end) fetch(part, tiles + (r / kTileRows % 2 == 0 ? 0 : kTileRows), next, min(next + kTileRows, end));
    }
    int32_t end = min(rows.n, (r / kTileRows + 1) * kTileRows);
    if (kept > r) end = min(end, kept);
    if (save.row >= r) end = min(end, save.row + 1);
    if (other.row >= r) end = min(end, other.row + 1);
    const bool is_logged = r >= kept;
    for (; r < end; ++r, ++own) {
      float k[kNumbers], q[kNumbers], added[kOwn];
      Columns<kLanes>::load(own->k, k);
      Columns<kLanes>::load(own->q, q);
      const float4 gates = *reinterpret_cast<const float4*>(own->gates);
      const float value = own->v[static_cast<int32_t>(threadIdx.x) / kLanes * kOwn + own_column];
      const float scaled = gates.x * columns.ask(k, q);
      const float adds = gates.y * (value - scaled);  // where the lane has keys
#pragma unroll
      for (int c = 0; c < kOwn; ++c) added[c] = __shfl_sync(~0u, adds, first_lane + c);
      columns.update(k, added, gates.x);
      const float own_added = own_column == 0 ? added[0] : added[1];
      if (answers) *answer = fmaf(gates.z, own_added, scaled);
      if (answers && is_logged) *logged = own_added;
      answer += step;
      if (is_logged) logged += log_step;
    }
  }
}

/// A prompt alone has as many blocks as a large GPU has multiprocessors, each of which waits for its own sums most of
/// the time. They take half of the time when each has a multiprocessor of its own, but blocks start several together on
/// some while others have none. So the one long span of a call has a launch in which there is room for one block only.
template <int kLanes>
void scan(cudaStream_t stream, const DeltaNetCall& call) {
  constexpr size_t kBytes = 2 * kTileRows * sizeof(TileRow<kLanes>);
  constexpr size_t kMoreThanHalf = 120 << 10;  // of the shared memory of a multiprocessor, as of compute capability 9.0
  const unsigned blocks = static_cast<unsigned>(call.n_v_heads) * blocks_for(call.v_dim, Part<kLanes>::kColumns);
  const int32_t spans = call.rows < call.slots ? call.rows : call.slots;
  const dim3 grid(blocks, static_cast<unsigned>(spans));
  const size_t alone = kernels_wait() ? kMoreThanHalf : kBytes;
  static OncePerDevice allowed;
  allow_shared_bytes(allowed, scan_kernel<kLanes>, static_cast<int>(alone));
  if (call.rows >= kLongSpan) start(stream, {grid, kThreads, alone}, scan_kernel<kLanes>, call, true);
  if (call.rows < kLongSpan || spans > 1) start(stream, {grid, kThreads, kBytes}, scan_kernel<kLanes>, call, false);
}

}  // namespace

void scan_rows(cudaStream_t stream, const DeltaNetCall& call) {
  call.k_dim <= 8 * kNumbers ? scan<8>(stream, call) : scan<32>(stream, call);
}

void delta_net(cudaStream_t stream, const DeltaNetCall& call) {
  prepare_rows(stream, call);
  scan_rows(stream, call);
  finish_rows(stream, call);
}

}  // namespace ashlar::cuda
