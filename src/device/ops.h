// SPDX-License-Identifier: Apache-2.0
#pragma once
// The operations a device offers, at the granularity of a language model. `ref` is their executable specification:
// plain fp32 loops; every other device is held against it by the conformance table.
//
// Row invariance, for every op and every device: the bits of an output row depend on that row's inputs alone, never on
// how many rows the call has, where the row stands among them, or how many threads work.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "base/check.h"
#include "device/choose.h"
#include "device/delta_net.h"
#include "device/device_probe.h"
#include "device/draft_heads.h"
#include "device/pass_key.h"
#include "device/routing.h"
#include "device/row_statistics.h"
#include "device/rows.h"
#include "device/short_conv.h"
#include "device/tensor.h"
#include "device/weights/weight_source.h"

namespace ashlar {

struct AvailableMemory;  // base/machine/available_memory.h

/// Device memory, freed with the object. Zeroed at birth, aligned to 64 bytes at least.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual std::byte* data() = 0;
  virtual size_t size() const = 0;
};

/// A matrix in the device's own layout: [n, k], y = x W^T (+ bias), and also a table of n rows of k values for embed().
class Weight {
 public:
  virtual ~Weight() = default;
  virtual int32_t n() const = 0;
  virtual int32_t k() const = 0;
  virtual size_t bytes() const = 0;             ///< memory it holds
  virtual std::string_view format() const = 0;  ///< name of the device's layout and types: "bf16", "f32", "int8"
};

/// The gated MLPs of a mixture, all of one shape: expert e computes down[e] (silu(gate[e] x) * up[e] x), or what its
/// ExpertGate says, with its biases.
class ExpertWeights {
 public:
  virtual ~ExpertWeights() = default;
  virtual int32_t n() const = 0;
  virtual int32_t hidden() const = 0;
  virtual int32_t width() const = 0;
  virtual size_t bytes() const = 0;  ///< memory they hold
};

/// A weight or experts as the device's own kind, which has no subclasses. Aborts where another device packed them.
template <class Own, class Packed>
const Own& own_weight(const Packed& weight) {
  const bool packed_by_this_device = typeid(weight) == typeid(Own);
  ASHLAR_CHECK(packed_by_this_device);
  return static_cast<const Own&>(weight);
}

/// What products with a weight are for.
enum class Products : uint8_t {
  kDecide,  ///< answers: the values are those of the checkpoint, exactly, unless a user had them rounded (KeptWeights)
  kVocabulary,  ///< the same over all tokens, and their embeddings: in fewer than 8 bits only if the checkpoint is
  kRoute,       ///< choices between near equals: products of exact values and rows, in fp32 on every device
  kPropose,     ///< drafts, which are checked: values may be rounded where that is faster
};

struct WeightUse {
  Products products = Products::kDecide;
  bool gated = false;  ///< for gated_mlp, and nothing else: the first half of the rows are gates, the second half ups
};

/// What becomes of an expert's gates g and ups u: z = silu(g) * u, or gelu(g) * u as gelu_gate has it, or, where they
/// are kept in bounds as in gpt-oss, z = (min(max(u, -limit), limit) + 1) * h * sigmoid(alpha * h) of h = min(g,
/// limit).
struct ExpertGate {
  float limit = 0;  ///< 0: no bounds
  float alpha = 1;
  bool gelu = false;  ///< in place of silu; without bounds
  bool operator==(const ExpertGate&) const = default;
};

/// One expert, as in gated_mlp: gate over up [2 * width, hidden], and down [hidden, width].
struct ExpertSource {
  WeightSource gate_up;
  WeightSource down;
  ExpertGate gate = {};
};

enum class Store : uint8_t { kOverwrite, kAdd };

/// What enters a product: rows as they are, or with the rms_norm of `norm` ([cols]) and `eps` applied on the way.
struct Input {
  Tensor x;
  const float* norm = nullptr;
  float eps = 0;

  Input(Tensor rows) : x(rows) {}  // NOLINT(google-explicit-constructor): rows are an input
  Input(Tensor rows, const float* weight, float epsilon) : x(rows), norm(weight), eps(epsilon) {}
};

/// Whose projections store_kv finishes, how, and where their keys and values go.
struct KvStore {
  const AttentionShape& shape;
  const float* q_norm = nullptr;  ///< [head_dim], or null for none
  const float* k_norm = nullptr;
  float eps = 0;
  const RopeTable& rope;
  const Rows& rows;
  KvPlane plane;
};

