// SPDX-License-Identifier: Apache-2.0
// GPTQ: qweight [inputs / n, outputs] of n neighbouring inputs a word, qzeros [groups, outputs / n], scales [groups,
// outputs] and, where columns were quantised in the order of their activations, g_idx [inputs], the group of each. Zero
// points are stored less one, except in "gptq_v2". The reference (AutoGPTQ 0.7) multiplies in f16; older kernels of it
// take the highest zero point for 0, which its quantiser does not write.

#include "io/weights/quantised/quantised_format.h"

namespace ashlar {
namespace {

constexpr int64_t kWordBits = 32;
constexpr int64_t kWord = 4;  // bytes

struct GptqConfig {
  int64_t bits = 0;
  int64_t group_size = 0;
  bool zeros_less_one = true;
  bool varies = false;  ///< from module to module
};

GptqConfig read_config(const JsonFields& config) {
  GptqConfig out;
  out.bits = config.integer("bits", 2, 8);
  if (out.bits != 2 && out.bits != 4 && out.bits != 8) config.fail("bits", "2, 4 or 8");
  out.group_size = read_group_size(config, "group_size");
  if (config.boolean("is_marlin_format", false)) config.fail("is_marlin_format", "false: the layout of GPTQ itself");
  const std::string layout = config.string("checkpoint_format", config.string("format", "gptq"));
  if (layout != "gptq" && layout != "gptq_v2") config.fail("checkpoint_format", "gptq or gptq_v2");
  out.zeros_less_one = layout == "gptq";
  out.varies = config.has("dynamic") && !config.raw("dynamic").empty();
  return out;
}

void read_module(const std::string& module, const GptqConfig& config, QuantisedTensors& tensors) {
  const StoredTensor& numbers = tensors.get(module + ".qweight");
  const StoredTensor* order = tensors.find(module + ".g_idx");
  int64_t bits = config.bits;
  ScaledMatrix matrix;
  matrix.rows = numbers.shape[1];
  matrix.cols = numbers.shape[0] * kWordBits / bits;
  if (config.varies && order != nullptr && order->shape.size() == 1 && order->shape[0] > 0) {
    bits = numbers.shape[0] * kWordBits / order->shape[0];
    if (bits != 2 && bits != 4 && bits != 8) fail_quantised(*order, "numbers of " + std::to_string(bits) + " bits");
    matrix.cols = order->shape[0];
    tensors.get(module + ".qweight", {{"I32"}, {{ceil_div(matrix.cols * bits, kWordBits), matrix.rows}}});
  }
  const int64_t together = kWordBits / bits;
  matrix.numbers.data = numbers.data;
  matrix.numbers.bits = static_cast<int32_t>(bits);
  matrix.numbers.together = static_cast<int32_t>(together);
  matrix.numbers.row_stride = kWord;
  matrix.numbers.col_stride = matrix.rows * kWord;
  matrix.scale_cols = config.group_size > 0 ? config.group_size : matrix.cols;
  if (config.varies) {
    const StoredTensor& scales = tensors.get(module + ".scales");
    const int64_t groups = scales.shape.size() == 2 ? scales.shape[0] : 0;
    if (groups > 0 && groups <= matrix.cols && groups != matrix.groups())
      matrix.scale_cols = ceil_div(matrix.cols, groups);
  }
  const StoredTensor& scales =
      tensors.get(module + ".scales", {{"F16", "BF16", "F32"}, {{matrix.groups(), matrix.rows}}});
  matrix.scales = scales_of(scales);
  matrix.scales.row_stride = Scales::bytes_of(matrix.scales.type);
  matrix.scales.col_stride = matrix.rows * matrix.scales.row_stride;

  const StoredTensor& zeros =
      tensors.get(module + ".qzeros", {{"I32"}, {{matrix.groups(), ceil_div(matrix.rows, together)}}});
  SmallNumbers& stored = matrix.zeros.emplace(matrix.numbers);
  stored.data = zeros.data;
  stored.words_down = true;
  stored.col_stride = zeros.shape[1] * kWord;
  matrix.zero = config.zeros_less_one ? 1 : 0;
  if (order != nullptr) {
    matrix.column_groups = read_group_order(tensors.get(module + ".g_idx", {{"I32"}, {{matrix.cols}}}), matrix);
  }
  tensors.make_weight(module, {".qweight", ".qzeros", ".scales", ".g_idx"}, numbers, "INT" + std::to_string(bits),
                      matrix);
  tensors.allow_no_bias(module);
}

}  // namespace

std::string read_gptq(const JsonFields& config, QuantisedTensors& tensors) {
  const GptqConfig own = read_config(config);
  for (const std::string& module : tensors.modules_with(".qweight", "I32")) read_module(module, own, tensors);
  return "GPTQ, " + std::to_string(own.bits) + " bits, " +
         (own.group_size > 0 ? "groups of " + std::to_string(own.group_size) : "a scale for each row") +
         (config.boolean("desc_act", false) ? ", columns in the order of activations" : "");
}

}  // namespace ashlar
