// SPDX-License-Identifier: Apache-2.0
#pragma once
// Keys and values of the cache as codes of a few bits: what a vector of one head becomes when it is stored, and what it
// is when it is read. A device decides where codes lie in a page; which codes they are is the same on all of them.

#include <cstdint>
#include <string_view>

#include "device/rows.h"

namespace ashlar {

/// Numbers of the KV cache.
enum class KvDType : uint8_t {
  kBF16,  ///< the cpu and cuda devices' own; what `ref` has is exact
  kF32,
  kInt8,  ///< 8-bit integers with a scale for each vector
  kTq4,   ///< after a rotation values in 4 bits, keys in 6: TurboQuant (Zandieh et al. 2025, arXiv 2504.19874)
};

struct NamedKvDType {
  std::string_view name;
  KvDType dtype;
};
inline constexpr NamedKvDType kKvDTypes[] = {
    {"bf16", KvDType::kBF16}, {"f32", KvDType::kF32}, {"int8", KvDType::kInt8}, {"tq4", KvDType::kTq4}};

std::string_view name_of(KvDType dtype);

/// The codes of a vector, one a byte, and its scale.
struct CodedVector {
  uint8_t codes[kMaxHeadDim];
  float scale;
};

/// A vector x of head_dim numbers is scale * value(code) each, in the coordinates of the cache: its own, or those after
/// an orthogonal transformation, in which products of two vectors are the same. Writing rounds once; reading does not.
/// Stateless.
class KvCodec {
 public:
  virtual ~KvCodec() = default;

  virtual int32_t bits() const = 0;  ///< of a code: 8, 6 or 4
  /// [2^bits] values of the codes; null: a code is an integer in two's complement, and its own value.
  virtual const float* levels() const { return nullptr; }
  /// Whether the coordinates of the cache are others than a vector's own.
  virtual bool rotates() const { return false; }
  /// Throws Error("kv-dtype") where vectors of that length cannot be coded.
  virtual void check(int32_t /*head_dim*/) const {}

  /// x [n] to the coordinates of the cache and back, in place.
  virtual void rotate(float* /*x*/, int32_t /*n*/) const {}
  virtual void rotate_back(float* /*x*/, int32_t /*n*/) const {}

  /// The codes of x [n], which is in its own coordinates.
  void encode(const float* x, int32_t n, CodedVector& to) const;
  /// x [n] in the coordinates of the cache.
  void decode(const uint8_t* codes, float scale, int32_t n, float* x) const;
  /// x [n], in its own coordinates, becomes what it would be when read.
  void round(float* x, int32_t n) const;

 private:
  /// Codes of x [n] in the coordinates of the cache.
  virtual void choose_codes(const float* x, int32_t n, CodedVector& to) const = 0;
};

/// Null for numbers that are kept as they are.
const KvCodec* kv_codec(KvDType dtype);

}  // namespace ashlar