/// The attention of a layer: what enters it, its weights, where keys and values go, what each row sees, and room for
/// what is between the products.
struct SelfAttention {
  const Weight& projection;  ///< of queries, keys and values
  const Weight& output;
  Input in;
  const KvStore& store;
  Visibility visible;
  Tensor qkv;    ///< [rows, q_width + 2 kv_width]
  Tensor mixed;  ///< [rows, q_width]
  Tensor copy;   ///< if it has rows, those of `in` go there too, as they came
};

class Ops {
 public:
  virtual ~Ops() = default;

  /// "ref", "cpu"; and the instruction set in use ("fp32", "avx2", "avx512", "avx512bf16", "amx").
  virtual std::string name() const = 0;
  virtual std::string isa() const = 0;
  virtual int32_t threads() const = 0;

  /// Rows of which choose() says as much in the time of one, roughly: it is worth asking about this many together, even
  /// if the answers of some may not be needed.
  virtual int32_t rows_at_once() const { return threads(); }

  /// Rows of a step of prompts alone: with more of them, a row would take as long.
  virtual int32_t prompt_rows() const { return 512; }

  /// The type of activations between ops: hidden states, projections, what an MLP adds. Tensors that ops below call
  /// scores or logits are fp32 on every device.
  virtual DType activation_type() const { return DType::kF32; }

  virtual std::unique_ptr<Buffer> allocate(size_t bytes) = 0;

  /// What allocate() and pack() may still take: of the device's own memory, or of the host's.
  virtual AvailableMemory available_memory() const;

  /// To measure a buffer of about `bytes` of the device's memory, or of fewer where more would say the same. Null where
  /// that is the host's own memory.
  virtual std::unique_ptr<DeviceProbe> device_probe(int64_t /*bytes*/) { return nullptr; }

  /// One weight [n, k] of the source's parts, in a format of the device that suits their schemes and the use; its bias
  /// is added to every output row after the product. Every op takes weights of every format. What products for
  /// kPropose give is near the exact product, and may differ between devices.
  virtual std::unique_ptr<Weight> pack(const WeightSource& source, WeightUse use = {}) = 0;

  /// Bytes that `count` numbers of such a scheme take in a weight for these products, roughly.
  virtual int64_t kept_bytes(Scheme scheme, Products /*products*/, int64_t count) const {
    return count * static_cast<int64_t>(bytes_of(precision_of(scheme)));
  }

  /// A copy of a weight for other products. Null where it would have the same format.
  virtual std::unique_ptr<Weight> repack(const Weight& weight, Products products) = 0;

  /// The experts of a mixture, at least one, all of one shape and one gate, with biases or all of them without.
  virtual std::unique_ptr<ExpertWeights> pack_experts(std::span<const ExpertSource> experts) = 0;

  /// out[r] = scale * table row ids[r]. out: [n, k]. Ids must lie in [0, table.n()).
  virtual void embed(const Weight& table, const int32_t* ids, float scale, Tensor out) = 0;

  /// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight. weight: [cols]. out may be x.
  virtual void rms_norm(Tensor x, const float* weight, float eps, Tensor out) = 0;

  /// out[r] (=|+=) x[r] W^T + bias. in: [rows, k], out: [rows, n], of the activations' type or, overwritten, fp32
  /// (scores and logits). out must not overlap in.
  virtual void linear(const Weight& weight, Input in, Store store, Tensor out) = 0;

  /// ids[r] = the column in which x[r] W^T + bias is highest, the lowest of equals; values that are not numbers never
  /// win (-1 if nothing else is there). Compares the bits that linear() gives. x: [rows, k].
  virtual void linear_argmax(const Weight& weight, Tensor x, int32_t* ids) = 0;

  /// out[r] = statistics of x[r] W^T + bias without column `without` (-1: of all), as row_statistics() gives them for
  /// the bits of linear(). x: [rows, k].
  virtual void linear_statistics(const Weight& weight, Tensor x, int32_t without, RowStatistics* out) = 0;

  /// A gated MLP: out[r] += down(z) with z[i] = silu(y[i]) * y[width + i] of y = x[r] gate_up^T + bias. gate_up is
  /// packed as gated, down is not: [n, width]. in: [rows, k], out: [rows, n]. out may be in.
  virtual void gated_mlp(const Weight& gate_up, const Weight& down, Input in, Tensor out) = 0;

  /// residual[r] += partial[r]. Both [rows, cols], not overlapping. Where a weight is cut along its inputs (shard.h),
  /// each rank's product is a partial result: this is the op in which ranks meet, and their partials are summed in
  /// ascending order before the residual is added to. linear with Store::kAdd, gated_mlp and self_attention are their
  /// last product to a partial and then this op, bit for bit, mix_experts up to rounding: one device, which needs no
  /// partial, has them in one.
  virtual void reduce_add(Tensor partial, Tensor residual) = 0;

