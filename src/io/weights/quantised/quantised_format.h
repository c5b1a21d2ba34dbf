// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the formats of quantised checkpoints are made of.

#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "io/weights/quantised/quantised.h"

namespace ashlar {

/// A tensor's dtype and shape as a format expects them.
struct Expected {
  std::vector<std::string_view> dtypes;
  std::vector<std::vector<int64_t>> shapes;  ///< one of them
};

/// The tensors of a folder while a format goes through them.
class QuantisedTensors {
 public:
  QuantisedTensors(std::string folder, TensorsByName& tensors, std::map<std::string, StoredTensor>& made)
      : folder_(std::move(folder)), tensors_(tensors), made_(made) {}

  /// Every MODULE that has a tensor MODULE + suffix of this dtype and rank, no dimension of which is 0, in order.
  std::vector<std::string> modules_with(std::string_view suffix, std::string_view dtype, size_t rank = 2) const;
  /// The tensor of that name, which must be there.
  const StoredTensor& get(const std::string& name) const;
  /// The same; it must be as expected.
  const StoredTensor& get(const std::string& name, const Expected& expected) const;
  /// nullptr: there is none.
  const StoredTensor* find(const std::string& name) const;
  /// A tensor `weight`, of its name, dtype (what its numbers are called), shape and matrix, in place of the tensors
  /// MODULE + each suffix, as far as they are there. `numbers` is one of those.
  void replace(const std::string& module, const std::vector<std::string_view>& suffixes, const StoredTensor& numbers,
               StoredTensor weight);
  /// The same with MODULE.weight, of the shape of the matrix.
  void make_weight(const std::string& module, const std::vector<std::string_view>& suffixes,
                   const StoredTensor& numbers, std::string_view dtype, const ScaledMatrix& matrix);
  /// Lets a model do without MODULE.bias where it is all zeros, as some tools give every module one.
  void allow_no_bias(const std::string& module);
  /// Takes away what names that end so hold: scales of activations and of the KV cache, which stay as they are here.
  void drop(const std::vector<std::string_view>& suffixes);

 private:
  std::string folder_;
  TensorsByName& tensors_;
  std::map<std::string, StoredTensor>& made_;
};

[[noreturn]] void fail_quantised(const StoredTensor& tensor, const std::string& what);

/// The type of a tensor of scales; it must be one of F32, F16, BF16, F8_E4M3, F8_E8M0 and U8 (both powers of two).
Scales scales_of(const StoredTensor& tensor);

/// `order`: int32 of each column, its group. Null where columns lie in the order of their groups. Throws for a group
/// that the matrix has not.
const std::byte* read_group_order(const StoredTensor& order, const ScaledMatrix& matrix);

/// group_size: what is in a group of columns; -1: all of them.
int64_t read_group_size(const JsonFields& config, const std::string& key);

/// What to add to a description where the configuration would have activations rounded too: they stay as they are.
inline constexpr std::string_view kActivationsStay = "; activations stay as they are (W8A16)";

inline int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

/// A format: what configurations call it, and its reader, which returns a description.
struct QuantisedFormat {
  std::string_view method;
  std::string (*read)(const JsonFields& config, QuantisedTensors& tensors);
};

std::string read_fp8(const JsonFields& config, QuantisedTensors& tensors);
std::string read_compressed_tensors(const JsonFields& config, QuantisedTensors& tensors);
std::string read_awq(const JsonFields& config, QuantisedTensors& tensors);
std::string read_gptq(const JsonFields& config, QuantisedTensors& tensors);
std::string read_mxfp4(const JsonFields& config, QuantisedTensors& tensors);

}  // namespace ashlar
