// SPDX-License-Identifier: Apache-2.0
// Models in GGUF files against the same models in folders, which are held against transformers: the same logits.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "device/device.h"
#include "golden/direct_decoding.h"
#include "golden/gguf_from_folder.h"
#include "golden/seeded_checkpoint.h"
#include "temp_folder.h"
#include "unit/io/outside_files.h"

namespace ashlar::testing {
namespace {

std::vector<float> logits_of(const std::filesystem::path& path, const std::vector<int32_t>& prompt,
                             const std::string& device, KeptWeights weights = KeptWeights::kExact) {
  DeviceOptions options;
  options.weights = weights;
  const auto ops = make_device(device, options);
  const auto model = Model::load(*ops, path);
  DirectDecoder decoder(*model, nullptr, static_cast<int32_t>(prompt.size()) + 1);
  const Tensor logits = decoder.target(prompt, 0, {});
  std::vector<float> out;
  for (int32_t row = 0; row < logits.rows; ++row) out.insert(out.end(), logits.row(row), logits.row(row) + logits.cols);
  return out;
}

class GgufModels : public ::testing::TestWithParam<const char*> {
 protected:
  /// The folder, without windows where files of the architecture have none, and with queries scaled as all files are.
  void SetUp() override {
    const auto path = checkpoint_.folder() / "config.json";
    config_ = read_json_file(path);
    config_["use_sliding_window"] = false;
    config_.erase("no_rope_layers");  // every fourth layer in all files
    config_.erase("swiglu_limit");    // that of all models
    if (config_["model_type"] == "lfm2_moe") config_.erase("routed_scaling_factor");
    if (config_.contains("query_pre_attn_scalar")) config_["query_pre_attn_scalar"] = config_["head_dim"];
    std::ofstream(path) << config_.dump();
  }
  std::filesystem::path write(const GgufWriter& file) const { return folder_.write("model.gguf", file.bytes()); }

  // Models that denoise blocks have a folder of their own.
  static std::filesystem::path description() {
    const std::filesystem::path family = data_folder() / "families" / GetParam();
    return std::filesystem::exists(family) ? family : data_folder() / "blocks" / GetParam();
  }

