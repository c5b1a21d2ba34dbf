// SPDX-License-Identifier: Apache-2.0
// MXFP4 as gpt-oss has it: experts of a kind in one tensor, NAME_blocks [experts, rows, groups, 16] of two numbers a
// byte (E2M1) and NAME_scales [experts, rows, groups], powers of two. The reference (transformers) multiplies by the
// power in bf16, which is exact.

#include "io/weights/quantised/quantised_format.h"

namespace ashlar {

std::string read_mxfp4(const JsonFields& /*config*/, QuantisedTensors& tensors) {
  constexpr int64_t kGroup = 32;
  for (const std::string& name : tensors.modules_with("_blocks", "U8", 4)) {
    const StoredTensor& numbers = tensors.get(name + "_blocks");
    const int64_t experts = numbers.shape[0], rows = numbers.shape[1], groups = numbers.shape[2];
    tensors.get(name + "_blocks", {{"U8"}, {{experts, rows, groups, kGroup / 2}}});
    ScaledMatrix matrix;
    matrix.rows = experts * rows;
    matrix.cols = groups * kGroup;
    matrix.numbers = SmallNumbers::in_rows(numbers.data, SmallNumbers::Kind::kE2M1, 4, matrix.cols / 2);
    matrix.scales = scales_of(tensors.get(name + "_scales", {{"U8"}, {{experts, rows, groups}}}));
    matrix.scale_cols = kGroup;
    matrix.scales.row_stride = groups;
    matrix.scales.col_stride = 1;
    StoredTensor weight;
    weight.name = name;
    weight.dtype = "MXFP4";
    weight.shape = {experts, rows, matrix.cols};
    weight.scaled = matrix;
    tensors.replace(name, {"_blocks", "_scales"}, numbers, std::move(weight));
  }
  return "MXFP4, groups of 32";
}

}  // namespace ashlar