  /// Chooses the experts of every row (routing.h). logits: [rows, experts].
  virtual void route(Tensor logits, const ExpertFactors& factors, const Routing& routing, Routes routes) = 0;

  /// out[r] += sum over j of weights[r][j] * experts[r][j](x[r]), added in the order of j. x, out: [rows, hidden], not
  /// overlapping. Rows that share an expert meet its weights together.
  virtual void mix_experts(const ExpertWeights& experts, Tensor x, Routes routes, Tensor out) = 0;

  /// Bytes of one page of one layer (K and V of kPageTokens tokens) on this device.
  virtual int64_t kv_page_bytes(const AttentionShape& shape) const = 0;

  /// Finishes projections and writes the cache. qkv: [rows, (q_heads + 2 n_kv_heads) * head_dim], where q_heads is
  /// n_heads or 0 (context rows of a drafter carry K and V only); n_kv_heads may be 0 (queries alone, and the plane is
  /// not touched). Per head: q and k are RMS-normed (if q_norm / k_norm
  /// is not null) and rotated; q and k stay in place in qkv; k and v go to the row's position in the plane, those of
  /// rows without KV nowhere, those of rows with a scratch slot there.
  virtual void store_kv(Tensor qkv, const KvStore& to) = 0;

  /// qkv = in W^T + bias, and what store_kv does with it.
  virtual void linear_kv(const Weight& weight, Input in, Tensor qkv, const KvStore& to) {
    linear(weight, in, Store::kOverwrite, qkv);
    store_kv(qkv, to);
  }

  /// Copies K and V from the scratch slots of a branch table to its positions in the pages.
  virtual void commit_kv(const AttentionShape& shape, const BranchTable& branch, const int32_t* page_table,
                         KvPlane plane) = 0;

  /// out[r] = softmax(scale * q[r] . K[visible]) V[visible], head by head, key/value head h / (n_heads / n_kv_heads). A
  /// sink of the head is one more score of the softmax, whose value is zero.
  /// q: [rows, n_heads * head_dim] (its first columns; with rows without KV, the qkv tensor as store_kv left it),
  /// out: [rows, n_heads * head_dim].
  /// Keys are walked in tiles that start at multiples of a fixed length from position 0.
  virtual void attention(Tensor q, const AttentionShape& shape, const Rows& rows, Visibility visible, KvPlane plane,
                         Tensor out) = 0;

  /// out[r] += the output projection of what r attends to: linear_kv, attention and linear. What is left in qkv and
  /// mixed may not be read.
  virtual void self_attention(const SelfAttention& call, Tensor out) {
    if (call.copy.rows > 0) copy(call.in.x, call.copy);
    linear_kv(call.projection, call.in, call.qkv, call.store);
    attention(call.qkv, call.store.shape, call.store.rows, call.visible, call.store.plane, call.mixed);
    linear(call.output, call.mixed, Store::kAdd, out);
  }

  /// x[r][i] *= sigmoid(gate[r][i]). gate: as x, or [rows, 1], where a row has one gate for all its columns.
  virtual void sigmoid_gate(Tensor gate, Tensor x) = 0;

  /// x[r][i] *= gelu(gate[r][i]), approximated by tanh (Hendrycks and Gimpel 2016, arXiv 1606.08415): gelu(g) =
  /// g sigmoid(2 sqrt(2 / pi) (g + 0.044715 g^3)). Both [rows, cols].
  virtual void gelu_gate(Tensor gate, Tensor x) = 0;

  /// A gated delta net between its projections. in: [rows, projected_width], out: [rows, v_width]. Rows of a sequence
  /// one after the other: q, k and v are silu of the convolved channels, q and k divided by the square root of their
  /// sum of squares + 1e-6, q by that of k_dim, too. With the matrix S of each value head, from the state (zeros at
  /// position 0), and g = exp(decay * softplus(a + bias)): u = sigmoid(b) (v - g S^T k), then S = g S + k u^T, and out
  /// = rms_norm(S^T q) * silu(z). Before that S goes through the rows of the slot's log that were committed
  /// (StateSpan::replays); afterwards the log has the span's last rows. All rows are computed in this order, in fp32,
  /// so that the bits depend neither on how a sequence is cut into spans nor on which of its rows went through the log.
  virtual void gated_delta_net(Tensor in, const DeltaNet& net, Tensor out) = 0;

