// SPDX-License-Identifier: Apache-2.0
// Numbers of 8 bits (E4M3) with a scale for each block of rows and columns, as DeepSeek and Qwen publish them, for each
// row or for all. The reference (finegrained fp8 of transformers, vLLM) multiplies in fp32 and rounds to bf16.

#include "io/weights/quantised/quantised_format.h"

namespace ashlar {
namespace {

struct Blocks {
  int64_t rows = 0;  ///< 0: none
  int64_t cols = 0;
};

Blocks read_blocks(const JsonFields& config) {
  if (!config.has("weight_block_size")) return {};
  const std::vector<int32_t> sizes = config.integers("weight_block_size", 1, 1 << 20);
  if (sizes.size() != 2) config.fail("weight_block_size", "rows and columns of a block");
  return {sizes[0], sizes[1]};
}

}  // namespace

std::string read_fp8(const JsonFields& config, QuantisedTensors& tensors) {
  if (config.string("fmt", "e4m3") != "e4m3") config.fail("fmt", "e4m3");
  const Blocks blocks = read_blocks(config);
  for (const std::string& module : tensors.modules_with(".weight", "F8_E5M2")) {
    fail_quantised(tensors.get(module + ".weight"), "expected F8_E4M3, found F8_E5M2, which no model is served from");
  }
  for (const std::string& module : tensors.modules_with(".weight", "F8_E4M3")) {
    const StoredTensor& numbers = tensors.get(module + ".weight");
    ScaledMatrix matrix;
    matrix.rows = numbers.shape[0];
    matrix.cols = numbers.shape[1];
    matrix.numbers = SmallNumbers::in_rows(numbers.data, SmallNumbers::Kind::kE4M3, 8, matrix.cols);
    const char* suffix = tensors.find(module + ".weight_scale") != nullptr ? ".weight_scale" : ".weight_scale_inv";
    Expected expected = {{"F32", "BF16", "F16", "F8_E8M0"}, {}};
    if (blocks.rows > 0) {
      expected.shapes = {{ceil_div(matrix.rows, blocks.rows), ceil_div(matrix.cols, blocks.cols)}};
    } else {
      expected.shapes = {{}, {1}, {matrix.rows}, {matrix.rows, 1}};
    }
    const StoredTensor& scales = tensors.get(module + suffix, expected);
    matrix.scales = scales_of(scales);
    const int64_t bytes = Scales::bytes_of(matrix.scales.type);
    if (blocks.rows > 0) {
      matrix.scale_rows = blocks.rows;
      matrix.scale_cols = blocks.cols;
      matrix.scales.row_stride = scales.shape[1] * bytes;
      matrix.scales.col_stride = bytes;
    } else {
      matrix.scale_cols = matrix.cols;
      if (scales.bytes > static_cast<size_t>(bytes)) matrix.scales.row_stride = bytes;
    }
    tensors.make_weight(module, {".weight", suffix}, numbers, "F8_E4M3", matrix);
  }
  tensors.drop({".input_scale", ".activation_scale", ".input_scale_ub", ".k_scale", ".v_scale", ".kv_scale"});
  std::string description = "fp8 (E4M3)";
  if (blocks.rows > 0) {
    description += ", blocks of " + std::to_string(blocks.rows) + " x " + std::to_string(blocks.cols);
  }
  return description + (config.has("activation_scheme") ? std::string(kActivationsStay) : "");
}

}  // namespace ashlar
