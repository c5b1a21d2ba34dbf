// SPDX-License-Identifier: Apache-2.0
#include "io/weights/quantised/quantised.h"

#include <functional>

#include "io/weights/checkpoint.h"
#include "unit/io/outside_files.h"

namespace ashlar::testing {
namespace {

using Tensors = std::vector<TensorSpec>;

std::string ints32(const std::vector<int32_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int32_t)};
}

std::string ints64(const std::vector<int64_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t)};
}

/// A folder of one module "m" of 64 x 64 and a plain tensor.
struct Folder {
  std::string config;  ///< the quantization_config
  Tensors tensors;

  Folder& without(const std::string& name) {
    std::erase_if(tensors, [&](const TensorSpec& tensor) { return tensor.name == name; });
    return *this;
  }
  Folder& with(const TensorSpec& tensor) {
    without(tensor.name).tensors.push_back(tensor);
    return *this;
  }
  Folder& set(const std::string& from, const std::string& to) {
    const size_t at = config.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    config.replace(at, from.size(), to);
    return *this;
  }
};

Folder fp8() {
  return {R"({"quant_method":"fp8","weight_block_size":[32,48]})",
          {zeros("m.weight", "F8_E4M3", 1, {64, 64}), zeros("m.weight_scale_inv", "F32", 4, {2, 2})}};
}

Folder awq() {
  return {R"({"quant_method":"awq","bits":4,"group_size":32,"version":"gemm"})",
          {zeros("m.qweight", "I32", 4, {64, 8}), zeros("m.qzeros", "I32", 4, {2, 8}),
           zeros("m.scales", "F16", 2, {2, 64})}};
}

Folder gptq() {
  std::vector<int32_t> order(64);
  for (int32_t i = 0; i < 64; ++i) order[static_cast<size_t>(i)] = i % 2;
  return {R"({"quant_method":"gptq","bits":4,"group_size":32,"desc_act":true,"checkpoint_format":"gptq"})",
          {zeros("m.qweight", "I32", 4, {8, 64}), zeros("m.qzeros", "I32", 4, {2, 8}),
           zeros("m.scales", "F16", 2, {2, 64}), TensorSpec{"m.g_idx", "I32", {64}, ints32(order)}}};
}

Folder packed() {
  return {R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"group_0":{"targets":)"
          R"(["Linear"],"weights":{"num_bits":4,"type":"int","strategy":"group","group_size":32,"symmetric":false}}}})",
          {zeros("m.weight_packed", "I32", 4, {64, 8}), zeros("m.weight_scale", "BF16", 2, {64, 2}),
           zeros("m.weight_zero_point", "I32", 4, {8, 2}), TensorSpec{"m.weight_shape", "I64", {2}, ints64({64, 64})}}};
}

Folder int8() {
  return {R"({"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"group_0":{"targets":)"
          R"(["re:.*"],"weights":{"num_bits":8,"type":"int","strategy":"channel","symmetric":true}}}})",
          {zeros("m.weight", "I8", 1, {64, 64}), zeros("m.weight_scale", "BF16", 2, {64, 1}),
           zeros("m.input_scale", "F32", 4, {1})}};
}

Folder mxfp4() {
  return {R"({"quant_method":"mxfp4"})",
          {zeros("m_blocks", "U8", 1, {2, 32, 2, 16}), zeros("m_scales", "U8", 1, {2, 32, 2})}};
}

class QuantisedFolder : public ::testing::Test {
 protected:
  std::filesystem::path write(const Folder& folder) const {
    folder_.write("config.json", R"({"quantization_config":)" + folder.config + "}");
    Tensors tensors = folder.tensors;
    tensors.push_back(zeros("plain.weight", "BF16", 2, {4, 4}));
    return folder_.write("model.safetensors", safetensors(tensors)).parent_path();
  }
  void refuse(const Folder& folder, const std::vector<std::string>& parts) const {
    const auto path = write(folder);
    std::vector<std::string> all = parts;
    all.push_back(path.string());
    all.push_back("[quantised]");
    expect_error([&] { Checkpoint checkpoint(path); }, all);
  }
  TempFolder folder_;
};

TEST_F(QuantisedFolder, BecomesOneTensorAModule) {
  for (const auto& [folder, dtype] :
       {std::pair{fp8(), "F8_E4M3"}, {awq(), "INT4"}, {gptq(), "INT4"}, {packed(), "INT4"}, {int8(), "INT8"}}) {
    const Checkpoint checkpoint(write(folder));
    ASSERT_EQ(checkpoint.tensors().size(), 2u) << dtype;
    const StoredTensor& weight = *checkpoint.tensors().at("m.weight");
    EXPECT_EQ(weight.describe(), std::string(dtype) + " [64, 64]");
    EXPECT_TRUE(weight.scaled);
    EXPECT_FALSE(checkpoint.tensors().at("plain.weight")->scaled);
  }
  const Checkpoint checkpoint(write(mxfp4()));
  EXPECT_EQ(checkpoint.tensors().at("m")->describe(), "MXFP4 [2, 32, 64]");
}

