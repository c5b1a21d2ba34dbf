// SPDX-License-Identifier: Apache-2.0
#include "model/binding/weight_binder.h"

#include "unit/model/tiny_logits.h"

namespace ashlar::testing {
namespace {

constexpr const char* kFile = "model.safetensors";

class Binding : public ::testing::Test {
 protected:
  std::unique_ptr<Model> load(const ModelFolder& folder, int32_t max_positions = 0) {
    return Model::load(*ops_, folder.path(), max_positions);
  }
  void refuse(const Json& config, const Tensors& tensors, std::vector<std::string> parts) {
    const ModelFolder folder(config, tensors);
    parts.push_back(folder.path().string());
    expect_error([&] { load(folder); }, parts);
  }

  std::unique_ptr<Ops> ops_ = make_device("ref", {});
};

TEST_F(Binding, TakesAWholeCheckpointInEveryFloatType) {
  for (const char* dtype : {"F32", "BF16", "F16"}) {
    const ModelFolder folder(tiny_config(), tiny_tensors(dtype));
    EXPECT_EQ(load(folder)->config().vocab, 20) << dtype;
  }
}

TEST_F(Binding, AlignmentOfTheFileDoesNotMatter) {
  for (const char* dtype : {"F32", "BF16"}) {
    const std::vector<float> expected = tiny_logits(*ops_, ModelFolder(tiny_config(), tiny_tensors(dtype), 0));
    for (int padding = 1; padding < 8; ++padding) {
      EXPECT_EQ(tiny_logits(*ops_, ModelFolder(tiny_config(), tiny_tensors(dtype), padding)), expected)
          << dtype << " " << padding;
    }
  }
}

// Infinities and what is no number, of both signs, at every place; the largest finite numbers are weights like others.
TEST_F(Binding, NumbersThatAreNotFiniteAreRefused) {
  struct Case {
    const char* dtype;
    std::vector<uint32_t> refused;
    uint32_t largest;
  };
  const Case cases[] = {{"F32", {0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF}, 0x7F7FFFFF},
                        {"BF16", {0x7F80, 0xFF80, 0x7F81, 0xFFFF}, 0x7F7F},
                        {"F16", {0x7C00, 0xFC00, 0x7C01, 0xFFFF}, 0x7BFF}};
  const std::string name = "model.layers.1.self_attn.q_norm.weight";  // of four numbers
  const std::string matrix = "model.layers.0.mlp.up_proj.weight";
  for (const auto& [dtype, refused, largest] : cases) {
    SCOPED_TRACE(dtype);
    const size_t size = item_bytes(dtype);
    const auto with = [&](const std::string& tensor, size_t at, uint32_t bits) {
      Tensors tensors = tiny_tensors(dtype);
      std::memcpy(tensors.at(tensor).bytes.data() + at * size, &bits, size);
      return tensors;
    };
    for (const uint32_t bits : refused) {
      for (size_t at = 0; at < 4; ++at) {
        refuse(tiny_config(), with(name, at, bits),
               {kFile, "tensor " + name, "found infinity or NaN at element " + std::to_string(at)});
      }
    }
    for (size_t at = 0; at < 96; at += 5) {
      refuse(tiny_config(), with(matrix, at, refused[at % 4]),
             {kFile, "tensor " + matrix, "element " + std::to_string(at) + ";"});
      load(ModelFolder(tiny_config(), with(matrix, at, largest)));
    }
  }
}

TEST_F(Binding, EveryMissingTensorIsNamed) {
  for (const auto& [name, tensor] : tiny_tensors()) {
    SCOPED_TRACE(name);
    Tensors tensors = tiny_tensors();
    tensors.erase(name);
    refuse(tiny_config(), tensors,
           {"[weights]", "tensor " + name, "missing", "expected " + describe_shape(tensor.shape)});
  }
}

TEST_F(Binding, EveryWrongShapeIsNamedWithBothShapes) {
  for (const auto& [name, tensor] : tiny_tensors()) {
    std::vector<std::vector<int64_t>> shapes = {{}, {1}, {tensor.shape[0] + 1}};
    shapes.push_back(tensor.shape);
    shapes.back().push_back(1);
    if (tensor.shape.size() == 2 && tensor.shape[0] != tensor.shape[1])
      shapes.push_back({tensor.shape[1], tensor.shape[0]});
    if (tensor.shape.size() == 2) shapes.push_back({tensor.shape[0] * tensor.shape[1]});
    for (const std::vector<int64_t>& shape : shapes) {
      SCOPED_TRACE(name + " " + describe_shape(shape));
      Tensors tensors = tiny_tensors();
      tensors[name] = zeros(name, "F32", 4, shape);
      refuse(tiny_config(), tensors,
             {kFile, "tensor " + name, "expected shape " + describe_shape(tensor.shape),
              "found " + describe_shape(shape)});
    }
  }
}

TEST_F(Binding, EveryWrongTypeIsNamed) {
  for (const auto& [name, tensor] : tiny_tensors()) {
    SCOPED_TRACE(name);
    Tensors tensors = tiny_tensors();
    tensors[name] = zeros(name, "I64", 8, tensor.shape);
    refuse(tiny_config(), tensors, {kFile, "tensor " + name, "expected dtype", "found I64"});
  }
}

TEST(MixedTypes, OfOneProduct) {
  const std::string layer = "model.layers.1.";
  expect_types_mix(tiny_config(), tiny_tensors(),
                   {layer + "self_attn.k_proj.weight", layer + "self_attn.v_proj.weight"});
  expect_types_mix(tiny_config(), tiny_tensors(), {layer + "self_attn.q_proj.weight", layer + "mlp.up_proj.weight"});
}

TEST_F(Binding, UnknownTensorsAreNamed) {
  for (const std::string name : {"model.layers.2.input_layernorm.weight", "model.layers.0.self_attn.q_proj.bias",
                                 "extra", "model.layers.0.mlp.gate_proj.weight_scale", "model.embed_tokens.weights"}) {
    SCOPED_TRACE(name);
    Tensors tensors = tiny_tensors();
    add_random(tensors, name, {3});
    refuse(tiny_config(), tensors, {kFile, "tensor " + name, "found F32 [3]", "expected no such tensor"});
  }
}

TEST_F(Binding, BiasesAreTakenWhereTheConfigSaysSo) {
  Tensors tensors = tiny_tensors();
  const Json config = patched(tiny_config(), R"({"attention_bias":true})");
  refuse(config, tensors, {"q_proj.bias", "missing", "expected [8]"});
  for (int layer = 0; layer < 2; ++layer) {
    const std::string base = "model.layers." + std::to_string(layer) + ".self_attn.";
    add_random(tensors, base + "q_proj.bias", {8});
    add_random(tensors, base + "k_proj.bias", {4});
    add_random(tensors, base + "v_proj.bias", {4});
    add_random(tensors, base + "o_proj.bias", {8});
  }
  EXPECT_NO_THROW(load(ModelFolder(config, tensors)));
  refuse(tiny_config(), tensors, {"_proj.bias", "expected no such tensor"});
}

TEST_F(Binding, ATiedHeadNeedsNoTensorAndAStoredOneMustFit) {
  const Json config = patched(tiny_config(), R"({"tie_word_embeddings":true})");
  Tensors tensors = tiny_tensors();
  EXPECT_NO_THROW(load(ModelFolder(config, tensors)));
  tensors["lm_head.weight"] = zeros("lm_head.weight", "F32", 4, {20, 9});
  refuse(config, tensors, {"lm_head.weight", "[20, 8]", "[20, 9]"});
  tensors.erase("lm_head.weight");
  EXPECT_NO_THROW(load(ModelFolder(config, tensors)));
}

// As in transformers 5: what was stored as a head is the head, unless it is the embedding once more.
TEST_F(Binding, AStoredHeadThatIsNotTheEmbeddingIsTheHead) {
  const Json tied = patched(tiny_config(), R"({"tie_word_embeddings":true})");
  const Tensors apart = tiny_tensors();
  EXPECT_EQ(tiny_logits(*ops_, ModelFolder(tied, apart)), tiny_logits(*ops_, ModelFolder(tiny_config(), apart)));
  EXPECT_FALSE(load(ModelFolder(tied, apart))->config().tied_head);

  Tensors equal = apart, without = apart;
  equal["lm_head.weight"].bytes = equal.at("model.embed_tokens.weight").bytes;
  without.erase("lm_head.weight");
  for (const Tensors& tensors : {equal, without}) {
    EXPECT_EQ(tiny_logits(*ops_, ModelFolder(tied, tensors)), tiny_logits(*ops_, ModelFolder(tiny_config(), equal)));
    EXPECT_TRUE(load(ModelFolder(tied, tensors))->config().tied_head);
  }
}

// Zeros stand where the file has ended; nothing may be computed with them.
TEST_F(Binding, AFileThatIsCutWhileItIsReadIsNamed) {
  const ModelFolder folder;
  const Checkpoint checkpoint(folder.path());
  WeightBinder binder(*ops_, checkpoint);
  binder.matrix("model.embed_tokens.weight", 20, 8);
  std::filesystem::resize_file(folder.file(kFile), 100);
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (tensor->shape.size() == 2) binder.matrix(name, tensor->shape[0], tensor->shape[1]);
    if (tensor->shape.size() == 1) binder.vector(name, tensor->shape[0]);
  }
  expect_error([&] { binder.finish(); }, {"[file]", folder.file(kFile), "bytes when it was opened", "fetch it again"});
}

TEST_F(Binding, StoredRotaryFrequenciesAreKnown) {
  Tensors tensors = tiny_tensors();
  add_random(tensors, "model.layers.1.self_attn.rotary_emb.inv_freq", {2});
  EXPECT_NO_THROW(load(ModelFolder(tiny_config(), tensors)));
}

// What a config asks for is compared with what the file holds before anything of that size is made.
TEST_F(Binding, LargeNumbersInAConfigCostNothing) {
  for (const auto& [patch, parts] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {R"({"vocab_size":16777216})", {"embed_tokens", "[16777216, 8]", "[20, 8]"}},
           {R"({"hidden_size":1048576})", {"embed_tokens", "[20, 1048576]"}},
           {R"({"intermediate_size":1048576})", {"gate_proj", "[1048576, 8]"}},
           {R"({"num_attention_heads":4096})", {"q_proj", "[16384, 8]"}},
           {R"({"num_hidden_layers":1000})", {"model.layers.2.", "missing"}}}) {
    SCOPED_TRACE(patch);
    refuse(patched(tiny_config(), patch), tiny_tensors(), parts);
  }
}

TEST_F(Binding, LongRotaryTablesAreRefusedBeforeTheyAreMade) {
  const Json config = patched(tiny_config(), R"({"max_position_embeddings":16777216,"head_dim":512})");
  refuse(config, tiny_tensors(), {"16777216 tokens", "32768 MiB", "at most 1024 MiB", "maximum length of 524288"});
  // The same model with a length somebody asked for is a matter of its tensors only.
  const ModelFolder folder(patched(tiny_config(), R"({"max_position_embeddings":16777216})"));
  EXPECT_EQ(load(folder, 100)->max_positions(), 100);
}

TEST_F(Binding, MaxPositionsIsTheSmallerOfBoth) {
  const ModelFolder folder;
  EXPECT_EQ(load(folder)->max_positions(), 64);
  EXPECT_EQ(load(folder, 40)->max_positions(), 40);
  EXPECT_EQ(load(folder, 100)->max_positions(), 64);
  EXPECT_EQ(load(folder, -1)->max_positions(), 64);
}

}  // namespace
}  // namespace ashlar::testing
