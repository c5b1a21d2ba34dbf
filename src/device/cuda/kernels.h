// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the kernels offer the host, one function a kernel. This file and the kernels include nothing from outside this
// folder. Every function queues its work on the stream and returns; what it points to is device memory.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace ashlar::cuda {

/// Numbers of a packed weight lie in tiles of 64 outputs x 64 inputs.
inline constexpr int32_t kTile = 64;
/// Most segments of a sum.
inline constexpr int32_t kMaxSegments = 8;
/// Inputs are padded to a multiple of this, where segments of a sum may begin.
inline constexpr int32_t kInputPad = 128;

/// How the numbers of a weight lie (cuda_weight.h).
enum class Packed : uint8_t { kF32, kBf16, kInt8, kInt4, kE4M3 };

enum class Finish : uint8_t {
  kBf16,   ///< out[r][i] = y
  kFloat,  ///< the same in fp32
  kAdd,    ///< out[r][i] += bf16(y), in bf16
  kGated   ///< out[r][i] = silu(y of gate i) * y of up i, in bf16
};

/// Which row of x and of out a place of the call is, and whose weights it meets. Without: row r at place r, one weight.
struct Grouping {
  const int32_t* rows = nullptr;     ///< by place: the row of `out`; -1: none
  const int32_t* experts = nullptr;  ///< by tile of places (bf16) or by row of `out` (fp32); -1: no tile
  int32_t places = 0;
  int32_t rows_of_x = 1;  ///< rows of `out` for each row of x, one after the other
  // Where x has a row for each place (gather_places): kGatheredTile places have one expert, and `rows` is null.
  const int32_t* to = nullptr;  ///< by place: the row of `out`, which is fp32 then; null: row p for place p
};
inline constexpr int32_t kGatheredTile = 128;

/// y = x W^T + bias. Weights of bf16 and of few bits: packed (cuda_weight.h), their sums by the law in product.cu.
/// Weights of fp32: [n, k] as they are.
struct ProductCall {
  Packed format = Packed::kBf16;
  const void* weight = nullptr;
  bool weight_is_made = false;  ///< by a kernel before this one, so that it is there after the wait only
  int64_t expert_stride = 0;    ///< bytes from one expert's weight to the next
  const float* bias = nullptr;  ///< [n as packed], or null
  int32_t n = 0;                ///< outputs as packed, of a gated weight gates and ups
  int32_t width = 0;            ///< columns of `out`
  int32_t k = 0;                ///< columns of x
  int32_t splits = 1;           ///< segments of a sum
  const void* x = nullptr;      ///< [rows, k], bf16
  int64_t x_stride = 0;         ///< in elements, as all strides here
  int32_t rows = 0;
  int32_t x_rows = 0;  ///< rows of x that may be read, if more than those of the call: boxes inside a tensor are faster
  void* out = nullptr;
  int64_t out_stride = 0;
  Finish finish = Finish::kBf16;
  Grouping group;
};

/// Places of a tile of a product with weights of bf16 for a number of rows.
int32_t tile_rows(int32_t rows);
void product_bf16(cudaStream_t stream, const ProductCall& call, int32_t tile_rows);
void product_f32(cudaStream_t stream, const ProductCall& call);
/// With weights of 4 or 8 bits, by the law in product_quantised.cu. tile_rows: places of a tile, 8, 16 or 32.
void product_quantised(cudaStream_t stream, const ProductCall& call, int32_t tile_rows);
/// Most places of such a tile for which a block of this GPU has shared memory.
int32_t max_quantised_rows();
/// Writes the values of a weight of 4 or 8 bits as a packed one of bf16, which must not have scales for sums. n:
/// outputs, a multiple of 64; k: padded inputs.
void expand(cudaStream_t stream, const void* weight, Packed format, int32_t n, int32_t k, void* to);
/// On compute capability 9.0 the same as product_bf16, faster, with the same bits. False where the call does not fit.
bool product_hopper(cudaStream_t stream, const ProductCall& call, int32_t multiprocessors);
/// Whether product_hopper() takes the call where x has a row for each place.
bool takes_gathered_rows(const ProductCall& call);
/// The same for product_quantised, of any number of rows.
bool product_quantised_hopper(cudaStream_t stream, const ProductCall& call, int32_t multiprocessors);

/// A matrix of activations.
struct Matrix {
  void* data = nullptr;
  int32_t rows = 0;
  int32_t cols = 0;
  int64_t stride = 0;
  bool is_f32 = false;
};

/// Tables other than fp32 are packed tiles of `k_padded` inputs.
void embed(cudaStream_t stream, const void* table, Packed format, int32_t n, int32_t k_padded, const int32_t* ids,
           float scale, const Matrix& out);
