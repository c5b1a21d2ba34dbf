// SPDX-License-Identifier: Apache-2.0
// compressed-tensors (vLLM, llm-compressor). What a module's tensors are says how it is stored; its shapes must be
// those of one of the configuration's groups, so that targets and ignored names need no reading. The reference
// multiplies in the type of the scales.

#include <algorithm>
#include <cstring>

#include "io/weights/quantised/quantised_format.h"

namespace ashlar {
namespace {

constexpr int64_t kWordBits = 32;

/// The weights of one group of the configuration.
struct WeightArgs {
  bool is_float = false;
  int64_t bits = 0;
  std::string strategy;
  int64_t group_size = 0;
  int64_t block_rows = 0, block_cols = 0;
  bool symmetric = true;

  int64_t scale_rows(int64_t rows) const { return strategy == "block" ? block_rows : strategy == "tensor" ? rows : 1; }
  int64_t scale_cols(int64_t cols) const {
    if (strategy == "block") return block_cols;
    return group_size > 0 && strategy != "tensor" && strategy != "channel" ? group_size : cols;
  }
  std::vector<int64_t> scale_shape(int64_t rows, int64_t cols) const {
    if (strategy == "tensor") return {1};
    return {ceil_div(rows, scale_rows(rows)), ceil_div(cols, scale_cols(cols))};
  }
};

WeightArgs read_args(const JsonFields& fields) {
  WeightArgs args;
  const std::string type = fields.string("type", "int");
  if (type != "int" && type != "float") fields.fail("type", "int or float");
  args.is_float = type == "float";
  args.bits = fields.integer("num_bits", 1, 16);
  if (args.bits != 2 && args.bits != 4 && args.bits != 8) fields.fail("num_bits", "2, 4 or 8");
  args.symmetric = fields.boolean("symmetric", true);
  args.strategy = fields.string("strategy", fields.has("group_size") ? "group" : "tensor");
  const std::string& strategy = args.strategy;
  if (strategy != "tensor" && strategy != "channel" && strategy != "group" && strategy != "tensor_group" &&
      strategy != "block") {
    fields.fail("strategy", "tensor, channel, group, tensor_group or block");
  }
  if (fields.has("group_size")) args.group_size = read_group_size(fields, "group_size");
  if (strategy != "block") return args;
  const std::vector<int32_t> block = fields.integers("block_structure", 1, 1 << 20);
  if (block.size() != 2) fields.fail("block_structure", "rows and columns of a block");
  args.block_rows = block[0];
  args.block_cols = block[1];
  return args;
}

std::vector<WeightArgs> read_groups(const JsonFields& config) {
  std::vector<WeightArgs> groups;
  const JsonFields all = config.object("config_groups");
  for (const auto& [name, group] : config.raw("config_groups").items()) {
    const JsonFields fields = all.object(name);
    if (fields.has("weights")) groups.push_back(read_args(fields.object("weights")));
  }
  if (groups.empty()) config.fail("config_groups", "a group with weights");
  return groups;
}

/// One module while its tensors are looked at.
struct Module {
  const std::string& name;
  QuantisedTensors& tensors;
  const std::vector<WeightArgs>& groups;
  ScaledMatrix matrix;

  const StoredTensor& get(const char* suffix) const { return tensors.get(name + suffix); }
  const StoredTensor& get(const char* suffix, const Expected& expected) const {
    return tensors.get(name + suffix, expected);
  }
  const StoredTensor* find(const char* suffix) const { return tensors.find(name + suffix); }

  /// Scales of the group that they fit.
  const WeightArgs& read_scales(bool is_float, int64_t bits) {
    const StoredTensor& scales = get(".weight_scale");
    const auto suits = [&](const WeightArgs& args) {
      std::vector<int64_t> shape = args.scale_shape(matrix.rows, matrix.cols);
      if (scales.shape == shape || (shape == std::vector<int64_t>{1} && scales.shape.empty())) return true;
      return args.strategy == "channel" && scales.shape == std::vector<int64_t>{matrix.rows};
    };
    std::string expected;
    for (const WeightArgs& args : groups) {
      if (args.is_float != is_float || args.bits != bits) continue;
      if (suits(args)) {
        take_scales(args, scales);
        return args;
      }
      expected += (expected.empty() ? "" : " or ") + describe_shape(args.scale_shape(matrix.rows, matrix.cols));
    }
    if (expected.empty()) {
      expected = std::string("a group of config_groups with weights of ") + std::to_string(bits) + " bits, " +
                 (is_float ? "float" : "int");
    }
    fail_quantised(scales, "expected " + expected + ", found " + scales.describe());
  }