  /// A gated short convolution between its projections. in: [rows, 3 * channels], b, c and x side by side; out: [rows,
  /// channels]. With z = b * x, out[r] = c * (bias + sum over t of taps[t] * z of the row taps - 1 - t before), rows
  /// before a sequence's first being zeros. Rows come from the state, the log and the call as for a gated delta net,
  /// and with the same promise: the bits do not depend on how a sequence is cut into spans.
  virtual void short_conv(Tensor in, const ShortConv& conv, Tensor out) = 0;

  /// Channel c of out[r] (=|+=) the sum over t, ascending, of (base[t][c] + dynamic[r][t * groups + c / group]) times
  /// that of x[r - t], where tables[r - t] is tables[r]: rows before a sequence's first are zeros. x, out: [rows,
  /// channels], not overlapping; dynamic: [rows, taps * groups] for channels / group groups.
  virtual void grouped_conv(Tensor x, Tensor dynamic, const GroupedConv& conv, const int32_t* tables, Store store,
                            Tensor out) = 0;

  /// The out.n highest logits of each row and their columns, the lowest column of equals first. Where fewer are numbers
  /// above minus infinity, column 0 at minus infinity fills up. logits: fp32.
  virtual void find_candidates(Tensor logits, Candidates out) = 0;

  /// out[r][a * n + b], fp32, = logit of candidate b of row r + scale * sum over i of before[a][i] * hidden[r][i] *
  /// after[b][i], where `before` are the candidates of row r - 1. A row that begins a block has its anchor before it,
  /// and a = 0 alone. out: [rows, n * n].
  virtual void score_edges(const CandidateEdges& edges, Tensor out) = 0;

  /// out[r] = head by head, softmax over the candidates j of the block of (q[r] . k[j] / sqrt(head_dim) + bias of their
  /// distance) times v[j], in the order of j. qkv: [positions * n, 3 * cols], queries, keys and values side by side;
  /// out: [positions * n, cols].
  virtual void candidate_attention(Tensor qkv, const CandidateAttention& call, Tensor out) = 0;

  /// out[i] = x[indices[i]] for i in [0, out.rows).
  virtual void gather_rows(Tensor x, const int32_t* indices, Tensor out) = 0;

  /// out[to[i]] = x[from[i]] for i in [0, n). Other rows of `out` stay as they are. It may be `x`, if no row is in both
  /// `from` and `to`; the rows of `to` differ.
  virtual void copy_rows(Tensor x, const int32_t* from, const int32_t* to, int32_t n, Tensor out) = 0;

  /// out[r] = x[r]; the shapes agree, the strides need not.
  virtual void copy(Tensor x, Tensor out) = 0;

  /// Fills `begin` and `end` ([rows.n] each) for a layer whose rows see keys at most `window` - 1 positions away (0:
  /// any) and, if it is causal, none after their own position, else those up to their block_ends. Rows without KV see
  /// what is before them in any layer.
  virtual void visibility(const Rows& rows, int32_t window, bool causal, int32_t* begin, int32_t* end) = 0;

  /// x[r][i] *= factor.
  virtual void scale(Tensor x, float factor) = 0;

  /// x[r][i] = limit * tanh(x[r][i] / limit).
  virtual void softcap(Tensor x, float limit) = 0;

  /// choices[i] is what requests[i] asks about its row of `logits` (choose.h), which may be overwritten, so that no two
  /// requests name one row. Each choice depends on its own row and request alone. Returns when they are there.
  virtual void choose(Tensor logits, std::span<const RowRequest> requests, std::span<RowChoice> choices) = 0;

  /// Copies `bytes` from the host to device memory and back. They may be used again when the call returns.
  virtual void upload(const void* from, std::byte* to, size_t bytes) = 0;
  virtual void download(const std::byte* from, void* to, size_t bytes) = 0;
  /// Copies device memory; the ranges do not overlap.
  virtual void copy_bytes(const std::byte* from, std::byte* to, size_t bytes) = 0;

  /// Runs `pass`, or again what it asked for when an equal key came before. So the ops in it and their arguments follow
  /// from the key alone, and it does nothing but ask for ops: it makes no memory, copies nothing to or from the host or
  /// by copy_bytes, chooses nothing, asks for no statistics and runs no pass. What the ops read may differ each time.
  /// When memory of the device is freed, keys that came before count no longer: others may come to have its addresses.
  virtual void run_pass(const PassKey& /*key*/, const std::function<void()>& pass) { pass(); }

  /// Host work next to the device's: runs fn(context, i) for i in [0, n) on threads of the host and returns when all
  /// are done. Call i writes what belongs to i only. If calls throw, others may still run, and one of their exceptions
  /// is thrown on.
  virtual void for_each(int32_t n, void (*fn)(void* context, int32_t i), void* context) = 0;
};

}  // namespace ashlar
