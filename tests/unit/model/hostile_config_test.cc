// SPDX-License-Identifier: Apache-2.0
// Every field of a configuration with every kind of value, alone and in pairs: what comes back is either a
// configuration whose rotary tables are finite, or Error.

#include <cmath>

#include "model/drafters/dflash_config.h"
#include "model/rope.h"
#include "unit/model/tiny_model.h"

namespace ashlar::testing {
namespace {

const std::vector<std::string> kValues = {
    "null",
    "true",
    "false",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "7",
    "64",
    "512",
    "4096",
    "1000000",
    "16777216",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "-9223372036854775808",
    "0.5",
    "-0.0",
    "1e-320",
    "1e-9",
    "1.0000000001",
    "1e9",
    "1e38",
    "1e39",
    "1e308",
    "-1e308",
    "\"\"",
    "\"x\"",
    "\"yarn\"",
    "\"linear\"",
    "\"llama3\"",
    "\"sliding_attention\"",
    "[]",
    "[0]",
    "[0,1]",
    "[1e308]",
    "[null]",
    "[[]]",
    R"(["sliding_attention","sliding_attention"])",
    "{}",
    R"({"rope_type":"yarn","factor":2})",
    R"({"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4})",
    R"({"type":"linear","factor":1e9})"};

class HostileConfig : public ::testing::Test {
 protected:
  template <class Read>
  void read(const Json& config, const Read& reader) {
    const auto path = folder_.write("config.json", config.dump());
    try {
      const StackConfig stack = reader(folder_.path());
      ++accepted_;
      ASSERT_GT(stack.norm_eps, -1e-30F) << config.dump();
      const Rope rope(*ops_, stack.layers[0].rope, stack.layers[0].shape.head_dim, 4);
      const int32_t cells = 4 * (rope.table().rotary_dim / 2);
      ASSERT_GE(cells, 4) << config.dump();
      for (int32_t i = 0; i < cells; ++i) {
        ASSERT_TRUE(std::isfinite(rope.table().cos[i]) && std::isfinite(rope.table().sin[i])) << config.dump();
      }
    } catch (const Error&) {
      ++refused_;
    }
  }

  /// Puts every value at every place of `config` that is not an object, one after the other.
  template <class Read>
  void try_all(const Json& config, const Read& reader) {
    const Json flat = config.flatten();
    for (const auto& [pointer, original] : flat.items()) {
      for (const std::string& value : kValues) {
        Json changed = config;
        changed[Json::json_pointer(pointer)] = Json::parse(value);
        ASSERT_NO_THROW(read(changed, reader)) << pointer << " = " << value;
      }
    }
  }

  TempFolder folder_;
  std::unique_ptr<Ops> ops_ = make_device("ref", {});
  int32_t accepted_ = 0;
  int32_t refused_ = 0;
};

StackConfig read_target(const std::filesystem::path& folder) { return read_model_config(folder).stack; }
StackConfig read_drafter(const std::filesystem::path& folder) {
  const DflashConfig config = read_dflash_config(folder);
  for (const int32_t layer : config.aux_layers) EXPECT_TRUE(layer >= 0 && layer < 1000) << layer;
  EXPECT_LT(static_cast<int64_t>(config.aux_layers.size()) * config.target_hidden, int64_t{1} << 31);
  EXPECT_TRUE(std::isfinite(config.embedding_scale) && std::isfinite(config.output_multiplier));
  return config.stack;
}

const char* const kExtras =
    R"({"sliding_window":9,"use_sliding_window":true,"max_window_layers":1,"attention_bias":false,
  "partial_rotary_factor":1.0,"original_max_position_embeddings":32,"mlp_bias":false,
  "layer_types":["full_attention","sliding_attention"],"quantization_config":null})";