  void take_scales(const WeightArgs& args, const StoredTensor& scales) {
    matrix.scales = scales_of(scales);
    matrix.scale_rows = args.scale_rows(matrix.rows);
    matrix.scale_cols = args.scale_cols(matrix.cols);
    matrix.scales.col_stride = Scales::bytes_of(matrix.scales.type);
    matrix.scales.row_stride = matrix.groups() * matrix.scales.col_stride;
  }

  /// Zero points less `offset`, in numbers of this kind or packed along the rows.
  void read_zeros(int64_t bits, float offset) {
    const int64_t rows = ceil_div(matrix.rows, matrix.scale_rows), groups = matrix.groups();
    const StoredTensor& zeros = get(".weight_zero_point");
    if (zeros.dtype == "I8") {
      get(".weight_zero_point", {{"I8"}, {{rows, groups}, {rows * groups}}});
      matrix.zeros = SmallNumbers::in_rows(zeros.data, SmallNumbers::Kind::kSigned, 8, groups);
      matrix.zero = offset;
      return;
    }
    if (offset == 0) fail_quantised(zeros, "zero points in I32; expected I8, as the weights are");
    get(".weight_zero_point", {{"I32"}, {{ceil_div(rows * bits, kWordBits), groups}}});
    SmallNumbers& stored = matrix.zeros.emplace();
    stored.data = zeros.data;
    stored.bits = static_cast<int32_t>(bits);
    stored.together = static_cast<int32_t>(kWordBits / bits);
    stored.words_down = true;
    stored.row_stride = groups * int64_t{sizeof(int32_t)};
    stored.col_stride = sizeof(int32_t);
  }

  /// The group of each column, where they were not quantised in their order. All -1: nothing.
  void read_order() {
    const StoredTensor* order = find(".weight_g_idx");
    if (order == nullptr) return;
    get(".weight_g_idx", {{"I32"}, {{matrix.cols}}});
    const int64_t bytes = matrix.cols * int64_t{sizeof(int32_t)};
    if (std::all_of(order->data, order->data + bytes, [](std::byte byte) { return byte == std::byte{0xFF}; })) return;
    matrix.column_groups = read_group_order(*order, matrix);
  }