// Scales as floats of 32 or 16 bits, and as powers of two.
TEST_F(QuantisedFolder, ReadsScalesOfEveryTypeOfFp8) {
  for (const auto& [dtype, bytes] : {std::pair{"F32", 4}, {"BF16", 2}, {"F16", 2}, {"F8_E8M0", 1}}) {
    const Checkpoint checkpoint(write(fp8().with(zeros("m.weight_scale_inv", dtype, bytes, {2, 2}))));
    EXPECT_TRUE(checkpoint.tensors().at("m.weight")->scaled) << dtype;
    EXPECT_EQ(checkpoint.quantisation(), "fp8 (E4M3), blocks of 32 x 48");
  }
  const Folder dynamic = fp8().set("\"fp8\"", R"("fp8","fmt":"e4m3","activation_scheme":"dynamic")");
  EXPECT_EQ(Checkpoint(write(dynamic)).quantisation(),
            "fp8 (E4M3), blocks of 32 x 48; activations stay as they are (W8A16)");
}

TEST_F(QuantisedFolder, CountsAllItsBytes) {
  EXPECT_EQ(Checkpoint(write(awq())).tensors().at("m.weight")->bytes, 64u * 8 * 4 + 2 * 8 * 4 + 2 * 64 * 2);
}

// What the numbers are kept in follows from the columns that share a scale.
TEST_F(QuantisedFolder, KnowsWhatHoldsItsNumbers) {
  const auto bits = [&](const Folder& folder) {
    return Checkpoint(write(folder)).tensors().at("m.weight")->scaled->bits_in_groups_of_32();
  };
  EXPECT_EQ(bits(fp8()), 16);
  EXPECT_EQ(bits(awq()), 4);
  EXPECT_EQ(bits(packed()), 4);
  EXPECT_EQ(bits(int8()), 8);
  EXPECT_EQ(bits(gptq()), 16) << "neighbours of different groups";
  EXPECT_EQ(bits(gptq().without("m.g_idx")), 4);
  std::vector<int32_t> halves(64, 1);
  std::fill_n(halves.begin() + 32, 32, 0);
  EXPECT_EQ(bits(gptq().with({"m.g_idx", "I32", {64}, ints32(halves)})), 4) << "whole groups in another order";
  Folder small = awq().set(":32", ":16");
  small.with(zeros("m.qzeros", "I32", 4, {4, 8})).with(zeros("m.scales", "F16", 2, {4, 64}));
  EXPECT_EQ(bits(small), 16) << "groups of 16";
}

TEST_F(QuantisedFolder, ReadsFilesOfFormerYears) {
  write(awq());
  folder_.write("config.json", "{}");
  folder_.write("quant_config.json", R"({"zero_point":true,"q_group_size":32,"w_bit":4,"version":"GEMM"})");
  EXPECT_EQ(Checkpoint(folder_.path()).tensors().size(), 2u);
}

TEST_F(QuantisedFolder, LetsAModelDoWithoutABiasOfZeros) {
  Folder folder = gptq().with(zeros("m.bias", "F16", 2, {64}));
  EXPECT_TRUE(Checkpoint(write(folder)).tensors().at("m.bias")->optional);
  folder.with({"m.bias", "F16", {64}, std::string(128, '\1')});
  EXPECT_FALSE(Checkpoint(write(folder)).tensors().at("m.bias")->optional);
}

TEST_F(QuantisedFolder, SaysWhichMethodsAreKnown) {
  for (const char* method : {"bitsandbytes", "hqq", "quip"}) {
    refuse({R"({"quant_method":")" + std::string(method) + "\"}", {}},
           {method, "awq, gptq, compressed-tensors, fp8", "--weights int8"});
  }
  refuse({R"({"load_in_8bit":true})", {}}, {"quant_method"});
  refuse({"\"fp8\"", {}}, {"quantization_config"});
}

TEST_F(QuantisedFolder, RefusesWhatIsMissing) {
  refuse(fp8().without("m.weight_scale_inv"), {"m.weight_scale_inv", "missing"});
  for (const char* name : {"m.qzeros", "m.scales"}) {
    refuse(awq().without(name), {name, "missing"});
    refuse(gptq().without(name), {name, "missing"});
  }
  for (const char* name : {"m.weight_scale", "m.weight_zero_point", "m.weight_shape"}) {
    refuse(packed().without(name), {name, "missing"});
  }
  refuse(int8().without("m.weight_scale"), {"m.weight_scale", "missing"});
  refuse(mxfp4().without("m_scales"), {"m_scales", "missing"});
}

