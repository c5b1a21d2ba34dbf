// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_ops.h"

#include <algorithm>

#include "base/error.h"
#include "device/cuda/cuda_found.h"
#include "device/cuda/cuda_ops_impl.h"
#include "device/cuda/cuda_status.h"
#include "device/cuda/quantised_layout.h"
#include "device/weights/group_rounding.h"

namespace ashlar {
namespace cuda {
namespace {

int32_t multiprocessors(int32_t device) {
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  return count;
}

/// Rows above which weights of few bits are expanded, as far as their values are bf16, where Hopper's instructions do
/// not serve: fewer read them several times in less time than that takes.
constexpr int32_t kExpandedRows = 128;
constexpr int64_t kExpandedBytes = int64_t{64} << 20;  // at a time

/// Rows of scratch memory between two products: boxes of any tile stay inside.
int32_t rows_with_room(int32_t rows) { return (rows + 255) / 256 * 256; }

void check_activations(const Tensor& tensor) { ASHLAR_CHECK(tensor.dtype == DType::kBF16); }

const CudaWeight& as_cuda(const Weight& weight) { return own_weight<CudaWeight>(weight); }

ProductCall product_of(ProductCall call, Tensor x, Tensor out) {
  check_activations(x);
  ASHLAR_CHECK_EQ(x.cols, call.k);
  ASHLAR_CHECK_EQ(out.cols, call.width);
  ASHLAR_CHECK_EQ(x.rows, out.rows);
  call.x = x.data;
  call.x_stride = x.stride;
  call.rows = out.rows;
  call.out = out.data;
  call.out_stride = out.stride;
  return call;
}

KvNumbers numbers_of(KvDType dtype) {
  switch (dtype) {
    case KvDType::kInt8:
      return KvNumbers::kInt8;
    case KvDType::kTq4:
      return KvNumbers::kTq4;
    case KvDType::kBF16:
    case KvDType::kF32:  // make_device() does not let it through
      break;
  }
  return KvNumbers::kBF16;
}

/// There are no formats for drafts alone: these have 16 rows a sequence, where few bits gain nothing.
Products as_decided(Products products) { return products == Products::kPropose ? Products::kDecide : products; }

}  // namespace

CudaOps::CudaOps(const DeviceOptions& options, int32_t device)
    : isa_(require_device(device)),
      kept_(options.weights),
      kept_for_drafts_(options.drafter_weights == KeptWeights::kAuto ? options.weights : options.drafter_weights),
      codec_(kv_codec(options.kv_dtype)),
      kv_numbers_(numbers_of(options.kv_dtype)),
      hopper_multiprocessors_(isa_ == "sm_90" ? multiprocessors(device) : 0),
      pool_(options.threads),
      memory_(device),
      graphs_(memory_),
      normed_(memory_),
      gathered_(memory_),
      gated_(memory_),
      logits_(memory_),
      answers_(memory_),
      places_(memory_),
      segments_(memory_),
      arrivals_(memory_),
      prepared_rows_(memory_),
      expanded_(memory_),
      adjuster_(memory_),
      surveyor_(memory_),
      folder_(memory_) {}

std::unique_ptr<Weight> CudaOps::pack(const WeightSource& source, WeightUse use) {
  const DType precision = use.products == Products::kRoute ? DType::kF32 : source.precision();
  const Packed format =
      format_for(precision, kept_numbers(kept_for(use.products), source.numbers(), as_decided(use.products)));
  return std::make_unique<CudaWeight>(memory_, pool_, source, format, use.gated);
}

std::unique_ptr<ExpertWeights> CudaOps::pack_experts(std::span<const ExpertSource> experts) {
  return std::make_unique<CudaExperts>(memory_, pool_, experts, kept_);
}

int64_t CudaOps::kept_bytes(Scheme scheme, Products products, int64_t count) const {
  const Numbers numbers = kept_numbers(kept_for(products), numbers_in(scheme), as_decided(products));
  return packed_bytes(format_for(precision_of(scheme), numbers), count);
}

void CudaOps::embed(const Weight& table, const int32_t* ids, float scale, Tensor out) {
  if (out.rows == 0) return;
  const CudaWeight& weight = as_cuda(table);
  const Layout& layout = weight.layout();
  ASHLAR_CHECK(!layout.is_gated && out.cols == layout.k);
  cuda::embed(memory_.stream(), weight.data(), layout.format, layout.n, layout.packed_k, ids, scale, matrix_of(out));
  check_launch("embed");
}

void CudaOps::rms_norm(Tensor x, const float* weight, float eps, Tensor out) {
  if (x.rows == 0) return;
  ASHLAR_CHECK_LE(x.cols, kMaxNormed);
  cuda::rms_norm(memory_.stream(), matrix_of(x), weight, eps, matrix_of(out));
  check_launch("rms_norm");
}

Tensor CudaOps::entering(const Input& in) {
  if (in.norm == nullptr) return in.x;
  const int64_t stride = (int64_t{in.x.cols} + 7) / 8 * 8;
  const size_t bytes = 2 * static_cast<size_t>(stride) * static_cast<size_t>(rows_with_room(in.x.rows));
  const Tensor normed = {normed_.reserve(bytes), in.x.rows, in.x.cols, stride, DType::kBF16};
  rms_norm(in.x, in.norm, in.eps, normed);
  return normed;
}

void CudaOps::product(const ProductCall& call, int32_t tile) {
  switch (call.format) {
    case Packed::kF32:
      product_f32(memory_.stream(), call);
      break;
    case Packed::kBf16:
      if (hopper_multiprocessors_ == 0 || !product_hopper(memory_.stream(), call, hopper_multiprocessors_)) {
        ASHLAR_CHECK(call.group.experts == nullptr || call.group.rows != nullptr);  // rows that were gathered
        product_bf16(memory_.stream(), call, tile);
      }
      break;
    default:
      if (hopper_multiprocessors_ != 0 && product_quantised_hopper(memory_.stream(), call, hopper_multiprocessors_)) {
        break;
      }
      if (call.rows > (max_quantised_rows() < 32 ? 16 : kExpandedRows) && call.group.rows == nullptr &&
          !scales_sums(call.format)) {
        return product_expanded(call, tile);
      }
      product_quantised(memory_.stream(), call,
                        call.group.rows != nullptr ? tile
                        : call.rows <= 8           ? 8
                        : call.rows <= 16          ? 16
                                                   : 32);
  }
  check_launch("a product");
}

void CudaOps::product_expanded(ProductCall call, int32_t tile) {
  const int32_t k = (call.k + kInputPad - 1) / kInputPad * kInputPad, all = (call.n + kTile - 1) / kTile * kTile;
  const auto most = static_cast<int32_t>(std::max<int64_t>(kExpandedBytes / (2 * int64_t{k}) / kTile, 1)) * kTile;
  const Packed format = call.format;
  const auto* weight = static_cast<const std::byte*>(call.weight);
  const size_t element = call.finish == Finish::kFloat ? sizeof(float) : sizeof(uint16_t);
  const int32_t outputs_of_column = call.finish == Finish::kGated ? 2 : 1;
  call.format = Packed::kBf16;
  for (int32_t first = 0; first < all; first += most) {
    const int32_t n = std::min(most, all - first);
    auto* const values = expanded_.reserve(2 * static_cast<size_t>(k) * static_cast<size_t>(n));
    expand(memory_.stream(), weight + packed_bytes(format, int64_t{first} * k), format, n, k, values);
    check_launch("expand");
    ProductCall some = call;
    some.weight = values;
    some.weight_is_made = true;
    some.n = std::min(n, call.n - first);
    some.width = std::min(call.width - first / outputs_of_column, n / outputs_of_column);
    some.out = static_cast<std::byte*>(call.out) + element * static_cast<size_t>(first / outputs_of_column);
    if (call.bias != nullptr) some.bias = call.bias + first;
    product(some, tile);
  }
}

void CudaOps::linear(const Weight& weight, Input in, Store store, Tensor out) {
  if (out.rows == 0) return;
  const int32_t x_rows = in.norm != nullptr ? rows_with_room(out.rows) : out.rows;
  linear_of(as_cuda(weight), entering(in), x_rows, store, out);
}

void CudaOps::linear_of(const CudaWeight& weight, Tensor x, int32_t x_rows, Store store, Tensor out) {
  const Layout& layout = weight.layout();
  ASHLAR_CHECK(!layout.is_gated && (store == Store::kOverwrite || out.dtype == DType::kBF16));
  ProductCall call = product_of(weight.call(), x, out);
  call.x_rows = x_rows;
  call.finish = store == Store::kAdd ? Finish::kAdd : out.dtype == DType::kF32 ? Finish::kFloat : Finish::kBf16;
  product(call, tile_rows(out.rows));
}

void CudaOps::gated_mlp(const Weight& gate_up, const Weight& down, Input in, Tensor out) {
  if (out.rows == 0) return;
  const CudaWeight& first = as_cuda(gate_up);
  ASHLAR_CHECK(first.layout().is_gated && first.n() == 2 * down.k());
  const int32_t width = down.k(), rows = out.rows;
  const int64_t stride = (int64_t{width} + 7) / 8 * 8;
  const int32_t with_room = rows_with_room(rows);
  const size_t bytes = 2 * static_cast<size_t>(stride) * static_cast<size_t>(with_room);
  const Tensor between = {gated_.reserve(bytes), rows, width, stride, DType::kBF16};
  ProductCall call = product_of(first.call(), entering(in), between);
  call.x_rows = in.norm != nullptr ? with_room : rows;
  product(call, tile_rows(rows));
  linear_of(as_cuda(down), between, with_room, Store::kAdd, out);
}

void CudaOps::reduce_add(Tensor partial, Tensor residual) {
  if (residual.rows == 0) return;
  add(memory_.stream(), matrix_of(partial), matrix_of(residual));
  check_launch("reduce_add");
}

void CudaOps::gather_rows(Tensor x, const int32_t* indices, Tensor out) {
  ASHLAR_CHECK(x.dtype == out.dtype);
  if (out.rows == 0) return;
  cuda::copy_rows(memory_.stream(), matrix_of(x), indices, nullptr, matrix_of(out));
  check_launch("gather_rows");
}

void CudaOps::copy_rows(Tensor x, const int32_t* from, const int32_t* to, int32_t n, Tensor out) {
  ASHLAR_CHECK(x.dtype == out.dtype);
  if (n == 0) return;
  Matrix rows = matrix_of(out);
  rows.rows = n;
  cuda::copy_rows(memory_.stream(), matrix_of(x), from, to, rows);
  check_launch("copy_rows");
}

void CudaOps::copy(Tensor x, Tensor out) {
  ASHLAR_CHECK(x.dtype == out.dtype);
  if (out.rows == 0) return;
  cuda::copy_rows(memory_.stream(), matrix_of(x), nullptr, nullptr, matrix_of(out));
  check_launch("copy");
}

void CudaOps::scale(Tensor x, float factor) {
  if (x.rows == 0) return;
  cuda::scale(memory_.stream(), matrix_of(x), factor);
  check_launch("scale");
}

void CudaOps::softcap(Tensor x, float limit) {
  if (x.rows == 0) return;
  cuda::softcap(memory_.stream(), matrix_of(x), limit);
  check_launch("softcap");
}

}  // namespace cuda

std::unique_ptr<Ops> make_cuda_ops(const DeviceOptions& options, int32_t device) {
  return std::make_unique<cuda::CudaOps>(options, device);
}

}  // namespace ashlar