TEST_F(HostileConfig, TargetsOfEveryFamilyAndRope) {
  for (const char* family : {"llama", "qwen2", "qwen3"}) {
    try_all(patched(tiny_config(family), kExtras), read_target);
  }
  for (
      const char* rope :
      {R"({"rope_scaling":{"rope_type":"yarn","factor":4,"beta_fast":32,"beta_slow":1,"truncate":true,"attention_factor":1,
            "original_max_position_embeddings":16,"partial_rotary_factor":1}})",
       R"({"rope_parameters":{"rope_type":"llama3","rope_theta":5,"factor":8,"low_freq_factor":1,"high_freq_factor":4,
            "original_max_position_embeddings":16}})"}) {
    try_all(patched(patched(tiny_config("llama"), kExtras), rope), read_target);
  }
  EXPECT_GT(accepted_, 300);
  EXPECT_GT(refused_, 3000);
}

TEST_F(HostileConfig, Hybrids) {
  const std::string own = R"({"linear_num_key_heads":2,"linear_num_value_heads":4,"linear_key_head_dim":3,"head_dim":8,
    "linear_value_head_dim":5,"linear_conv_kernel_dim":4,"layer_types":["linear_attention","full_attention"],
    "full_attention_interval":2,"attn_output_gate":true,"partial_rotary_factor":0.5,"num_experts":4,
    "num_experts_per_tok":2,"moe_intermediate_size":4,"shared_expert_intermediate_size":3})";
  for (const char* family : {"qwen3_5_text", "qwen3_5_moe_text"}) {
    const Json config = patched(tiny_config(family), own);
    try_all(config, read_target);
    Json whole = Json::object();
    whole["model_type"] = std::string(family).substr(0, std::string(family).size() - 5);
    whole["text_config"] = config;
    try_all(whole, read_target);
  }
  EXPECT_GT(accepted_, 300);
  EXPECT_GT(refused_, 3000);
}

TEST_F(HostileConfig, MixturesAndModelsOfBlocks) {
  const std::string sizes = R"({"num_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":4,"mask_token_id":7,
    "block_size":4,"norm_topk_prob":true,)";
  try_all(patched(tiny_config("sdar_moe"), sizes + R"("decoder_sparse_step":2,"mlp_only_layers":[0]})"), read_target);
  try_all(patched(tiny_config("llada2_moe"), sizes + R"("num_shared_experts":1,"n_group":4,"topk_group":2,
    "score_function":"sigmoid","moe_router_enable_expert_bias":true,"routed_scaling_factor":2.5,"rotary_dim":2,
    "first_k_dense_replace":1,"partial_rotary_factor":0.5})"),
          read_target);
  try_all(tiny_llada_config(), read_target);
  EXPECT_GT(accepted_, 200);
  EXPECT_GT(refused_, 1500);
}

TEST_F(HostileConfig, DraftersOfBothForms) {
  const Json base = patched(tiny_config("qwen3"), kExtras);
  Json zlab = patched(base, R"({"num_target_layers":6,"block_size":4,"target_hidden_size":8,"is_causal":null,
    "dflash_config":{"mask_token_id":19,"target_layer_ids":[1,3],"use_swa":false,"swa_window_size":5,"causal":false,
    "input_embedding_scale":1.0,"output_multiplier":1.0,"final_logit_softcapping":30.0,"sample_from_anchor":false}})");
  try_all(zlab, read_drafter);
  zlab.erase("block_size");
  zlab["dflash_config"]["block_size"] = 4;
  try_all(zlab, read_drafter);
  Json speculators =
      parse_json(R"({"speculators_model_type":"dflash","aux_hidden_state_layer_ids":[2,4],"mask_token_id":19,
    "draft_vocab_size":10,"block_size":8,"target_hidden_size":8,"sample_from_anchor":true,"sliding_window_non_causal":true})",
                 "speculators");
  speculators["transformer_layer_config"] = base;
  try_all(speculators, read_drafter);
  EXPECT_GT(accepted_, 300);
  EXPECT_GT(refused_, 2000);
}

}  // namespace
}  // namespace ashlar::testing