  SeededCheckpoint checkpoint_{description()};
  std::vector<int32_t> prompt_ = ints(SafetensorsFile(checkpoint_.folder() / "goldens.safetensors"), "input_ids");
  TempFolder folder_;
  Json config_;
};

TEST_P(GgufModels, ComputeWhatTheFolderDoes) {
  const auto path = write(gguf_from_folder(checkpoint_.folder()));
  for (const char* device : {"ref", "cpu"}) {
    const std::vector<float> want = logits_of(checkpoint_.folder(), prompt_, device);
    const std::vector<float> got = logits_of(path, prompt_, device);
    ASSERT_EQ(got.size(), want.size());
    const auto is_one_of = [](std::initializer_list<std::string_view> names) {
      return std::ranges::find(names, std::string_view(GetParam())) != names.end();
    };
    // Factors, and what scales the rope, are rounded to fp32 in the file, or heads are added up in another order.
    if (!is_one_of({"llama3_rope", "phi3", "olmo3", "ministral3", "qwen3_5", "qwen3_5_text", "qwen3_5_moe"})) {
      EXPECT_EQ(got, want) << device;
      continue;
    }
    const double tolerance = std::string(device) == "ref" ? 1e-5 : 2e-2;
    EXPECT_LT(relative_error(got.data(), want.data(), static_cast<int64_t>(want.size())), tolerance) << device;
  }
}

TEST_P(GgufModels, HaveTheFoldersConfiguration) {
  const ModelConfig want = read_model_config(checkpoint_.folder());
  const ModelConfig got = read_model_config(write(gguf_from_folder(checkpoint_.folder())));
  const bool sees = std::string(GetParam()) == "qwen3_5" || std::string(GetParam()) == "gemma4";
  EXPECT_EQ(got.family, want.family + (sees ? "_text" : ""));
  EXPECT_EQ(got.vocab, want.vocab);
  EXPECT_EQ(got.max_positions, want.max_positions);
  EXPECT_EQ(got.tied_head, want.tied_head);
  EXPECT_EQ(got.stop_ids, want.stop_ids);
  ASSERT_EQ(got.diffusion.has_value(), want.diffusion.has_value());
  if (got.diffusion) {
    EXPECT_EQ(got.diffusion->mask_id, want.diffusion->mask_id);
    EXPECT_EQ(got.diffusion->token_shift, want.diffusion->token_shift);
  }
  EXPECT_EQ(got.stack.norm_eps, want.stack.norm_eps);
  EXPECT_EQ(got.stack.qk_norm, want.stack.qk_norm);
  EXPECT_EQ(got.stack.qkv_bias, want.stack.qkv_bias);
  ASSERT_EQ(got.stack.layers.size(), want.stack.layers.size());
  for (size_t i = 0; i < got.stack.layers.size(); ++i) {
    const LayerAttention &one = got.stack.layers[i], &other = want.stack.layers[i];
    EXPECT_TRUE(one.sees_as(other) && one.shape == other.shape && one.kv_of == other.kv_of) << i;
    EXPECT_EQ(one.values_are_keys, other.values_are_keys) << i;
  }
  ASSERT_EQ(got.stack.moe.has_value(), want.stack.moe.has_value());
  if (!got.stack.moe) return;
  EXPECT_EQ(got.stack.moe->layers, want.stack.moe->layers);
  EXPECT_EQ(got.stack.moe->routing.score, want.stack.moe->routing.score);
  EXPECT_EQ(got.stack.moe->routing.scale, want.stack.moe->routing.scale);
}

INSTANTIATE_TEST_SUITE_P(Families, GgufModels,
                         ::testing::Values("llama", "llama3_rope", "llama_bias", "llama_linear_rope", "qwen2",
                                           "qwen2_yarn", "qwen3", "qwen3_tied_bf16", "qwen3_yarn", "qwen3_moe_sliding",
                                           "gemma3_text", "smollm3", "olmo2", "granite", "glm4", "phi3", "gpt_oss",
                                           "gpt_oss_mxfp4", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_next",
                                           "glm4_moe", "olmo3", "gemma4", "gemma4_text", "gemma4_moe", "lfm2",
                                           "lfm2_moe", "dream", "llada", "ministral3"),
                         [](const auto& info) { return std::string(info.param); });

/// A matrix of random blocks, as bytes and as what they mean.
struct Quantised {
  Quantised(Scheme scheme, int64_t rows, int64_t cols, std::mt19937& random)
      : scheme(scheme), values(static_cast<size_t>(rows * cols)) {
    const WeightPart part("w", scheme, nullptr, rows, cols);
    bytes.resize(static_cast<size_t>(part.values.stride * rows));
    for (char& byte : bytes) byte = static_cast<char>(random());
    // Scales of 16 bits: about 0.01, and minima of about -0.06.
    const bool least = scheme == Scheme::kQ4_1;
    for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(part.values.group_bytes)) {
      const auto put = [&](size_t place, uint16_t half) { std::memcpy(bytes.data() + at + place, &half, sizeof half); };
      put(0, static_cast<uint16_t>((scheme == Scheme::kQ8_0 ? 0x1000 : 0x2000) + random() % 512));
      if (least) put(2, static_cast<uint16_t>(0xAC00 + random() % 512));
    }
    decode_rows({"w", scheme, bytes.data(), rows, cols}, 0, rows, values.data());
  }
  Scheme scheme;
  std::string bytes;
  std::vector<float> values;
};

// Weights in blocks are those numbers: in fp32 on the reference, rounded to bf16 on the CPU, where products of as few
// bits as the file has are near that.
TEST(GgufModel, InBlocksComputesWithTheirNumbers) {
  const SeededCheckpoint seeded(data_folder() / "families" / "llama");
  const Json config = read_json_file(seeded.folder() / "config.json");
  const Checkpoint checkpoint(seeded.folder());
  GgufWriter file;
  write_gguf_config(config, file);
  std::map<DType, std::vector<TensorSpec>> plain;
  std::mt19937 random(11);
  constexpr std::pair<Scheme, uint32_t> kTypes[] = {
      {Scheme::kQ4_1, 3}, {Scheme::kQ8_0, 8}, {Scheme::kQ4_0, 2}, {Scheme::kIq4Nl, 20}};
  size_t turn = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (tensor->shape.size() == 1) {
      file.tensor(gguf_name(name), reversed(tensor->shape), 0, bytes_of_tensor(*tensor));
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        plain[dtype].push_back({name, tensor->dtype, tensor->shape, bytes_of_tensor(*tensor)});
      }
      continue;
    }
    const auto [scheme, type] = kTypes[turn++ % std::size(kTypes)];
    const int64_t rows = tensor->shape[0], cols = tensor->shape[1];
    const Quantised weight(scheme, rows, cols, random);
    const bool query = name.find("q_proj") != std::string::npos, key = name.find("k_proj") != std::string::npos;
    const int64_t heads = config[query ? "num_attention_heads" : "num_key_value_heads"];
    const std::string bytes =
        query || key ? interleaved(weight.bytes, heads, weight.bytes.size() / rows) : weight.bytes;
    file.tensor(gguf_name(name), reversed(tensor->shape), type, bytes);
    plain[DType::kF32].push_back(floats_of(name, tensor->shape, weight.values));
    std::string rounded;
    for (const float value : weight.values) rounded += GgufWriter::raw(to_bf16(value).bits);
    plain[DType::kBF16].push_back({name, "BF16", tensor->shape, rounded});
  }
  const TempFolder folder;
  const auto path = folder.write("model.gguf", file.bytes());
  std::filesystem::copy(seeded.folder() / "config.json", folder / "config.json");
  const std::vector<int32_t> prompt = {1, 5, 9, 90, 17, 33};
  for (const auto& [dtype, device] : {std::pair{DType::kF32, "ref"}, std::pair{DType::kBF16, "cpu"}}) {
    folder.write("model.safetensors", safetensors(plain[dtype]));
    const std::vector<float> want = logits_of(folder.path(), prompt, device);
    EXPECT_EQ(logits_of(path, prompt, device), want) << device;
    EXPECT_LT(*std::max_element(want.begin(), want.end()), 1e3F);
    if (std::string(device) != "cpu") continue;
    const std::vector<float> rounded = logits_of(path, prompt, device, KeptWeights::kAuto);
    EXPECT_LT(relative_error(rounded.data(), want.data(), static_cast<int64_t>(want.size())), 0.05);
  }
}

}  // namespace
}  // namespace ashlar::testing
