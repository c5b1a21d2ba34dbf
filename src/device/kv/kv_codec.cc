// SPDX-License-Identifier: Apache-2.0
#include "device/kv/kv_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/philox.h"
#include "device/kv/key_codec.h"

namespace ashlar {
namespace {

using Floats = float __attribute__((vector_size(16)));
using Ints = int32_t __attribute__((vector_size(16)));
constexpr int32_t kLanes = 4;

inline Floats load(const float* from) {
  Floats v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}
inline void store(float* to, Floats v) { std::memcpy(to, &v, sizeof(v)); }

/// code = round(x / scale) with scale = max |x| / kHighest: no number is off by more than half a scale.
template <int kHighest>
void choose_integers(const float* x, int32_t n, CodedVector& to) {
  constexpr float kBound = kHighest;
  float highest = 0;
  float sum = 0;  // no number if one of x is none: then the scale says so, as the maximum might not
  for (int32_t i = 0; i < n; ++i) {
    highest = std::max(highest, std::abs(x[i]));
    sum += x[i] * 0.0F;
  }
  constexpr float kLeast = 1e-30F;  // all less is zero: its inverse is no number
  to.scale = (highest < kLeast ? 0.0F : highest / kBound) + sum;
  const float inverse = to.scale > 0 ? kBound / highest : 0.0F;
  for (int32_t i = 0; i < n; ++i) {
    const float scaled = x[i] * inverse;  // between -kBound and kBound, up to rounding
    const float bounded = scaled >= -kBound ? std::min(scaled, kBound) : -kBound;
    constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
    to.codes[i] = static_cast<uint8_t>(std::bit_cast<uint32_t>(bounded + kMagic));
  }
}

class Int8Codec final : public KvCodec {
 public:
  int32_t bits() const override { return 8; }

 private:
  void choose_codes(const float* x, int32_t n, CodedVector& to) const override { choose_integers<127>(x, n, to); }
};

/// x is rotated by H D, where D flips signs at random and H is the Hadamard matrix over sqrt(n). Its coordinates are
/// then nearly normal with the same variance, whatever x was.
class RotatedCodec : public KvCodec {
 public:
  RotatedCodec() {
    constexpr uint32_t kSeed[2] = {0x4B563421, 0x7154726E};  // any constant; another one would change tokens
    for (int32_t i = 0; i < kMaxHeadDim; i += 4) {
      const PhiloxBlock words = philox4x32({static_cast<uint32_t>(i / 4), 0, 0, 0}, kSeed[0], kSeed[1]);
      for (int32_t j = 0; j < 4; ++j) signs_[i + j] = (words[static_cast<size_t>(j)] & 1U) != 0 ? -1.0F : 1.0F;
    }
  }

  bool rotates() const override { return true; }

  void check(int32_t head_dim) const override {
    const bool power_of_two = (head_dim & (head_dim - 1)) == 0;
    if (power_of_two && head_dim >= 16 && head_dim <= kMaxHeadDim) return;
    throw Error("kv-dtype", "tq4 needs heads whose size is a power of two from 16 to " + std::to_string(kMaxHeadDim) +
                                ", and this model has heads of " + std::to_string(head_dim) +
                                "; int8 takes heads of any size");
  }

  void rotate(float* x, int32_t n) const override {
    for (int32_t i = 0; i < n; ++i) x[i] *= signs_[i];
    transform(x, n);
  }

  void rotate_back(float* x, int32_t n) const override {
    transform(x, n);
    for (int32_t i = 0; i < n; ++i) x[i] *= signs_[i];
  }

 private:
  /// x = H x; H is its own inverse. Pairs (a, b) at distance 1, 2, 4, ... become (a + b, a - b).
  static void transform(float* x, int32_t n) {
    const Floats every_second = {1, -1, 1, -1};
    const Floats second_half = {1, 1, -1, -1};
    for (int32_t i = 0; i < n; i += kLanes) {
      Floats v = load(x + i);
      v = v * every_second + __builtin_shufflevector(v, v, 1, 0, 3, 2);
      store(x + i, v * second_half + __builtin_shufflevector(v, v, 2, 3, 0, 1));
    }
    for (int32_t half = kLanes; half < n; half *= 2) {
      for (int32_t first = 0; first < n; first += 2 * half) {
        for (int32_t i = first; i < first + half; i += kLanes) {
          const Floats a = load(x + i);
          const Floats b = load(x + i + half);
          store(x + i, a + b);
          store(x + i + half, a - b);
        }
      }
    }
    const float scale = 1.0F / std::sqrt(static_cast<float>(n));
    for (int32_t i = 0; i < n; i += kLanes) store(x + i, load(x + i) * scale);
  }

