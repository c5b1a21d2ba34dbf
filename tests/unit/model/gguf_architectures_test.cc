// SPDX-License-Identifier: Apache-2.0
// What architectures of GGUF files have of their own, and what they refuse. That they compute what folders do is for
// tests/golden/gguf_models_test.cc.

#include <gtest/gtest.h>

#include "gguf_writer.h"
#include "model/gguf/gguf_config.h"
#include "temp_folder.h"
#include "unit/io/outside_files.h"

namespace ashlar::testing {
namespace {

/// A file of an architecture with what each has at least, in which keys may be replaced.
class ArchitectureFile {
 public:
  explicit ArchitectureFile(const std::string& name, uint32_t layers = 4) : name_(name) {
    file_.text("general.architecture", name);
    number("context_length", 64U);
    number("embedding_length", 16U);
    number("feed_forward_length", 12U);
    number("block_count", layers);
    number("attention.head_count", 2U);
    number("attention.layer_norm_rms_epsilon", 1e-5F);
    file_.tensor("token_embd.weight", {16, 20}, 0, std::string(16 * 20 * 4, '\0'));
  }
  template <class T>
  ArchitectureFile& number(const std::string& key, T value) {
    drop(key);
    file_.number(full(key), value);
    return *this;
  }
  ArchitectureFile& integers(const std::string& key, const std::vector<int32_t>& values) {
    drop(key);
    file_.integers(full(key), values);
    return *this;
  }
  ArchitectureFile& flags(const std::string& key, const std::vector<bool>& values) {
    drop(key);
    std::string bytes = GgufWriter::raw(uint32_t{7}) + GgufWriter::raw(uint64_t{values.size()});
    for (const bool value : values) bytes += static_cast<char>(value);
    file_.key(full(key), 9, bytes);
    return *this;
  }
  ArchitectureFile& drop(const std::string& key) {
    std::erase_if(file_.keys, [&](const std::string& one) { return one.starts_with(GgufWriter::string(full(key))); });
    return *this;
  }
  ArchitectureFile& vector(const std::string& name, const std::vector<float>& values) {
    std::string bytes;
    for (const float value : values) bytes += GgufWriter::raw(value);
    file_.tensor(name, {values.size()}, 0, bytes);
    return *this;
  }
  const GgufWriter& file() const { return file_; }

 private:
  std::string full(const std::string& key) const { return name_ + "." + key; }