/// Most columns of a row that is normed.
inline constexpr int32_t kMaxNormed = 32768;
void rms_norm(cudaStream_t stream, const Matrix& x, const float* weight, float eps, const Matrix& out);
/// residual += partial, both bf16.
void add(cudaStream_t stream, const Matrix& partial, const Matrix& residual);
void scale(cudaStream_t stream, const Matrix& x, float factor);
void softcap(cudaStream_t stream, const Matrix& x, float limit);
/// out[to[i]] = x[from[i]] for i in [0, out.rows); from and to may be null: i.
void copy_rows(cudaStream_t stream, const Matrix& x, const int32_t* from, const int32_t* to, const Matrix& out);
/// The highest columns of a row of logits, the lowest of equals first. What is no number or minus infinity takes no
/// part.
struct Highest {
  static constexpr int32_t kMost = 8;
  int32_t n;
  int32_t columns[kMost];
  float logits[kMost];
  float sum;  ///< over the row, of exp(logit - logits[0])
};
/// Most columns of a row that are found by what follows.
inline constexpr int32_t kMaxHighest = 32;
/// out[i] = the `most` highest of row rows[i] (null: i), two at least, for i below n. logits: fp32. scratch:
/// highest_bytes(n), at a multiple of 8 bytes.
size_t highest_bytes(int32_t n);
void find_highest(cudaStream_t stream, const Matrix& logits, const int32_t* rows, int32_t n, int32_t most,
                  void* scratch, Highest* out);
/// ids[r] = the highest column of row r, -1 if there is none. scratch: highest_bytes(logits.rows).
void argmax(cudaStream_t stream, const Matrix& logits, void* scratch, int32_t* ids);

/// A row to copy, and which of the masks says what becomes minus infinity; -1: nothing.
struct MaskedCopy {
  int32_t row, mask;
};
/// out[i] = row copies[i].row of logits. masks: [masks, words], bit (c % 32) of word c / 32: column c stays.
void copy_masked(cudaStream_t stream, const Matrix& logits, const MaskedCopy* copies, const uint32_t* masks,
                 int32_t words, const Matrix& out);
/// Added to a logit; then one above 0 is divided by `repetition`, others multiplied; then penalties are subtracted.
struct Adjustment {
  int32_t row, column;
  float bias, repetition, penalty, repeat_penalty;
};
/// In place; no two of them name one logit.
void adjust(cudaStream_t stream, const Matrix& logits, const Adjustment* adjustments, int32_t n);

/// What is wanted of a row of logits: its sums, and its tokens that may matter to the host.
struct SurveyCall {
  int32_t row;
  int32_t adjusted;      ///< its row among those that were adjusted, which is looked at instead; -1: it was not
  int32_t excluded;      ///< a column that counts as minus infinity; -1: none
  int32_t least;         ///< list this many of the highest, or more; 0: by what follows
  double exact_inverse;  ///< of the temperature
  float inverse;         ///< the same
  float share;           ///< list the likeliest ones, which have this share of what all weigh at the temperature, ...
  float floor;           ///< ... or all whose logit over the temperature lies no further below the highest one's
  int32_t with_noise;    ///< instead: those that might be the highest with the Gumbel noise of seed and position
  int32_t position;
  uint64_t seed;
  int32_t by_mass;  ///< instead: those about which the share `at` of the mass is reached, the likeliest first. A
                    ///< column's mass: exp(distance below the highest logit over the temperature), here called e, or
                    ///< with `less_draft` what e has above the draft's chance times the sum of all e
  int32_t less_draft;
  double at;
  int32_t given;         ///< a column whose logit and place are wanted; the draft's; -1: none
  const float* draft_q;  ///< [cols]: the chance of each column in the draft's distribution; null: `given` is certain
  float* distribution;   ///< gets zeros, by mass each column's chance; null: nothing
  int32_t distribution_size;
};
struct Listed {
  int32_t column;
  float logit;
  float raw;  ///< before it was adjusted
  float q;    ///< of draft_q; 0 without
};
/// A list may be longer than was asked for, and is in no order.
struct Survey {
  static constexpr int32_t kFew = 64;     ///< of the list that lie here, the others where `rest` is
  static constexpr int32_t kMost = 1024;  ///< of a list
  int32_t n;  ///< of the list; above kMost: it is not whole, or nothing of the row is a number or has a mass
  float highest;
  double sum;       ///< of exp(logit - highest)
  double tempered;  ///< of exp((logit - highest) * inverse); not with noise or `least`
  double mass;      ///< by mass: of all
  double before;    ///< by mass: of those that are likelier than the list
  float given, given_raw, given_q;
  int32_t rank;  ///< of `given`: how many columns are higher, or as high and before it, and 1
  Listed few[kFew];
};
/// out[i] = what calls[i] wants, rest: [n, kMost - kFew]. Logits: fp32. scratch: survey_bytes(n), at a multiple of 8
/// bytes; any_by_mass: whether a call is.
size_t survey_bytes(int32_t n, bool any_by_mass);
void survey(cudaStream_t stream, const Matrix& logits, const Matrix& adjusted, const SurveyCall* calls, int32_t n,
            bool any_by_mass, void* scratch, Survey* out, Listed* rest);