  std::array<float, kMaxHeadDim> signs_;
};

/// Values: each coordinate, over the root of their mean square, is rounded to the nearest of 16 levels.
class TurboQuantCodec final : public RotatedCodec {
 public:
  static constexpr int32_t kLevels = 16;

  TurboQuantCodec() {
    for (int32_t i = 0; i + 1 < kLevels; ++i) borders_[i] = (kValues[i] + kValues[i + 1]) / 2;
  }

  int32_t bits() const override { return 4; }
  const float* levels() const override { return kValues; }

 private:
  // The levels of least squared error for the normal distribution, 0.009501 (Max, "Quantizing for minimum distortion",
  // 1960): each is the mean of what is nearest to it, which has one solution.
  static constexpr float kValues[kLevels] = {-2.732589571F, -2.069017227F, -1.618046386F, -1.256231197F,
                                             -0.942340456F, -0.656759119F, -0.388048299F, -0.128395030F,
                                             0.128395030F,  0.388048299F,  0.656759119F,  0.942340456F,
                                             1.256231197F,  1.618046386F,  2.069017227F,  2.732589571F};

  void choose_codes(const float* x, int32_t n, CodedVector& to) const override {
    // In the order of a warp of a GPU, which has the same codes: 32 sums, then pairs of those 16 apart, 8 and so on.
    constexpr int32_t kSums = 32;
    double squares[kSums] = {};
    for (int32_t i = 0; i < n; ++i) squares[i % kSums] += static_cast<double>(x[i]) * x[i];
    for (int32_t half = kSums / 2; half > 0; half /= 2) {
      for (int32_t i = 0; i < half; ++i) squares[i] += squares[i + half];
    }
    to.scale = static_cast<float>(std::sqrt(squares[0] / n));
    const float inverse = to.scale > 0 ? 1.0F / to.scale : 0.0F;
    for (int32_t i = 0; i < n; i += kLanes) {
      const Floats scaled = load(x + i) * inverse;
      Ints below = {};  // minus the borders that are less
      for (const float border : borders_) below += scaled > border;
      for (int32_t lane = 0; lane < kLanes; ++lane) to.codes[i + lane] = static_cast<uint8_t>(-below[lane]);
    }
  }

  std::array<float, kLevels - 1> borders_;
};

/// Keys: what is wrong with one changes the weights of all, so they take 6 bits, in even steps up to their largest
/// coordinate: of a few dozen normal numbers it is small enough that these are off by less than the best levels for
/// any.
class TurboQuantKeys final : public RotatedCodec {
 public:
  int32_t bits() const override { return 6; }

 private:
  void choose_codes(const float* x, int32_t n, CodedVector& to) const override { choose_integers<31>(x, n, to); }
};

}  // namespace

std::string_view name_of(KvDType dtype) { return std::ranges::find(kKvDTypes, dtype, &NamedKvDType::dtype)->name; }

void KvCodec::encode(const float* x, int32_t n, CodedVector& to) const {
  if (!rotates()) return choose_codes(x, n, to);
  float rotated[kMaxHeadDim];
  std::copy_n(x, n, rotated);
  rotate(rotated, n);
  choose_codes(rotated, n, to);
}

void KvCodec::decode(const uint8_t* codes, float scale, int32_t n, float* x) const {
  const float* values = levels();
  for (int32_t i = 0; i < n; ++i) {
    const float value = values != nullptr ? values[codes[i]] : static_cast<float>(static_cast<int8_t>(codes[i]));
    x[i] = value * scale;
  }
}

void KvCodec::round(float* x, int32_t n) const {
  CodedVector coded;
  encode(x, n, coded);
  decode(coded.codes, coded.scale, n, x);
  rotate_back(x, n);
}

const KvCodec* kv_codec(KvDType dtype) {
  static const Int8Codec int8;
  static const TurboQuantCodec tq4;
  switch (dtype) {
    case KvDType::kBF16:
    case KvDType::kF32:
      return nullptr;
    case KvDType::kInt8:
      return &int8;
    case KvDType::kTq4:
      return &tq4;
  }
  return nullptr;
}

const KvCodec& key_codec(const KvCodec& values) {
  static const TurboQuantKeys tq4_keys;
  return &values == kv_codec(KvDType::kTq4) ? tq4_keys : values;
}

}  // namespace ashlar
