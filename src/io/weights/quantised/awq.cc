// SPDX-License-Identifier: Apache-2.0
// AWQ in its "gemm" layout, of 4 bits: qweight [inputs, outputs / 8] and qzeros [groups, outputs / 8] of eight numbers
// a word, of which those at even places come first, and scales [groups, outputs]. The reference (AutoAWQ) multiplies in
// f16.

#include <algorithm>

#include "io/weights/quantised/quantised_format.h"

namespace ashlar {
namespace {

constexpr int64_t kTogether = 8;
constexpr int64_t kWord = 4;  // bytes

// Of `words` words in a row, numbers [outputs of a word, the row] by transposed indices.
SmallNumbers by_output(const StoredTensor& tensor) {
  SmallNumbers numbers;
  numbers.data = tensor.data;
  numbers.bits = 4;
  numbers.together = kTogether;
  numbers.words_down = true;
  numbers.row_stride = kWord;
  numbers.col_stride = tensor.shape[1] * kWord;
  for (uint8_t i = 0; i < kTogether; ++i) numbers.places[i] = static_cast<uint8_t>(i / 2 + i % 2 * 4);
  return numbers;
}

bool is_gemm(std::string version) {
  std::transform(version.begin(), version.end(), version.begin(), [](unsigned char c) { return std::tolower(c); });
  return version == "gemm";
}

}  // namespace

std::string read_awq(const JsonFields& config, QuantisedTensors& tensors) {
  config.integer(config.has("w_bit") ? "w_bit" : "bits", 4, 4);
  if (!is_gemm(config.string("version", "gemm"))) config.fail("version", "gemm, the layout that can be read");
  const int64_t size = read_group_size(config, config.has("q_group_size") ? "q_group_size" : "group_size");
  for (const std::string& module : tensors.modules_with(".qweight", "I32")) {
    const StoredTensor& numbers = tensors.get(module + ".qweight");
    ScaledMatrix matrix;
    matrix.rows = numbers.shape[1] * kTogether;
    matrix.cols = numbers.shape[0];
    matrix.scale_cols = size > 0 ? size : matrix.cols;
    matrix.numbers = by_output(numbers);
    matrix.zeros = by_output(tensors.get(module + ".qzeros", {{"I32"}, {{matrix.groups(), numbers.shape[1]}}}));
    const StoredTensor& scales =
        tensors.get(module + ".scales", {{"F16", "BF16", "F32"}, {{matrix.groups(), matrix.rows}}});
    matrix.scales = scales_of(scales);
    matrix.scales.row_stride = Scales::bytes_of(matrix.scales.type);
    matrix.scales.col_stride = matrix.rows * matrix.scales.row_stride;
    tensors.make_weight(module, {".qweight", ".qzeros", ".scales"}, numbers, "INT4", matrix);
    tensors.allow_no_bias(module);
  }
  return "AWQ, 4 bits, " + (size > 0 ? "groups of " + std::to_string(size) : "a scale for each row");
}

}  // namespace ashlar
