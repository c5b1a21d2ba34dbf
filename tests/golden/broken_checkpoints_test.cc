// SPDX-License-Identifier: Apache-2.0
// Checkpoints of the families with one tensor wrong: each is refused by name, whatever the family makes of its tensors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "device/device.h"
#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"
#include "model/model.h"

namespace ashlar::testing {
namespace {

/// The weights of a family's checkpoint, whose header can be changed.
class Checkpoints : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::ifstream in(path_, std::ios::binary);
    std::stringstream bytes;
    bytes << in.rdbuf();
    const std::string file = bytes.str();
    uint64_t size = 0;
    std::memcpy(&size, file.data(), sizeof size);
    header_ = Json::parse(file.substr(sizeof size, size));
    data_ = file.substr(sizeof size + size);
  }
  /// What loading says with this header.
  std::string refusal(const Json& header) {
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const uint64_t size = text.size();
    std::ofstream(path_, std::ios::binary)
        << std::string(reinterpret_cast<const char*>(&size), sizeof size) << text << data_;
    try {
      Model::load(*ops_, checkpoint_.folder());
    } catch (const Error& error) {
      return error.what();
    }
    return "loaded";
  }
  /// Names of the tensors that stand for all: those of one layer, and those outside of layers.
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& [name, tensor] : header_.items()) {
      const bool other_layer =
          name.find(".layers.") != std::string::npos && name.find(".layers.1.") == std::string::npos;
      const bool unused = name.find("vision") != std::string::npos ||
                          name.find("multi_modal_projector") != std::string::npos || name.starts_with("mtp.");
      if (name != "__metadata__" && !other_layer && !unused) found.push_back(name);
    }
    return found;
  }

  SeededCheckpoint checkpoint_{data_folder() / "families" / GetParam()};
  std::filesystem::path path_ = checkpoint_.folder() / "model.safetensors";
  std::unique_ptr<Ops> ops_ = make_device("ref", {});
  Json header_;
  std::string data_;
};

TEST_P(Checkpoints, WithoutATensorAreRefused) {
  ASSERT_GE(names().size(), 8U);
  for (const std::string& name : names()) {
    Json header = Json::object();
    for (const auto& [other, tensor] : header_.items())
      header[other == name ? other + "_of_another_name" : other] = tensor;
    // By the embedding's name the loader knows with what the others begin.
    const char* const embedding = "embed_tokens.weight";
    const std::string said = name.ends_with(embedding) ? embedding : "tensor " + name;
    EXPECT_THAT(refusal(header),
                ::testing::AllOf(::testing::HasSubstr(said), ::testing::HasSubstr("missing; expected")))
        << name;
  }
}

TEST_P(Checkpoints, WithATensorOfAnotherShapeAreRefused) {
  for (const std::string& name : names()) {
    Json header = header_;
    int64_t count = 1;
    for (const Json& size : header_[name]["shape"]) count *= size.get<int64_t>();
    header[name]["shape"] = header_[name]["shape"].size() == 1 ? Json::array({count, 1}) : Json::array({count});
    EXPECT_THAT(refusal(header),
                ::testing::AllOf(::testing::HasSubstr("tensor " + name), ::testing::HasSubstr("expected shape")))
        << name;
  }
}

TEST_P(Checkpoints, WithATensorTooManyAreRefused) {
  Json header = header_;
  const auto end = static_cast<int64_t>(data_.size());
  header["model.layers.1.self_attn.q_proj.zeros"] = {
      {"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {end, end + 4}}};
  data_ += std::string(4, '\0');
  EXPECT_THAT(refusal(header), ::testing::HasSubstr("q_proj.zeros: not part of this model"));
}

INSTANTIATE_TEST_SUITE_P(Families, Checkpoints,
                         ::testing::Values("smollm3", "olmo2", "granite", "glm4", "phi3", "gpt_oss", "gemma4",
                                           "gemma4_text", "qwen3_next", "lfm2_bias", "lfm2_moe", "glm4_moe",
                                           "gemma4_moe", "olmo3", "ministral3", "gemma3", "gemma3_text", "mistral",
                                           "llama", "qwen2", "qwen3", "qwen3_moe_sliding"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace ashlar::testing