/// *places[i].to = places[i].value.
struct Placed {
  float* to;
  float value;
};
void place(cudaStream_t stream, const Placed* places, int32_t n);

/// A row whose tiles are folded (device/row_statistics.h); adjusted, excluded: as of a survey.
struct FoldCall {
  int32_t row, adjusted, excluded;
};
/// As ashlar::TileMoments lies in memory.
struct FoldedTile {
  int32_t best, second;
  float best_logit, second_logit, sum, weighted;
};
inline constexpr int32_t kFoldedColumns = 512;
/// out: [n, tiles of a row].
void fold_tiles(cudaStream_t stream, const Matrix& logits, const Matrix& adjusted, const FoldCall* calls, int32_t n,
                FoldedTile* out);

/// ids, values: [logits.rows, n], the n highest columns of each row as Highest has them; column 0 at minus infinity
/// fills up. logits: fp32; n: at most kMaxHighest. scratch: highest_bytes(logits.rows).
void find_candidates(cudaStream_t stream, const Matrix& logits, int32_t n, void* scratch, int32_t* ids, float* values);

/// Reads `bytes`, a multiple of 16, once. sink: a word that is not written.
void read_memory(cudaStream_t stream, const void* from, int64_t bytes, int32_t multiprocessors, uint32_t* sink);
/// Multiplies in registers as long as `rounds` say: how many multiplications and additions that is. sink: a number that
/// is not written.
double multiply(cudaStream_t stream, int32_t rounds, int32_t multiprocessors, float* sink);
/// The same by what only compute capability 9.0 has.
double multiply_hopper(cudaStream_t stream, int32_t rounds, int32_t multiprocessors, float* sink);

/// A grouped convolution along the rows of each table.
struct ConvCall {
  Matrix x, dynamic, out;
  int32_t taps = 0, group = 0;
  const float* base = nullptr;  ///< [taps, x.cols]
  const int32_t* tables = nullptr;
  bool add = false;
};
void grouped_conv(cudaStream_t stream, const ConvCall& call);

/// Scores of candidates after those of the row before, or after the anchor of the block that begins with the row.
struct EdgesCall {
  int32_t n = 0;
  const float* logits = nullptr;    ///< [rows, n]
  const int32_t* begins = nullptr;  ///< [rows]
  Matrix anchors, before, after, hidden, out;
  float scale = 1;
};
void score_edges(cudaStream_t stream, const EdgesCall& call);

/// Attention among the candidates of a block: ashlar::CandidateAttention.
struct CandidateAttentionCall {
  int32_t n = 0, heads = 0, reach = 0;
  const float* bias = nullptr;
  const int32_t *first = nullptr, *end = nullptr;
  Matrix qkv, out;
};
constexpr int32_t kMaxBlockCandidates = 4096;  ///< of a block
void candidate_attention(cudaStream_t stream, const CandidateAttentionCall& call);

struct VisibilityCall {
  int32_t rows = 0;
  const int32_t *positions = nullptr, *tables = nullptr, *block_ends = nullptr, *first_keys = nullptr;
  const uint8_t* without_kv = nullptr;
  int32_t window = 0;
  bool causal = false;
  int32_t *begin = nullptr, *end = nullptr;
};
void visibility(cudaStream_t stream, const VisibilityCall& call);

/// Of the branch that a row's table has: as ashlar::BranchTable lies in memory.
struct Branch {
  int32_t first, n;
  const int32_t* slots;
};

/// What keys and values are in the cache: kernels/kv_numbers.cuh says how each is written and read.
enum class KvNumbers { kBF16, kInt8, kTq4 };
/// Bytes of a page: K then V, each [n_kv_heads, 16 tokens, head_dim] numbers, then, of codes, their scales, which are
/// [2, n_kv_heads, 16 tokens] floats. A page of scratch slots is laid out alike, its first eight tokens being the
/// slots.
int64_t kv_page_bytes(KvNumbers numbers, int32_t n_kv_heads, int32_t head_dim);

/// Heads, pages and rows of an attention layer.
struct HeadsCall {
  void* qkv = nullptr;  ///< [rows, (q_heads + 2 n_kv_heads) * head_dim], bf16
  int64_t stride = 0;
  int32_t rows = 0, q_heads = 0, n_kv_heads = 0, head_dim = 0;
  const int32_t *positions = nullptr, *tables = nullptr;
  const int32_t* const* page_tables = nullptr;
  const uint8_t* without_kv = nullptr;
  const int32_t* scratch_slots = nullptr;
  const Branch* branches = nullptr;
  KvNumbers numbers = KvNumbers::kBF16;
  char* kv = nullptr;
  int64_t page_stride = 0;
};

