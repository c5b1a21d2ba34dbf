// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "io/weights/quantised/quantised_format.h"

namespace ashlar {
namespace {

bool is_one_of(const auto& value, const auto& list) {
  return std::any_of(list.begin(), list.end(), [&](const auto& each) { return each == value; });
}

std::string describe(const Expected& expected) {
  std::string text;
  for (const std::string_view dtype : expected.dtypes) text += (text.empty() ? "" : "/") + std::string(dtype);
  for (size_t i = 0; i < expected.shapes.size(); ++i) {
    text += (i == 0 ? " " : " or ") + describe_shape(expected.shapes[i]);
  }
  return text;
}

}  // namespace

void fail_quantised(const StoredTensor& tensor, const std::string& what) {
  throw Error("quantised", tensor.file + ": tensor " + for_message(tensor.name) + ": " + what);
}

std::vector<std::string> QuantisedTensors::modules_with(std::string_view suffix, std::string_view dtype,
                                                        size_t rank) const {
  std::vector<std::string> modules;
  for (const auto& [name, tensor] : tensors_) {
    if (!name.ends_with(suffix) || tensor->dtype != dtype || tensor->shape.size() != rank) continue;
    if (tensor->bytes == 0) fail_quantised(*tensor, "is empty: " + tensor->describe());
    modules.push_back(name.substr(0, name.size() - suffix.size()));
  }
  return modules;
}

const StoredTensor* QuantisedTensors::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

const StoredTensor& QuantisedTensors::get(const std::string& name) const {
  const StoredTensor* tensor = find(name);
  if (tensor == nullptr) {
    throw Error("quantised", folder_ + ": tensor " + for_message(name) + " is missing; the others of its module are " +
                                 "there, so that the files may be incomplete: fetch them again");
  }
  return *tensor;
}

const StoredTensor& QuantisedTensors::get(const std::string& name, const Expected& expected) const {
  const StoredTensor& tensor = get(name);
  if (!is_one_of(tensor.dtype, expected.dtypes) || !is_one_of(tensor.shape, expected.shapes)) {
    fail_quantised(tensor, "expected " + describe(expected) + ", found " + tensor.describe());
  }
  return tensor;
}

void QuantisedTensors::make_weight(const std::string& module, const std::vector<std::string_view>& suffixes,
                                   const StoredTensor& numbers, std::string_view dtype, const ScaledMatrix& matrix) {
  StoredTensor weight;
  weight.name = module + ".weight";
  weight.dtype = dtype;
  weight.shape = {matrix.rows, matrix.cols};
  weight.scaled = matrix;
  replace(module, suffixes, numbers, std::move(weight));
}

void QuantisedTensors::replace(const std::string& module, const std::vector<std::string_view>& suffixes,
                               const StoredTensor& numbers, StoredTensor weight) {
  weight.data = numbers.data;
  weight.file = numbers.file;
  for (const std::string_view suffix : suffixes) {
    const auto found = tensors_.find(module + std::string(suffix));
    if (found == tensors_.end()) continue;
    weight.bytes += found->second->bytes;
    tensors_.erase(found);
  }
  if (const StoredTensor* other = find(weight.name); other != nullptr) {
    fail_quantised(*other, "expected no such tensor next to " + for_message(numbers.name));
  }
  StoredTensor& made = made_[weight.name] = std::move(weight);
  tensors_[made.name] = &made;
}

void QuantisedTensors::allow_no_bias(const std::string& module) {
  const StoredTensor* bias = find(module + ".bias");
  if (bias == nullptr) return;
  if (std::any_of(bias->data, bias->data + bias->bytes, [](std::byte byte) { return byte != std::byte{0}; })) return;
  StoredTensor& copy = made_[bias->name] = *bias;
  copy.optional = true;
  tensors_[copy.name] = &copy;
}

void QuantisedTensors::drop(const std::vector<std::string_view>& suffixes) {
  std::erase_if(tensors_, [&](const auto& entry) {
    return std::any_of(suffixes.begin(), suffixes.end(),
                       [&](std::string_view suffix) { return entry.first.ends_with(suffix); });
  });
}

Scales scales_of(const StoredTensor& tensor) {
  constexpr std::pair<std::string_view, Scales::Type> kTypes[] = {
      {"F32", Scales::Type::kF32},      {"F16", Scales::Type::kF16},      {"BF16", Scales::Type::kBF16},
      {"F8_E4M3", Scales::Type::kE4M3}, {"F8_E8M0", Scales::Type::kE8M0}, {"U8", Scales::Type::kE8M0}};
  for (const auto& [name, type] : kTypes) {
    if (tensor.dtype != name) continue;
    Scales scales;
    scales.data = tensor.data;
    scales.type = type;
    return scales;
  }
  fail_quantised(tensor, "expected scales in F32, F16, BF16, F8_E4M3, F8_E8M0 or U8, found " + tensor.dtype);
}

const std::byte* read_group_order(const StoredTensor& order, const ScaledMatrix& matrix) {
  bool in_order = true;
  for (int64_t col = 0; col < matrix.cols; ++col) {
    int32_t group = 0;
    std::memcpy(&group, order.data + col * int64_t{sizeof group}, sizeof group);
    if (group < 0 || group >= matrix.groups()) {
      fail_quantised(order, "column " + std::to_string(col) + " is of group " + std::to_string(group) +
                                "; expected 0 to " + std::to_string(matrix.groups() - 1));
    }
    in_order = in_order && group == col / matrix.scale_cols;
  }
  return in_order ? nullptr : order.data;
}

int64_t read_group_size(const JsonFields& config, const std::string& key) {
  const int64_t size = config.integer(key, -1, int64_t{1} << 24);
  if (size == 0) config.fail(key, "a number of columns, or -1 for all of a row");
  return size;
}

}  // namespace ashlar