  void finish(const StoredTensor& numbers, const std::string& dtype) const {
    tensors.make_weight(name,
                        {".weight", ".weight_packed", ".weight_scale", ".weight_zero_point", ".weight_shape",
                         ".weight_g_idx", ".weight_global_scale"},
                        numbers, dtype, matrix);
  }
};

// Whole numbers of 2, 4 or 8 bits in words, without a sign: the lowest is 0.
void read_packed(Module& module) {
  const StoredTensor& numbers = module.get(".weight_packed");
  const StoredTensor& shape = module.get(".weight_shape", {{"I64", "I32"}, {{2}}});
  int64_t stated[2] = {};
  for (int i = 0; i < 2; ++i) {
    int32_t small = 0;
    if (shape.dtype == "I64") std::memcpy(&stated[i], shape.data + i * sizeof(int64_t), sizeof(int64_t));
    if (shape.dtype == "I32") std::memcpy(&small, shape.data + i * sizeof small, sizeof small), stated[i] = small;
  }
  ScaledMatrix& matrix = module.matrix;
  matrix.rows = numbers.shape[0];
  matrix.cols = stated[1];
  int64_t bits = 0;
  for (const int64_t each : {2, 4, 8}) {
    const bool in_range = stated[1] > 0 && stated[1] <= numbers.shape[1] * kWordBits;
    const bool stored = std::any_of(module.groups.begin(), module.groups.end(),
                                    [&](const WeightArgs& args) { return !args.is_float && args.bits == each; });
    if (in_range && stored && ceil_div(stated[1] * each, kWordBits) == numbers.shape[1]) bits = each;
  }
  if (stated[0] != matrix.rows || bits == 0) {
    fail_quantised(shape, "is [" + std::to_string(stated[0]) + ", " + std::to_string(stated[1]) +
                              "], which the bits of config_groups do not make of " + numbers.describe());
  }
  matrix.numbers = SmallNumbers::in_rows(numbers.data, SmallNumbers::Kind::kUnsigned, static_cast<int32_t>(bits),
                                         numbers.shape[1] * int64_t{sizeof(int32_t)});
  const auto lowest = static_cast<float>(1 << (bits - 1));
  if (module.read_scales(false, bits).symmetric) {
    matrix.zero = lowest;
  } else {
    module.read_zeros(bits, lowest);
  }
  module.read_order();
  module.finish(numbers, "INT" + std::to_string(bits));
}

void read_bytes(Module& module, bool is_float) {
  const StoredTensor& numbers = module.get(".weight");
  ScaledMatrix& matrix = module.matrix;
  matrix.rows = numbers.shape[0];
  matrix.cols = numbers.shape[1];
  matrix.numbers = SmallNumbers::in_rows(
      numbers.data, is_float ? SmallNumbers::Kind::kE4M3 : SmallNumbers::Kind::kSigned, 8, matrix.cols);
  if (!module.read_scales(is_float, 8).symmetric) module.read_zeros(8, 0);
  if (!is_float) module.read_order();
  module.finish(numbers, is_float ? "F8_E4M3" : "INT8");
}

// E2M1, two a byte; scales are powers of two, or E4M3 that are divided by one for all.
void read_small_floats(Module& module) {
  const StoredTensor& numbers = module.get(".weight_packed");
  ScaledMatrix& matrix = module.matrix;
  matrix.rows = numbers.shape[0];
  matrix.cols = numbers.shape[1] * 2;
  matrix.numbers = SmallNumbers::in_rows(numbers.data, SmallNumbers::Kind::kE2M1, 4, numbers.shape[1]);
  module.read_scales(true, 4);
  if (module.find(".weight_global_scale") != nullptr) {
    const StoredTensor& divisor = module.get(".weight_global_scale", {{"F32"}, {{1}, {}}});
    std::memcpy(&matrix.scales.divisor, divisor.data, sizeof(float));
  }
  module.finish(numbers, "FP4");
}

}  // namespace

std::string read_compressed_tensors(const JsonFields& config, QuantisedTensors& tensors) {
  const std::string format = config.string("format", "dense");
  for (const char* refused : {"marlin-24", "sparse-bitmask", "sparse-24-bitmask", "mxfp6-pack-quantized"}) {
    if (format == refused) config.fail("format", "pack-, int-, float-, nvfp4-pack- or mxfp4-pack-quantized");
  }
  if (config.has("sparsity_config") && !config.raw("sparsity_config").empty() &&
      config.object("sparsity_config").string("format", "dense") != "dense") {
    config.fail("sparsity_config", "dense weights");
  }
  if (config.has("transform_config") && !config.raw("transform_config").empty()) {
    config.fail("transform_config", "no transforms of activations while the model runs");
  }
  const std::vector<WeightArgs> groups = read_groups(config);
  const auto each = [&](const char* suffix, const char* dtype, const auto& read) {
    for (const std::string& name : tensors.modules_with(suffix, dtype)) {
      Module module{name, tensors, groups, {}};
      read(module);
    }
  };
  each(".weight_packed", "I32", read_packed);
  each(".weight_packed", "U8", read_small_floats);
  each(".weight", "I8", [](Module& module) { read_bytes(module, false); });
  each(".weight", "F8_E4M3", [](Module& module) { read_bytes(module, true); });
  tensors.drop({".input_scale", ".input_zero_point", ".input_global_scale", ".output_scale", ".output_zero_point",
                ".k_scale", ".v_scale", ".q_scale", ".k_zero_point", ".v_zero_point"});
  const bool rounds_rows = format == "float-quantized" || format == "int-quantized";
  return "compressed-tensors, " + format + (rounds_rows ? std::string(kActivationsStay) : "");
}

}  // namespace ashlar