struct StoreCall {
  HeadsCall heads;
  const float *q_norm = nullptr, *k_norm = nullptr;
  float eps = 0;
  const float *cos = nullptr, *sin = nullptr;
  int32_t rotary_dim = 0, max_position = 0;
  const float* query_scales = nullptr;  ///< RopeTable::query_scales
};
void store_kv(cudaStream_t stream, const StoreCall& call);
/// Of `heads`: n_kv_heads, head_dim and the pages.
void commit_kv(cudaStream_t stream, const HeadsCall& heads, const Branch& branch, const int32_t* page_table);

struct AttentionCall {
  HeadsCall heads;
  const int32_t *begin = nullptr, *end = nullptr;
  float scale = 0;
  const float* sinks = nullptr;  ///< [q_heads]: a score each, without a value; null: none
  void* out = nullptr;           ///< [rows, q_heads * head_dim], bf16
  int64_t out_stride = 0;
  // Where segments of few rows wait to be merged, for positions below max_segments * kSegment.
  int32_t max_segments = 0;
  float* partial = nullptr;  ///< [rows, q_heads, max_segments, head_dim]
  float* extents = nullptr;  ///< [rows, q_heads, max_segments, 2]
  int32_t* arrivals =
      nullptr;  ///< [rows, q_heads], zeros before and after: blocks that have stored theirs; the last merges them
  int32_t wide_rows = 0;  ///< rows of the windows of which attention_hopper() may have had some; 0: it had none
};
/// Positions that one block of threads has at a time.
inline constexpr int32_t kSegment = 256;
/// Whether the segments of a call are computed side by side, so that it needs `partial` and `extents`.
bool splits_segments(const HeadsCall& heads);
void attention(cudaStream_t stream, const AttentionCall& call);
/// On compute capability 9.0, and where it may pay: the same for the windows of rows that are a sequence's own, faster,
/// with the same bits. Returns the rows of a window, for the call of attention() that has the others; 0: it did
/// nothing.
int32_t attention_hopper(cudaStream_t stream, const AttentionCall& call, int32_t multiprocessors);

/// x[r][i] *= sigmoid(gate[r][i]), or of gate[r][0] where there is one column.
void sigmoid_gate(cudaStream_t stream, const Matrix& gate, const Matrix& x);
/// x[r][i] *= gelu(gate[r][i]).
void gelu_gate(cudaStream_t stream, const Matrix& gate, const Matrix& x);

struct RouteCall {
  Matrix logits;                                         ///< fp32
  const float *bias = nullptr, *expert_scale = nullptr;  ///< [experts] each, or null
  bool sigmoid = false;
  int32_t n_groups = 1, top_groups = 1, top_k = 1;
  bool normalise = false;
  float scale = 1;
  int32_t* experts = nullptr;
  float* weights = nullptr;
};
void route(cudaStream_t stream, const RouteCall& call);

/// Sorts `choices` choices by expert into tiles of `tile_rows` places. rows: [tiles * tile_rows] gets the choices,
/// experts: [tiles] gets whose tile it is, for `tiles` = max_tiles(...); -1 where there is nothing.
int32_t max_tiles(int32_t choices, int32_t n_experts, int32_t tile_rows);
void group_by_expert(cudaStream_t stream, const int32_t* chosen, int32_t choices, int32_t n_experts, int32_t tile_rows,
                     int32_t* rows, int32_t* experts);
/// to[p] = x[places[p] / top_k], of columns that are a multiple of 8; rows of places without a choice stay as they are.
void gather_places(cudaStream_t stream, const Matrix& x, const int32_t* places, int32_t top_k, const Matrix& to);
/// As ashlar::ExpertGate.
struct GateRule {
  float limit, alpha;
  bool gelu;
};
/// out[c] = what becomes of gates and ups of choice c, the halves of products[c] and of bias[experts[c]], or null:
/// device/ops.h has it. products, bias: fp32.
void gate_experts(cudaStream_t stream, const Matrix& products, const int32_t* experts, const float* bias,
                  const GateRule& rule, const Matrix& out);
/// [rows, top_k], as ashlar::Routes.
struct Choices {
  const int32_t* experts;
  const float* weights;
  int32_t top_k;
};
/// out[r] += sum over j of weights[r][j] * (answers[r * top_k + j] + bias[experts[r][j]]), in the order of j, rounded
/// once. answers: fp32; bias: [experts, cols], or null.
void combine_experts(cudaStream_t stream, const Matrix& answers, const Choices& choices, const float* bias,
                     const Matrix& out);

}  // namespace ashlar::cuda