  std::string name_;
  GgufWriter file_;
};

ArchitectureFile qwen35(const std::string& name = "qwen35") {
  ArchitectureFile file(name);
  file.number("ssm.conv_kernel", 4U).number("ssm.state_size", 8U).number("ssm.group_count", 2U);
  file.number("ssm.time_step_rank", 4U).number("ssm.inner_size", 48U);
  return file;
}

ArchitectureFile mixture(ArchitectureFile file) {
  file.number("expert_count", 6U).number("expert_used_count", 2U).number("expert_feed_forward_length", 4U);
  return file;
}

ArchitectureFile glm() {
  ArchitectureFile file = mixture(ArchitectureFile("glm4moe"));
  file.number("expert_shared_count", 1U).number("leading_dense_block_count", 1U);
  file.number("expert_group_count", 1U).number("expert_group_used_count", 1U);
  return file;
}

ArchitectureFile olmo3() {
  ArchitectureFile file("olmo2");
  file.number("attention.sliding_window", 8U);
  return file;
}

ArchitectureFile mistral3() {
  ArchitectureFile file("mistral3");
  file.number("attention.head_count_kv", 1U).number("rope.freq_base", 500.0F);
  return file;
}

ArchitectureFile lfm2() {
  ArchitectureFile file("lfm2");
  file.integers("attention.head_count_kv", {0, 1, 0, 1}).number("shortconv.l_cache", 3U);
  return file;
}

ArchitectureFile gemma4() {
  ArchitectureFile file("gemma4");
  file.number("attention.key_length", 16U).number("attention.key_length_swa", 8U);
  file.flags("attention.sliding_window_pattern", {true, true, true, false}).number("attention.sliding_window", 8U);
  file.vector("rope_freqs.weight", {1, 1, 1e30F, 1e30F, 1e30F, 1e30F, 1e30F, 1e30F});
  return file;
}

class GgufArchitectures : public ::testing::Test {
 protected:
  ModelConfig read(const ArchitectureFile& file) const {
    return read_model_config(folder_.write("m.gguf", file.file().bytes()));
  }
  void refuse(const ArchitectureFile& file, std::vector<std::string> parts) const {
    parts.emplace_back("m.gguf");
    expect_error([&] { read(file); }, parts);
  }
  TempFolder folder_;
};

TEST_F(GgufArchitectures, ReadDeltaNets) {
  const ModelConfig config = read(qwen35());
  EXPECT_EQ(config.family, "qwen3_5_text");
  EXPECT_EQ(config.stack.delta_net->layers, (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(config.stack.delta_net->shape, (DeltaShape{2, 4, 8, 12, 4}));
  EXPECT_EQ(config.mtp_prefix(), "");
  ArchitectureFile every = qwen35();
  EXPECT_EQ(read(every.number("full_attention_interval", 2U)).stack.delta_net->layers,
            (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(read(every.flags("attention.recurrent_layers", {false, true, true, false})).stack.delta_net->layers,
            (std::vector<bool>{false, true, true, false}));
  refuse(every.flags("attention.recurrent_layers", {true, false, false}),
         {"qwen35.attention.recurrent_layers", "4 values, one for each layer", "3"});
  refuse(qwen35().number("ssm.inner_size", 50U), {"qwen35.ssm.inner_size", "a multiple of", "4", "50"});
  for (const char* key : {"ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.time_step_rank",
                          "ssm.inner_size", "feed_forward_length"}) {
    refuse(qwen35().drop(key), {std::string("qwen35.") + key, "found nothing"});
  }
  EXPECT_EQ(
      read(mixture(qwen35("qwen35moe").drop("feed_forward_length")).number("expert_shared_feed_forward_length", 5U))
          .stack.moe->shared_intermediate,
      5);
  refuse(mixture(qwen35("qwen35moe")), {"qwen35moe.expert_shared_feed_forward_length", "found nothing"});
}

// Layers that draft are counted with the others, and said to be there.
TEST_F(GgufArchitectures, CountLayersThatDraft) {
  for (ArchitectureFile file : {qwen35(), glm()}) {
    EXPECT_EQ(read(file).names.mtp, nullptr);
    const ModelConfig config = read(file.number("nextn_predict_layers", 1U));
    EXPECT_EQ(config.stack.n_layers, 3);
    EXPECT_EQ(config.mtp.layers, 1);
    EXPECT_EQ(config.mtp_prefix(), "blk.3.");
    refuse(file.number("nextn_predict_layers", 4U), {"block_count", "found 4"});
  }
  refuse(olmo3().number("nextn_predict_layers", 1U), {"olmo2.nextn_predict_layers", "nothing"});
}

// As llama.cpp's converter writes them with --mtp: with or without embeddings, block_count as in the whole model or of
// what is there.
TEST_F(GgufArchitectures, RefuseLayersThatDraftWithoutTheirModel) {
  for (ArchitectureFile file : {qwen35(), glm()}) {
    file.number("nextn_predict_layers", 1U)
        .vector("blk.3.nextn.enorm.weight", {1})
        .vector("blk.3.attn_norm.weight", {1});
    refuse(file, {"holds only what drafts for a model", "without the layers", "--drafter mtp", "--no-mtp"});
    ArchitectureFile alone = file;
    refuse(alone.number("block_count", 1U), {"holds only what drafts for a model", "without the layers"});
    EXPECT_EQ(read(file.vector("blk.0.attn_norm.weight", {1})).stack.n_layers, 3);
  }
}

TEST_F(GgufArchitectures, ReadRouting) {
  ArchitectureFile file = glm();
  const Routing routing =
      read(file.number("expert_weights_scale", 1.5F).number("expert_gating_func", 2U)).stack.moe->routing;
  EXPECT_EQ(routing.score, Routing::Score::kSigmoid);
  EXPECT_EQ(routing.scale, 1.5F);
  EXPECT_EQ(read(file).stack.moe->layers, (std::vector<bool>{false, true, true, true}));
  EXPECT_FALSE(read(file).stack.qk_norm);
  EXPECT_TRUE(read(file.vector("blk.0.attn_q_norm.weight", {1, 1})).stack.qk_norm);
  refuse(file.number("expert_gating_func", 1U), {"glm4moe.expert_gating_func", "nothing", "found 1"});
  refuse(glm().drop("expert_shared_count"), {"glm4moe.expert_shared_count", "found nothing"});
  refuse(glm().integers("rope.dimension_sections", {8, 12, 12, 0}), {"glm4moe.rope.dimension_sections", "nothing"});
  refuse(olmo3().number("expert_shared_count", 1U), {"olmo2.expert_shared_count", "nothing"});
}

// The one name is of two families; where there are windows, layers with one do without what scales the rope.
TEST_F(GgufArchitectures, KnowOlmo3ByItsWindows) {
  EXPECT_EQ(read(ArchitectureFile("olmo2")).family, "olmo2");
  const ModelConfig plain = read(olmo3().number("rope.freq_base", 500.0F));
  EXPECT_EQ(plain.family, "olmo3");
  ASSERT_EQ(plain.stack.layers.size(), 4U);
  EXPECT_EQ(plain.stack.layers[2].window, 8);
  EXPECT_EQ(plain.stack.layers[3].window, 0);
  EXPECT_EQ(plain.stack.layers[0].rope.theta, 500);
  EXPECT_EQ(read(olmo3().flags("attention.sliding_window_pattern", {false, true, true, true})).stack.layers[0].window,
            0);
  refuse(olmo3().flags("attention.sliding_window_pattern", {true}), {"sliding_window_pattern", "4 values", "1"});
}

// Of two families the name is, too: queries grow in one of them.
TEST_F(GgufArchitectures, KnowMinistral3ByWhatQueriesGrowBy) {
  const ModelConfig plain = read(mistral3());
  EXPECT_EQ(plain.family, "mistral");
  EXPECT_EQ(plain.stack.layers[3].window, 0);
  EXPECT_EQ(plain.stack.layers[0].rope.theta, 500);
  refuse(mistral3().number("attention.temperature_scale", 0.5F), {"original_max_position_embeddings"});
  GgufWriter file = mistral3().number("attention.temperature_scale", 0.5F).file();
  file.text("mistral3.rope.scaling.type", "yarn").number("mistral3.rope.scaling.factor", 4.0F);
  file.number("mistral3.rope.scaling.original_context_length", 16U);
  const ModelConfig config = read_model_config(folder_.write("m.gguf", file.bytes()));
  EXPECT_EQ(config.family, "ministral3");
  EXPECT_TRUE(config.stack.layers[3].rope.query_growth == 0.5 &&
              config.stack.layers[3].rope.original_max_positions == 16);
  EXPECT_EQ(config.stack.layers[3].rope.attention_factor, 0);  // that of the stretching
  file.number("mistral3.rope.scaling.yarn_log_multiplier", 1.0F);
  EXPECT_EQ(read_model_config(folder_.write("m.gguf", file.bytes())).stack.layers[3].rope.attention_factor, 1);
  for (const char* key : {"attention.temperature_scale", "rope.scaling.yarn_log_multiplier"}) {
    refuse(olmo3().number(key, 0.5F), {key, "nothing", "found 0.5"});
  }
}

TEST_F(GgufArchitectures, ReadConvolutions) {
  const ModelConfig config = read(lfm2());
  EXPECT_EQ(config.stack.short_conv->layers, (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(config.stack.layers[1].shape.n_kv_heads, 1);
  EXPECT_EQ(config.stack.intermediate, 12);
  refuse(lfm2().integers("attention.head_count_kv", {0, 1, 2, 1}), {"lfm2.attention.head_count_kv", "the same in all"});
  refuse(lfm2().integers("attention.head_count_kv", {0, 1}), {"lfm2.attention.head_count_kv", "4 values", "2"});
  refuse(lfm2().integers("attention.head_count_kv", {0, 1, -1, 1}), {"lfm2.attention.head_count_kv", "-1"});
  refuse(lfm2().drop("shortconv.l_cache"), {"lfm2.shortconv.l_cache", "found nothing"});
}

TEST_F(GgufArchitectures, ReadLayersOfTwoKinds) {
  const ModelConfig config = read(gemma4());
  EXPECT_EQ(config.stack.layers[0].shape.head_dim, 8);
  EXPECT_EQ(config.stack.layers[3].shape.head_dim, 16);
  EXPECT_EQ(config.stack.layers[3].rope.partial_rotary_factor, 0.25);
  EXPECT_TRUE(config.stack.layers[3].values_are_keys);
  ArchitectureFile small = gemma4();
  small.flags("attention.sliding_window_pattern", {true, false, true, false}).number("attention.shared_kv_layers", 2U);
  const StackConfig shared = read(small.integers("feed_forward_length", {12, 12, 24, 24})).stack;
  EXPECT_EQ(shared.mlp_widths, (std::vector<int32_t>{12, 12, 24, 24}));
  EXPECT_EQ(shared.layers[2].kv_of, 0);
  EXPECT_EQ(shared.layers[3].kv_of, 1);
  refuse(gemma4().integers("feed_forward_length", {12, 12, 12, 24}), {"gemma4.feed_forward_length", "twice that"});
  refuse(gemma4().integers("attention.head_count_kv", {2, 1, 2, 1}),
         {"gemma4.attention.head_count_kv", "with a window"});
  refuse(gemma4().flags("attention.sliding_window_pattern", {true, true, true, true}),
         {"gemma4.attention.sliding_window_pattern", "false for the last layer"});
  refuse(gemma4().number("attention.value_length_swa", 4U),
         {"gemma4.attention.value_length_swa", "expected 8", "found 4"});
  refuse(gemma4().drop("attention.key_length_swa"), {"gemma4.attention.key_length_swa", "found nothing"});
  ArchitectureFile odd("gemma4");
  odd.number("attention.key_length", 16U).number("attention.key_length_swa", 8U).number("attention.sliding_window", 8U);
  odd.number("attention.sliding_window_pattern", 2U).vector("rope_freqs.weight", {1, 1e30F, 1, 1, 1, 1, 1, 1});
  refuse(odd, {"rope_freqs.weight", "ones, then"});
  refuse(gemma4().vector("per_layer_token_embd.weight", {1, 1}), {"per_layer_token_embd.weight", "two dimensions"});
  refuse(gemma4().number("expert_gating_func", 2U), {"gemma4.expert_gating_func", "nothing", "found 2"});
}

// As many frequencies turn as the file says, whatever their share of a head is as a number.
TEST_F(GgufArchitectures, TurnAsManyFrequenciesAsTheFileSays) {
  for (const auto& [head_dim, turning] : {std::pair{44U, 15}, {448U, 61}, {16U, 2}}) {
    std::vector<float> factors(head_dim / 2, 1e30F);
    std::fill_n(factors.begin(), turning, 1.0F);
    ArchitectureFile file("gemma4");
    file.number("attention.key_length", head_dim).number("attention.key_length_swa", 8U);
    file.number("attention.sliding_window", 8U).number("attention.sliding_window_pattern", 2U);
    const double part = read(file.vector("rope_freqs.weight", factors)).stack.layers[3].rope.partial_rotary_factor;
    EXPECT_EQ(static_cast<int>(part * head_dim / 2), turning) << head_dim;
  }
}

// What routers do is said, or it is another model.
TEST_F(GgufArchitectures, RefuseRoutingThatIsNotTheirs) {
  const auto qwen = [] { return mixture(ArchitectureFile("qwen3moe")); };
  EXPECT_TRUE(read(qwen().number("expert_group_count", 1U).number("expert_weights_scale", 1.0F)).stack.moe);
  refuse(qwen().number("expert_group_count", 2U), {"qwen3moe.expert_group_count", "0 or 1", "found 2"});
  refuse(qwen().number("expert_weights_scale", 2.5F), {"qwen3moe.expert_weights_scale", "found 2.5"});
}

// What rows see is the architecture's, and a file may only say it.
TEST_F(GgufArchitectures, SeeWhatTheirModelsSee) {
  const auto with = [this](const ArchitectureFile& file, const std::string& key, bool value) {
    GgufWriter more = file.file();
    more.boolean(key, value).number("tokenizer.ggml.mask_token_id", 5U);
    return [this, more] { return read_model_config(folder_.write("m.gguf", more.bytes())); };
  };
  expect_error(with(lfm2(), "lfm2.attention.causal", false), {"m.gguf", "lfm2.attention.causal", "true"});
  for (const std::string name : {"dream", "llada"}) {
    const ArchitectureFile file(name);
    const ModelConfig config = with(file, name + ".attention.causal", false)();
    ASSERT_TRUE(config.diffusion);
    EXPECT_EQ(config.diffusion->mask_id, 5);
    EXPECT_EQ(config.diffusion->token_shift, name == "dream" ? 1 : 0);
    EXPECT_FALSE(config.stack.layers[0].causal);
    EXPECT_TRUE(config.tied_head);
    expect_error(with(file, name + ".attention.causal", true), {"m.gguf", name + ".attention.causal", "false"});
    expect_error(with(file, "diffusion.shift_logits", name == "llada"), {"m.gguf", "diffusion.shift_logits"});
  }
}

}  // namespace
}  // namespace ashlar::testing