TEST_F(QuantisedFolder, RefusesOtherShapesAndTypes) {
  refuse(fp8().with(zeros("m.weight_scale_inv", "F32", 4, {2, 3})), {"m.weight_scale_inv", "[2, 2]", "[2, 3]"});
  refuse(fp8().with(zeros("m.weight_scale_inv", "I32", 4, {2, 2})), {"m.weight_scale_inv", "F32", "I32"});
  refuse(fp8().set(R"(,"weight_block_size":[32,48])", ""), {"m.weight_scale_inv", "[64, 1]", "[2, 2]"});
  refuse(awq().with(zeros("m.scales", "F16", 2, {64, 2})), {"m.scales", "[2, 64]", "[64, 2]"});
  refuse(awq().with(zeros("m.qzeros", "I32", 4, {2, 4})), {"m.qzeros", "[2, 8]", "[2, 4]"});
  refuse(awq().with(zeros("m.qweight", "I32", 4, {64, 0})), {"m.qweight", "is empty"});
  refuse(gptq().with(zeros("m.g_idx", "I32", 4, {32})), {"m.g_idx", "[64]", "[32]"});
  refuse(gptq().with(zeros("m.qzeros", "I32", 4, {2, 16})), {"m.qzeros", "[2, 8]", "[2, 16]"});
  refuse(packed().with(zeros("m.weight_zero_point", "I32", 4, {64, 2})), {"m.weight_zero_point", "[8, 2]"});
  refuse(packed().with(zeros("m.weight_scale", "BF16", 2, {64, 4})), {"m.weight_scale", "[64, 2]", "[64, 4]"});
  refuse(int8().with(zeros("m.weight_scale", "BF16", 2, {1, 64})), {"m.weight_scale", "[64, 1]", "[1, 64]"});
  refuse(int8().set("\"num_bits\":8", "\"num_bits\":4"), {"m.weight_scale", "8 bits, int"});
  refuse(mxfp4().with(zeros("m_scales", "U8", 1, {2, 32, 4})), {"m_scales", "[2, 32, 2]", "[2, 32, 4]"});
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{64, 65}, {63, 64}, {64, -64}, {64, 1LL << 62}, {64, 0}}) {
    refuse(packed().with({"m.weight_shape", "I64", {2}, ints64(shape)}), {"m.weight_shape", std::to_string(shape[1])});
  }
}

TEST_F(QuantisedFolder, RefusesSettingsThatCannotBe) {
  refuse(awq().set(":32", ":0"), {"group_size", "-1"});
  refuse(awq().set(":32", ":-2"), {"group_size"});
  refuse(awq().set(":32", ":16"), {"m.qzeros", "[4, 8]", "[2, 8]"});
  refuse(awq().set("\"bits\":4", "\"bits\":3"), {"bits"});
  refuse(awq().set("gemm", "gemv_fast"), {"version", "gemm", "gemv_fast"});
  refuse(gptq().set("\"bits\":4", "\"bits\":3"), {"bits", "2, 4 or 8"});
  refuse(gptq().set("\"gptq\",\"bits", "\"gptq\",\"is_marlin_format\":true,\"bits"), {"is_marlin_format"});
  refuse(gptq().set(R"(checkpoint_format":"gptq)", R"(checkpoint_format":"marlin)"), {"checkpoint_format", "marlin"});
  refuse(fp8().set("[32,48]", "[32]"), {"weight_block_size"});
  refuse(fp8().set("[32,48]", "[0,48]"), {"weight_block_size"});
  refuse(fp8().set("\"fp8\"", "\"fp8\",\"fmt\":\"e5m2\""), {"fmt", "e4m3", "e5m2"});
  refuse(fp8().with(zeros("m.weight", "F8_E5M2", 1, {64, 64})), {"m.weight", "F8_E4M3", "F8_E5M2"});
  refuse(packed().set("pack-quantized", "marlin-24"), {"format", "marlin-24"});
  refuse(packed().set(R"("config_groups")", R"("transform_config":{"config_groups":{"u":{}}},"config_groups")"),
         {"transform_config"});
  refuse(packed().set(R"("config_groups")", R"("sparsity_config":{"format":"sparse-24-bitmask"},"config_groups")"),
         {"sparsity_config", "sparse-24-bitmask"});
  refuse(packed().set(R"("num_bits":4)", R"("num_bits":3)"), {"num_bits", "2, 4 or 8"});
  refuse(packed().set(R"("strategy":"group")", R"("strategy":"attn_head")"), {"strategy", "attn_head"});
  refuse({R"({"quant_method":"compressed-tensors","config_groups":{}})", {}}, {"config_groups"});
}

TEST_F(QuantisedFolder, RefusesColumnsOfNoGroup) {
  for (const int32_t group : {2, -1, 1 << 30}) {
    std::vector<int32_t> order(64);
    order[40] = group;
    refuse(gptq().with({"m.g_idx", "I32", {64}, ints32(order)}),
           {"m.g_idx", "column 40", "group " + std::to_string(group), "0 to 1"});
    refuse(packed().with({"m.weight_g_idx", "I32", {64}, ints32(order)}), {"m.weight_g_idx", "column 40"});
  }
}

TEST_F(QuantisedFolder, RefusesPackedZeroPointsOfWholeBytes) {
  Folder folder = int8().with(zeros("m.weight_zero_point", "I32", 4, {16, 1}));
  refuse(folder.set(R"("symmetric":true)", R"("symmetric":false)"), {"m.weight_zero_point", "I8"});
}

TEST_F(QuantisedFolder, RefusesTwoOfOneName) {
  refuse(awq().with(zeros("m.weight", "BF16", 2, {64, 64})), {"m.weight", "expected no such tensor"});
}

}  // namespace
}  // namespace ashlar::testing
